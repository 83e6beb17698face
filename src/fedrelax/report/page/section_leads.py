"""The sentence or two above each part of the report."""

from __future__ import annotations

import numpy as np

from fedrelax.errors import counted
from fedrelax.evaluation import Evaluation
from fedrelax.report.data.edges import MOST_EDGES
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
