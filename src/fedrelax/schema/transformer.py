"""The first step of a pipeline that takes a table: its columns, as a node's model sees them."""

from __future__ import annotations

from typing import Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.pipeline import Pipeline

from fedrelax.schema.kinds import as_frame
from fedrelax.schema.preparation import ENCODED, FRAME, Preparation
from fedrelax.typing import AnyArray, DataFrame, Label, Model


class TableColumns(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Turns rows of a table into what a node's model sees of them.

    It has nothing to learn: everything is in the schema that was agreed on before training.
    """

    def __init__(self, preparation: Preparation, node: Label, form: str = ENCODED) -> None:
        self.preparation = preparation
        self.node = node
        self.form = form

    def fit(self, X: object = None, y: object = None) -> Self:
        """Return the transformer itself: there is nothing to fit."""
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    @property
    def feature_names_in_(self) -> AnyArray:
        """The columns of the table that the node has."""
        names = self.preparation.schema.column_names
        return np.array([names[k] for k in self.preparation.has(self.node)], dtype=object)

    @property
    def n_features_in_(self) -> int:
        """How many columns of the table the node has."""
        return len(self.preparation.has(self.node))

    def transform(self, X: object) -> AnyArray | DataFrame:
        """Return what the model sees of a DataFrame, or of coded rows."""
        ready, node = self.preparation, self.node
        if isinstance(X, np.ndarray):
            coded = np.asarray(X, dtype=float)
        else:
            coded = ready.schema.code(as_frame(X), "X", absent=ready.absent([node]))
        if ready.encoded:
            return ready.of_node(node, coded)
        return ready.view(node, self.form)(coded)

    def get_feature_names_out(self, input_features: object = None) -> AnyArray:
        """Return the names of the columns that the model sees."""
        ready = self.preparation
        seen = ready.schema if ready.encoded else ready.view(self.node, self.form)
        return np.array(seen.names, dtype=object)


def table_pipeline(model: Model, preparation: Preparation, node: Label, form: str) -> Pipeline:
    """Return a node's fitted model as a pipeline that takes a DataFrame of the node's columns."""
    first = TableColumns(preparation, node, form)
    if form != FRAME and not hasattr(model, "feature_names_in_"):
        first.set_output(transform="default")
    return Pipeline([("columns", first), ("model", model)])
