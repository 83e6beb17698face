"""The parts of Keras that a file may name without the user's trust: this list, and nothing else.

They compute, and neither hold code nor open files. Those that do are left out: Lambda, the lookups and
TextVectorization, which read vocabularies, and the wrappers of other frameworks.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

from fedrelax.models.keras.backend import load_keras

PLAIN = frozenset(
    ["__tensor__", "__keras_tensor__", "__numpy__", "__bytes__", "__ellipsis__", "__tuple__"]
)
FUNCTIONS = ("builtins", "keras.activations", "keras.losses", "keras.metrics")
"""The modules that files name for Keras's own functions; for "builtins", Keras looks only in itself."""


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


KINDS: dict[str, frozenset[str]] = {
    "Operation": _names(
        """
        Functional Model Sequential InputLayer
        Activation ActivityRegularization Add AdditiveAttention AlphaDropout Attention Average
        AveragePooling1D AveragePooling2D AveragePooling3D BatchNormalization Bidirectional
        CategoryEncoding CenterCrop Concatenate Conv1D Conv1DTranspose Conv2D Conv2DTranspose Conv3D
        Conv3DTranspose ConvLSTM1D ConvLSTM2D ConvLSTM3D Cropping1D Cropping2D Cropping3D Dense
        DepthwiseConv1D DepthwiseConv2D Discretization Dot Dropout ELU EinsumDense Embedding Flatten
        GRU GRUCell GaussianDropout GaussianNoise GlobalAveragePooling1D GlobalAveragePooling2D
        GlobalAveragePooling3D GlobalMaxPooling1D GlobalMaxPooling2D GlobalMaxPooling3D
        GroupNormalization GroupQueryAttention Identity LSTM LSTMCell LayerNormalization LeakyReLU
        Masking MaxPooling1D MaxPooling2D MaxPooling3D Maximum MelSpectrogram Minimum
        MultiHeadAttention Multiply Normalization PReLU Permute RMSNormalization RNN ReLU
        RepeatVector Rescaling Reshape Resizing STFTSpectrogram SeparableConv1D SeparableConv2D
        SimpleRNN SimpleRNNCell Softmax SpatialDropout1D SpatialDropout2D SpatialDropout3D
        SpectralNormalization StackedRNNCells Subtract TimeDistributed UnitNormalization UpSampling1D
        UpSampling2D UpSampling3D ZeroPadding1D ZeroPadding2D ZeroPadding3D
        """
    ),
    "DTypePolicy": frozenset(["DTypePolicy"]),
    "Initializer": _names(
        """
        Constant GlorotNormal GlorotUniform HeNormal HeUniform Identity IdentityInitializer LecunNormal
        LecunUniform Ones Orthogonal OrthogonalInitializer RandomNormal RandomUniform STFT
        STFTInitializer TruncatedNormal VarianceScaling Zeros
        """
    ),
    "Loss": _names(
        """
        BinaryCrossentropy BinaryFocalCrossentropy CategoricalCrossentropy
        CategoricalFocalCrossentropy CategoricalHinge CosineSimilarity Hinge Huber KLDivergence LogCosh
        MeanAbsoluteError MeanAbsolutePercentageError MeanSquaredError MeanSquaredLogarithmicError
        Poisson SparseCategoricalCrossentropy SquaredHinge
        """
    ),
    "Metric": _names(
        """
        AUC Accuracy BinaryAccuracy BinaryCrossentropy CategoricalAccuracy CategoricalCrossentropy
        CategoricalHinge CosineSimilarity F1Score FBetaScore FalseNegatives FalsePositives Hinge
        KLDivergence LogCoshError Mean MeanAbsoluteError MeanAbsolutePercentageError MeanSquaredError
        MeanSquaredLogarithmicError Poisson Precision R2Score Recall RootMeanSquaredError
        SparseCategoricalAccuracy SparseCategoricalCrossentropy SparseTopKCategoricalAccuracy
        SquaredHinge Sum TopKCategoricalAccuracy TrueNegatives TruePositives
        """
    ),
    "optimizers.Optimizer": _names(
        """
        Adadelta Adafactor Adagrad Adam AdamW Adamax Ftrl Lamb Lion LossScaleOptimizer Muon Nadam
        RMSprop SGD
        """
    ),
    "optimizers.schedules.LearningRateSchedule": _names(
        """
        CosineDecay CosineDecayRestarts ExponentialDecay InverseTimeDecay PiecewiseConstantDecay
        PolynomialDecay
        """
    ),
    "regularizers.Regularizer": frozenset(["L1", "L1L2", "L2", "OrthogonalRegularizer"]),
    "constraints.Constraint": frozenset(["MaxNorm", "MinMaxNorm", "NonNeg", "UnitNorm"]),
}
"""The classes by name, under the Keras base class that each must derive from."""


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
    kinds = [kind for kind, names in KINDS.items() if name in names]
    if not kinds or not (module == "keras" or module.startswith("keras.")):
        return False
    keras = load_keras()
    try:
        found = getattr(import_module(module), name, None)
    except ImportError:
        return False
    known = tuple(_attribute(keras, kind) for kind in kinds)
    return isinstance(found, type) and issubclass(found, known)


def _attribute(owner: Any, path: str) -> Any:
    for name in path.split("."):
        owner = getattr(owner, name)
    return owner
