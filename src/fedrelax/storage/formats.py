"""The formats in which models are saved. None of them is pickle, and none runs code on loading.

==========  ==============  ==========================================================================
skops       .skops          scikit-learn, our own models, and whatever else is made of plain parts
torch       .safetensors    PyTorch networks
keras       .keras          Keras networks
xgboost     .xgboost.zip    the library's own model file, with JSON
lightgbm    .lightgbm.zip   the same
elsewhere   .elsewhere.json the site of a federation that holds the model
sum         .sum.zip        a sum of two models, each in its own format
==========  ==============  ==========================================================================

The module of a format has ``to_bytes(model)`` and ``from_bytes(data, trust)``. Types that a user has to
trust first are named by ``types_in(data)``, or by ``from_bytes`` in an ``Untrusted``;
``check_savable(model)`` refuses a model before training.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import Any

import numpy as np

from fedrelax.errors import FedRelaxError, in_one_line
from fedrelax.models import LocalModel, archive
from fedrelax.models.additive import SumClassifier, SumRegressor
from fedrelax.models.boost import library_of
from fedrelax.models.criteria import last_step
from fedrelax.models.elsewhere import Elsewhere
from fedrelax.models.keras import is_keras
from fedrelax.storage.checking import Untrusted
from fedrelax.typing import Label, Model

BOOSTED = "fedrelax.models.boost"
"""The home of formats of libraries that may crash on a damaged or hostile file."""


@dataclass(frozen=True)
class Format:
    """One way to save models: under which ending, and by which module."""

    name: str
    ending: str
    home: str

    @property
    def module(self) -> Any:
        """The module that writes and reads the format; it may need an extra."""
        return import_module(self.home)

    def to_bytes(self, model: Model) -> bytes:
        """Return a fitted model as the bytes of a file."""
        return bytes(self.module.to_bytes(model))

    def from_bytes(self, data: bytes, trust: Sequence[str]) -> Model:
        """Return the model in a file; nothing is created before all its types are trusted."""
        types_in = getattr(self.module, "types_in", lambda data: ())
        refused = [name for name in types_in(data) if name not in trust]
        if refused:
            raise Untrusted((), refused)
        return self.module.from_bytes(data, trust)


@dataclass(frozen=True)
class Packed:
    """A model as the bytes of a file."""

    format: Format
    data: bytes
    types: tuple[str, ...] = ()
    """The types that a user has to trust by name, if the model was packed here."""

    @property
    def parts(self) -> list[Packed]:
        """The files of a sum's two models, each with its format, or this file alone."""
        if self.format is not SUM:
            return [self]
        members = archive.opened(self.data)
        names = archive.json_member(members, ABOUT).get("formats")
        if not isinstance(names, list) or len(names) not in (2, 3) or "sum" in names:
            raise FedRelaxError("its file does not hold two models, or two and their kind")
        files = [archive.member(members, part) for part in PARTS[: len(names)]]
        return [Packed(format_named(name), file) for name, file in zip(names, files, strict=True)]


Files = dict[int, tuple[Model, bytes]]
"""Models with the bytes of their files, by the model's ``id``."""
ABOUT, PARTS = "about.json", ("consensus", "difference", "kind")
"""The files of a sum; the last is the unfitted model that the others come from, if it can be saved."""


def to_bytes(model: Model, files: Files | None = None) -> bytes:
    """Return a fitted sum as a zip of the files of its models; ``files`` has those written before."""
    models, files = [model.consensus_, model.difference_], {} if files is None else files
    if keeps_unfitted(getattr(model, "kind_", None)):
        models.append(model.kind_)
    formats = [format_of(one) for one in models]
    about = {"share": float(model.share), "formats": [form.name for form in formats]}
    if isinstance(model, SumClassifier):
        about |= {"how": model.how, **archive.described_classes(model.classes_)}
    members = {ABOUT: json.dumps(about).encode()}
    for part, form, one in zip(PARTS, formats, models, strict=False):
        if id(one) not in files:
            files[id(one)] = one, form.to_bytes(one)
        members[part] = files[id(one)][1]
    return archive.closed(members)


def from_bytes(data: bytes, trust: Sequence[str]) -> Model:
    """Return the sum in a zip file; all types of its models, none of which is a sum, must be trusted."""
    models, types = list[Model](), set[str]()
    for part in Packed(SUM, data).parts:
        try:
            models.append(part.format.from_bytes(part.data, trust))
        except Untrusted as error:
            types |= set(error.types)
    if types:
        raise Untrusted((), types)
    about = archive.json_member(archive.opened(data), ABOUT)
    share, kind = float(about["share"]), models[2] if len(models) == 3 else None
    if "how" not in about:
        return SumRegressor.of(models[0], models[1], share, kind)
    made = SumClassifier.of(models[0], models[1], share, kind)
    made.how, made.classes_ = str(about["how"]), np.asarray(archive.classes_in(about))
    return made


SUM = Format("sum", ".sum.zip", __name__)
SKOPS = Format("skops", ".skops", "fedrelax.storage.trust")
FORMATS: dict[str, Format] = {
    form.name: form
    for form in (
        Format("torch", ".safetensors", "fedrelax.models.torch.files"),
        Format("keras", ".keras", "fedrelax.models.keras.files"),
        *(Format(name, f".{name}.zip", BOOSTED) for name in ("xgboost", "lightgbm")),
        Format("elsewhere", ".elsewhere.json", "fedrelax.models.elsewhere"),
        SUM,
        SKOPS,
    )
}


def format_of(model: Model) -> Format:
    """Return the format in which a model is saved."""
    kinds: dict[str, Any] = {
        "torch": type(model).__module__.startswith("fedrelax.models.torch"),
        "keras": is_keras(model),
        "elsewhere": isinstance(model, Elsewhere),
        "sum": isinstance(model, SumRegressor | SumClassifier),
    }
    name = library_of(model) or next((name for name, fits in kinds.items() if fits), "skops")
    return FORMATS[name]


def keeps_unfitted(model: Model | None) -> bool:
    """Tell whether an unfitted model can be saved, so that its kind can learn again."""
    return model is not None and format_of(model) is SKOPS


def format_named(name: str) -> Format:
    """Return the format of this name."""
    if name not in FORMATS:
        raise FedRelaxError(
            f"the format {name!r} of a model is unknown (known: {', '.join(FORMATS)}); install the "
            "version of fedrelax that wrote it"
        )
    return FORMATS[name]


@contextmanager
def _at_node(label: Label, trouble: str, advice: str) -> Iterator[None]:
    """Let every error name the node; whatever is not an error of ours is put into words."""
    try:
        yield
    except Untrusted as error:
        raise Untrusted([label], error.types) from error
    except FedRelaxError as error:
        raise FedRelaxError(f"node {label!r}: {error}") from error
    except Exception as error:  # libraries raise what they like, as do a model's own methods
        raise FedRelaxError(
            f"node {label!r}: {trouble} ({in_one_line(error)}); {advice}"
        ) from error


def check_savable(label: Label, model: Model) -> None:
    """Refuse a model that could not be saved, before it is trained."""
    form = format_of(model)
    if form is SKOPS:
        pack(label, model)
    elif form is not SUM and hasattr(form.module, "check_savable"):
        with _at_node(label, "its model cannot be saved", "use another model"):
            form.module.check_savable(model)


def pack(label: Label, model: Model, files: Files | None = None) -> Packed:
    """Return a model as the bytes of a file, tested by reading it back; an error names the node.

    Where nodes hear the same, their sums have one consensus: ``files`` lets it be written once.
    """
    form, types = format_of(model), set[str]()
    trouble = f"its model {type(last_step(model)).__name__} cannot be saved without pickle"
    advice = "use a model whose attributes are plain values, arrays and estimators"
    with _at_node(label, trouble, advice):
        data = to_bytes(model, files) if form is SUM else form.to_bytes(model)
        for part in Packed(form, data).parts:
            types |= set(types_to_trust(part.format, part.data))
    return Packed(form, data, tuple(sorted(types)))


@lru_cache(maxsize=2)
def types_to_trust(form: Format, data: bytes) -> tuple[str, ...]:
    """Return the types in a file that a user has to trust by name, once it can be read back."""
    try:
        form.from_bytes(data, ())
    except Untrusted as error:
        form.from_bytes(data, error.types)
        return tuple(error.types)
    return ()


def unpack(label: Label, packed: Packed, trust: Sequence[str] = ()) -> Model:
    """Return the model in a file, if all its types are trusted."""
    advice = "check that the file is whole and that the packages it was made with are installed"
    with _at_node(label, "its saved model cannot be loaded", advice):
        return packed.format.from_bytes(packed.data, trust)


def answers_one_row(model: LocalModel, features: int) -> bool:
    """Tell whether a model predicts finite numbers, as many as the task has, from a row of zeros.

    It is asked when it is saved and again when it is loaded: with a NaN coefficient or the wrong number of
    features or classes it cannot predict the row. Whether it could is written down, as some sound models
    cannot (one that takes logarithms of its inputs, for instance).
    """
    estimator = model.estimator  # neural nets may take images
    shape = getattr(getattr(estimator, "trained_", None), "input_shape", None)
    shape = shape or getattr(estimator, "input_shape_", None) or (features,)
    row = np.zeros((1, *shape))
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            answer = np.asarray(model.predict(row), dtype=float)
    except Exception:  # a damaged model may raise anything, and so may a healthy one
        return False
    return answer.shape == (1, model.task.n_outputs) and bool(np.isfinite(answer).all())
