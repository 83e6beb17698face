"""Saving a trained network as a directory that appears completely or not at all.

==================  =================================================================
result.json         task, classes, features, the graph's nodes, alpha, rounds, versions, and the
                    SHA-256 checksums of all files below but the models and reports
schema.json         what the columns mean, and within which limits models see them
models.json         node, file, format, kind and checksum of every model
models/             one file per node, in a format of ``storage.formats``
metrics.json        the errors on the test rows and the verdict
nodes.csv           a line per node: rows and errors
edges.csv           the whole graph, with the final discrepancy each way
positions.csv       where the nodes are, if the graph was made from coordinates
history.csv         a line per round
history_nodes.csv   a line per round and node
alphas.csv          the validation loss of every candidate, if alpha or wiring was chosen
living.json         what the network needs to go on: coupling, story, whose answers are in which file
public.npy          the common public rows; answers.npy: every node's predictions on them
config.toml         the settings; ``fedrelax fit --config`` reads them again
==================  =================================================================
"""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic_core import to_json

from fedrelax.errors import FedRelaxError
from fedrelax.estimators import FedRelaxClassifier, FedRelaxRegressor
from fedrelax.evaluation import Evaluation
from fedrelax.files import dump_toml, to_npy
from fedrelax.living import LivingNetwork
from fedrelax.living.changes import now
from fedrelax.models import LocalModel
from fedrelax.models.difference import DifferenceModel
from fedrelax.models.viewed import Viewed, form_in
from fedrelax.schema import Preparation, Schema
from fedrelax.solvers import Result
from fedrelax.storage.checking import fingerprint
from fedrelax.storage.described import ANSWERS, LIVING, PUBLIC
from fedrelax.storage.formats import Files, Packed, answers_one_row, keeps_unfitted, pack
from fedrelax.storage.labels import check_labels
from fedrelax.storage.places import MARK, MODELS, whole_directory
from fedrelax.typing import DataFrame, Label
from fedrelax.wiring import wiring_name

if TYPE_CHECKING:
    from fedrelax.storage.loading import SavedResult

FORMAT = 4
"""The version of this layout; a reader refuses what it does not know."""

SCHEMA = "schema.json"

UNTOUCHED = ("config.toml", "history.csv", "alphas.csv")
"""Files that say nothing about single nodes: a grown result has its ancestor's."""

RUNNING = ("wiring", "exchange", "engine", "n_jobs", "random_state")
"""Settings of the run that trained the network, which nodes that join, learn or leave do not need."""

FRAMEWORKS = ("torch", "keras", "xgboost", "lightgbm")
"""Packages whose versions are noted if they are in use."""

Fitted = FedRelaxRegressor | FedRelaxClassifier


def save_result(
    directory: str | Path,
    fitted: Fitted,
    *,
    nodes: Any = None,
    metrics: Mapping[str, Any] | None = None,
    evaluation: Evaluation | None = None,
    config: Mapping[str, Any] | None = None,
    comment: str = "",
    feature_names: Sequence[str] | None = None,
    node_column: str | None = None,
    target: str | None = None,
    overwrite: bool = False,
    more: Sequence[Callable[[Path], object]] = (),
) -> Path:
    """Write a fitted estimator and what is known about it to a new directory; return its path.

    ``evaluation`` is what ``fedrelax.evaluation.evaluate`` returns; ``nodes``, a DataFrame with a
    line per node, may replace its table of nodes. ``metrics`` and ``config`` are plain values. Each of
    ``more`` is called with the draft directory and may add files before the result appears.
    """
    files: Files = {}
    result: Result = fitted.result_
    check_labels(fitted.whole_graph_.labels)
    models = [_packed(fitted, label, files) for label in result.local_models]
    ready: Preparation | None = fitted.preparation_
    if ready is not None and feature_names is not None:
        named = zip(ready.schema.columns, feature_names, strict=True)
        columns = tuple(replace(column, name=str(name)) for column, name in named)
        ready = replace(ready, schema=Schema(columns))
    if evaluation is not None:
        metrics = {**(metrics or {}), **evaluation.to_dict()}
        nodes = evaluation.nodes if nodes is None else nodes
    if nodes is None:
        nodes = _names(result, result.local_models)
    contents = {
        **_network(fitted, _clustered(nodes, result) if result.clusters else nodes, ready),
        "metrics.json": metrics or {},
        "history.csv": result.history.to_frame(),
        "history_nodes.csv": result.history.nodes_to_frame(),
        "config.toml": dump_toml(config or {}, comment).encode(),
    }
    if fitted.choice_ is not None:
        contents["alphas.csv"] = fitted.choice_.to_frame()
    if fitted.can_go_on and not (isinstance(fitted.public, str) and fitted.public == "bootstrap"):
        contents |= _living(fitted.living_)  # else public rows are nodes' own rows, and stay out
    about = {
        **_about(fitted, feature_names),
        "node_column": node_column if node_column is not None else fitted.node_column_,
        "target_column": target,
    }
    with whole_directory(directory, overwrite) as draft:
        _write(draft, models, contents, about)
        for write in more:  # their files have no checksums
            write(draft)
    return Path(directory)


def save_grown(
    directory: str | Path,
    ancestor: SavedResult,
    fitted: Fitted,
    *,
    overwrite: bool = False,
) -> Path:
    """Write a loaded result that has changed to a new directory.

    ``fitted`` was loaded from ``ancestor``, which is never written to; its files are copied where nothing
    has changed. Nothing about nodes that have left is carried over.
    """
    target, earlier = Path(directory), ancestor.about
    if target.exists() and target.samefile(ancestor.directory):
        raise FedRelaxError(
            f"{target} is the result that was loaded, which is never replaced; choose another directory"
        )
    network, graph, ready = fitted.living_, fitted.whole_graph_, fitted.preparation_
    check_labels(graph.labels)
    left = set(earlier["graph_nodes"]) - set(graph.labels)
    if ready is not None:
        lacks = {label: columns for label, columns in ready.lacks.items() if label not in left}
        ready = replace(ready, lacks=lacks)
    lines = {line["node"]: line for line in ancestor.models}
    models = [
        _packed(fitted, label)
        if label in network.models.changed
        else (lines[label], ancestor.packed(lines[label]))
        for label in network.models
    ]
    assert ancestor.living is not None
    rounds, files = ancestor.history_nodes, ancestor.files
    contents = {
        **_network(fitted, _grown_nodes(ancestor, fitted), ready),
        **{name: files.read(name) for name in UNTOUCHED if name in files.recorded},
        **_living(network, ancestor.living["story"]),
        "metrics.json": {**ancestor.metrics, "nodes": len(models), "edges": graph.n_edges},
        "history_nodes.csv": rounds[~rounds["node"].isin(left)],
    }
    now_there = {"made": now(), "versions": versions(), "graph_nodes": list(graph.labels)}
    with whole_directory(target, overwrite) as draft:
        _write(draft, models, contents, {**earlier, **now_there})
    return target


def _packed(
    fitted: Fitted, label: Label, files: Files | None = None
) -> tuple[dict[str, Any], Packed]:
    """Return what ``models.json`` says of a model, but for its file, and the model as bytes."""
    local, ready = fitted.result_.local_models[label], fitted.preparation_
    packed = pack(label, local.estimator, files)
    line = {
        "node": label,
        "format": packed.format.name,
        "rows": form_in(local),
        "answers": answers_one_row(local, fitted.n_features_in_ if ready is None else ready.width),
        "sha256": fingerprint(packed.data),
    }
    return line, packed


def _write(
    draft: Path,
    packed: Iterable[tuple[dict[str, Any], Packed]],
    contents: Mapping[str, Any],
    about: Mapping[str, Any],
) -> None:
    """Write models, all other files, and ``result.json`` with what is known and their checksums.

    ``contents`` has tables, plain values or bytes, by the names of their files.
    """
    (draft / MODELS).mkdir()
    models, types = [], set(about.get("types_to_trust", ()))
    for number, (line, one) in enumerate(packed, start=1):
        models.append({**line, "file": f"{MODELS}/{number:04d}{one.format.ending}"})
        (draft / models[-1]["file"]).write_bytes(one.data)
        types |= set(one.types)
    for name, content in {**contents, "models.json": models}.items():
        if isinstance(content, bytes):
            (draft / name).write_bytes(content)
        elif name.endswith(".csv"):
            content.to_csv(draft / name, index=False)
        else:
            write_json(draft / name, content)
    files = {p.name: fingerprint(p.read_bytes()) for p in sorted(draft.iterdir()) if p.is_file()}
    write_json(draft / MARK, {**about, "types_to_trust": sorted(types), "files": files})


def _network(fitted: Fitted, nodes: DataFrame, ready: Preparation | None) -> dict[str, Any]:
    """Return the files of nodes, edges and columns."""
    import pandas as pd

    graph = fitted.whole_graph_
    contents = {"nodes.csv": nodes, "edges.csv": fitted.result_.edges_to_frame(graph)}
    if graph.positions is not None:
        axes = [f"x{k + 1}" for k in range(graph.positions.shape[1])]
        axes = ["latitude", "longitude"] if graph.geographic else axes
        contents["positions.csv"] = pd.DataFrame(graph.positions, columns=axes)
        contents["positions.csv"].insert(0, "node", list(graph.labels))
    return contents if ready is None else {**contents, SCHEMA: ready.to_dict()}


def _names(result: Result, labels: Iterable[Label]) -> DataFrame:
    """Return a table of nodes with the names of their models."""
    import pandas as pd

    named = [(label, result.local_models[label].name) for label in labels]
    return pd.DataFrame(named, columns=["node", "model"])


def _clustered(nodes: DataFrame, result: Result) -> DataFrame:
    """Return a table of nodes with the number of each one's cluster."""
    groups = {label: k for k, group in enumerate(result.clusters, start=1) for label in group}
    return nodes.assign(cluster=[groups.get(label) for label in nodes["node"]])


def write_json(path: Path, value: Any) -> None:
    """Write plain values; a number that is not finite becomes null, as JSON has nothing better."""
    text = to_json(value, indent=2, inf_nan_mode="null", fallback=_builtin)
    path.write_bytes(text + b"\n")


def plain(value: Any) -> Any:
    """Return a value in JSON's own types.

    >>> plain({"a": np.float64("nan"), "b": (np.int64(1), True)})
    {'a': None, 'b': [1, True]}
    """
    return json.loads(to_json(value, inf_nan_mode="null", fallback=_builtin))


def _builtin(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else value.tolist()


def _exchanges(fitted: Fitted) -> int:
    """Return how often nodes said what they predict: after their first training, and after every round.

    Boosting starts from what all know, so nodes speak once in each round. What they say in the rounds of
    partial pooling is counted apart.
    """
    result = fitted.result_
    if result.engine == "pooling":
        return 0
    if fitted.alpha_ == 0 or result.engine == "boosting":
        return int(result.n_rounds) if fitted.alpha_ > 0 else 0
    return max(len(result.history), int(result.n_rounds) + 1)


def _about(fitted: Fitted, feature_names: Sequence[str] | None) -> dict[str, Any]:
    result, graph = fitted.result_, fitted.whole_graph_
    task = result.task
    own = getattr(fitted, "feature_names_in_", None)
    names = feature_names if feature_names is not None else own
    if names is None:
        names = [f"x{k}" for k in range(fitted.n_features_in_)]
    public, seed, choice, losses = fitted.public, fitted.random_state, fitted.choice_, result.losses
    if isinstance(public, str):
        drawn, size = public, fitted.public_rows_
    else:
        sets = public.values() if isinstance(public, Mapping) else [public]
        drawn, size = "given", max(map(len, sets))
    return {
        "format": FORMAT,
        "made": now(),
        "versions": versions(),
        "task": task.kind,
        "outputs": task.n_outputs,
        "classes": None if task.classes is None else task.classes.tolist(),
        "classes_are_objects": task.classes is not None and task.classes.dtype == object,
        "feature_names": [str(name) for name in names],
        "features_by_name": own is not None,
        "graph_nodes": list(graph.labels),
        "geographic": graph.geographic,
        "alpha": fitted.alpha_,
        "update": fitted.update_,
        "wiring": "fixed" if result.kept is None else wiring_name(fitted.wiring_),
        "rounds": result.n_rounds,
        "exchanges": _exchanges(fitted),
        "reason": result.reason,
        "public": {"how": drawn, "rows": size},
        "losses": losses,
        "engine": result.engine,
        "public_for_each_node": isinstance(public, Mapping),
        "objective": fitted.settings().objective,
        "seed": int(seed) if isinstance(seed, int | np.integer) else None,
        "choice": None if choice is None else choice.reason,
        "better": None if choice is None else choice.better,
        "level": fitted.level_,
        "around": list(result.around),
        "promises": [asdict(promise) for promise in result.promises],
        "by_default": fitted.default_ is not None,
        "pooled_numbers": fitted.plan_.pooled_numbers,
    }


def versions() -> dict[str, str]:
    """Return the versions of Python and the packages that a result is made with."""
    from importlib.metadata import version

    packages = ("fedrelax", "scikit-learn", "numpy", "scipy", "skops")
    used = [name for name in FRAMEWORKS if sys.modules.get(name) is not None]
    return {
        "python": platform.python_version(),
        **{name: version(name) for name in packages},
        **{name: str(sys.modules[name].__version__) for name in used},
    }


def _living(network: LivingNetwork, story: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """Return what the network needs to go on, if files can express it; ``story`` is what came before."""
    try:
        coupling = network.coupling.to_plain(without=RUNNING)
    except FedRelaxError:  # a loss or a way to combine that is not known by its name alone
        return {}
    labels, differences = list(network.models), network.coupling.update == "difference"
    if differences and not all(keeps_unfitted(_kind_of(m)) for m in network.models.values()):
        return {}
    about = {
        "coupling": coupling,
        "found_together": network.found_together,
        "seed": network.seed,
        "stayed": [label for label in labels if label in network.stayed],
        "nodes": labels,
        "rows": [network.count_of(label) for label in labels],
        "story": [*story, *(change.to_dict() for change in network.story)],
    }
    answers = np.stack([network.said[label] for label in labels]).astype(float)
    public = network.public_rows.astype(float)
    return {PUBLIC: to_npy(public), ANSWERS: to_npy(answers), LIVING: about}


def _kind_of(model: LocalModel) -> Any:
    """Return the unfitted model of a node that learns its difference."""
    inner = model.inner if isinstance(model, Viewed) else model
    return inner.kind if isinstance(inner, DifferenceModel) else inner.estimator


def _grown_nodes(ancestor: SavedResult, fitted: Fitted) -> DataFrame:
    """Return a line per node; errors are those measured when the network was trained."""
    import pandas as pd

    result, lines = fitted.result_, ancestor.nodes
    known = set(lines["node"])
    joined = _names(result, [label for label in result.local_models if label not in known])
    if len(joined):
        count = next((c for c in ("rows", "train_rows") if c in lines.columns), None)
        if count is not None:
            joined[count] = [fitted.living_.count_of(label) for label in joined["node"]]
        lines = pd.concat([lines, joined], ignore_index=True)
    lines = lines[lines["node"].isin(list(result.local_models))]
    return _clustered(lines, result) if "cluster" in lines.columns else lines
