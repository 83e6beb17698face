"""The names and units of all axes of a page."""

from __future__ import annotations

from fedrelax.storage import SavedResult

USUAL = {"regression": "squared", "classification": "log"}


def axis_labels(saved: SavedResult) -> dict[str, str]:
    """Return the label of every quantity, with its unit. The target's own unit is not known."""
    target = shortened(saved.about.get("target_column") or "the target")
    usual = USUAL[saved.task.kind]
    losses = saved.about.get("losses") or {"own_rows": usual, "edges": usual}
    names = (losses["own_rows"], losses["edges"])
    return labels_of(names, target, saved.metrics.get("measure") == "RMSE")


def labels_of(losses: tuple[str, str], target: str, numeric: bool) -> dict[str, str]:
    """Return the labels by the names of the losses on own rows and across edges."""
    own, across = (loss_unit(name, target) for name in losses)
    error = "error rate (% of test rows)"
    points = "percentage points"
    if numeric:
        error, points = f"error (RMSE, units of {target})", f"units of {target}"
    return {
        "error": error,
        "saved": f"error saved ({points})",
        "gain": "gain against alone (% of the error alone)",
        "loss": f"mean loss on own rows ({own})",
        "gtv": f"GTV: weight x discrepancy over edges ({across})",
        "nodeGtv": f"disagreement, weight x discrepancy ({across})",
        "objective": f"objective, sum over nodes ({own})",
        "validation": f"validation loss ({own})",
        "discrepancy": f"discrepancy ({across})",
        "weight": "edge weight (no unit)",
        "round": "round (0: each node alone)",
        "alpha": "alpha (no unit)",
        "rows": "training rows",
    }


def shortened(name: str, longest: int = 28) -> str:
    """Return a column's name that fits an axis."""
    name = " ".join(str(name).split())
    return name if len(name) <= longest else name[: longest - 1] + "…"


def loss_unit(loss: str, target: str) -> str:
    """Return the unit of a loss.

    >>> loss_unit("squared", "temp"), loss_unit("log", "digit"), loss_unit("mine", "y")
    ('squared error, temp²', 'log loss, nats', 'mine')
    """
    units = {
        "squared": f"squared error, {target}²",
        "absolute": f"absolute error, {target}",
        "huber": f"Huber loss, {target}² near 0",
        "log": "log loss, nats",
    }
    return units.get(loss, loss)
