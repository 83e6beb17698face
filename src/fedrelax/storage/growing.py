"""Saving a network that has changed: what is new is written, the rest is linked to its ancestor's files."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedrelax.errors import FedRelaxError
from fedrelax.living.changelog import now
from fedrelax.living.overlay import GONE
from fedrelax.storage import saving
from fedrelax.storage.formats import pack
from fedrelax.storage.labels import check_labels
from fedrelax.storage.living import LIVING, PUBLIC, living_of, with_answers
from fedrelax.storage.loading import SavedResult
from fedrelax.storage.places import whole_directory
from fedrelax.typing import Label

UNTOUCHED = ("config.toml", "history.csv", "alphas.csv", PUBLIC)
"""Files that say nothing about single nodes, so that the ancestor's are used."""


def save_grown(
    directory: str | Path,
    ancestor: SavedResult,
    fitted: saving.Fitted,
    *,
    overwrite: bool = False,
    more: Sequence[Callable[[Path], object]] = (),
) -> Path:
    """Write a loaded result that has changed to a new directory, which links to what is unchanged.

    ``fitted`` was loaded from ``ancestor``, which is never written to. Where links are impossible, files
    are copied. Nothing about nodes that have left is carried over.
    """
    target = Path(directory)
    if target.exists() and target.samefile(ancestor.directory):
        raise FedRelaxError(
            f"{target} is the result that was loaded, which is never replaced; choose another directory"
        )
    network, graph = fitted.living_, fitted.whole_graph_
    check_labels(graph.labels)
    fresh = {label: m for label, m in network.models.changed.items() if m is not GONE}
    packed = {label: pack(label, model.estimator) for label, model in fresh.items()}
    with whole_directory(target, overwrite) as draft:
        saving.write_json(draft / "models.json", _models(draft, ancestor, fitted, fresh, packed))
        for name in UNTOUCHED:
            if name in ancestor.about["files"]:
                link(ancestor.directory / name, draft / name)
        _write_tables(draft, ancestor, fitted)
        before, parent = ancestor.living, {k: ancestor.about[k] for k in ("made", "sha256")}
        coupled = living_of(network, ancestor.task.kind)
        assert before is not None and coupled is not None
        ancestors = [*before["ancestors"], parent]
        living = with_answers(draft, network, coupled, before["story"], ancestors)
        saving.write_json(draft / LIVING, living)
        about = {
            **{k: v for k, v in ancestor.about.items() if k not in ("files", "sha256")},
            "made": now(),
            "versions": saving.versions(),
            "graph_nodes": list(graph.labels),
            "types_to_trust": sorted(
                set(ancestor.about["types_to_trust"])
                | {name for file in packed.values() for name in file.types}
            ),
        }
        saving.seal(draft, about, more)
    return target


def link(source: Path, target: Path) -> None:
    """Hard-link a file, or copy it where the file system has no links."""
    try:
        os.link(source.resolve(), target)
    except OSError:
        shutil.copyfile(source, target)


def _models(
    draft: Path, ancestor: SavedResult, fitted: saving.Fitted, fresh: dict[Label, Any], packed: Any
) -> list[dict[str, Any]]:
    """Link or write all models, and return their entries in ``models.json``."""
    (draft / "models").mkdir()
    ready = fitted.preparation_
    width = fitted.n_features_in_ if ready is None else ready.width
    first = {line["node"]: line for line in ancestor.models}
    names = [re.match(r"\d+", Path(line["file"]).name) for line in ancestor.models]
    number, lines = max(int(name[0]) if name else 0 for name in names), []
    for label in fitted.result_.local_models:
        if label in fresh:
            number += 1
            lines.append(
                saving.write_model(draft, number, label, fresh[label], packed[label], width)
            )
        else:
            line = first[label]
            link(ancestor.directory / line["file"], draft / line["file"])
            lines.append(line)
    return lines


def _write_tables(draft: Path, ancestor: SavedResult, fitted: saving.Fitted) -> None:
    """Write the files about single nodes, without those who left."""
    result, graph = fitted.result_, fitted.whole_graph_
    labels = list(result.local_models)
    left = set(ancestor.about["graph_nodes"]) - set(graph.labels)
    _nodes(ancestor, fitted, labels).to_csv(draft / "nodes.csv", index=False)
    saving.write_graph(draft, result, graph)
    counts = {"nodes": len(labels), "edges": graph.n_edges}
    saving.write_json(draft / "metrics.json", {**ancestor.metrics, **counts})
    lines = ancestor.history_nodes
    if left:
        lines[~lines["node"].isin(left)].to_csv(draft / "history_nodes.csv", index=False)
    else:
        link(ancestor.directory / "history_nodes.csv", draft / "history_nodes.csv")
    ready = fitted.preparation_
    if ready is not None:
        lacks = {label: columns for label, columns in ready.lacks.items() if label not in left}
        saving.write_json(draft / saving.SCHEMA, replace(ready, lacks=lacks).to_dict())


def _nodes(ancestor: SavedResult, fitted: saving.Fitted, labels: list[Label]) -> Any:
    """Return a line per node; errors are those measured when the network was trained."""
    import pandas as pd

    network, result = fitted.living_, fitted.result_
    known = set(ancestor.nodes["node"])
    new = [label for label in labels if label not in known]
    lines = pd.DataFrame({"node": new, "model": [result.local_models[i].name for i in new]})
    count = next((c for c in ("rows", "train_rows") if c in ancestor.nodes.columns), None)
    if count is not None:
        lines[count] = [network.count_of(label) for label in new]
    lines = pd.concat([ancestor.nodes, lines], ignore_index=True) if new else ancestor.nodes
    lines = lines[lines["node"].isin(labels)]
    return saving.with_clusters(lines, result) if "cluster" in lines.columns else lines
