"""FedRelaxCV: an estimator whose alpha, wiring and rounds are chosen from given lists."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted, validate_data

from fedrelax.errors import FedRelaxError
from fedrelax.estimators import (
    FedRelaxClassifier,
    FedRelaxRegressor,
    settings_of,
    split_off_nodes,
)
from fedrelax.selection import Choice, choose
from fedrelax.solvers.checks import check_number, check_running
from fedrelax.splits import group_rows
from fedrelax.typing import AnyArray, FloatArray
from fedrelax.views import Looks
from fedrelax.wiring import Wiring


class FedRelaxCV(Looks, BaseEstimator):  # type: ignore[misc]
    """Choose by cross-validation on the nodes' own rows, then train on all of them.

    ``FedRelaxRegressor(alpha="auto", wiring="auto")`` does the same with the usual lists.

    Parameters
    ----------
    estimator : a ``FedRelaxRegressor`` or ``FedRelaxClassifier`` with all other settings.
    alphas : strengths to try. Default: in proportion to 1 / mean degree, with 0 among them.
    wirings : names or ``fedrelax.wiring`` objects to try.
    folds : parts into which every node's rows are dealt.

    Attributes
    ----------
    best_estimator_ : the estimator, trained on all rows with what was chosen.
    choice_ : what was chosen and why, with the validation loss of every candidate and round.

    >>> rng = np.random.default_rng(0)
    >>> X, nodes = rng.normal(size=(60, 2)), np.repeat(list("abcdef"), 10)
    >>> y = X @ [1.0, 2.0] + rng.normal(size=60)
    >>> model = FedRelaxCV(FedRelaxRegressor(), alphas=[0, 0.1, 1], wirings=["fixed"])
    >>> model.fit(X, y, nodes=nodes).choice_.alpha in (0, 0.1, 1)
    True
    """

    def __init__(
        self,
        estimator: FedRelaxRegressor | FedRelaxClassifier | None = None,
        alphas: Sequence[float] | None = None,
        wirings: Sequence[str | Wiring] = ("fixed", "rewire"),
        folds: int = 5,
    ) -> None:
        self.estimator = estimator
        self.alphas = alphas
        self.wirings = wirings
        self.folds = folds

    def fit(self, X: Any, y: Any, nodes: Any = None) -> Self:
        """Choose and train; ``nodes`` as in the estimator."""
        if nodes is None:
            raise FedRelaxError("FedRelaxCV needs nodes: one label per row, or a column's name")
        inner = FedRelaxRegressor() if self.estimator is None else self.estimator
        if not isinstance(inner, FedRelaxRegressor | FedRelaxClassifier):
            raise FedRelaxError(
                f"estimator is a {type(inner).__name__}; give a FedRelaxRegressor or a "
                "FedRelaxClassifier with all other settings"
            )
        check_running(inner)
        for name in ("alphas", "wirings"):
            given = getattr(self, name)
            if name == "alphas" and given is None:
                continue
            if isinstance(given, Mapping | str | bytes) or not isinstance(given, Iterable):
                raise FedRelaxError(f"{name}={given!r} must be a list of those to try")
            if not len(list(given)):
                raise FedRelaxError(f"{name} is empty; name those to try")
        for alpha in self.alphas if self.alphas is not None else ():
            check_number("alphas: alpha", alpha, least=0.0)
        rows, labels, _ = split_off_nodes(X, nodes)
        checked, target = validate_data(
            self, rows, y, dtype=float, multi_output=True, allow_nd=True
        )
        alphas = self.alphas
        if alphas is None:
            alphas = inner.alphas_for(list(group_rows(labels, len(checked))))
        self.choice_: Choice = choose(
            inner,
            checked,
            target,
            labels,
            alphas=alphas,
            wirings=self.wirings,
            folds=self.folds,
            tries=None,
        )
        self.best_estimator_ = clone(inner).set_params(**settings_of(self.choice_))
        self.best_estimator_.callbacks = inner.callbacks  # not copies: someone listens to these
        self.best_estimator_.fit(X, y, nodes=nodes)
        return self

    def predict(self, X: Any, nodes: Any = None) -> AnyArray:
        """Predict each row by the model of its node."""
        check_is_fitted(self, "best_estimator_")
        answer: AnyArray = self.best_estimator_.predict(X, nodes=nodes)
        return answer

    def predict_proba(self, X: Any, nodes: Any = None) -> FloatArray:
        """Return class probabilities, if the estimator is a classifier."""
        check_is_fitted(self, "best_estimator_")
        answer: FloatArray = self.best_estimator_.predict_proba(X, nodes=nodes)
        return answer

    def score(self, X: Any, y: Any, nodes: Any = None) -> float:
        """Return R^2 or the accuracy over all rows."""
        check_is_fitted(self, "best_estimator_")
        return float(self.best_estimator_.score(X, y, nodes=nodes))
