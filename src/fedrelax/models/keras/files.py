"""Keras models as ``.keras`` files: a zip of JSON and arrays, which Keras itself can load too.

Loading builds only the layers, optimisers, losses and the like listed in ``keras.safe``, always in
Keras's safe mode. Anything else that a file names is refused unless the user trusts it by name. Weights
are read from plain arrays stored beside Keras's own: its HDF5 file, which may point to other files, is
not opened.
"""

from __future__ import annotations

import io
import json
import tempfile
import zipfile
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from fedrelax.errors import FedRelaxError
from fedrelax.models.archive import array_member, json_member, opened
from fedrelax.models.keras.backend import load_keras, steady
from fedrelax.models.keras.estimator import KerasModel
from fedrelax.models.keras.safe import unsafe_parts

ABOUT, CONFIG = "fedrelax.json", "config.json"
WEIGHTS = "fedrelax-weights/{:05d}.npy"
NUMBERS = ("center_", "spread_", "target_center_", "target_spread_")


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
    buffer = io.BytesIO(_file_of(network))
    with zipfile.ZipFile(buffer, "a") as file:
        file.writestr(ABOUT, json.dumps(about))
        for number, values in enumerate(network.get_weights()):
            array = io.BytesIO()
            np.save(array, values, allow_pickle=False)
            file.writestr(WEIGHTS.format(number), array.getvalue())
    return buffer.getvalue()


def from_bytes(data: bytes, trust: Sequence[str]) -> KerasModel:
    """Return the ``KerasModel`` in a ``.keras`` file; ``trust`` names classes that are not Keras's."""
    members = opened(data)
    about, config = json_member(members, ABOUT), json_member(members, CONFIG)
    named = unsafe_parts(config)
    refused = [name for name in named if name not in trust]
    if refused:
        raise FedRelaxError(f"its types are not trusted: {', '.join(refused)}")
    network = _network(config, {name.rpartition(".")[2]: _imported(name) for name in named})
    _set_weights(network, members)
    made = KerasModel(network, about["epochs"], about["batch_size"], about["scale"])
    made.input_shape_, made.outputs_ = tuple(about["input_shape"]), about["outputs"]
    made.classes_ = None
    if about["classes"] is not None:
        made.classes_ = np.asarray(about["classes"], dtype=np.dtype(about["classes_type"]))
    for name in NUMBERS:
        if made.scale:
            setattr(made, name, np.asarray(about[name], dtype=float))
    made.adopt(network)
    return made


def types_in(data: bytes) -> list[str]:
    """Return the types that a ``.keras`` file names and that are not on the list of safe ones."""
    return unsafe_parts(json_member(opened(data), CONFIG))


def _file_of(network: Any) -> bytes:
    """Return a Keras model as the bytes of the file that Keras writes."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.keras"
        network.save(file)
        return file.read_bytes()


def _network(config: dict[str, Any], custom: dict[str, Any]) -> Any:
    """Return the network that a configuration describes, compiled; its weights are set later."""
    made = load_keras().saving.deserialize_keras_object(
        config, custom_objects=custom, safe_mode=True
    )
    if not isinstance(made, load_keras().Model):
        raise FedRelaxError(
            f"its file describes a {type(made).__name__}, which is not a Keras model"
        )
    return made


def _set_weights(network: Any, members: dict[str, bytes]) -> None:
    """Set the weights from the plain arrays stored beside Keras's own file, which are safe to read."""
    wanted = [tuple(values.shape) for values in network.get_weights()]
    names = [WEIGHTS.format(number) for number in range(len(wanted))]
    values = [array_member(members, name) for name in names]
    if [array.shape for array in values] != wanted or WEIGHTS.format(len(wanted)) in members:
        raise FedRelaxError("its weights do not fit its layers")
    if not all(np.isfinite(array).all() for array in values if array.dtype.kind == "f"):
        raise FedRelaxError("one of its weights is not a finite number")
    network.set_weights(values)


def _imported(name: str) -> Any:
    module, _, attribute = name.rpartition(".")
    return getattr(import_module(module), attribute)
