"""From settings to everything that training needs, checked before any work is done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fedrelax.cli.config import look_here_for_modules
from fedrelax.cli.graphs import make_graph, parse_graph
from fedrelax.cli.settings import LearningConfig, parts_of
from fedrelax.cli.splitting import NONE, Splitting, splitting_of
from fedrelax.datasets import Table, prepare_table, read_table
from fedrelax.errors import FedRelaxError, did_you_mean, listing
from fedrelax.estimators import FedRelaxClassifier, FedRelaxRegressor
from fedrelax.graph import Graph
from fedrelax.linear.arrays import centre_and_spread
from fedrelax.models import LinearModel, SoftmaxModel
from fedrelax.models.names import model_by_name
from fedrelax.public import DRAWS
from fedrelax.schema import Preparation, Schema
from fedrelax.schema.kinds import find_column, where
from fedrelax.schema.reading import PARQUET_ENDINGS, TEXT_ENDINGS
from fedrelax.solvers import FedRelax
from fedrelax.splits import group_rows
from fedrelax.storage import SavedResult
from fedrelax.storage.labels import by_text, check_labels, find_label
from fedrelax.storage.saving import Fitted
from fedrelax.typing import AnyArray, DataFrame, FloatArray, Label

if TYPE_CHECKING:
    from pandas import Series


@dataclass(frozen=True, eq=False)
class Inputs:
    """The rows, who trains on which, the graph, and the name of every node's model."""

    X: FloatArray
    """One number per row and column of the schema; see ``datasets.Table``."""
    y: AnyArray
    nodes: AnyArray
    train: AnyArray
    test: AnyArray
    task: str
    feature_names: tuple[str, ...]
    graph: Graph | None
    """None for ``--graph complete``: no pair of nodes is nearer than another."""
    model_names: dict[Label, str]
    public: str | FloatArray
    splitting: Splitting
    schema: Schema | None = None

    def rows(self, mask: AnyArray) -> tuple[FloatArray, AnyArray, AnyArray]:
        """Return features, targets and nodes of the rows that a mask marks."""
        return self.X[mask], self.y[mask], self.nodes[mask]

    def estimator(self, config: LearningConfig, train: AnyArray) -> Fitted:
        """Return the estimator for these training rows, of which alone it knows, not yet fitted."""
        X, _, nodes = self.rows(train)
        schema, plain, names = self.schema, True, self.model_names
        if schema is not None:
            rows, measure = group_rows(nodes, len(nodes)), config.schema is None
            # the estimator alone encodes the rows
            ready = Preparation.of(schema, X, rows, encoded=False, measure=measure)
            schema, plain = ready.schema, ready.is_plain
        made = {name: model_by_name(name, self.task) for name in dict.fromkeys(names.values())}
        for model in made.values():
            if plain and isinstance(model, LinearModel | SoftmaxModel):
                # so that one penalty suits all units
                model.set_params(scale=centre_and_spread(X)[1].tolist())
        kind = FedRelaxRegressor if self.task == "regression" else FedRelaxClassifier
        return kind(
            "auto" if set(made) == {"auto"} else {label: made[names[label]] for label in names},
            graph=self.graph,
            public=self.public,
            schema=schema,
            solver=FedRelax(update=config.update) if config.update != "auto" else None,
            **config.estimator_arguments(),
        )


def read_inputs(config: LearningConfig, note: Callable[[str], None]) -> Inputs:
    """Read and check the table, the graph, the names of the models and the public rows."""
    spec = parse_graph(config.graph)
    for name in {config.model, *config.model_for.values()}:
        if ":" in name:
            look_here_for_modules()
        else:  # a mistyped name need not wait for the table
            model_by_name(name, "classification")
    schema = None if config.schema is None else Schema.read(config.schema)
    frame = read_table(config.data, as_text=[config.node])
    features = None
    if config.features is not None:  # what is not a column is split at its commas
        names = [[text] if text in frame.columns else parts_of(text) for text in config.features]
        features = [find_column(frame, name) for some in names for name in some]
    places, split = [find_column(frame, name) for name in spec.columns], []
    if config.split_by is not None and (config.split_by != NONE or NONE in frame.columns):
        split = [find_column(frame, config.split_by)]  # no feature unless named as one
    table = prepare_table(
        frame,
        node=config.node,
        target=config.target,
        features=features,
        task=config.task,
        exclude=[] if features else [*places, *split],
        schema=schema,
    )
    for text in table.notes:
        note(text)
    column = frame[find_column(frame, config.node)].dropna()
    gone = set(column) - set(column[column.index.isin(frame.index[table.row_index])])
    if gone:
        note(f"No complete row, so no model: {listing(sorted(gone, key=str), most=3)}.")
    if places and features is None:
        note(f"{listing(places)}: coordinates, not features; --features can name them as both.")
    model_names, public = _model_names(config, table), _public_rows(config.public, table.schema)
    splitting = splitting_of(config, frame, table, note)
    train, test = splitting.masks(table.nodes, note)
    graph = make_graph(spec, frame, table, note)
    check_labels(list(model_names) if graph is None else graph.labels)
    return Inputs(
        X=table.X,
        y=table.y,
        nodes=table.nodes,
        train=train,
        test=test,
        task=table.task,
        feature_names=table.feature_names,
        graph=graph,
        model_names=model_names,
        public=public,
        splitting=splitting,
        schema=table.schema,
    )


def _model_names(config: LearningConfig, table: Table) -> dict[Label, str]:
    """Return the name of every node's model."""
    labels = list(dict.fromkeys(table.nodes.tolist()))
    names = dict.fromkeys(labels, config.model)
    by_name = by_text(labels)
    for text, name in config.model_for.items():
        label = find_label(text, by_name)
        if label is None:
            hint = did_you_mean(text, by_name) or f"; the table has {listing(labels, most=3)}"
            raise FedRelaxError(f"--model-for names the node {text!r}, which has no rows{hint}")
        names[label] = name
    return names


def _public_rows(text: str, schema: Schema) -> str | FloatArray:
    """Return the name of a way to draw rows, or the rows of a file with the same columns."""
    if text in DRAWS:
        return text
    file = Path(text)
    if file.suffix.lower() not in TEXT_ENDINGS + PARQUET_ENDINGS:
        raise FedRelaxError(
            f"--public {text!r} is neither a way to draw public rows ({', '.join(DRAWS)}) nor a "
            f"table file{did_you_mean(text, DRAWS)}"
        )
    coded = schema.code(read_table(file), f"--public {file}")
    empty = np.flatnonzero(np.isnan(coded).all(axis=0))
    if len(empty):
        raise FedRelaxError(
            f"--public {file}: column {schema.columns[int(empty[0])].name!r} is empty; fill it in"
        )
    return coded


def node_column(frame: DataFrame, saved: SavedResult, data: Path) -> Series:
    """Return the column that names the node of each row."""
    try:
        column = frame[find_column(frame, saved.about["node_column"])]
    except FedRelaxError as error:
        raise FedRelaxError(f"{data}: {error}") from None
    missing = column.isna().to_numpy()
    if missing.any():
        raise FedRelaxError(
            f"{data}: column {column.name!r} names no node in {missing.sum()} rows, the first on "
            f"{where(frame.index, int(missing.argmax()))}; fill it in"
        )
    return column


def nodes_in(frame: DataFrame, saved: SavedResult, data: Path, refuse: bool) -> AnyArray:
    """Return the label of every row's node; ``refuse`` those that are not in the graph."""
    own = [line["node"] for line in saved.models]
    if saved.about["node_column"] is None and len(own) == 1:
        return np.array(own * len(frame), dtype=object)  # a site's own folder: all rows are its own
    by_name = by_text(saved.graph.labels)
    values = node_column(frame, saved, data).tolist()
    labels = {value: find_label(value, by_name) for value in dict.fromkeys(values)}
    strange = [value for value, label in labels.items() if label is None]
    if strange and refuse:
        rows = sum(labels[value] is None for value in values)
        hint = did_you_mean(strange[0], by_name)
        raise FedRelaxError(
            f"{data}: {rows} rows belong to nodes that are neither in the training data nor in the "
            f"graph: {listing(strange)}{hint}; leave these rows out, or fit again with these nodes"
        )
    found = [str(value) if labels[value] is None else labels[value] for value in values]
    return np.array(found, dtype=object)
