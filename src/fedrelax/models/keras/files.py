"""Keras models as ``.keras`` files: a zip of JSON and numbers, which also Keras itself can load.

Loading makes only the layers, optimisers, losses and the like that Keras defines. What else a file
names is refused until the user trusts it by name, and so are the parts of Keras that run code from a
file or read other files.
"""

from __future__ import annotations

import io
import json
import tempfile
import warnings
import zipfile
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from fedrelax.models.keras.backend import load_keras, steady
from fedrelax.models.keras.estimator import KerasModel

ABOUT = "fedrelax.json"
NUMBERS = ("center_", "spread_", "target_center_", "target_spread_")
PLAIN = frozenset(
    ["__tensor__", "__keras_tensor__", "__numpy__", "__bytes__", "__ellipsis__", "__tuple__"]
)
FUNCTIONS = ("builtins", "keras.activations", "keras.losses", "keras.metrics")
"""Where Keras's own functions are said to come from; for the first, Keras asks only itself."""
DANGEROUS = (
    "Lambda",
    "Lookup",
    "TextVectorization",
    "TFSMLayer",
    "TorchModuleWrapper",
    "Jax",
    "Flax",
)
KINDS = (
    "Operation",
    "DTypePolicy",
    "Initializer",
    "Loss",
    "Metric",
    "optimizers.Optimizer",
    "optimizers.schedules.LearningRateSchedule",
    "regularizers.Regularizer",
    "constraints.Constraint",
)


def to_bytes(estimator: KerasModel) -> bytes:
    """Return a fitted ``KerasModel`` as the bytes of a ``.keras`` file."""
    with steady(0):
        network = estimator.build(estimator.input_shape_, estimator.outputs_)
        network.set_weights(estimator.weights_)
    classes = estimator.classes_
    about = {
        "epochs": estimator.epochs,
        "batch_size": estimator.batch_size,
        "scale": estimator.scale,
        "input_shape": list(estimator.input_shape_),
        "outputs": estimator.outputs_,
        "classes": None if classes is None else classes.tolist(),
        "classes_type": None if classes is None else classes.dtype.str,
        **{name: getattr(estimator, name).tolist() for name in NUMBERS if estimator.scale},
    }
    buffer = io.BytesIO(network_to_bytes(network))
    with zipfile.ZipFile(buffer, "a") as file:
        file.writestr(ABOUT, json.dumps(about))
    return buffer.getvalue()


def from_bytes(data: bytes, trust: Sequence[str]) -> KerasModel:
    """Return the ``KerasModel`` in a ``.keras`` file; ``trust`` names classes that are not Keras's."""
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        about = json.loads(file.read(ABOUT))
    custom = {name.rpartition(".")[2]: _imported(name) for name in trust if name in types_in(data)}
    network = network_from_bytes(data, safe=True, custom=custom)
    made = KerasModel(network, about["epochs"], about["batch_size"], about["scale"])
    made.input_shape_, made.outputs_ = tuple(about["input_shape"]), about["outputs"]
    made.classes_ = None
    if about["classes"] is not None:
        made.classes_ = np.asarray(about["classes"], dtype=np.dtype(about["classes_type"]))
    for name in NUMBERS:
        if made.scale:
            setattr(made, name, np.asarray(about[name], dtype=float))
    made.weights_, made._network = network.get_weights(), network
    return made


def types_in(data: bytes) -> list[str]:
    """Return the types that a ``.keras`` file names and that Keras's own safe ones do not include."""
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        config = json.loads(file.read("config.json"))
    found = {_name(part) for part in _parts(config) if not _is_safe(part)}
    return sorted(found)


def network_to_bytes(network: Any) -> bytes:
    """Return a Keras model as the bytes of the file that Keras writes."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.keras"
        network.save(file)
        return file.read_bytes()


def network_from_bytes(data: bytes, safe: bool, custom: dict[str, Any] | None = None) -> Any:
    """Return the Keras model in a file; not ``safe`` only between a program and its own workers."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.keras"
        file.write_bytes(data)
        with warnings.catch_warnings():  # an optimiser that has not begun has nothing to load
            warnings.filterwarnings("ignore", "Skipping variable loading for optimizer")
            return load_keras().saving.load_model(file, custom_objects=custom, safe_mode=safe)


def _parts(config: Any) -> Iterator[dict[str, Any]]:
    """Yield every object that a configuration describes."""
    if isinstance(config, dict):
        if "class_name" in config:
            yield config
        for value in config.values():
            yield from _parts(value)
    elif isinstance(config, list):
        for value in config:
            yield from _parts(value)


def _name(part: dict[str, Any]) -> str:
    """Return what a part of a configuration is, as ``module.Class`` or ``module.function``."""
    name = part["config"] if part["class_name"] == "function" else part["class_name"]
    return f"{part.get('module') or 'builtins'}.{name}"


def _is_safe(part: dict[str, Any]) -> bool:
    """Tell whether a part means a class or function of Keras that only computes."""
    module, _, name = _name(part).rpartition(".")
    if part["class_name"] == "function":
        return module in FUNCTIONS
    if name in PLAIN:
        return True
    if not (module == "keras" or module.startswith("keras.")) or any(d in name for d in DANGEROUS):
        return False
    keras = load_keras()
    try:
        found = getattr(import_module(module), name, None)
    except ImportError:
        return False
    kinds = tuple(_attribute(keras, path) for path in KINDS)
    return isinstance(found, type) and issubclass(found, kinds)


def _attribute(owner: Any, path: str) -> Any:
    for name in path.split("."):
        owner = getattr(owner, name)
    return owner


def _imported(name: str) -> Any:
    module, _, attribute = name.rpartition(".")
    return getattr(import_module(module), attribute)
