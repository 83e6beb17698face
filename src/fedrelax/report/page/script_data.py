"""What the page's script reads: one list per column, nodes as indices, and numbers of five digits.

Five digits are more than a picture shows, and shrink the file to a third.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fedrelax.evaluation import ALONE, POOLED, TOGETHER
from fedrelax.evaluation.evaluation import NAMES
from fedrelax.report.data import ReportData, columns
from fedrelax.report.data.layout import MOST_EDGES, Places, places_of
from fedrelax.report.data.rounding import numbers, thinned
from fedrelax.report.data.sharing import sharing_of
from fedrelax.report.palette import CURVES
from fedrelax.storage import SavedResult
from fedrelax.wiring import WIRINGS

MOST_POINTS = 200_000
"""The most points of the nodes' own curves; with more, some rounds are left out."""
MOST_ROUNDS = 400


def script_data(data: ReportData) -> dict[str, Any]:
    """Return everything that the page draws."""
    edges, measure, evaluation = data.edges(MOST_EDGES), data.measure, data.evaluation
    # three digits are shown of errors of the usual size
    errors = [error for error in data.column(TOGETHER) or () if error is not None and error > 0]
    usual = float(np.median(errors)) if errors else None
    if evaluation is not None:
        usual = evaluation.errors[TOGETHER] or evaluation.errors[ALONE]
    values = {column.key: column.to_list(data) for column in columns.NODES}
    nodes = {key: column for key, column in values.items() if column is not None}
    assert data.saved is not None
    neighbours = sharing_of(data.saved).neighbours
    nodes["neighbours"] = [neighbours.get(label) for label in data.graph.labels]
    keep = thinned(len(data.history), MOST_ROUNDS)
    return {
        "measure": {
            "scale": measure.scale,
            "unit": measure.unit,
            "decimals": measure.decimals(usual),
        },
        "labels": data.labels,
        "table": [[one.key, one.title, one.kind] for one in columns.NODES if one.key in nodes],
        "nodes": {**nodes, **place_columns(places_of(data.graph, edges))},
        "edges": edges.to_dict(),
        "wired": data.rewired,
        "rounds": {name: numbers(data.history[name][keep]) for name in ("round", *CURVES)},
        "curves": _curves(data),
        "kept": data.n_rounds,
        "intervals": _intervals(data),
        "candidates": _candidates(data.saved),
    }


def place_columns(stand: Places) -> dict[str, Any]:
    """Return where the nodes are drawn, and what the distances between them mean."""
    x, y = (axis.tolist() for axis in np.round(stand.points, 4).T)
    unit = None if stand.unit is None else float(f"{stand.unit:.5g}")
    return {"x": x, "y": y, "place": stand.kind, "unit": unit}


def _intervals(data: ReportData) -> list[dict[str, Any]]:
    """Return by how much the error together is lower than alone and pooled, over nodes."""
    intervals = []
    if data.evaluation is None:
        return []
    for way in (ALONE, POOLED):
        compared = data.evaluation.against(way)
        gap = compared.interval
        if gap is not None and compared.equal < compared.nodes:
            ends = zip(("mean", "low", "high"), numbers([gap.mean, gap.low, gap.high]), strict=True)
            intervals.append({"name": f"against {NAMES[way]}", **dict(ends)})
    return intervals


def _curves(data: ReportData) -> dict[str, Any]:
    """Return each node's own curves, in the order of the graph's nodes."""
    history = data.history
    keep = thinned(len(history), max(20, MOST_POINTS // max(len(history.labels), 1)))
    curves: dict[str, Any] = {"round": history["round"][keep].tolist(), "rounds": len(history)}
    for name in (name for name in CURVES if name != "objective"):
        values = history[f"node_{name}"][keep].T
        if np.isfinite(values).any():
            own = dict(zip(history.labels, map(numbers, values), strict=True))
            curves[name] = [own.get(label) for label in data.graph.labels]
    return curves


def _candidates(saved: SavedResult) -> list[dict[str, Any]]:
    """Return the validation loss of every candidate after every round, and which was chosen."""
    table, about = saved.choice, saved.about
    if table is None:
        return []
    lines, chosen = [], _candidate_name(about["wiring"], about.get("level"))
    for _, part in table.groupby((table["round"] == 0).cumsum(), sort=False):
        wired, alpha, level = (part[name].iloc[0] for name in ("wiring", "alpha", "level"))
        name, losses = _candidate_name(wired, level), part["validation_loss"].to_numpy(float)
        wiring = WIRINGS[wired]().paced(len(losses) - 1) if wired in WIRINGS else None
        settled = [wiring is None or wiring.settled(k) for k in range(len(losses))]
        counted = np.where(np.isfinite(losses) & settled, losses, np.inf)
        best = int(np.argmin(counted)) if np.isfinite(counted).any() else len(losses) - 1
        keep = thinned(len(losses), MOST_ROUNDS)
        least, last = numbers(losses[[best, -1]])
        same = np.isclose(alpha, about["alpha"], 1e-9, 0.0)
        lines.append(
            {
                "wiring": name,
                "alpha": float(f"{alpha:.5g}"),
                "round": keep.tolist(),
                "loss": numbers(losses[keep]),
                "last": last,
                "best": least,
                "bestRound": best,
                "chosen": bool(same and (name == chosen or alpha == 0)),
            }
        )
    return lines


def _candidate_name(wiring: str, level: float | None) -> str:
    """Return the name of a wiring, and the share of the level where that is not 1."""
    return wiring if level in (None, 1.0) else f"{wiring}, level {level:g}"
