"""Keras models as ``.keras`` files: a zip of JSON and arrays, which Keras itself can load too.

Loading builds only the layers, optimisers, losses and the like listed here, always in Keras's safe
mode. They compute, and neither hold code nor open files. Those that do are left out: Lambda, the lookups
and TextVectorization, which read vocabularies, and the wrappers of other frameworks. Anything else that a
file names is refused unless the user trusts it by name. Weights are read from plain arrays stored beside
Keras's own: its HDF5 file, which may point to other files, is not opened.
"""

from __future__ import annotations

import io
import json
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from fedrelax.errors import FedRelaxError
from fedrelax.models.archive import (
    array_member,
    classes_in,
    described_classes,
    json_member,
    opened,
)
from fedrelax.models.keras.estimator import SCALES, KerasModel, load_keras, steady

ABOUT, CONFIG = "fedrelax.json", "config.json"
WEIGHTS = "fedrelax-weights/{:05d}.npy"

PLAIN = frozenset(
    ["__tensor__", "__keras_tensor__", "__numpy__", "__bytes__", "__ellipsis__", "__tuple__"]
)
FUNCTIONS = ("builtins", "keras.activations", "keras.losses", "keras.metrics")
"""The modules that files name for Keras's own functions; for "builtins", Keras looks only in itself."""

SAFE = frozenset(
    str.split("""
    Functional Model Sequential InputLayer Activation ActivityRegularization Add
    AdditiveAttention AlphaDropout Attention Average AveragePooling1D AveragePooling2D
    AveragePooling3D BatchNormalization Bidirectional CategoryEncoding CenterCrop Concatenate
    Conv1D Conv1DTranspose Conv2D Conv2DTranspose Conv3D Conv3DTranspose ConvLSTM1D ConvLSTM2D
    ConvLSTM3D Cropping1D Cropping2D Cropping3D Dense DepthwiseConv1D DepthwiseConv2D
    Discretization Dot Dropout ELU EinsumDense Embedding Flatten GRU GRUCell GaussianDropout
    GaussianNoise GlobalAveragePooling1D GlobalAveragePooling2D GlobalAveragePooling3D
    GlobalMaxPooling1D GlobalMaxPooling2D GlobalMaxPooling3D GroupNormalization
    GroupQueryAttention Identity LSTM LSTMCell LayerNormalization LeakyReLU Masking MaxPooling1D
    MaxPooling2D MaxPooling3D Maximum MelSpectrogram Minimum MultiHeadAttention Multiply
    Normalization PReLU Permute RMSNormalization RNN ReLU RepeatVector Rescaling Reshape
    Resizing STFTSpectrogram SeparableConv1D SeparableConv2D SimpleRNN SimpleRNNCell Softmax
    SpatialDropout1D SpatialDropout2D SpatialDropout3D SpectralNormalization StackedRNNCells
    Subtract TimeDistributed UnitNormalization UpSampling1D UpSampling2D UpSampling3D
    ZeroPadding1D ZeroPadding2D ZeroPadding3D
    DTypePolicy
    Constant GlorotNormal GlorotUniform HeNormal HeUniform IdentityInitializer LecunNormal
    LecunUniform Ones Orthogonal OrthogonalInitializer RandomNormal RandomUniform STFT
    STFTInitializer TruncatedNormal VarianceScaling Zeros
    BinaryCrossentropy BinaryFocalCrossentropy CategoricalCrossentropy
    CategoricalFocalCrossentropy CategoricalHinge CosineSimilarity Hinge Huber KLDivergence
    LogCosh MeanAbsoluteError MeanAbsolutePercentageError MeanSquaredError
    MeanSquaredLogarithmicError Poisson SparseCategoricalCrossentropy SquaredHinge
    AUC Accuracy BinaryAccuracy CategoricalAccuracy F1Score FBetaScore FalseNegatives
    FalsePositives LogCoshError Mean Precision R2Score Recall RootMeanSquaredError
    SparseCategoricalAccuracy SparseTopKCategoricalAccuracy Sum TopKCategoricalAccuracy
    TrueNegatives TruePositives
    Adadelta Adafactor Adagrad Adam AdamW Adamax Ftrl Lamb Lion LossScaleOptimizer Muon Nadam
    RMSprop SGD
    CosineDecay CosineDecayRestarts ExponentialDecay InverseTimeDecay PiecewiseConstantDecay
    PolynomialDecay
    L1 L1L2 L2 OrthogonalRegularizer
    MaxNorm MinMaxNorm NonNeg UnitNorm
    """)
)
"""Classes of Keras that a file may name: layers, initialisers, losses, metrics, optimisers and the like."""


def to_bytes(estimator: KerasModel) -> bytes:
    """Return a fitted ``KerasModel`` as the bytes of a ``.keras`` file."""
    with steady(0):
        network = estimator.build(estimator.input_shape_, estimator.outputs_)
        network.set_weights(estimator.weights_)
    about = {
        "epochs": estimator.epochs,
        "batch_size": estimator.batch_size,
        "scale": estimator.scale,
        "input_shape": list(estimator.input_shape_),
        "outputs": estimator.outputs_,
        **described_classes(estimator.classes_),
        **{name: getattr(estimator, name).tolist() for name in SCALES if estimator.scale},
    }
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.keras"
        network.save(file)
        buffer = io.BytesIO(file.read_bytes())
    with zipfile.ZipFile(buffer, "a") as archive:
        archive.writestr(ABOUT, json.dumps(about))
        for number, values in enumerate(network.get_weights()):
            array = io.BytesIO()
            np.save(array, values, allow_pickle=False)
            archive.writestr(WEIGHTS.format(number), array.getvalue())
    return buffer.getvalue()


def from_bytes(data: bytes, trust: Sequence[str]) -> KerasModel:
    """Return the ``KerasModel`` in a ``.keras`` file; ``trust`` names classes that are not Keras's."""
    members = opened(data)
    about, config = json_member(members, ABOUT), json_member(members, CONFIG)
    named = unsafe_parts(config)
    refused = [name for name in named if name not in trust]
    if refused:
        raise FedRelaxError(f"its types are not trusted: {', '.join(refused)}")
    custom = {name.rpartition(".")[2]: _imported(name) for name in named}
    keras = load_keras()
    network = keras.saving.deserialize_keras_object(config, custom_objects=custom, safe_mode=True)
    if not isinstance(network, keras.Model):
        raise FedRelaxError(
            f"its file describes a {type(network).__name__}, which is not a Keras model"
        )
    _set_weights(network, members)
    made = KerasModel(network, about["epochs"], about["batch_size"], about["scale"])
    made.input_shape_, made.outputs_ = tuple(about["input_shape"]), about["outputs"]
    made.classes_ = classes_in(about)
    for name in SCALES:
        if made.scale:
            setattr(made, name, np.asarray(about[name], dtype=float))
    made.adopt(network)
    return made


def types_in(data: bytes) -> list[str]:
    """Return the types that a ``.keras`` file names and that are not on the list of safe ones."""
    return unsafe_parts(json_member(opened(data), CONFIG))


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


# What a file may name


def unsafe_parts(config: Any) -> list[str]:
    """Return what a configuration names that is not on the list, as ``module.Class``."""
    return sorted({_name(part) for part in _parts(config) if not _is_safe(part)})


def _parts(config: Any) -> Iterator[dict[str, Any]]:
    """Yield every object that a configuration describes."""
    waiting = [config]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            if "class_name" in value:
                yield value
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value


def _name(part: dict[str, Any]) -> str:
    """Return what a part of a configuration is, as ``module.Class`` or ``module.function``."""
    name = part.get("config") if part["class_name"] == "function" else part["class_name"]
    return f"{part.get('module') or 'builtins'}.{name}"


def _is_safe(part: dict[str, Any]) -> bool:
    """Tell whether a part is a class on the list, or a function of Keras itself."""
    module, _, name = _name(part).rpartition(".")
    if part["class_name"] == "function":
        return module in FUNCTIONS
    if name in PLAIN:
        return True
    if name not in SAFE or module.partition(".")[0] != "keras":
        return False
    try:
        named = getattr(import_module(module), name, None)
    except ImportError:
        return False
    return isinstance(named, type) and named.__module__.startswith("keras.")
