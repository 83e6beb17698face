"""The types that a skops file may contain without the user's trust: this list, and nothing else.

skops itself trusts numbers, texts, containers, arrays, numpy's functions, and the estimators, losses
and links of scikit-learn. This list adds what fitted scikit-learn estimators hold besides these, and our
own models. The code of each type was reviewed for what it does when an object is created and when its
state is set: it stores values, and does not import, open or call anything that a file names. What native
code would follow blindly (the arrays of trees, neighbours and support vectors) is checked by
``storage.insides``.

Each type is listed with the one skops loader that may create it. Under another loader the same name
would be called with arguments from the file.
"""

from __future__ import annotations

LOADERS = frozenset(
    {
        "JsonNode",
        "DictNode",
        "DefaultDictNode",
        "ListNode",
        "SetNode",
        "TupleNode",
        "BytesNode",
        "BytearrayNode",
        "SliceNode",
        "TypeNode",
        "FunctionNode",
        "PartialNode",
        "ObjectNode",
        "NdArrayNode",
        "MaskedArrayNode",
        "DTypeNode",
        "RandomStateNode",
        "RandomGeneratorNode",
        "LossNode",
        "TreeNode",
    }
)
"""The skops loaders that are allowed. Those that call a constructor or fetch a method are not, nor is
that of sparse matrices, whose indices nobody checks."""

GENERATORS = frozenset({"MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64"})
"""The bit generators that a ``numpy.random.Generator`` may have."""

OBJECTS = (
    "fedrelax.models.curves.CurveColumns",
    "fedrelax.models.few_rows.NearestClassifier",
    "fedrelax.models.few_rows.NearestRegressor",
    "fedrelax.models.few_rows.SmoothedForestClassifier",
    "fedrelax.models.few_rows.SupportVectorClassifier",
    "fedrelax.models.linear.LinearModel",
    "fedrelax.models.linear.SoftmaxModel",
    "sklearn._loss.link.HalfLogitLink",
    "sklearn._loss.link.IdentityLink",
    "sklearn._loss.link.Interval",
    "sklearn._loss.link.LogLink",
    "sklearn._loss.link.LogitLink",
    "sklearn._loss.link.MultinomialLogit",
    "sklearn._loss.loss.AbsoluteError",
    "sklearn._loss.loss.ExponentialLoss",
    "sklearn._loss.loss.HalfBinomialLoss",
    "sklearn._loss.loss.HalfGammaLoss",
    "sklearn._loss.loss.HalfMultinomialLoss",
    "sklearn._loss.loss.HalfPoissonLoss",
    "sklearn._loss.loss.HalfSquaredError",
    "sklearn._loss.loss.HalfTweedieLoss",
    "sklearn._loss.loss.HalfTweedieLossIdentity",
    "sklearn._loss.loss.HuberLoss",
    "sklearn._loss.loss.PinballLoss",
    "sklearn.calibration._CalibratedClassifier",
    "sklearn.calibration._SigmoidCalibration",
    "sklearn.ensemble._hist_gradient_boosting.binning._BinMapper",
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
    "sklearn.gaussian_process._gpc._BinaryGaussianProcessClassifierLaplace",
    "sklearn.gaussian_process.kernels.CompoundKernel",
    "sklearn.gaussian_process.kernels.ConstantKernel",
    "sklearn.gaussian_process.kernels.DotProduct",
    "sklearn.gaussian_process.kernels.ExpSineSquared",
    "sklearn.gaussian_process.kernels.Exponentiation",
    "sklearn.gaussian_process.kernels.Matern",
    "sklearn.gaussian_process.kernels.PairwiseKernel",
    "sklearn.gaussian_process.kernels.Product",
    "sklearn.gaussian_process.kernels.RBF",
    "sklearn.gaussian_process.kernels.RationalQuadratic",
    "sklearn.gaussian_process.kernels.Sum",
    "sklearn.gaussian_process.kernels.WhiteKernel",
    "sklearn.metrics._dist_metrics.ChebyshevDistance64",
    "sklearn.metrics._dist_metrics.EuclideanDistance64",
    "sklearn.metrics._dist_metrics.ManhattanDistance64",
    "sklearn.metrics._scorer._PassthroughScorer",
    "sklearn.model_selection._split.KFold",
    "sklearn.model_selection._split.StratifiedKFold",
    "sklearn.multiclass._ConstantPredictor",
    "sklearn.neighbors._ball_tree.BallTree",
    "sklearn.neighbors._kd_tree.KDTree",
    "sklearn.neural_network._stochastic_optimizers.AdamOptimizer",
    "sklearn.neural_network._stochastic_optimizers.SGDOptimizer",
)
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
"""Every type that is trusted besides those of skops, with the loader that creates it."""

UNCHECKED = frozenset({"sklearn.ensemble._iforest.IsolationForest"})
"""What skops trusts and we do not: it hands rows to its trees without checking that they fit."""
