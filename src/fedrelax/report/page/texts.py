"""What the page says: the three answers at its top, the sentences above each part, and how it was made.

All of it is plain text: did it help, where, and what left each node? ``fedrelax info`` says some of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from rich.filesize import decimal

from fedrelax.errors import counted, listing
from fedrelax.evaluation import ALONE, POOLED, TOGETHER, Evaluation, Gap
from fedrelax.evaluation.evaluation import NAMES, percent
from fedrelax.evaluation.measures import difference, measure_named
from fedrelax.files import dump_toml
from fedrelax.pooling.network import ONE_MODEL
from fedrelax.report.data.layout import MOST_EDGES
from fedrelax.report.data.rounding import coupling_text, shared_text, short
from fedrelax.report.data.sharing import BYTES, NOT_PRIVATE, Sharing
from fedrelax.storage import SavedResult
from fedrelax.typing import DataFrame
from fedrelax.wiring.discover import SMALL

MOST_NAMED = 3
NO_SHARE = 0.01
"""A mean below this share of its interval is called no difference."""


def did_it_help(evaluation: Evaluation | None) -> list[str]:
    """Return the verdict in sentences, with intervals over nodes."""
    if evaluation is None:
        return ["No rows were held out for testing, so whether it helped was not measured."]
    lines = [evaluation.verdict]
    for way in (ALONE, POOLED):
        gap = evaluation.against(way)
        words = f"better at {gap.better}, worse at {gap.worse}, equal at {gap.equal} of "
        words += f"{counted(gap.nodes, 'node')}{_mean(evaluation, gap)}"
        if gap.equal == gap.nodes:
            nodes = "the node" if gap.nodes == 1 else f"all {gap.nodes:,} nodes"
            words = f"the same error at {nodes} with test rows"
        lines.append(f"Against {NAMES[way]}: {words}.")
    return lines


def _mean(evaluation: Evaluation, gap: Gap) -> str:
    mean = gap.interval
    if mean is None:
        return ""
    sure = "" if mean.above_zero or mean.below_zero else ", which includes zero"
    if abs(mean.mean) < NO_SHARE * (mean.high - mean.low):
        ends = evaluation.measure.between(mean.low, mean.high)
        return f"; on average over nodes the error is about the same (95 % interval {ends}{sure})"
    side, seen = ("lower", mean) if mean.mean >= 0 else ("higher", -mean)
    ends = evaluation.measure.between(seen.low, seen.high, sign="")
    size = evaluation.measure.gap(seen.mean, sign="")
    return f"; on average over nodes the error is {size} {side} (95 % interval {ends}{sure})"


def where(evaluation: Evaluation | None, group_sizes: list[int]) -> list[str]:
    """Say which nodes gained and which lost, and which groups there are."""
    groups = []
    if group_sizes:
        sizes = [f"{size:,}" for size in group_sizes[:8]] + ["..."] * (len(group_sizes) > 8)
        count = counted(len(group_sizes), "group")
        groups = [f"The nodes sorted themselves into {count} ({', '.join(sizes)} nodes)."]
    if evaluation is None:
        none = "The nodes and their graph are below; there are no test errors to compare."
        return [none, *groups]
    ranked = evaluation.ranked()
    gap = difference(ranked[ALONE].to_numpy(float), ranked[TOGETHER].to_numpy(float))
    best, lost = ranked[gap > 0], ranked[gap < 0]
    lines = (
        [f"The largest gains: {_names(best.head(MOST_NAMED), evaluation)}."] if len(best) else []
    )
    if len(lost):
        have = "1 node has" if len(lost) == 1 else f"{len(lost):,} nodes have"
        which = "It is" if len(lost) == 1 else "The largest losses are at"
        worst = _names(lost[::-1].head(MOST_NAMED), evaluation)
        lines.append(f"{have} a larger error than alone. {which} {worst}.")
    else:
        lines.append("No node has a larger error than alone.")
    return lines + groups


def _names(lines: DataFrame, evaluation: Evaluation) -> str:
    """Name nodes with their gains; with their errors where the one alone is 0, without a percentage."""
    show, named = evaluation.measure.show, []
    for line in lines.to_dict("records"):
        change = percent(line["gain"])
        if not np.isfinite(line["gain"]):
            change = f"from {show(line[ALONE])} to {show(line[TOGETHER])}"
        named.append(f"{short(line['node'])} ({change})")
    return ", ".join(named)


def what_left(shared: Sharing) -> list[str]:
    """Say what every node gave away."""
    pooled = []
    if shared.only_pooled or shared.pooled:
        pooled.append(
            "In the rounds of partial pooling, what each candidate model answers on public rows, no more "
            f"of the {shared.public_rows:,} than tell what it is, and some numbers about it (how well it "
            "fits the node's own rows, how uncertain its coefficients are): "
            f"{shared.pooled:,} numbers, {decimal(BYTES * shared.pooled)}, from each node to each other "
            "node, with the rounds of the search and of its folds. No row, label or coefficient is sent, "
            "but for linear models such answers tell the coefficients. The public rows reveal "
            f"{shared.reveals}. No noise was added."
        )
    if shared.only_pooled:
        few = (
            "Numbers about few rows reveal much about these rows: they are not a privacy guarantee."
        )
        return [*pooled, few]
    if shared.exchanges == 0:
        none = "Nothing, in the run that was kept: each node trained alone."
        return [*pooled, none, "No row, label or parameter is ever sent."]
    size = decimal(BYTES * shared.per_neighbour)
    sent = (
        f"Predictions on {shared.public_rows:,} public rows, {shared.exchanges} times: {size} from "
        f"each node to each neighbour. No label or parameter is sent; the public rows reveal "
        f"{shared.reveals}."
    )
    noise = [shared.promised] if shared.promised else ["No noise was added.", NOT_PRIVATE]
    return [*pooled, sent, *noise]


def sharing_details(saved: SavedResult) -> list[tuple[str, str]]:
    """Return what else left the nodes, and what this page holds, as (name, sentence) pairs."""
    # the table of edges of a large graph has only the edges that were found
    searched = saved.about["wiring"] == "discover" and len(saved.graph) > SMALL
    details = [
        (searched, "To candidate neighbours",
         "During the search for neighbours, predictions also went to candidates that did not become "
         "neighbours; these are not counted."),
        (saved.choice is not None, "While alpha was chosen",
         "Every candidate with coupling ran on folds: its models, trained on the other folds, exchanged "
         "predictions in the same way; these are not counted."),
        (saved.preparation is not None, "Schema",
         "Before the first round all nodes agreed on what the columns mean: their names and kinds, "
         "categories and how common they are, and means, spreads and ranges over all nodes together."),
        (True, "To whoever runs the rounds",
         "Each node reports its losses, its disagreement with its neighbours and the number of its "
         "validation rows after every round."),
        (told_by_sites(saved) is None, "This run",
         "It was computed in one process that held all nodes' rows; the sizes are what would travel "
         "between sites. The pooled model used everybody's rows, for comparison only."),
        (told_by_sites(saved) is not None, "This run",
         "Every site computed on its own machine and keeps its own model. Their predictions were "
         "sealed: the hub carried them and could not read them."),
        (True, "This page",
         "It shows every node's name, row counts, errors and losses, but no model. Models in the "
         "result directory may hold more: nearest neighbours, support vectors and Gaussian processes "
         "contain training rows."),
    ]  # fmt: skip
    return [(name, sentence) for applies, name, sentence in details if applies]


def nodes_lead(evaluation: Evaluation | None, told: dict[str, Any] | None) -> str:
    """Say what the table of nodes compares."""
    if told is not None:
        return (
            "Every site's error on its own test rows, which never left it: its model alone, and together. "
            "There is no pooled model here, as nobody has all rows."
        )
    if evaluation is None:
        return "All rows were used for training, so there are no test errors to compare."
    untested = int((evaluation.nodes["test_rows"] == 0).sum())
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
    stands = "Nodes have no coordinates: connected nodes that agree are drawn close together."
    if graph.positions is not None and graph.positions.shape[1] >= 2:
        stands = "Nodes are drawn at their coordinates, with the same scale on both axes."
        if graph.geographic:
            stands = "Nodes are drawn on a map, with north above."
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
    used = f"{coupling_of(saved)}, {rounds}, wiring {about['wiring']}"
    used += f", update {about['update']}" if about.get("update") else ""
    if saved.choice is None:
        return f"Nothing was chosen: {used} were given, or are the defaults."
    reason, better = about.get("choice"), about.get("better")
    why = f" Why: {reason}." if reason else ""
    if about.get("by_default"):
        return f"Found from the training rows only: {used}.{why}{f' {better}' if better else ''}"
    return (
        f"Chosen by cross-validation on the training rows only: {used}.{why} The simpler setting gets the "
        "benefit of the doubt: coupling, a rewired graph or an earlier stop is chosen only if it lowers "
        "the validation loss by more than one standard error over nodes."
    )


def coupling_of(saved: SavedResult) -> str:
    """Return how strongly a result's nodes are coupled, in words."""
    name, value = coupling_tile(saved)
    return value if name == "coupling" else f"{name}: {value}"


def coupling_tile(saved: SavedResult) -> tuple[str, str]:
    """Return a name and a value: alpha, or what nodes share by partial pooling (mean over columns)."""
    about, nodes = saved.about, len(saved.models)
    partial = about.get("by_default") and str(about.get("choice")).startswith("partial pooling")
    if not partial or not 0 < about["alpha"] < ONE_MODEL:
        return "coupling", coupling_text(about["alpha"])
    slopes = about["alpha"] * nodes
    levels = slopes * about.get("level", 1.0)
    return "shared slopes / levels", f"{shared_text(slopes)} / {shared_text(levels)} %"


def told_by_sites(saved: SavedResult) -> dict[str, Any] | None:
    """Return what the sites of a federation reported; None for a run within one process."""
    federation = saved.metrics.get("federation")
    return federation if isinstance(federation, dict) else None


def at_the_sites(told: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Say what the errors at the sites are, all test rows together, and which sites were missing."""
    measure = measure_named(told["measure"])
    alone, ours, missed = told["alone"], told["together"], told.get("missed") or {}
    helped = "No site held out test rows, so whether it helped was not measured."
    if alone is not None and ours is not None:
        errors = f"{measure.show(ours)} together and {measure.show(alone)} alone"
        helped = f"On the sites' own test rows the {measure.name} is {errors}."
    there = "Every site took part in every round; the table below has each one's errors."
    if missed:
        names = ", ".join(
            f"{name} in {counted(len(rounds), 'round')}" for name, rounds in missed.items()
        )
        there = f"Missing: {names}. The others went on without them; the table says which rounds."
    return [helped], [there]


def events_of(saved: SavedResult) -> list[tuple[str, str, float | None]]:
    """Return when nodes joined, learned or left since training, in words, and the error before it."""
    events = []
    for line in [] if saved.living is None else saved.living["story"]:
        what, words = line["what"], {"join": "joined", "update": "learned", "leave": "left"}
        text = f"{listing(line['nodes'], most=3)} {words.get(what, what)}"
        if what == "join" and line["neighbours"]:
            text += f" next to {listing(line['neighbours'], most=3)}"
        if what == "update":
            text += f" {counted(line['rows'], 'row')}"
        text += f"; {counted(line['refitted'], 'node')} refitted"
        events.append((line["when"], text, line["error"]))
    return events


def settings_text(saved: SavedResult) -> str:
    """Return the settings as ``fedrelax fit --config`` reads them; empty if Python code made the result."""
    return dump_toml(saved.config) if saved.config else ""


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
        "coupling": f"{coupling_of(saved)}, {counted(about['rounds'], 'round')}, wiring "
        f"{about['wiring']} ({about['reason']})",
        **({"update": about["update"]} if about.get("update") else {}),
        **({"found": str(about["choice"])} if about.get("choice") else {}),
        "public rows": f"{about['public']['rows']} ({about['public']['how']})",
        "seed": str(about.get("seed", saved.config.get("seed", "not known"))),
        "made with": ", ".join(f"{name} {number}" for name, number in about["versions"].items()),
    }


def _list(values: Sequence[object], most: int = 30) -> str:
    more = f", and {len(values) - most} more" if len(values) > most else ""
    return ", ".join(map(str, values[:most])) + more
