"""Saving a trained network as a directory that appears completely or not at all.

==================  =================================================================
result.json         task, classes, features, the graph's nodes, alpha, rounds, versions, and the size
                    and SHA-256 checksum of all files below but the models and reports
schema.json         what the columns mean, and within which limits models see them
models.json         node, file, format, kind, size and checksum of every model
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

import datetime
import json
import platform
import re
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedrelax.errors import FedRelaxError
from fedrelax.estimators import FedRelaxClassifier, FedRelaxRegressor
from fedrelax.evaluation import Evaluation
from fedrelax.files import dump_toml, to_npy
from fedrelax.graph import Graph
from fedrelax.living.changelog import now
from fedrelax.living.overlay import GONE
from fedrelax.models.criteria import last_step
from fedrelax.models.viewed import form_in
from fedrelax.schema import Preparation, Schema
from fedrelax.solvers import Result
from fedrelax.storage.checking import fingerprint, sealed
from fedrelax.storage.formats import Files, Packed, answers_one_row, pack
from fedrelax.storage.labels import check_labels, file_name
from fedrelax.storage.living import LIVING, PUBLIC, living_of, with_answers
from fedrelax.storage.places import MARK, whole_directory
from fedrelax.typing import Label
from fedrelax.wiring import wiring_name

if TYPE_CHECKING:
    import pandas as pd

    from fedrelax.storage.loading import SavedResult

FORMAT = 3
"""The version of this layout; a reader refuses what it does not know."""

SCHEMA = "schema.json"

UNTOUCHED = ("config.toml", "history.csv", "alphas.csv", PUBLIC)
"""Files that say nothing about single nodes: a grown result has its ancestor's."""

FRAMEWORKS = ("torch", "keras", "xgboost", "lightgbm", "catboost", "river")
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
    result: Result = fitted.result_
    graph: Graph = fitted.whole_graph_
    check_labels(graph.labels)
    files: Files = {}
    packed = {label: pack(label, model, files) for label, model in result.models.items()}
    with whole_directory(directory, overwrite) as draft:
        _write_models(draft, fitted, packed)
        if fitted.preparation_ is not None:
            ready: Preparation = fitted.preparation_
            if feature_names is not None:
                named = zip(ready.schema.columns, feature_names, strict=True)
                columns = tuple(replace(column, name=str(name)) for column, name in named)
                ready = replace(ready, schema=Schema(columns))
            write_json(draft / SCHEMA, ready.to_dict())
        measured = {} if evaluation is None else evaluation.to_dict()
        write_json(draft / "metrics.json", {**(metrics or {}), **measured})
        (draft / "config.toml").write_text(dump_toml(config or {}, comment), encoding="utf-8")
        _nodes_frame(result, nodes, evaluation).to_csv(draft / "nodes.csv", index=False)
        _write_graph(draft, result, graph)
        result.history.to_frame().to_csv(draft / "history.csv", index=False)
        result.history.nodes_to_frame().to_csv(draft / "history_nodes.csv", index=False)
        if fitted.choice_ is not None:
            fitted.choice_.to_frame().to_csv(draft / "alphas.csv", index=False)
        _write_living(draft, fitted)
        about = {
            **_about(fitted, graph, feature_names),
            "node_column": node_column if node_column is not None else fitted.node_column_,
            "target_column": target,
            "types_to_trust": sorted({name for file in packed.values() for name in file.types}),
        }
        _seal(draft, about, more)
    return Path(directory)


def save_grown(
    directory: str | Path,
    ancestor: SavedResult,
    fitted: Fitted,
    *,
    overwrite: bool = False,
    more: Sequence[Callable[[Path], object]] = (),
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
    network, graph, result = fitted.living_, fitted.whole_graph_, fitted.result_
    check_labels(graph.labels)
    changed = {label: model for label, model in network.models.changed.items() if model is not GONE}
    packed = {label: pack(label, model.estimator) for label, model in changed.items()}
    left = set(earlier["graph_nodes"]) - set(graph.labels)
    with whole_directory(target, overwrite) as draft:
        _write_models(draft, fitted, packed, ancestor)
        for name in UNTOUCHED if left else (*UNTOUCHED, "history_nodes.csv"):
            if name in earlier["files"]:
                shutil.copyfile(ancestor.directory / name, draft / name)
        if left:
            lines = ancestor.history_nodes
            lines[~lines["node"].isin(left)].to_csv(draft / "history_nodes.csv", index=False)
        _grown_nodes(ancestor, fitted).to_csv(draft / "nodes.csv", index=False)
        _write_graph(draft, result, graph)
        counts = {"nodes": len(result.local_models), "edges": graph.n_edges}
        write_json(draft / "metrics.json", {**ancestor.metrics, **counts})
        ready = fitted.preparation_
        if ready is not None:
            lacks = {label: columns for label, columns in ready.lacks.items() if label not in left}
            write_json(draft / SCHEMA, replace(ready, lacks=lacks).to_dict())
        before, coupled = ancestor.living, living_of(network)
        assert before is not None and coupled is not None
        write_json(draft / LIVING, with_answers(draft, network, coupled, before["story"]))
        types = {name for file in packed.values() for name in file.types}
        about = {
            **{name: value for name, value in earlier.items() if name not in ("files", "sha256")},
            "made": now(),
            "versions": versions(),
            "graph_nodes": list(graph.labels),
            "types_to_trust": sorted({*earlier["types_to_trust"], *types}),
        }
        _seal(draft, about, more)
    return target


def _seal(draft: Path, about: Mapping[str, Any], more: Sequence[Callable[[Path], object]]) -> None:
    """Write ``result.json`` with the checksums of all files; then those of ``more``, which have none."""
    files = [path for path in sorted(draft.iterdir()) if path.is_file()]
    checked = {path.name: fingerprint(path.read_bytes()) for path in files}
    write_json(draft / MARK, sealed(plain({**about, "files": checked})))
    for write in more:
        write(draft)


def write_json(path: Path, value: Any) -> None:
    """Write plain values; a number that is not finite becomes null, as JSON has nothing better."""
    path.write_text(
        json.dumps(plain(value), indent=2, ensure_ascii=False, allow_nan=False) + "\n",
        encoding="utf-8",
    )


def plain(value: Any) -> Any:
    """Return a value in JSON's own types.

    >>> plain({"a": np.float64("nan"), "b": (np.int64(1), True)})
    {'a': None, 'b': [1, True]}
    """
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, float) and not np.isfinite(value):
        return None
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    return value


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


def _about(fitted: Fitted, graph: Graph, feature_names: Sequence[str] | None) -> dict[str, Any]:
    result: Result = fitted.result_
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
        "losses": None if losses is None else dict(zip(("own_rows", "edges"), losses, strict=True)),
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


def _write_models(
    draft: Path, fitted: Fitted, packed: Mapping[Label, Packed], ancestor: SavedResult | None = None
) -> None:
    """Write ``models.json`` and the packed models; all others are copies of the ancestor's."""
    (draft / "models").mkdir()
    earlier = {} if ancestor is None else {line["node"]: line for line in ancestor.models}
    numbers = [re.match(r"models/(\d+)", line["file"]) for line in earlier.values()]
    number, lines = max((int(match[1]) for match in numbers if match), default=0), []
    ready = fitted.preparation_
    width = fitted.n_features_in_ if ready is None else ready.width
    for label, local in fitted.result_.local_models.items():
        if label not in packed:
            assert ancestor is not None
            lines.append(earlier[label])
            file = lines[-1]["file"]
            shutil.copyfile(ancestor.directory / file, draft / file)
            continue
        number, form = number + 1, packed[label].format
        file, kind = (
            f"models/{file_name(number, label, form.ending)}",
            type(last_step(local.estimator)),
        )
        (draft / file).write_bytes(packed[label].data)
        lines.append(
            {
                "node": label,
                "file": file,
                "format": form.name,
                "type": f"{kind.__module__}.{kind.__qualname__}",
                "rows": form_in(local),
                "answers": answers_one_row(local, width),
                **fingerprint(packed[label].data),
            }
        )
    write_json(draft / "models.json", lines)


def _write_living(draft: Path, fitted: Fitted) -> None:
    """Write what the network needs to go on, if known; but never public rows that are nodes' own rows."""
    if fitted.can_go_on and not (isinstance(fitted.public, str) and fitted.public == "bootstrap"):
        network = fitted.living_
        about = living_of(network)
        if about is not None:
            assert network.public.common is not None
            (draft / PUBLIC).write_bytes(to_npy(network.public.common.astype(float)))
            write_json(draft / LIVING, with_answers(draft, network, about))


def _nodes_frame(result: Result, nodes: Any, evaluation: Evaluation | None) -> pd.DataFrame:
    import pandas as pd

    names = {label: model.name for label, model in result.local_models.items()}
    lines = pd.DataFrame({"node": list(names), "model": list(names.values())})
    if nodes is not None:
        lines = nodes
    elif evaluation is not None:
        lines = evaluation.nodes
    return _with_clusters(lines, result) if result.clusters else lines


def _grown_nodes(ancestor: SavedResult, fitted: Fitted) -> pd.DataFrame:
    """Return a line per node; errors are those measured when the network was trained."""
    import pandas as pd

    result, lines = fitted.result_, ancestor.nodes
    earlier = set(lines["node"])
    new = [label for label in result.local_models if label not in earlier]
    if new:
        joined = pd.DataFrame({"node": new, "model": [result.local_models[i].name for i in new]})
        count = next((c for c in ("rows", "train_rows") if c in lines.columns), None)
        if count is not None:
            joined[count] = [fitted.living_.count_of(label) for label in new]
        lines = pd.concat([lines, joined], ignore_index=True)
    lines = lines[lines["node"].isin(list(result.local_models))]
    return _with_clusters(lines, result) if "cluster" in lines.columns else lines


def _with_clusters(lines: pd.DataFrame, result: Result) -> pd.DataFrame:
    groups = {label: k for k, group in enumerate(result.clusters, start=1) for label in group}
    return lines.assign(cluster=[groups.get(label) for label in lines["node"]])


def _write_graph(draft: Path, result: Result, graph: Graph) -> None:
    """Write the edges, and the positions of the nodes if there are any."""
    import pandas as pd

    result.edges_to_frame(graph).to_csv(draft / "edges.csv", index=False)
    if graph.positions is not None:
        names = [f"x{k + 1}" for k in range(graph.positions.shape[1])]
        names = ["latitude", "longitude"] if graph.geographic else names
        frame = pd.DataFrame(graph.positions, columns=names)
        frame.insert(0, "node", list(graph.labels))
        frame.to_csv(draft / "positions.csv", index=False)
