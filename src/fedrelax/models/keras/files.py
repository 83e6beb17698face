"""Keras models as ``.keras`` files: a zip of JSON and arrays, which Keras itself can load too.

Loading builds only the layers, optimisers, losses and the like listed here, always in Keras's safe
mode. They compute, and neither hold code nor open files. Those that do are left out: Lambda, the lookups
and TextVectorization, which read vocabularies, and the wrappers of other frameworks. Anything else that a
file names is refused unless the user trusts it by name. Weights are read from plain arrays stored beside
Keras's own: its HDF5 file, which may point to other files, is not opened.
"""

from __future__ import annotations

import json
import pkgutil
import tempfile
import zipfile
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from fedrelax.errors import FedRelaxError
from fedrelax.files import to_npy
from fedrelax.models.archive import array_member, described_task, json_member, opened, task_in
from fedrelax.models.keras.estimator import KerasModel, load_keras, steady

ABOUT, CONFIG = "fedrelax.json", "config.json"
WEIGHTS = "fedrelax-weights/{:05d}.npy"
SCALES = ("center_", "spread_", "target_center_", "target_spread_")

PLAIN = frozenset(
    ["__tensor__", "__keras_tensor__", "__numpy__", "__bytes__", "__ellipsis__", "__tuple__"]
)
FUNCTIONS = ("builtins", "keras.activations", "keras.losses", "keras.metrics")
"""The modules that files name for Keras's own functions; for "builtins", Keras looks only in itself."""

IN_ALL_DIMENSIONS = """
    AveragePooling Conv ConvLSTM Cropping GlobalAveragePooling GlobalMaxPooling MaxPooling
    SpatialDropout UpSampling ZeroPadding
"""
SAFE = frozenset(f"{name}{d}D" for name in IN_ALL_DIMENSIONS.split() for d in (1, 2, 3)) | set(
    str.split("""
    Functional Model Sequential InputLayer Activation ActivityRegularization Add AdditiveAttention
    AlphaDropout Attention Average BatchNormalization Bidirectional CategoryEncoding CenterCrop
    Concatenate Conv1DTranspose Conv2DTranspose Conv3DTranspose Dense DepthwiseConv1D
    DepthwiseConv2D Discretization Dot Dropout ELU EinsumDense Embedding Flatten GRU GRUCell
    GaussianDropout GaussianNoise GroupNormalization GroupQueryAttention Identity LSTM LSTMCell
    LayerNormalization LeakyReLU Masking Maximum MelSpectrogram Minimum MultiHeadAttention Multiply
    Normalization PReLU Permute RMSNormalization RNN ReLU RepeatVector Rescaling Reshape Resizing
    STFTSpectrogram SeparableConv1D SeparableConv2D SimpleRNN SimpleRNNCell Softmax
    SpectralNormalization StackedRNNCells Subtract TimeDistributed UnitNormalization DTypePolicy
    Constant GlorotNormal GlorotUniform HeNormal HeUniform IdentityInitializer LecunNormal
    LecunUniform Ones Orthogonal OrthogonalInitializer RandomNormal RandomUniform STFT
    STFTInitializer TruncatedNormal VarianceScaling Zeros BinaryCrossentropy
    BinaryFocalCrossentropy CategoricalCrossentropy CategoricalFocalCrossentropy CategoricalHinge
    CosineSimilarity Hinge Huber KLDivergence LogCosh MeanAbsoluteError MeanAbsolutePercentageError
    MeanSquaredError MeanSquaredLogarithmicError Poisson SparseCategoricalCrossentropy SquaredHinge
    AUC Accuracy BinaryAccuracy CategoricalAccuracy F1Score FBetaScore FalseNegatives
    FalsePositives LogCoshError Mean Precision R2Score Recall RootMeanSquaredError
    SparseCategoricalAccuracy SparseTopKCategoricalAccuracy Sum TopKCategoricalAccuracy
    TrueNegatives TruePositives Adadelta Adafactor Adagrad Adam AdamW Adamax Ftrl Lamb Lion
    LossScaleOptimizer Muon Nadam RMSprop SGD CosineDecay CosineDecayRestarts ExponentialDecay
    InverseTimeDecay PiecewiseConstantDecay PolynomialDecay L1 L1L2 L2 OrthogonalRegularizer
    MaxNorm MinMaxNorm NonNeg UnitNorm
    """)
)
"""Classes of Keras that a file may name: layers, initialisers, losses, metrics, optimisers and the like."""


def to_bytes(estimator: KerasModel) -> bytes:
    """Return a fitted ``KerasModel`` as the bytes of a ``.keras`` file."""
    about: dict[str, Any] = {
        "epochs": estimator.epochs,
        "batch_size": estimator.batch_size,
        "scale": estimator.scale,
        "input_shape": list(estimator.input_shape_),
        "task": described_task(estimator.task_),
    }
    if estimator.scale:
        scales = [values.tolist() for values in estimator.scales_]
        about |= dict(zip(SCALES, scales, strict=True))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.keras"
        with steady(0):  # Another network than ``model_``, with an optimiser that has not started.
            network = estimator.build(estimator.input_shape_, estimator.task_.n_outputs)
            network.set_weights(estimator.weights_)
        network.save(file)
        with zipfile.ZipFile(file, "a") as archive:
            archive.writestr(ABOUT, json.dumps(about))
            for number, values in enumerate(estimator.weights_):
                archive.writestr(WEIGHTS.format(number), to_npy(values))
        return file.read_bytes()


def from_bytes(data: bytes, trust: Sequence[str]) -> KerasModel:
    """Return the ``KerasModel`` in a ``.keras`` file; ``trust`` names classes that are not Keras's."""
    members = opened(data)
    about, config = json_member(members, ABOUT), json_member(members, CONFIG)
    named = unsafe_parts(config)
    refused = [name for name in named if name not in trust]
    if refused:
        raise FedRelaxError(f"its types are not trusted: {', '.join(refused)}")
    custom = {name.rpartition(".")[2]: pkgutil.resolve_name(name) for name in named}
    keras = load_keras()
    network = keras.saving.deserialize_keras_object(config, custom_objects=custom, safe_mode=True)
    if not isinstance(network, keras.Model):
        raise FedRelaxError(
            f"its file describes a {type(network).__name__}, which is not a Keras model"
        )
    shapes = [tuple(values.shape) for values in network.get_weights()]
    names = [WEIGHTS.format(number) for number in range(len(shapes))]
    weights = [array_member(members, name) for name in names]
    if [array.shape for array in weights] != shapes or WEIGHTS.format(len(shapes)) in members:
        raise FedRelaxError("its weights do not fit its layers")
    if not all(np.isfinite(array).all() for array in weights if array.dtype.kind == "f"):
        raise FedRelaxError("one of its weights is not a finite number")
    network.set_weights(weights)
    model = KerasModel(network, about["epochs"], about["batch_size"], about["scale"])
    model.input_shape_, model.task_ = tuple(about["input_shape"]), task_in(about["task"])
    if model.scale:
        model.scales_ = tuple(np.asarray(about[name], dtype=float) for name in SCALES)
    model.adopt(network)
    return model


def types_in(data: bytes) -> list[str]:
    """Return the types that a ``.keras`` file names and that are not on the list of safe ones."""
    return unsafe_parts(json_member(opened(data), CONFIG))


# What a file may name


def unsafe_parts(config: Any) -> list[str]:
    """Return what a configuration names that is not on the list, as ``module.Class``."""
    unsafe, waiting = set[str](), [config]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            waiting += part.values()
            if "class_name" in part:
                function = part["class_name"] == "function"
                name = part.get("config") if function else part["class_name"]
                full = f"{part.get('module') or 'builtins'}.{name}"
                module, _, last = full.rpartition(".")
                if not (module in FUNCTIONS if function else _is_safe(module, last)):
                    unsafe.add(full)
        elif isinstance(part, list):
            waiting += part
    return sorted(unsafe)


def _is_safe(module: str, name: str) -> bool:
    """Tell whether this is a class of Keras that is on the list."""
    if name in PLAIN:
        return True
    if name not in SAFE or module.partition(".")[0] != "keras":
        return False
    try:
        named = getattr(import_module(module), name, None)
    except ImportError:
        return False
    return isinstance(named, type) and named.__module__.startswith("keras.")
