"""The numbers of a saved result in the form in which the page's script reads them.

Tables become lists by column, nodes become numbers, and numbers keep five digits: more than a
picture shows, and a third of the file's size.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fedrelax.report.edges import EdgeTable, edge_table
from fedrelax.report.gains import saving, summary_of
from fedrelax.report.layout import places
from fedrelax.report.numbers import decimals, numbers, thinned
from fedrelax.report.sharing import BYTES, Sharing, sharing_of
from fedrelax.report.units import axis_labels
from fedrelax.storage import SavedResult
from fedrelax.typing import FloatArray

MOST_POINTS = 200_000
"""Points of the nodes' own curves; with more, some rounds are left out."""
MOST_ROUNDS = 400
COLUMNS = {"rows": "rows", "test": "test_rows", "alone": "alone", "pooled": "pooled",
           "together": "fedrelax", "gain": "gain_percent", "cluster": "cluster"}  # fmt: skip


def page_data(saved: SavedResult) -> dict[str, Any]:
    """Return everything that the page draws."""
    edges, shared = edge_table(saved), sharing_of(saved)
    return {
        "measure": saved.metrics.get("measure"),
        "percent": saved.metrics.get("measure") == "error rate",
        "decimals": decimals(saved.metrics.get("errors", {}).get("fedrelax")),
        "labels": axis_labels(saved),
        "nodes": {**_nodes(saved, shared), **_places(saved, edges)},
        "edges": edges.to_dict(),
        "wired": saved.about["wiring"] != "fixed",
        "rounds": _rounds(saved),
        "curves": _curves(saved),
        "kept": saved.about["rounds"],
        "intervals": _intervals(saved),
        "choice": _choice(saved),
    }


def _nodes(saved: SavedResult, shared: Sharing) -> dict[str, Any]:
    """Return the nodes of the whole graph by column; those without a model have only a name."""
    labels = saved.graph.labels
    lines = saved.nodes.set_index(saved.nodes["node"].map(str)).reindex([str(k) for k in labels])
    own = {line["node"] for line in saved.models}
    found: dict[str, Any] = {
        "name": [str(label) for label in labels],
        "model": [
            str(kind) if label in own else None
            for label, kind in zip(labels, lines["model"], strict=True)
        ],
        "neighbours": [shared.neighbours.get(label) for label in labels],
        "sent": [BYTES * shared.numbers(label) if label in own else None for label in labels],
    }
    for name, column in COLUMNS.items():
        if column in lines:
            found[name] = numbers(lines[column])
    return found


def _places(saved: SavedResult, edges: EdgeTable) -> dict[str, Any]:
    graph = saved.graph
    ends, strength = edges.for_layout()
    found = places(graph.positions, graph.geographic, ends, strength, len(graph))
    points = np.round(found.points, 4)
    unit = None if found.unit is None else float(f"{found.unit:.5g}")
    x, y = (axis.tolist() for axis in points.T)
    return {"x": x, "y": y, "place": found.kind, "unit": unit}


def _intervals(saved: SavedResult) -> list[dict[str, Any]]:
    """Return by how much the error together is lower than alone and pooled, over nodes."""
    summary, found = summary_of(saved), []
    for against, name in (
        ("alone", "against each node alone"),
        ("pooled", "against one pooled model"),
    ):
        gap = None if summary is None else saving(summary, against).interval
        if gap is not None:
            mean, low, high = numbers([gap.mean, gap.low, gap.high])
            found.append({"name": name, "mean": mean, "low": low, "high": high})
    return found


def _rounds(saved: SavedResult) -> dict[str, Any]:
    """Return the totals of every round, thinned where there are very many."""
    lines = saved.history.iloc[thinned(len(saved.history), MOST_ROUNDS)]
    names = ("round", "local_loss", "gtv", "objective", "validation_loss")
    return {name: numbers(lines[name]) for name in names}


def _curves(saved: SavedResult) -> dict[str, Any]:
    """Return each node's own curves, in the order of the graph's nodes."""
    frame = saved.history_nodes
    rounds = np.unique(frame["round"].to_numpy())
    own = frame["node"].tolist()[: len(frame) // max(len(rounds), 1)]
    shape = (len(rounds), len(own))
    keep = thinned(len(rounds), max(20, MOST_POINTS // max(len(own), 1)))
    place = {str(label): k for k, label in enumerate(saved.graph.labels)}
    found: dict[str, Any] = {"round": rounds[keep].tolist(), "rounds": len(rounds)}
    for name in ("local_loss", "gtv", "validation_loss"):
        values: FloatArray = frame[name].to_numpy(float).reshape(shape)[keep].T
        if not np.isfinite(values).any():
            continue
        lists: list[Any] = [None] * len(place)
        for label, value in zip(own, values, strict=True):
            lists[place[str(label)]] = numbers(value)
        found[name] = lists
    return found


def _choice(saved: SavedResult) -> dict[str, Any] | None:
    """Return the validation loss of every candidate after every round, and which was chosen."""
    if saved.choice is None:
        return None
    lines = []
    for (wiring, alpha), part in saved.choice.groupby(["wiring", "alpha"], sort=False):
        keep = thinned(len(part), MOST_ROUNDS)
        loss = part["validation_loss"].to_numpy(float)
        best = int(np.nanargmin(loss)) if np.isfinite(loss).any() else 0
        lines.append(
            {
                "wiring": str(wiring),
                "alpha": float(f"{alpha:.5g}"),
                "round": part["round"].to_numpy()[keep].tolist(),
                "loss": numbers(loss[keep]),
                "last": numbers(loss[-1:])[0],
                "best": numbers(loss[best : best + 1])[0],
                "bestRound": best,
                "chosen": _is_chosen(saved, str(wiring), float(alpha)),
            }
        )
    return {"candidates": lines, "alpha": saved.about["alpha"], "rounds": saved.about["rounds"]}


def _is_chosen(saved: SavedResult, wiring: str, alpha: float) -> bool:
    same = bool(np.isclose(alpha, saved.about["alpha"], rtol=1e-9, atol=0.0))
    return same and (wiring == saved.about["wiring"] or alpha == 0)
