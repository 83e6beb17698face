"""The sentences above each part of the report, what it says about a federation, and how it was made."""

from __future__ import annotations

import shlex
from typing import Any

import numpy as np

from fedrelax.errors import counted
from fedrelax.evaluation import Evaluation
from fedrelax.evaluation.measures import measure_named
from fedrelax.report.data.layout import MOST_EDGES
from fedrelax.report.data.rounding import coupling_text
from fedrelax.storage import SavedResult


def nodes_lead(found: Evaluation | None) -> str:
    """Say what the table of nodes compares."""
    if found is None:
        return "All rows were used for training, so there are no test errors to compare."
    untested = int((found.nodes["test_rows"] == 0).sum())
    left = ""
    if untested:
        left = f" {counted(untested, 'node')} {'has' if untested == 1 else 'have'} no test rows."
    return (
        "Every node's error on its own test rows, which nobody trained on: its model alone, the same "
        "kind of model on everybody's rows (pooled), and together. The gain is how much lower the error "
        f"together is than alone, in percent; with few test rows it is only rough.{left}"
    )


def grid_lead(saved: SavedResult) -> str:
    """Say where the nodes are drawn and what an edge is."""
    graph = saved.graph
    placed = graph.positions is not None and graph.positions.shape[1] >= 2
    if placed and graph.geographic:
        stands = "Nodes are drawn on a map, on which distances from the centre are true."
    elif placed:
        stands = "Nodes are drawn at their coordinates, with the same scale on both axes."
    else:
        stands = "Nodes have no coordinates: connected nodes that agree are drawn close together."
    edges = "An edge connects nodes that learn from each other."
    if saved.about["wiring"] != "fixed":
        kept = int((saved.edges["used"] > 0).sum())
        edges += (
            f" Of {len(saved.edges):,} edges the nodes kept {kept:,}: those along which they agree."
        )
    if len(saved.edges) > MOST_EDGES:
        edges += " There are too many to draw, so only each node's strongest are shown."
    return f"{stands} {edges}"


def rounds_lead(saved: SavedResult) -> str:
    """Say how the rounds went and why they ended."""
    about, lines = saved.about, saved.history
    done = int(lines["round"].max()) if len(lines) else 0
    words = (
        f"{counted(done, 'round')} ({about['reason']}). Round 0 is each node alone. As nodes listen to "
        "each other, the loss on their own rows usually rises, and the GTV, their disagreement along "
        "edges, falls."
    )
    if about["rounds"] < done:
        words += f" The models of round {about['rounds']} were kept."
    if not np.isfinite(lines["validation_loss"].to_numpy(float)).any():
        words += " No rows were held out during these rounds, so there is no validation curve."
    return words


def choice_lead(saved: SavedResult) -> str:
    """Say who chose alpha and the wiring, and why these."""
    about = saved.about
    rounds = counted(about["rounds"], "round")
    used = f"{coupling_text(about['alpha'])}, {rounds}, wiring {about['wiring']}"
    if saved.choice is None:
        return f"Nothing was chosen: {used} were given, or are the defaults."
    reason, better = about.get("choice"), about.get("better")
    why = f" Why: {reason}." if reason else ""
    if about.get("found_from_sums"):
        return f"Found from the training rows only: {used}.{why}{f' {better}' if better else ''}"
    return (
        f"Chosen by cross-validation on the training rows only: {used}.{why} The simpler setting gets the "
        "benefit of the doubt: coupling, a rewired graph or an earlier stop is chosen only if it lowers "
        "the validation loss by more than one standard error over nodes."
    )


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


def again(saved: SavedResult) -> str:
    """Say how to reproduce the result."""
    if command(saved):
        return "This command reproduces it; the same seed and versions give the same numbers:"
    return "It was made in Python; these settings were saved with it."


def command(saved: SavedResult) -> str:
    """Return the command line that reproduces the result; empty if Python code made it."""
    config = saved.config
    if "command" in config:
        return str(config["command"])
    if not {"data", "node", "target"} <= set(config):
        return ""
    words = ["fedrelax", "fit", str(config["data"])]
    for name, value in config.items():
        if name != "data":
            words += _flag(name, value)
    return shlex.join([*words, "--out", "result"])


def _flag(name: str, value: Any) -> list[str]:
    if isinstance(value, dict):
        return [word for k, v in value.items() for word in (f"--{name}", f"{k}={v}")]
    if isinstance(value, bool):
        return [f"--{name}"] if value else []
    if isinstance(value, list):
        return [f"--{name}", ",".join(map(str, value))]
    return [f"--{name}", str(value)]


def facts(saved: SavedResult) -> dict[str, str]:
    """Return what a result is: what it predicts, its network, its settings and the versions used."""
    about, graph = saved.about, saved.graph
    classes, kinds = about["classes"], saved.nodes["model"].value_counts()
    without = len(graph) - len(saved.models)
    return {
        "task": f"{about['task']} of {about['target_column'] or 'the target'}"
        + (f", classes {_list(classes)}" if classes else ""),
        "features": _list(about["feature_names"]),
        "nodes": f"{len(saved.models)} with a model"
        + (f", {without} more in the graph" if without else ""),
        "models": ", ".join(f"{count} x {kind}" for kind, count in kinds.items()),
        "graph": f"{graph.n_edges} edges, mean degree {graph.degrees.mean():.3g}, "
        f"{counted(len(graph.components()), 'component')}",
        "coupling": f"{coupling_text(about['alpha'])}, {counted(about['rounds'], 'round')}, wiring "
        f"{about['wiring']} ({about['reason']})",
        **({"found": str(about["choice"])} if about.get("choice") else {}),
        "public rows": f"{about['public']['rows']} ({about['public']['how']})",
        "seed": str(about.get("seed", saved.config.get("seed", "not known"))),
        "made with": ", ".join(f"{name} {number}" for name, number in about["versions"].items()),
    }


def _list(values: list[Any], most: int = 30) -> str:
    more = f", and {len(values) - most} more" if len(values) > most else ""
    return ", ".join(str(value) for value in values[:most]) + more
