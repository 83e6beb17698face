"""Reading a saved result: its numbers without any model, or an estimator that predicts."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedrelax.errors import FedRelaxError, did_you_mean
from fedrelax.estimators import FedRelaxClassifier, FedRelaxRegressor
from fedrelax.graph import Graph
from fedrelax.models import LocalModel, Task, adapt
from fedrelax.runtime import History, Record
from fedrelax.solvers import Result
from fedrelax.storage.formats import Packed, format_named, types_to_trust, unpack
from fedrelax.storage.labels import by_text
from fedrelax.storage.places import MARK, is_result
from fedrelax.storage.saving import FORMAT, Fitted
from fedrelax.storage.trust import read_bytes, refusal
from fedrelax.typing import Label

LABEL_COLUMNS = ("node", "source", "target")
TEXT_COLUMNS = ("model", "wiring")


@dataclass(frozen=True, eq=False)
class SavedResult:
    """All that a result says without loading a model. The frames are those of the CSV files."""

    directory: Path
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
    choice: Any = None
    """The validation loss of every candidate and round, if alpha or wiring was chosen."""


def read_result(directory: str | Path) -> SavedResult:
    """Read a result's numbers; no model is loaded, so nothing needs to be trusted."""
    directory = Path(directory)
    if not is_result(directory):
        what = "is not a result of fedrelax" if directory.exists() else "does not exist"
        raise FedRelaxError(f"{directory} {what}; give a directory that fedrelax fit has written")
    about = _json(directory / MARK)
    if about.get("format") != FORMAT:
        raise FedRelaxError(
            f"{directory} has the format {about.get('format')!r} and this version of fedrelax reads "
            f"{FORMAT}; install the version that wrote it ({about.get('versions')})"
        )
    labels = by_text(about["graph_nodes"])
    edges = _frame(directory / "edges.csv", labels)
    chosen = directory / "alphas.csv"
    return SavedResult(
        directory=directory,
        about=about,
        models=_json(directory / "models.json"),
        metrics=_json(directory / "metrics.json"),
        config=tomllib.loads((directory / "config.toml").read_text(encoding="utf-8")),
        nodes=_frame(directory / "nodes.csv", labels),
        edges=edges,
        history=_frame(directory / "history.csv", labels),
        history_nodes=_frame(directory / "history_nodes.csv", labels),
        graph=_graph(directory, about, edges, labels),
        task=_task(about),
        choice=_frame(chosen, labels) if chosen.is_file() else None,
    )


def load_result(directory: str | Path, trust: Sequence[str] = ()) -> Fitted:
    """Return the fitted estimator of a result, ready to predict.

    ``trust`` names types of other packages (``package.module.Class``) that may be made. Without
    it, models of foreign classes are refused with a sentence that lists their types.
    """
    saved = read_result(directory)
    models = _load_models(saved, list(trust))
    about, task = saved.about, saved.task
    kind = FedRelaxClassifier if task.is_classification else FedRelaxRegressor
    fitted: Fitted = kind(graph=saved.graph, alpha=about["alpha"], rounds=about["rounds"])
    fitted.result_ = Result(
        local_models=models,
        alone={},
        task=task,
        graph=saved.graph.subgraph(list(models)),
        discrepancies=_discrepancies(saved.edges),
        history=_history(saved, list(models)),
        n_rounds=about["rounds"],
        reason=about["reason"],
        kept=_kept(saved, list(models)),
    )
    fitted.alpha_, fitted.wiring_ = about["alpha"], about["wiring"]
    fitted.graph_, fitted.history_ = fitted.result_.graph, fitted.result_.history
    fitted.models_, fitted.n_rounds_ = fitted.result_.models, about["rounds"]
    fitted.node_column_ = about["node_column"] if about["features_by_name"] else None
    fitted._whole_graph = saved.graph
    fitted.n_features_in_ = len(about["feature_names"])
    if about["features_by_name"]:
        fitted.feature_names_in_ = np.asarray(about["feature_names"], dtype=object)
    return fitted


def _load_models(saved: SavedResult, trust: list[str]) -> dict[Label, LocalModel]:
    files = {line["node"]: _packed(saved, line) for line in saved.models}
    needed = {label: types_to_trust(label, packed) for label, packed in files.items()}
    refused = {label: [t for t in types if t not in trust] for label, types in needed.items()}
    refused = {label: types for label, types in refused.items() if types}
    if refused:
        types = {t for found in refused.values() for t in found}
        mistyped = [name for name in trust if did_you_mean(name, types)]
        hint = f" ({mistyped[0]!r}, which is trusted, is another name)" if mistyped else ""
        raise FedRelaxError(refusal(refused, types) + hint)
    return {label: adapt(unpack(label, file, trust), saved.task) for label, file in files.items()}


def _packed(saved: SavedResult, line: dict[str, Any]) -> Packed:
    """Return a model's file; results from before there were formats hold skops files."""
    form = format_named(line.get("format", "skops"))
    return Packed(form, read_bytes(saved.directory / line["file"]))


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise FedRelaxError(f"{path} cannot be read ({error}); run the fit again") from error


def _frame(path: Path, labels: dict[str, Label]) -> Any:
    """Read a CSV file of ours; the columns that hold nodes get their labels back."""
    import pandas as pd

    try:
        frame = pd.read_csv(path, dtype=str, keep_default_na=False)
    except (OSError, ValueError) as error:
        raise FedRelaxError(f"{path} cannot be read ({error}); run the fit again") from error
    for column in frame.columns:
        if column in LABEL_COLUMNS:
            found = np.empty(len(frame), dtype=object)
            found[:] = [labels.get(text, text) for text in frame[column]]
            frame[column] = found
        elif column not in TEXT_COLUMNS:
            frame[column] = _numbers(frame[column].tolist())
    return frame


def _numbers(texts: list[str]) -> Any:
    """Return whole numbers where all are, else floats that are exactly those written."""
    if all(text.removeprefix("-").isdecimal() for text in texts):
        return np.array([int(text) for text in texts], dtype=np.int64)
    return np.array([float(text or "nan") for text in texts])


def _task(about: dict[str, Any]) -> Task:
    classes = about["classes"]
    if classes is None:
        return Task(about["task"], about["outputs"])
    dtype = object if about["classes_are_objects"] else None
    return Task(about["task"], about["outputs"], np.asarray(classes, dtype=dtype))


def _graph(directory: Path, about: dict[str, Any], edges: Any, labels: dict[str, Label]) -> Graph:
    rows = zip(edges["source"], edges["target"], edges["weight"].astype(float), strict=True)
    graph = Graph.from_edges(list(rows), labels=about["graph_nodes"])
    if not (directory / "positions.csv").exists():
        return graph
    places = _frame(directory / "positions.csv", labels).drop(columns="node").to_numpy(float)
    return Graph(graph.adjacency, graph.labels, places, about["geographic"])


def _kept(saved: SavedResult, labels: list[Label]) -> Graph | None:
    """Return the graph of the last rounds, if it was rewired."""
    if saved.about["wiring"] == "fixed":
        return None
    used = saved.edges[saved.edges["used"].astype(float) > 0]
    rows = zip(used["source"], used["target"], used["used"].astype(float), strict=True)
    whole = Graph.from_edges(list(rows), labels=saved.about["graph_nodes"])
    places, geographic = saved.graph.positions, saved.graph.geographic
    return Graph(whole.adjacency, whole.labels, places, geographic).subgraph(labels)


def _discrepancies(edges: Any) -> dict[tuple[Label, Label], float]:
    known = edges[edges["discrepancy"].notna()]
    there = zip(known["source"], known["target"], strict=True)
    back = zip(known["target"], known["source"], strict=True)
    return dict(zip(there, known["discrepancy"], strict=True)) | dict(
        zip(back, known["discrepancy_back"], strict=True)
    )


def _history(saved: SavedResult, labels: list[Label]) -> History:
    history = History(tuple(labels))
    per_round = dict(iter(saved.history_nodes.groupby("round", sort=False)))
    for line in saved.history.to_dict("records"):
        own = per_round[line["round"]]
        columns = ("local_loss", "gtv", "validation_loss")
        nodes = {f"node_{name}": own[name].to_numpy(float) for name in columns}
        history.records.append(Record(**{**line, "round": int(line["round"])}, **nodes))
    return history
