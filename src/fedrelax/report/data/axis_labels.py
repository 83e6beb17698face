"""The names and units of all axes."""

from __future__ import annotations

from fedrelax.evaluation import Measure

USUAL = {"regression": "squared", "classification": "log"}


def axis_labels(
    own: str, across: str = "", measure: Measure | None = None, target: str = ""
) -> dict[str, str]:
    """Return the label of every quantity.

    ``own`` and ``across`` are the units of the losses on own rows and across edges, or empty.
    Errors are labelled only if a ``measure`` is given.

    >>> found = axis_labels("squared error, temp²")
    >>> found["validation"], found["discrepancy"]
    ('validation loss (squared error, temp²)', 'discrepancy')
    """
    own, across = (f" ({unit})" if unit else "" for unit in (own, across))
    errors = {}
    if measure is not None:
        saved = f"reduction in error ({measure.gap_axis(target)})"
        errors = {"error": measure.axis(target), "saved": saved}
    return {
        **errors,
        "gain": "gain against alone (% of the error alone)",
        "loss": f"mean loss on own rows{own}",
        "gtv": f"GTV: weight x discrepancy over edges{across}",
        "disagreement": f"disagreement, weight x discrepancy{across}",
        "objective": f"objective, sum over nodes{own}",
        "validation": f"validation loss{own}",
        "discrepancy": f"discrepancy{across}",
        "weight": "edge weight (no unit)",
        "round": "round (0: each node alone)",
        "alpha": "alpha (no unit)",
        "rows": "training rows",
    }


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
