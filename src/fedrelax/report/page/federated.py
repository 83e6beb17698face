"""What the page says about a federation, of which the hub knows numbers only."""

from __future__ import annotations

from typing import Any

from fedrelax.errors import counted
from fedrelax.evaluation.measures import measure_named
from fedrelax.storage import SavedResult

TITLE = "Measured at the sites"
NODES = (
    "Every site's error on its own test rows, which never left it: its model alone, and together. There "
    "is no pooled model here, as nobody has all rows."
)


def told_by_sites(saved: SavedResult) -> dict[str, Any] | None:
    """Return what the sites of a federation reported; None for a run within one process."""
    found = saved.metrics.get("federation")
    return found if isinstance(found, dict) else None


def helped_there(told: dict[str, Any]) -> list[str]:
    """Say what the errors at the sites are, all test rows together."""
    measure = measure_named(told["measure"])
    alone, ours = (told[way] for way in ("alone", "together"))
    if alone is None or ours is None:
        return ["No site held out test rows, so whether it helped was not measured."]
    words = f"On the sites' own test rows the {measure.name} is {measure.show(ours)} together and "
    return [f"{words}{measure.show(alone)} alone."]


def where_there(told: dict[str, Any]) -> list[str]:
    """Say which sites were missing."""
    missed = told.get("missed") or {}
    if not missed:
        return ["Every site took part in every round; the table below has each one's errors."]
    names = ", ".join(
        f"{name} in {counted(len(rounds), 'round')}" for name, rounds in missed.items()
    )
    return [f"Missing: {names}. The others went on without them; the table says which rounds."]


def computed_there(told: dict[str, Any]) -> str:
    """Say where the run was computed, and what the hub could see."""
    seal = "Their predictions were sealed: the hub carried them and could not read them."
    if not told.get("sealed"):
        seal = "Their predictions were open: the hub could read them."
    return f"Every site computed on its own machine and keeps its own model. {seal}"
