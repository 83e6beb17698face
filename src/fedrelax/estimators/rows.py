"""The input side of the estimators: tables and arrays become rows in a form that all nodes share."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.utils.validation import check_X_y, validate_data

from fedrelax.errors import FedRelaxError, FedRelaxWarning, did_you_mean, named
from fedrelax.graph import Graph
from fedrelax.linear.arrays import centre_and_spread
from fedrelax.models.registry import is_net
from fedrelax.models.viewed import Seen, form_of, seen
from fedrelax.network.rows import distinct
from fedrelax.schema import Column, Preparation, Schema
from fedrelax.schema.inferring import coded_table
from fedrelax.schema.kinds import as_frame, is_frame
from fedrelax.schema.preparation import ENCODED, View
from fedrelax.schema.schema import is_extreme, rounded
from fedrelax.splits import RowGroups, group_rows
from fedrelax.typing import AnyArray, FloatArray, Label, Model
from fedrelax.validation import check_sizes


def one_of(groups: Any, times: Any, rows: int) -> dict[str, AnyArray]:
    """Check ``groups`` and ``times`` and return whichever was given under its name, else an empty dict."""
    import pandas as pd

    if groups is not None and times is not None:
        raise FedRelaxError("groups and times are both given; folds can follow only one of them")
    name, values = ("times", times) if groups is None else ("groups", groups)
    if values is None:
        return {}
    column = np.asarray(values)
    if column.shape != (rows,):
        raise FedRelaxError(f"{name} has shape {column.shape}, but X has {rows} rows")
    missing = pd.isna(column)
    if missing.any():
        raise FedRelaxError(
            f"{name} has a missing value in row {int(np.argmax(missing))}; every row needs one"
        )
    return {name: column.astype(str) if column.dtype.kind == "O" else column}


def split_off_nodes(X: Any, nodes: Any) -> tuple[Any, Any, str | None]:
    """Return the features, one label per row (or None) and the name of the node column, if any."""
    if is_frame(X):
        X = as_frame(X)
    if not isinstance(nodes, str):
        return X, nodes, None
    if not hasattr(X, "columns"):
        raise FedRelaxError(f"nodes={nodes!r} names a column, but X is not a DataFrame")
    if nodes not in X.columns:
        hint = did_you_mean(nodes, X.columns)
        raise FedRelaxError(f"nodes={nodes!r} is not a column of X{hint}")
    return X.drop(columns=nodes), X[nodes].to_numpy(), nodes


CACHE_BYTES = 16 << 20
"""Linear models of all nodes that together are larger than this do not stay in a processor's cache."""


class TableRows:
    """What the estimators know about a table's columns.

    ``preparation_`` is None where models of the user's own see an array as it is.
    """

    schema: Schema | str | Path | None
    estimator: Model
    graph: Graph | None
    preparation_: Preparation | None = None
    node_column_: str | None
    n_features_in_: int
    _kind: str
    _schema: Schema | None

    def models_for(self, labels: list[Label]) -> dict[Label, Any]:
        """Return the unfitted model of every node."""
        given = self.estimator
        if isinstance(given, str) and given == "auto":
            plan = getattr(self, "plan_", None)
            given = None if plan is None else plan.model
        if given is None:
            regressor = self._kind == "regression"
            given = Ridge() if regressor else LogisticRegression(max_iter=1000)
        if isinstance(given, Mapping):
            missing = [label for label in labels if label not in given]
            if missing:
                raise FedRelaxError(f"the dict of models has none for {named('node', missing)}")
            return {label: given[label] for label in labels}
        if callable(given) and not hasattr(given, "fit") and not is_net(given):
            return {label: given(label) for label in labels}
        return dict.fromkeys(labels, given)

    def _one_node(self, rows: int) -> list[Label]:
        """Return the label of the only node, once for every row."""
        if self.graph is not None and len(self.graph) > 1:
            raise FedRelaxError(
                f"the graph has {len(self.graph)} nodes, but fit got no nodes; pass one label "
                "per row: fit(X, y, nodes=...)"
            )
        return [self.graph.labels[0] if self.graph is not None else 0] * rows

    def _check_target(self, y: AnyArray) -> AnyArray:
        return y

    def _checked(self, X: Any, y: Any, nodes: Any) -> tuple[FloatArray, AnyArray, RowGroups]:
        """Return rows in the shared form, checked targets, and the row numbers of every node.

        Row numbers are arranged by what rows hold, so that nothing drawn from them depends on their order.
        """
        X, nodes, self.node_column_ = split_off_nodes(X, nodes)
        coded, y = self._coded_with_target(X, y)
        y = self._check_target(y)
        if self._kind == "regression":
            check_sizes(y, lambda k: "the target" if y.ndim == 1 else f"target {k}")
        rows = group_rows(self._one_node(len(coded)) if nodes is None else nodes, len(coded))
        first: tuple[Label, ...] = ()
        if isinstance(self.graph, Graph):
            large = 8 * len(self.graph) * coded.shape[1] >= CACHE_BYTES
            first = self.graph.neighbours_together() if large else self.graph.labels
        rows = rows.arranged(coded, y, self._kind, first)
        return self._agree(coded, rows), y, rows

    def prepare(self, X: Any, nodes: Any, train: AnyArray) -> FloatArray:
        """Settle what the columns of a table mean and return its rows in the shared form.

        ``train`` marks the rows whose values may be looked at.
        """
        X, nodes, _ = split_off_nodes(X, nodes)
        coded, seen = self._coded_at_first(X), np.asarray(nodes, dtype=object)[train]
        self._agree(coded[train], group_rows(seen, len(seen)))
        ready = self.preparation_
        return coded if ready is None else ready.rows(coded, group_rows(nodes, len(coded)))

    def common_rows(self, X: Any, nodes: Any) -> FloatArray:
        """Return rows of a table in the shared form that ``fit`` or ``prepare`` has settled."""
        if self.preparation_ is None:
            return np.asarray(X, dtype=float)
        X, nodes, _ = split_off_nodes(X, nodes)
        groups = group_rows(nodes, len(X))
        return self.preparation_.rows(self._coded_later(X, groups), groups)

    # From user input to one number per column

    def _coded_with_target(self, X: Any, y: Any) -> tuple[FloatArray, AnyArray]:
        """Return coded rows and checked targets."""
        numeric = self._kind == "regression"
        if numeric and y is not None:
            _refuse_other_targets(y)
        coded = self._coded_at_first(X)
        if y is None:
            validate_data(self, coded, y, allow_nd=True)  # scikit-learn's own message
        coded, y = check_X_y(
            coded,
            y,
            dtype=float,
            allow_nd=True,
            ensure_all_finite="allow-nan",
            multi_output=True,
            y_numeric=numeric,
            estimator=self,
        )
        return coded, y

    def _coded_at_first(self, X: Any) -> FloatArray:
        """Return rows coded by the given schema, or by one inferred from them."""
        if is_frame(X):
            X = as_frame(X)
            validate_data(self, X, skip_check_array=True)
            self._schema = self._agreed_schema()
            if self._schema is not None:
                return self._schema.code(X, "X")
            self._schema, table, notes = coded_table(X)
            for note in notes:
                warnings.warn(note, FedRelaxWarning, stacklevel=4)
            return table
        usable = {"dtype": float, "allow_nd": True, "ensure_all_finite": "allow-nan"}
        coded: FloatArray = validate_data(self, X, **usable)
        check_sizes(coded, lambda k: f"column {k} of X")
        self._schema = self._agreed_schema() or _schema_of_array(coded, self._own_models)
        if self._schema is not None and coded.shape[1:] != (len(self._schema.columns),):
            raise FedRelaxError(
                f"X has shape {coded.shape}, but the schema has {len(self._schema.columns)} columns; give "
                "a DataFrame with these columns"
            )
        return coded

    def _coded_later(self, X: Any, labels: Any) -> FloatArray:
        """Return coded rows for prediction, from a table or from an array like that of training."""
        ready = self.preparation_
        if ready is not None and is_frame(X):
            frame = as_frame(X)
            texts = {str(kind) for kind in frame.dtypes} & {"object", "str", "string"}
            left_out = len(ready.schema.columns) < self.n_features_in_
            if texts or left_out or not ready.is_plain:
                coded = ready.schema.code(frame, "X", absent=ready.absent(labels))
                if ready.is_plain:
                    _refuse_gaps(coded)
                return coded
        if ready is None or ready.is_plain:
            plain = validate_data(
                self, X, reset=False, dtype=float, allow_nd=True, ensure_all_finite="allow-nan"
            )
            _refuse_gaps(plain)
            check_sizes(plain, lambda k: f"column {k} of X")
            return np.asarray(plain)
        coded = np.asarray(X, dtype=float)
        if coded.ndim != 2 or coded.shape[1] != len(ready.schema.columns):
            raise FedRelaxError(
                f"X has shape {coded.shape}, but training had {len(ready.schema.columns)} columns"
            )
        return coded

    def _agreed_schema(self) -> Schema | None:
        """Return the schema that the user has agreed on beforehand, if any."""
        if isinstance(self.schema, str | Path):
            return Schema.read(self.schema)
        if self.schema is None or isinstance(self.schema, Schema):
            return self.schema
        raise FedRelaxError(
            f"schema={self.schema!r} must be a fedrelax.schema.Schema or the path of a JSON file"
        )

    # What nodes share

    @property
    def _own_models(self) -> bool:
        """Whether the models are this package's choice, not the user's."""
        return isinstance(self.estimator, str) or self.estimator is None

    def _agree(self, coded: FloatArray, rows: Mapping[Label, AnyArray]) -> FloatArray:
        """Settle the form in which rows are shared, and return the rows in it."""
        if self._schema is None:
            self.preparation_ = None
            return coded
        models = {} if self._own_models else self.models_for(list(rows))
        numbers = all(
            form_of(model) == ENCODED for model in distinct(models, models.values()).values()
        )
        ready = Preparation.of(self._schema, coded, rows, measure=self.schema is None)
        if not ready.is_plain and (not numbers or (ready.lacks and not self._own_models)):
            ready = Preparation(ready.schema, False, ready.lacks)
        self.preparation_ = ready
        return ready.rows(coded, rows)

    def _views(self, models: dict[Label, Model]) -> dict[Label, Any]:
        """Return the models, each wrapped in its own view of the rows if these are not plain numbers."""
        ready = self.preparation_
        if ready is None or ready.encoded:
            return models
        wrapped: dict[tuple[int, tuple[int, ...]], Seen] = {}
        views = {}
        for label, model in models.items():
            columns = tuple(ready.has(label))
            if not columns:
                raise FedRelaxError(
                    f"node {label!r} has no value in any feature column; fill one in, or leave its rows out"
                )
            key = id(model), columns
            if key not in wrapped:
                wrapped[key] = seen(model, View(ready.schema, columns, form_of(model)))
            views[label] = wrapped[key]
        return views


def _schema_of_array(X: AnyArray, always: bool) -> Schema | None:
    """Return a schema for an array with gaps or extreme columns, or ``always``; None for any other."""
    if X.ndim != 2 or not len(X):
        return None
    if not always and not np.isnan(X.min()):
        pairs = zip(*map(np.ndarray.tolist, centre_and_spread(X)), strict=True)
        if not any(is_extreme(*rounded(centre, spread)) for centre, spread in pairs):
            return None
    return Schema(tuple(Column(f"x{k}", "number") for k in range(X.shape[1])))


def _refuse_gaps(X: AnyArray) -> None:
    if np.isnan(X).any():
        row = int(np.argwhere(np.isnan(X))[0][0])
        raise FedRelaxError(
            f"X has a missing value (NaN) in row {row}, but training had none; fill it in"
        )


def _refuse_other_targets(y: Any) -> None:
    """Refuse dates and text as the targets of a regression."""
    targets = np.asarray(y)
    try:
        if targets.dtype.kind not in "mM":
            targets.astype(float)
            return
    except (TypeError, ValueError):
        pass
    raise FedRelaxError(
        f"y holds {str(targets.flat[0])!r}, which a regressor cannot predict; give numbers, such as days "
        "since a date, or use FedRelaxClassifier for classes"
    )
