"""Reading a saved result: its numbers without the models, or an estimator that predicts."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from fedrelax.errors import FedRelaxError
from fedrelax.estimators import FedRelaxClassifier, FedRelaxRegressor
from fedrelax.files import from_npy
from fedrelax.graph import Graph
from fedrelax.living.network import Origin
from fedrelax.models import LocalModel, Task, adapt
from fedrelax.models.difference import learning_again
from fedrelax.models.viewed import Viewed
from fedrelax.network.rows import public_rows
from fedrelax.runtime import History, Record, Settings
from fedrelax.runtime.history import TOTALS
from fedrelax.schema import Column, Preparation, Schema
from fedrelax.schema.kinds import where
from fedrelax.solvers import Result
from fedrelax.storage import described
from fedrelax.storage.checking import Damaged, Untrusted, read_inside, reading
from fedrelax.storage.child import try_files
from fedrelax.storage.described import ANSWERS, LIVING, PUBLIC
from fedrelax.storage.formats import BOOSTED, Packed, answers_one_row, format_named, unpack
from fedrelax.storage.labels import by_text
from fedrelax.storage.places import MARK, is_result
from fedrelax.storage.saving import FORMAT, SCHEMA, Fitted
from fedrelax.typing import AnyArray, DataFrame, FloatArray, Label
from fedrelax.wiring import as_wiring


@dataclass(frozen=True)
class ResultFiles:
    """The files beside ``result.json``, each with the checksum that it must have."""

    directory: Path
    recorded: dict[str, str]
    labels: dict[str, Label]
    """The label that each text stands for."""

    def read(self, name: str) -> bytes:
        """Return the content of a file."""
        if name not in self.recorded:
            raise Damaged(MARK, f"gives no checksum for {name}")
        return read_inside(self.directory, name, self.recorded[name], MARK)

    def frame(self, name: str, more: Iterable[str] = ()) -> Any:
        """Return one of the tables; see ``described.read_frame``."""
        return described.read_frame(self.read(name), name, self.labels, more)

    def json(self, name: str, kind: Any) -> Any:
        """Return the plain values of a JSON file, which must have the form of this kind."""
        return described.read_json(self.read(name), name, kind)

    def array(self, name: str) -> FloatArray:
        """Return an array of numbers."""
        with reading(name):
            return from_npy(self.read(name))


@dataclass(frozen=True, eq=False)
class SavedResult:
    """Everything in a result but the models. The frames are those of the CSV files."""

    files: ResultFiles
    about: dict[str, Any]
    models: list[dict[str, Any]]
    metrics: dict[str, Any]
    config: dict[str, Any]
    nodes: Any
    edges: Any
    history: Any
    history_nodes: Any
    graph: Graph
    task: Task
    preparation: Preparation | None = None
    """What the columns of the table mean, if rows came as a table."""
    choice: Any = None
    """The validation loss of every candidate and round, if alpha or wiring was chosen."""
    living: dict[str, Any] | None = None
    """What the network needs to go on, and what has happened to it since it was trained."""

    @property
    def directory(self) -> Path:
        """Where the result is."""
        return self.files.directory

    @cached_property
    def ready(self) -> Preparation:
        """What the columns mean; without a schema, they are numbers."""
        if self.preparation is not None:
            return self.preparation
        names = self.about["feature_names"]
        return Preparation(Schema(tuple(Column(name, "number") for name in names)))

    def width_of(self, line: dict[str, Any]) -> int:
        """Return the number of columns that a model sees, which may differ between nodes."""
        ready = self.ready
        return ready.width if ready.encoded else len(ready.view(line["node"], line["rows"]).names)

    def packed(self, line: dict[str, Any]) -> Packed:
        """Return the model that a line of ``models.json`` describes, as it is in its file."""
        content = read_inside(self.directory, line["file"], line["sha256"], "models.json")
        with reading(line["file"]):
            return Packed(format_named(line["format"]), content)


def read_result(directory: str | Path) -> SavedResult:
    """Read a result's numbers; no model is loaded, so nothing needs to be trusted.

    Every file must have the checksum that was recorded when it was saved.
    """
    directory = Path(directory)
    if not is_result(directory):
        what = "is not a result of fedrelax" if directory.exists() else "does not exist"
        raise FedRelaxError(f"{directory} {what}; give a directory that fedrelax fit has written")
    content = read_inside(directory, MARK, None, MARK)
    about = described.read_json(content, MARK, dict[str, Any])
    if about.get("format") != FORMAT:
        raise FedRelaxError(
            f"{directory} has the format {about.get('format')!r}, but this version of fedrelax reads "
            f"{FORMAT}; install the version that wrote it ({about.get('versions')})"
        )
    described.read_json(content, MARK, described.About)
    files = ResultFiles(directory, about["files"], by_text(about["graph_nodes"]))
    edges = files.frame("edges.csv")
    models = files.json("models.json", list[described.ModelLine])
    with reading("config.toml"):
        config = tomllib.loads(files.read("config.toml").decode())
    metrics = files.json("metrics.json", described.Metrics)
    nodes = files.frame("nodes.csv", described.MEASURED if metrics.get("errors") else ())
    described.check_nodes(models, nodes, about["graph_nodes"])
    dtype, classes = object if about["classes_are_objects"] else None, about["classes"]
    classes = None if classes is None else np.asarray(classes, dtype=dtype)
    return SavedResult(
        files=files,
        about=about,
        models=models,
        metrics=metrics,
        config=config,
        nodes=nodes,
        edges=edges,
        history=files.frame("history.csv"),
        history_nodes=files.frame("history_nodes.csv"),
        graph=_graph(files, about, edges),
        task=Task(about["task"], about["outputs"], classes),
        preparation=_preparation(files, about),
        choice=files.frame("alphas.csv") if "alphas.csv" in files.recorded else None,
        living=_living(files, about),
    )


def _living(files: ResultFiles, about: dict[str, Any]) -> dict[str, Any] | None:
    """Return what ``living.json`` says, unless it names unknown nodes."""
    if LIVING not in files.recorded:
        return None
    living: dict[str, Any] = files.json(LIVING, described.Living)
    for name in (PUBLIC, ANSWERS):
        files.read(name)
    named = {*living["nodes"], *living["stayed"]}
    if len(living["nodes"]) != len(living["rows"]) or not named <= set(about["graph_nodes"]):
        raise Damaged(LIVING, "names nodes that are not in the graph, or does not count their rows")
    return living


def load_result(directory: SavedResult | str | Path, trust: Sequence[str] = ()) -> Fitted:
    """Return the fitted estimator of a result, ready to predict.

    A result that was read already may be given instead of its directory.
    ``trust`` names types of other packages (``package.module.Class``) that may be created. Without
    it, models of foreign classes are refused with an error that lists their types.
    """
    saved = directory if isinstance(directory, SavedResult) else read_result(directory)
    history = history_of(saved, [line["node"] for line in saved.models])
    models = _load_models(saved, list(trust))
    about, task, living = saved.about, saved.task, saved.living
    kind = FedRelaxClassifier if task.is_classification else FedRelaxRegressor
    losses, by_name = about["losses"], about["features_by_name"]
    origin = _origin(saved, list(models))
    if origin is not None and about["update"] == "difference":
        models = {label: learning_again(model) for label, model in models.items()}
    result = Result(
        local_models=models,
        alone={},
        task=task,
        graph=saved.graph.subgraph(list(models)),
        discrepancies=_discrepancies(saved.edges),
        history=history,
        n_rounds=about["rounds"],
        reason=about["reason"],
        kept=_kept(saved, list(models)),
        losses=None if losses is None else tuple(losses),
        engine=about["engine"],
        stayed=() if living is None else tuple(living["stayed"]),
    )
    return kind.from_result(
        result,
        saved.graph,
        alpha=about["alpha"],
        wiring=as_wiring(about["wiring"]),
        update=about["update"],
        n_features=len(about["feature_names"]),
        feature_names=about["feature_names"] if by_name else None,
        node_column=about["node_column"] if by_name else None,
        preparation=saved.preparation,
        origin=origin,
    )


def _load_models(saved: SavedResult, trust: list[str]) -> dict[Label, LocalModel]:
    files, boosted = dict[Label, Packed](), list[tuple[Label, bytes, int]]()
    for line in saved.models:
        label = line["node"]
        files[label] = saved.packed(line)
        with reading(line["file"]):
            found = [part.data for part in files[label].parts if part.format.home == BOOSTED]
        boosted += [(label, data, saved.width_of(line)) for data in found]
    try_files(boosted)
    models, refused = dict[Label, LocalModel](), dict[Label, list[str]]()
    for line in saved.models:
        try:
            with reading(line["file"]):
                models[line["node"]] = _load_model(saved, line, files[line["node"]], trust)
        except Untrusted as error:
            refused[line["node"]] = error.types
    if refused:
        raise Untrusted(refused, [name for some in refused.values() for name in some])
    return models


def _load_model(saved: SavedResult, line: dict[str, Any], file: Packed, trust: list[str]) -> Any:
    """Return a node's model; one that answered a row of zeros when it was saved must do so again."""
    label = line["node"]
    model = adapt(unpack(label, file, trust), saved.task)
    if not saved.ready.encoded:
        model = Viewed(model, saved.ready.view(label, line["rows"]))
    width = saved.ready.width
    if line["answers"] and not answers_one_row(model, width):
        raise FedRelaxError(
            f"node {label!r}: its model does not predict {saved.task.n_outputs} finite "
            f"number{'s' * (saved.task.n_outputs != 1)} from {width} features"
        )
    return model


def _origin(saved: SavedResult, labels: Sequence[Label]) -> Origin | None:
    """Return what a network needs to go on."""
    living, files, ready, width = saved.living, saved.files, saved.ready, saved.ready.width
    if living is None:
        return None
    public = files.array(PUBLIC)
    if public.ndim < 2 or not len(public) or (public.ndim == 2 and public.shape[1] != width):
        raise Damaged(PUBLIC, f"has the shape {public.shape} where rows of {width} are needed")
    if np.isinf(public).any() or (ready.encoded and np.isnan(public).any()):  # else NaN is a gap
        raise Damaged(PUBLIC, "holds NaN or infinite values")
    answers = files.array(ANSWERS)
    shape = (len(living["nodes"]), len(public), saved.task.n_outputs)
    if answers.shape != shape or not np.isfinite(answers).all():
        raise Damaged(ANSWERS, f"has the shape {answers.shape}, or numbers that are not finite")
    place = {label: k for k, label in enumerate(living["nodes"])}
    if not place.keys() >= set(labels):
        raise Damaged(LIVING, "does not give the answers of all nodes")
    with reading(LIVING):
        return Origin(
            public=public_rows(saved.preparation, common=public),
            coupling=Settings.from_plain(living["coupling"]).coupling(saved.task.kind),
            found_together=living["found_together"],
            seed=living["seed"],
            answers=answers[[place[label] for label in labels]],
            counts=dict(zip(living["nodes"], living["rows"], strict=True)),
        )


def _preparation(files: ResultFiles, about: dict[str, Any]) -> Preparation | None:
    """Return what the columns mean, checked against the features and nodes of ``result.json``."""
    if SCHEMA not in files.recorded:
        return None
    values = files.json(SCHEMA, dict[str, Any])
    with reading(SCHEMA):
        ready = Preparation.from_dict(values, "")
        if ready.schema.column_names != about["feature_names"]:
            raise FedRelaxError("its columns do not match the features in result.json")
        strange = [label for label in ready.lacks if label not in about["graph_nodes"]]
        if strange:
            raise FedRelaxError(f"it names the node {strange[0]!r}, which is not in the graph")
        return ready


def _graph(files: ResultFiles, about: dict[str, Any], edges: Any) -> Graph:
    graph = _joined(edges, "weight", about)
    if "positions.csv" not in files.recorded:
        return graph
    frame = files.frame("positions.csv")
    with reading("positions.csv"):
        if frame["node"].tolist() != list(graph.labels):
            raise FedRelaxError("its nodes do not match the graph")
        places = frame.drop(columns="node").to_numpy(float)
        return Graph(graph.adjacency, graph.labels, places, about["geographic"])


@reading("edges.csv")
def _joined(edges: Any, weight: str, about: dict[str, Any]) -> Graph:
    """Return the graph of the edges with these weights, without positions."""
    rows = edges[["source", "target"]].assign(weight=edges[weight].astype(float))
    return Graph.from_edges(rows, labels=about["graph_nodes"])


def _kept(saved: SavedResult, labels: list[Label]) -> Graph | None:
    """Return the graph of the last rounds, if it was rewired."""
    if saved.about["wiring"] == "fixed":
        return None
    whole = _joined(saved.edges[saved.edges["used"].astype(float) > 0], "used", saved.about)
    places, geographic = saved.graph.positions, saved.graph.geographic
    return Graph(whole.adjacency, whole.labels, places, geographic).subgraph(labels)


def _discrepancies(edges: Any) -> dict[tuple[Label, Label], float]:
    columns = ["source", "target", "discrepancy", "discrepancy_back"]
    lines = edges.loc[edges["discrepancy"].notna(), columns].itertuples(index=False)
    return {
        ends: value
        for a, b, there, back in lines
        for ends, value in (((a, b), there), ((b, a), back))
    }


@reading("history_nodes.csv")
def history_of(saved: SavedResult, labels: list[Label]) -> History:
    """Return the rounds of a saved result."""
    history, rounds = History(tuple(labels)), saved.history_nodes.groupby("round", sort=False)
    for line, (number, own) in zip(saved.history.to_dict("records"), rounds, strict=True):
        if number != line["round"]:
            raise FedRelaxError("its rounds do not match history.csv")
        own = own.set_index("node").reindex(labels)  # nodes that joined later have NaN
        columns = ("local_loss", "gtv", "validation_loss")
        nodes = {f"node_{name}": own[name].to_numpy(float) for name in columns}
        totals = {name: line[name] for name in TOTALS}
        history.records.append(Record(**{**totals, "round": int(line["round"])}, **nodes))
    return history


# New rows


def coded_rows(
    saved: SavedResult, frame: DataFrame, nodes: Any, source: str, note: Callable[[str], None]
) -> FloatArray:
    """Return the rows as numbers, one per column of training; ``note`` is told what was not seen there.

    ``source`` is the name of the table in messages.
    """
    ready = saved.ready
    absent = ready.absent(nodes)
    coded = ready.schema.code(frame, source, absent=absent)

    def found(wrong: AnyArray, column: Column, what: str) -> str:
        first = where(frame.index, int(wrong[0]))
        return f"column {column.name!r} has {len(wrong)} values that {what}, the first on {first}"

    for column, values in zip(ready.schema.columns, coded.T, strict=True):
        gone = np.flatnonzero(np.isnan(values))
        if len(gone) and column.name not in absent and not column.gaps:
            text = found(gone, column, f"are missing or not a {column.kind}")
            if ready.is_plain:
                raise FedRelaxError(
                    f"{source}: {text}; training had none, so fill them in or leave these rows out"
                )
            if not ready.lacks:
                note(f"{text}; training had none, so they count as average.")
        new = np.flatnonzero(values == len(column.categories))
        if column.kind == "category" and len(new) and not column.others:
            text = found(new, column, "were not seen in training")
            note(f"{text}; they count as average.")
    return coded
