"""A model with its own view of the rows that all nodes share: some of the columns, in some form."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sklearn.base import clone

from fedrelax.models.base import LocalModel, Rows, WrappedModel
from fedrelax.models.boost import LIBRARIES
from fedrelax.models.criteria import package_of
from fedrelax.schema.preparation import CODED, ENCODED, FRAME, View
from fedrelax.typing import AnyArray, FloatArray

NATIVE = ("HistGradientBoosting",)
"""How the names of scikit-learn's models begin that take gaps and categories as they are."""
CHOOSERS = ("ColumnTransformer", "FunctionTransformer", "OneHotEncoder", "OrdinalEncoder")
"""First steps of a pipeline that take a table's columns as they are."""


@dataclass(frozen=True, eq=False)
class Seen:
    """An unfitted model and its view, which the registry turns into a ``Viewed``."""

    estimator: Any
    view: View

    def __repr__(self) -> str:
        return repr(self.estimator)


def form_of(estimator: Any) -> str:
    """Return the form in which a model takes rows of a table that holds more than numbers.

    A pipeline whose first step selects or encodes columns, or is from another package, gets a DataFrame;
    a model that handles gaps and categories itself gets one number per column; everything else gets
    numbers without gaps.

    >>> from sklearn.ensemble import HistGradientBoostingRegressor
    >>> from sklearn.linear_model import Ridge
    >>> form_of(Ridge()), form_of(HistGradientBoostingRegressor())
    ('encoded', 'coded')
    """
    steps = getattr(estimator, "steps", None)
    if isinstance(steps, list) and hasattr(estimator, "named_steps"):
        first = type(steps[0][1])
        theirs = not first.__module__.startswith(("sklearn.", "fedrelax."))
        return FRAME if theirs or first.__name__ in CHOOSERS else ENCODED
    native = type(estimator).__name__.startswith(NATIVE)
    return CODED if native or package_of(estimator) in LIBRARIES else ENCODED


def seen(estimator: Any, view: View) -> Seen:
    """Return a model with its view; one that takes categories is told which columns hold them."""
    if view.form == CODED and any(view.categories):
        name, package = type(estimator).__name__, package_of(estimator)
        settings: dict[str, Any] = {}
        if name.startswith(NATIVE) and estimator.categorical_features in (None, "from_dtype"):
            settings["categorical_features"] = view.categories
        elif package == "xgboost" and estimator.get_params().get("feature_types") is None:
            settings["feature_types"] = ["c" if yes else "q" for yes in view.categories]
            settings["enable_categorical"] = True
        elif package == "lightgbm":
            columns = [str(k) for k, yes in enumerate(view.categories) if yes]
            settings["categorical_feature"] = ",".join(columns)
        # safe=True would refuse a model without get_params; with safe=False it is deep-copied.
        estimator = clone(estimator, safe=False).set_params(**settings)
    return Seen(estimator, view)


class Viewed(WrappedModel):
    """A local model that gets rows through its node's view, or another function of them."""

    def __init__(self, inner: LocalModel, view: Callable[[AnyArray], Any]) -> None:
        super().__init__(inner)
        self.view = view

    def remembering(self, memory: Any) -> LocalModel:
        """Return the model that had this memory."""
        return Viewed(self.inner.remembering(memory), self.view)

    def check(self, X: AnyArray) -> None:
        """Refuse rows that the model cannot take."""
        self.inner.check(self.view(X))

    def fit(self, terms: Sequence[Rows], *, seed: int, continued: bool = False) -> LocalModel:
        """Return a model fitted to the terms in the form of the view."""
        own = [replace(term, X=self.view(term.X)) for term in terms]
        return Viewed(self.inner.fit(own, seed=seed, continued=continued), self.view)

    def predict(self, X: AnyArray) -> FloatArray:
        """Return predictions for coded rows."""
        return self.inner.predict(self.view(X))


def form_in(model: LocalModel) -> str:
    """Return the form in which a node's model sees rows."""
    view = model.view if isinstance(model, Viewed) else None
    return view.form if isinstance(view, View) else ENCODED
