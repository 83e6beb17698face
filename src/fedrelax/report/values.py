"""One value per node of a result, by which a graph can be coloured, with its name and unit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fedrelax.errors import FedRelaxError, did_you_mean
from fedrelax.evaluation import MEASURES
from fedrelax.report.summary import Summary, gains
from fedrelax.report.units import labels_of
from fedrelax.solvers import Result
from fedrelax.typing import FloatArray

COLOURS = ("gain", "error", "validation", "loss", "disagreement", "cluster", "model")
FIELDS = {
    "validation": "node_validation_loss",
    "loss": "node_local_loss",
    "disagreement": "node_gtv",
}
UNKNOWN = "units of the run's loss"


@dataclass(frozen=True, eq=False)
class NodeValues:
    """``kind`` is "gain" (around 0), "number" or "category"; nodes without a value have NaN or None."""

    label: str
    values: Any
    kind: str = "number"


def axis_names(result: Result) -> dict[str, str]:
    """Return the labels of a result's quantities; the target's name and unit are not known to it."""
    losses = result.losses or (UNKNOWN, UNKNOWN)
    return labels_of(losses, "target", not result.task.is_classification)


def at_the_end(result: Result, field: str) -> FloatArray:
    """Return a quantity of every node for the models that are kept: of round 0 where a node stayed."""
    records = result.history.records
    last = getattr(records[min(result.n_rounds, len(records) - 1)], field)
    first = getattr(records[0], field)
    stayed = [label in result.stayed for label in result.history.labels]
    return np.asarray(np.where(stayed, first, last))


def errors_by_node(result: Result, table: Any) -> Any:
    """Return alone, fedrelax, gain (and pooled) by node of a table such as ``compare`` returns."""
    nodes = table.nodes if isinstance(table, Summary) else table
    nodes = nodes[0] if isinstance(nodes, tuple) else nodes
    columns = set(getattr(nodes, "columns", ()))
    if not {"node", "fedrelax"} <= columns or not {"local", "alone"} & columns:
        raise FedRelaxError(
            "table has no columns node, local and fedrelax; pass what fedrelax.evaluation.compare "
            "returns, or a fedrelax.report.Summary"
        )
    lines = nodes.rename(columns={"local": "alone"}).set_index("node", drop=False)
    missing = [label for label in result.graph.labels if label not in lines.index]
    if missing:
        raise FedRelaxError(f"table has no line for node {missing[0]!r}")
    lines = lines.loc[list(result.graph.labels)]
    lines["gain"] = gains(lines["alone"].to_numpy(), lines["fedrelax"].to_numpy())
    return lines


def validation_by_node(result: Result) -> Any:
    """Return the same columns from the validation losses of round 0 and of the models kept, or None."""
    import pandas as pd

    first = result.history.records[0].node_validation_loss
    if not np.isfinite(first).any():
        return None
    last = at_the_end(result, FIELDS["validation"])
    columns = {"node": list(result.graph.labels), "alone": first, "fedrelax": last}
    return pd.DataFrame({**columns, "gain": gains(first, last)})


def usual_colour(result: Result, table: Any) -> str:
    """Return what a graph is coloured by if nobody says: the gain where it is known."""
    if table is not None or validation_by_node(result) is not None:
        return "gain"
    return "loss" if result.kept is None else "cluster"


def node_values(result: Result, colour: str, table: Any = None) -> NodeValues:
    """Return the values for a colour, or say what they need."""
    names = axis_names(result)
    if colour == "gain":
        lines = validation_by_node(result) if table is None else errors_by_node(result, table)
        if lines is None:
            raise FedRelaxError(_needs_table("colour='gain'"))
        of = "validation loss" if table is None else "error"
        return NodeValues(f"gain against alone (% of the {of} alone)", lines["gain"], "gain")
    if colour == "error":
        if table is None:
            raise FedRelaxError(
                "colour='error' needs errors on test rows; pass table=, what "
                "fedrelax.evaluation.compare returns"
            )
        errors = errors_by_node(result, table)["fedrelax"].to_numpy(float)
        percent = MEASURES[result.task.kind] == "error rate"
        return NodeValues(f"together: {names['error']}", errors * (100.0 if percent else 1.0))
    if colour == "cluster":
        return _clusters(result)
    if colour == "model":
        models = [result.local_models[label].name for label in result.graph.labels]
        return NodeValues("kind of model", models, "category")
    if colour not in FIELDS:
        raise FedRelaxError(
            f"colour={colour!r} must be one of {', '.join(COLOURS)}{did_you_mean(colour, COLOURS)}"
        )
    values = at_the_end(result, FIELDS[colour])
    if not np.isfinite(values).any():
        raise FedRelaxError(
            f"colour={colour!r} needs rows that were held out; fit with validation_share=0.2"
        )
    return NodeValues(names["nodeGtv" if colour == "disagreement" else colour], values)


def _needs_table(what: str) -> str:
    return (
        f"{what} needs errors, and no rows were held out in the rounds; pass table=, what "
        "fedrelax.evaluation.compare returns, or fit with validation_share=0.2"
    )


def _clusters(result: Result) -> NodeValues:
    if result.kept is None:
        raise FedRelaxError(
            "colour='cluster' needs a graph that was rewired; fit with wiring='rewire' or 'auto'"
        )
    number = {label: k for k, group in enumerate(result.clusters, start=1) for label in group}
    values = [number[label] for label in result.graph.labels]
    return NodeValues("group found by the wiring", values, "category")
