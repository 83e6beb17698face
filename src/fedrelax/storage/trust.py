"""Models on disk, written and read by skops: nothing is ever unpickled.

A skops file names the types that it is made of, and loading creates objects of these types only. skops
itself trusts numbers, texts, containers, arrays, numpy's functions, and the estimators, losses and links
of scikit-learn. ``TYPES`` adds what fitted scikit-learn estimators hold besides these, and our own models.
The code of each of these types was reviewed for what it does when an object is created and when its state
is set: it stores values, and does not import, open or call anything that a file names. What native code
would follow blindly (the arrays of trees, neighbours and support vectors) is checked by
``storage.insides``. Whatever else a file names is refused until the user trusts it by name.

What is loaded is not the file itself but its contents, once read and checked.
"""

from __future__ import annotations

import json
import sys
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache
from typing import Any

from fedrelax.errors import FedRelaxError
from fedrelax.models.archive import array_member, closed, json_member, opened
from fedrelax.storage.checking import Untrusted
from fedrelax.storage.insides import check_insides, check_tree

SCHEMA = "schema.json"
FIRST_PROTOCOL = 1
"""Before this version, skops named functions in another way."""

LOADERS = (
    "JsonNode DictNode DefaultDictNode ListNode SetNode TupleNode BytesNode BytearrayNode SliceNode "
    "TypeNode FunctionNode PartialNode ObjectNode NdArrayNode MaskedArrayNode DTypeNode "
    "RandomStateNode RandomGeneratorNode LossNode TreeNode"
)
"""The skops loaders that are allowed. Those that call a constructor or fetch a method are not, nor is
that of sparse matrices, whose indices nobody checks."""

GENERATORS = frozenset({"MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64"})
"""The bit generators that a ``numpy.random.Generator`` may have."""

CLASSES = {
    "fedrelax.models.additive": "AdditiveClassifier AdditiveRegressor BoostedTrees",
    "fedrelax.models.curves": "CurveColumns",
    "fedrelax.models.few_rows": (
        "NearestClassifier NearestRegressor SmoothedForestClassifier SupportVectorClassifier"
    ),
    "fedrelax.models.linear": "LinearModel SoftmaxModel",
    "sklearn._loss.link": "HalfLogitLink IdentityLink Interval LogLink LogitLink MultinomialLogit",
    "sklearn._loss.loss": (
        "AbsoluteError ExponentialLoss HalfBinomialLoss HalfGammaLoss HalfMultinomialLoss "
        "HalfPoissonLoss HalfSquaredError HalfTweedieLoss HalfTweedieLossIdentity HuberLoss "
        "PinballLoss"
    ),
    "sklearn.calibration": "_CalibratedClassifier _SigmoidCalibration",
    "sklearn.ensemble._hist_gradient_boosting.binning": "_BinMapper",
    "sklearn.ensemble._hist_gradient_boosting.predictor": "TreePredictor",
    "sklearn.gaussian_process._gpc": "_BinaryGaussianProcessClassifierLaplace",
    "sklearn.gaussian_process.kernels": (
        "CompoundKernel ConstantKernel DotProduct ExpSineSquared Exponentiation Matern "
        "PairwiseKernel Product RBF RationalQuadratic Sum WhiteKernel"
    ),
    "sklearn.metrics._dist_metrics": "ChebyshevDistance64 EuclideanDistance64 ManhattanDistance64",
    "sklearn.metrics._scorer": "_PassthroughScorer",
    "sklearn.model_selection._split": "KFold StratifiedKFold",
    "sklearn.multiclass": "_ConstantPredictor",
    "sklearn.neighbors._ball_tree": "BallTree",
    "sklearn.neighbors._kd_tree": "KDTree",
    "sklearn.neural_network._stochastic_optimizers": "AdamOptimizer SGDOptimizer",
}
"""By module."""
OBJECTS = [f"{home}.{name}" for home, names in CLASSES.items() for name in names.split()]
FUNCTIONS = (
    "numpy.mean",
    "sklearn.feature_selection._univariate_selection.f_classif",
    "sklearn.feature_selection._univariate_selection.f_regression",
    "sklearn.utils.validation.check_array",
)

TYPES: dict[str, str] = {
    **dict.fromkeys(OBJECTS, "ObjectNode"),
    **dict.fromkeys(FUNCTIONS, "FunctionNode"),
    "functools.partial": "PartialNode",
    "numpy.dtype": "DTypeNode",
    "sklearn.tree._tree.Tree": "TreeNode",
    "sklearn.utils._bunch.Bunch": "DictNode",
}
"""Every type that is trusted besides those of skops, with the one loader that may create it: under another
loader the same name would be called with arguments from the file."""

UNCHECKED = ("sklearn.ensemble._iforest.IsolationForest", "sklearn.neighbors._kde.KernelDensity")
"""What skops trusts and we do not: they hand rows to trees that nobody has checked."""

State = dict[str, Any]


def to_bytes(model: Any) -> bytes:
    """Return a model as the bytes of a skops file."""
    return bytes(skops_io().dumps(model, compression=zipfile.ZIP_DEFLATED))


def from_bytes(data: bytes, trust: Sequence[str] = ()) -> Any:
    """Return the model in a skops file; types that are neither listed nor in ``trust`` are refused."""
    members, states = _read(data)
    file, io = closed(members), skops_io()
    wrong = {_name(state) for state in states if not _is_listed(state)}
    if not wrong - set(trust):
        for state in states:
            _check_state(state, members)
        with suppress(io.exceptions.UntrustedTypesFoundException):
            model = io.loads(file, trusted=[*TYPES, *trust])
            check_insides(model)
            return model
    wrong |= {name for name in io.get_untrusted_types(data=file) if name not in TYPES}
    raise Untrusted((), wrong - set(trust))


def _read(data: bytes) -> tuple[dict[str, bytes], list[State]]:
    """Return the parts of a skops file, and the description of every object in it.

    The numbers by which it says that two objects are the same are dropped: with them a file could show
    one description to a check and another to the loader.
    """
    members = opened(data)
    schema = json_member(members, SCHEMA)
    protocol = schema.get("protocol")
    if isinstance(protocol, bool) or not isinstance(protocol, int) or protocol < FIRST_PROTOCOL:
        raise FedRelaxError(f"its skops file has the protocol {protocol!r}, which is not supported")
    states = list(_states(schema))
    for state in states:
        state.pop("__id__", None)
    return {**members, SCHEMA: json.dumps(schema).encode()}, states


def _states(value: Any) -> Iterator[State]:
    """Yield every description of an object, at whatever depth."""
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            if "__loader__" in part or "__class__" in part or "__id__" in part:
                yield part
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part


def _is_listed(state: State) -> bool:
    """Tell whether an object comes with a loader that is allowed for its type."""
    loader, name = state.get("__loader__"), _name(state)
    return loader in LOADERS.split() and TYPES.get(name, loader) == loader and name not in UNCHECKED


def _name(state: State) -> str:
    return f"{state.get('__module__')}.{state.get('__class__')}"


def _check_state(state: State, members: dict[str, bytes]) -> None:
    """Check what loading would use before it can be inspected as an object."""
    loader = state["__loader__"]
    if loader == "NdArrayNode" and state.get("type") == "numpy":
        array_member(members, state["file"])
    elif loader == "TreeNode":
        arguments, content = state["__reduce__"]["args"], state["content"]
        check_tree(_plain(arguments, members), _plain(content, members))
    elif loader == "RandomGeneratorNode":
        name = _plain(state["content"]["bit_generator"], members).get("bit_generator")
        if name not in GENERATORS:
            raise FedRelaxError(f"its random generator is of the unknown kind {name!r}")


def _plain(state: State, members: dict[str, bytes]) -> Any:
    """Return a number, text, array or container of these from its description."""
    loader = state["__loader__"]
    if loader == "JsonNode":
        return json.loads(state["content"])
    if loader in ("TupleNode", "ListNode"):
        return tuple(_plain(item, members) for item in state["content"])
    if loader == "DictNode":
        return {key: _plain(item, members) for key, item in state["content"].items()}
    if loader == "NdArrayNode" and state["type"] == "numpy":
        array = array_member(members, state["file"])
        return array if state["__class__"] == "ndarray" else array[()]
    raise FedRelaxError(f"its tree is damaged: one of its parts is a {_name(state)}")


# skops is imported without what it does not need: it asks scikit-learn for all its models, which imports
# all of scikit-learn, and one module of it imports PyTorch if that is installed.

HEAVY = ("torch", "jax", "cupy", "dask")
"""Packages that scikit-learn imports but does not need here."""


@cache
def skops_io() -> Any:
    """Return the module ``skops.io``, imported as if the heavy packages were not installed."""
    absent: dict[str, Any] = dict.fromkeys(name for name in HEAVY if name not in sys.modules)
    sys.modules.update(absent)
    try:
        import skops.io
    finally:
        for name in absent:
            del sys.modules[name]
    return skops.io
