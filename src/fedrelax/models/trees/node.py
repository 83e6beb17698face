"""A tree or forest at a node: the local model."""

from __future__ import annotations

import copy
from collections.abc import Hashable, Sequence
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np

from fedrelax.models.base import BatchedModel, Rows, Task
from fedrelax.models.scikit import ScikitModel, constant_classifier, fresh
from fedrelax.models.trees.growing import (
    Packed,
    answers,
    built,
    fitted_forest,
    grown,
    pack,
)
from fedrelax.models.trees.rules import Rules, rules_of
from fedrelax.typing import AnyArray, FloatArray, Model


@cache
def has_numba() -> bool:
    """Whether trees can be grown in the compiled loop."""
    return find_spec("numba") is not None


class TreeNode(ScikitModel, BatchedModel):
    """A tree or forest of scikit-learn, which many nodes can grow at once.

    A batch predicts the rows that a round needs and keeps no trees. The estimator is built when it
    is first asked for.
    """

    def __init__(self, estimator: Model, task: Task) -> None:
        super().__init__(estimator, task)
        self._grown: tuple[Sequence[Rows], int] | None = None
        self._rules: dict[int, Rules | None] = {}

    @property
    def estimator(self) -> Model:
        """The fitted estimator, or the template before the first fit."""
        if self._grown is not None:
            self._fitted = self._built(*self._grown)
            self._grown = None
        return super().estimator

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_fitted": self.estimator, "_grown": None}

    def fit(self, terms: Sequence[Rows], *, seed: int, continued: bool = False) -> ScikitModel:
        """Return a model whose estimator scikit-learn has fitted to the stacked rows."""
        fitted = super().fit(terms, seed=seed, continued=continued)
        assert isinstance(fitted, TreeNode)
        fitted._grown = None
        return fitted

    def _fit_estimator(
        self, X: AnyArray, y: AnyArray, weight: FloatArray, seed: int, continued: bool
    ) -> Model:
        """Fit a forest tree by tree, with the draws of a forest that is grown at once."""
        rules = self.rules(X.shape[1])
        if rules is not None and rules.forest and isinstance(X, np.ndarray):
            with np.errstate(over="ignore"):
                rows = X.astype(np.float32)
            if rows.size and np.isfinite(rows).all() and np.isfinite(weight).all():
                return fitted_forest(fresh(self._template, seed), rules, rows, y, weight)
        return super()._fit_estimator(X, y, weight, seed, continued)

    # All at once

    def batch_key(self, terms: Sequence[Rows]) -> Hashable | None:
        """Return the rules and shapes that all trees of a batch share, or None to fit one by one."""
        features = terms[0].X.shape[1]
        rules = self.rules(features) if has_numba() else None
        if rules is None or features == 0:
            return None
        return "trees", rules, features, self.task.n_outputs

    def rules(self, features: int) -> Rules | None:
        """Return the rules by which the trees are grown at once, or None if scikit-learn must do it."""
        if features not in self._rules:
            self._rules[features] = rules_of(self._template, features)
        return self._rules[features]

    def packed(self, terms: Sequence[Rows], seed: int, asked: Sequence[AnyArray] = ()) -> Packed:
        """Return a problem as the compiled loop takes it, with the rows to predict."""
        rules, own = self.rules(terms[0].X.shape[1]), self._template.random_state
        assert rules is not None
        return pack(rules, terms, seed if own is None else int(own), asked)

    @classmethod
    def fit_many(
        cls,
        models: Sequence[TreeNode],
        problems: Sequence[Sequence[Rows]],
        *,
        seeds: Sequence[int],
        continued: bool,
        memory: dict[str, Any],
    ) -> list[TreeNode]:
        """Return models that note what they are to be grown on; ``predict_many`` grows them."""
        fitted = [copy.copy(model) for model in models]
        for model, terms, seed in zip(fitted, problems, seeds, strict=True):
            model._fitted, model._grown = None, (terms, seed)
        return fitted

    @classmethod
    def predict_many(
        cls,
        models: Sequence[TreeNode],
        inputs: Sequence[Sequence[AnyArray]],
        memory: dict[str, Any],
    ) -> list[list[FloatArray]]:
        """Grow all trees and return their predictions."""
        packed = [
            model.packed(*model._grown, asked)
            for model, asked in zip(models, inputs, strict=True)
            if model._grown is not None
        ]
        return [
            [found[rows] for rows in problem.asked]
            for problem, found in zip(packed, answers(packed), strict=True)
        ]

    def _built(self, terms: Sequence[Rows], seed: int) -> Model:
        """Grow the trees of a batch again and return them as a fitted estimator."""
        classes, packed = self.task.classes, self.packed(terms, seed)
        trees = grown(packed)
        if classes is not None:
            seen = np.any([term.weight @ term.target > 0 for term in terms], axis=0)
            classes = classes[seen]
            if len(classes) == 1:
                return constant_classifier(terms[0].X[:1], classes)
            trees = [tree._replace(value=tree.value[:, seen]) for tree in trees]
        features = len(packed.columns)
        return built(fresh(self._template, packed.seed), packed.rules, trees, features, classes)
