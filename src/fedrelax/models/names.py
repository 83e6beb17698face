"""Models by name: ``ridge``, ``forest`` and so on, as on the command line, or ``package.module:Class``."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any

from sklearn.base import is_classifier, is_regressor
from sklearn.compose import TransformedTargetRegressor
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR

from fedrelax.errors import FedRelaxError, did_you_mean
from fedrelax.extras import need
from fedrelax.models.few_rows import SupportVectorClassifier
from fedrelax.models.linear import LinearModel, SoftmaxModel
from fedrelax.models.registry import is_model
from fedrelax.typing import Model

Makes = Callable[[bool], Model]
"""Makes a model for classes (True) or numbers (False)."""


def _scaled(model: Model) -> Model:
    """Put a scaler before a model that depends on the units of its inputs; row weights reach the model."""
    return make_pipeline(StandardScaler(), model)


def _scaled_target(model: Model) -> Model:
    """Scale the target too, for models whose settings are in its units."""
    return TransformedTargetRegressor(_scaled(model), transformer=StandardScaler())


def _pair(module: str, stem: str, extra: str = "", **settings: Any) -> Makes:
    """Return a function that makes a module's ``{stem}Classifier`` or ``{stem}Regressor``."""

    def make(classify: bool) -> Model:
        home = need(module, extra) if extra else importlib.import_module(module)
        return getattr(home, f"{stem}{'Classifier' if classify else 'Regressor'}")(**settings)

    return make


def _framework(framework: str, factory: str) -> Makes:
    """Return a function that makes a net of a framework, or says which extra is missing."""

    def make(classify: bool) -> Model:
        if framework == "torch":
            need("torch", "torch")  # that of Keras checks for itself
        home = importlib.import_module(f"fedrelax.models.{framework}")
        return getattr(home, factory)(classify)

    return make


MLP = _pair(
    "sklearn.neural_network",
    "MLP",
    hidden_layer_sizes=(32,),
    solver="lbfgs",
    alpha=0.1,
    max_iter=200,
)
NAMES: dict[str, Makes] = {
    # Where all nodes say auto, the kind is chosen from the rows later.
    "auto": lambda classify: NAMES["logistic" if classify else "ridge"](classify),
    "ridge": lambda classify: _scaled(RidgeClassifier()) if classify else LinearModel(ridge=1.0),
    "linear": lambda classify: SoftmaxModel() if classify else LinearModel(),
    "logistic": lambda classify: _scaled(LogisticRegression(max_iter=1000)),
    "tree": _pair("sklearn.tree", "DecisionTree", max_depth=8, min_samples_leaf=2),
    "forest": _pair("sklearn.ensemble", "RandomForest", n_estimators=30),
    # Few shallow trees with small leaves: the libraries' defaults find no split in 20 rows.
    "boosting": _pair(
        "sklearn.ensemble",
        "HistGradientBoosting",
        max_iter=40,
        max_leaf_nodes=8,
        min_samples_leaf=3,
        learning_rate=0.15,
        early_stopping=False,
    ),
    "mlp": lambda classify: (_scaled if classify else _scaled_target)(MLP(classify)),
    "svm": lambda classify: (
        _scaled(SupportVectorClassifier()) if classify else _scaled_target(SVR())
    ),
    "knn": lambda classify: _scaled(_pair("fedrelax.models.few_rows", "Nearest")(classify)),
    "torch-mlp": _framework("torch", "mlp"),
    "torch-linear": _framework("torch", "linear"),
    "keras-mlp": _framework("keras", "mlp"),
    "xgboost": lambda classify: _pair(
        "xgboost",
        "XGB",
        "boost",
        n_estimators=40,
        max_depth=3,
        learning_rate=0.15,
        min_child_weight=0.1 if classify else 0.5,
    )(classify),
    "lightgbm": _pair(
        "lightgbm",
        "LGBM",
        "boost",
        n_estimators=40,
        num_leaves=8,
        learning_rate=0.15,
        min_child_samples=3,
        min_data_in_bin=1,
        verbosity=-1,
    ),
}


TASKS = {"numbers": "regression", "classes": "classification"}


def model_by_name(name: str, task: str) -> Model:
    """Return the unfitted model that a name stands for.

    ``package.module:name`` is a class, or a function that returns a model; both are called without
    arguments. A subclass of ``torch.nn.Module`` becomes a ``TorchModel``.

    >>> model_by_name("tree", "regression")
    DecisionTreeRegressor(max_depth=8, min_samples_leaf=2)
    >>> model_by_name("sklearn.linear_model:Lasso", "regression")
    Lasso()
    """
    if ":" in name:
        return _imported(name, task)
    if name not in NAMES:
        raise FedRelaxError(
            f"model {name!r} is not known{did_you_mean(name, NAMES)} "
            f"(known: {', '.join(NAMES)}, or package.module:Class)"
        )
    if name == "logistic" and task == "regression":
        raise FedRelaxError(
            "model 'logistic' predicts classes, and the target holds numbers; use 'ridge' or "
            "'linear', or task='classification' if the numbers are classes"
        )
    return NAMES[name](task == "classification")


def _imported(name: str, task: str) -> Model:
    """Import ``package.module:name``, a class or a function, and make a model with it."""
    module_name, _, own_name = name.partition(":")
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # Importing runs foreign code, which may raise anything.
        raise FedRelaxError(
            f"model {name!r}: the module {module_name!r} cannot be imported "
            f"({type(error).__name__}: {error}); install it, or check the spelling"
        ) from error
    maker = getattr(module, own_name, None)
    if maker is None:
        hint = did_you_mean(own_name, vars(module))
        raise FedRelaxError(f"model {name!r}: {module_name} has no class {own_name!r}{hint}")
    torch = sys.modules.get("torch")
    if torch and isinstance(maker, type) and issubclass(maker, torch.nn.Module):
        from fedrelax.models.torch import TorchModel

        return TorchModel(maker)
    model = maker
    if callable(maker) and (not isinstance(maker, type) or is_model(maker)):
        try:
            model = maker()
        except Exception as error:
            raise FedRelaxError(
                f"model {name!r} cannot be made without arguments ({type(error).__name__}: {error}); "
                "give all its arguments a default, or use the library from Python"
            ) from error
    if model is maker or not is_model(model):
        raise FedRelaxError(
            f"model {name!r} is not a model: name a class with fit and predict, in the style of "
            "scikit-learn, a PyTorch module, or a function without arguments that returns a model"
        )
    if not hasattr(model, "__sklearn_tags__"):
        return model  # whether it predicts numbers or classes is checked where nodes are made
    kinds = ("classes", "numbers") if is_classifier(model) else ("numbers", "classes")
    if (is_classifier(model) or is_regressor(model)) and task != TASKS[kinds[0]]:
        raise FedRelaxError(f"model {name!r} predicts {kinds[0]}, and the target holds {kinds[1]}")
    return model


def short_name(name: str) -> str:
    """Return what tables call a model: its name, or the class of ``package.module:Class``.

    >>> short_name("sklearn.linear_model:Lasso"), short_name("tree")
    ('Lasso', 'tree')
    """
    return name.rpartition(":")[2]


KINDS = {
    "Ridge": "ridge",
    "LinearModel": "ridge",
    "LogisticRegression": "logistic",
    "SoftmaxModel": "logistic",
    "RandomForestRegressor": "forest",
    "RandomForestClassifier": "forest",
    "SmoothedForestClassifier": "forest",
    "HistGradientBoostingRegressor": "boosting",
    "HistGradientBoostingClassifier": "boosting",
}
"""What tables call the models that "auto" finds."""


def kind_name(model: Model) -> str:
    """Return what tables call a fitted estimator that "auto" has found.

    >>> from sklearn.linear_model import Ridge
    >>> kind_name(Ridge())
    'ridge'
    """
    steps = [type(step).__name__ for _, step in getattr(model, "steps", [])]
    last = steps[-1] if steps else type(model).__name__
    name = KINDS.get(last, last)
    return f"{name} on curves" if "CurveColumns" in steps else name
