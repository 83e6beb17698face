"""The formats in which models are saved. None of them is pickle, and none runs code on loading.

==========  ==============  ==========================================================================
skops       .skops          scikit-learn, our own models, and whatever else is made of plain parts
torch       .safetensors    PyTorch networks
keras       .keras          Keras networks
xgboost     .xgboost.zip    the library's own model file, with JSON
lightgbm    .lightgbm.zip   the same
catboost    .catboost.zip   the same
hoeffding   .tree.json      river's Hoeffding trees, reduced to what they predict
elsewhere   .elsewhere.json the site of a federation that holds the model
==========  ==============  ==========================================================================

A format is a module with ``to_bytes(model)`` and ``from_bytes(data, trust)``; ``types_in(data)`` names
the types that a user has to trust first, and ``check_savable(model)`` refuses a model before training.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from fedrelax.errors import FedRelaxError
from fedrelax.models.boost.files import library_of
from fedrelax.models.criteria import last_step
from fedrelax.models.elsewhere import is_elsewhere
from fedrelax.models.incremental import SavedTree, is_incremental
from fedrelax.models.keras import is_keras
from fedrelax.typing import Label

BOOSTED = "fedrelax.models.boost.files"


@dataclass(frozen=True)
class Format:
    """One way to save models: which ones, under which ending, by which module."""

    name: str
    ending: str
    matches: Callable[[Any], bool]
    home: str

    @property
    def is_boosted(self) -> bool:
        """Whether the file is read by a library that may crash on a damaged or hostile one."""
        return self.home == BOOSTED

    @property
    def module(self) -> Any:
        """The module that writes and reads the format; it may need an extra."""
        return import_module(self.home)


@dataclass(frozen=True)
class Packed:
    """A model as the bytes of a file."""

    format: Format
    data: bytes

    @property
    def unpacked_size(self) -> int:
        """How many bytes the file claims to become."""
        if not zipfile.is_zipfile(io.BytesIO(self.data)):
            return len(self.data)
        try:
            with zipfile.ZipFile(io.BytesIO(self.data)) as file:
                return sum(entry.file_size for entry in file.infolist())
        except (ValueError, OSError, zipfile.BadZipFile):  # the reader says what is wrong
            return len(self.data)


def _boosted(library: str) -> Format:
    return Format(
        library,
        f".{library}.zip",
        lambda model: library_of(model) == library,
        BOOSTED,
    )


SKOPS = Format("skops", ".skops", lambda model: True, "fedrelax.storage.trust")
FORMATS: tuple[Format, ...] = (
    Format(
        "torch",
        ".safetensors",
        lambda model: type(model).__module__.startswith("fedrelax.models.torch"),
        "fedrelax.models.torch.files",
    ),
    Format("keras", ".keras", is_keras, "fedrelax.models.keras.files"),
    _boosted("xgboost"),
    _boosted("lightgbm"),
    _boosted("catboost"),
    Format(
        "hoeffding",
        ".tree.json",
        lambda model: isinstance(model, SavedTree) or is_incremental(model),
        "fedrelax.models.incremental.saved",
    ),
    Format("elsewhere", ".elsewhere.json", is_elsewhere, "fedrelax.models.elsewhere"),
    SKOPS,
)
"""A model is saved in the first format that matches it."""


def format_of(model: Any) -> Format:
    """Return the format in which a model is saved."""
    return next(form for form in FORMATS if form.matches(model))


def format_named(name: str) -> Format:
    """Return the format of this name."""
    for form in FORMATS:
        if form.name == name:
            return form
    known = ", ".join(form.name for form in FORMATS)
    raise FedRelaxError(
        f"the format {name!r} of a model is unknown (known: {known}); install the version of "
        "fedrelax that wrote it"
    )


def check_savable(label: Label, model: Any) -> None:
    """Refuse a model that could not be saved, before it is trained."""
    form = format_of(model)
    if form is SKOPS:
        pack(label, model)
    elif hasattr(form.module, "check_savable"):
        try:
            form.module.check_savable(model)
        except FedRelaxError as error:
            raise FedRelaxError(f"node {label!r}: {error}") from None


def pack(label: Label, model: Any) -> Packed:
    """Return a model as the bytes of a file, tested by reading it back; an error names the node."""
    form = format_of(model)
    try:
        data = bytes(form.module.to_bytes(model))
        form.module.from_bytes(data, _types_in(form, data))
        return Packed(form, data)
    except FedRelaxError as error:
        raise FedRelaxError(f"node {label!r}: {error}") from error
    except Exception as error:  # libraries raise whatever the model's own methods raise
        text = " ".join(str(error).split())
        raise FedRelaxError(
            f"node {label!r}: its model {type(last_step(model)).__name__} cannot be saved without "
            f"pickle ({type(error).__name__}: {text}); use a model whose attributes are plain values, "
            "arrays and estimators"
        ) from error


def types_to_trust(label: Label, packed: Packed) -> list[str]:
    """Return the types in a model's file that a user has to trust by name."""
    try:
        return _types_in(packed.format, packed.data)
    except Exception as error:  # a damaged file can fail in many ways
        raise _unloadable(label, error) from error


def unpack(label: Label, packed: Packed, trust: Sequence[str] = ()) -> Any:
    """Return the model in a file, if all its types are trusted."""
    from fedrelax.storage.trust import refusal

    refused = [name for name in types_to_trust(label, packed) if name not in trust]
    if refused:
        raise FedRelaxError(refusal([label], refused))
    try:
        return packed.format.module.from_bytes(packed.data, trust)
    except FedRelaxError as error:
        raise FedRelaxError(f"node {label!r}: {error}") from error
    except Exception as error:  # whatever the types' own methods raise
        raise _unloadable(label, error) from error


def _types_in(form: Format, data: bytes) -> list[str]:
    return list(form.module.types_in(data)) if hasattr(form.module, "types_in") else []


def _unloadable(label: Label, error: Exception) -> FedRelaxError:
    if isinstance(error, FedRelaxError):
        return FedRelaxError(f"node {label!r}: {error}")
    text = " ".join(str(error).split())
    return FedRelaxError(
        f"node {label!r}: its saved model cannot be loaded ({type(error).__name__}: {text}); "
        "check that the file is whole and that the packages it was made with are installed"
    )
