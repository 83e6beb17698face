"""The three answers at the top of the page: did it help, where, and what left each node. Plain text."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedrelax.errors import counted
from fedrelax.evaluation import ALONE, POOLED, TOGETHER, Evaluation, Gap
from fedrelax.evaluation.evaluation import NAMES, percent
from fedrelax.evaluation.intervals import difference
from fedrelax.report.data.rounding import short
from fedrelax.report.data.sharing import BYTES, NOT_PRIVATE, Sharing, size_text
from fedrelax.report.page.federated import computed_there, told_by_sites
from fedrelax.storage import SavedResult
from fedrelax.wiring.discover import SMALL

UNMEASURED = "No rows were held out for testing, so whether it helped was not measured."
MOST_NAMED = 3
NO_SHARE = 0.01
"""A mean below this share of its interval is called no difference."""


def did_it_help(found: Evaluation | None) -> list[str]:
    """Return the verdict in sentences, with intervals over nodes."""
    if found is None:
        return [UNMEASURED]
    return [found.verdict, *(_compared(found, way) for way in (ALONE, POOLED))]


def _compared(found: Evaluation, way: str) -> str:
    gap = found.against(way)
    if gap.equal == gap.nodes:
        return f"Against {NAMES[way]}: the same error at {_all(gap.nodes)}."
    counts = f"better at {gap.better}, worse at {gap.worse}, equal at {gap.equal}"
    return f"Against {NAMES[way]}: {counts} of {counted(gap.nodes, 'node')}{_mean(found, gap)}."


def _all(nodes: int) -> str:
    return "the node with test rows" if nodes == 1 else f"all {nodes:,} nodes with test rows"


def _mean(found: Evaluation, gap: Gap) -> str:
    mean = gap.interval
    if mean is None:
        return ""
    sure = "" if mean.above_zero or mean.below_zero else ", which includes zero"
    if abs(mean.mean) < NO_SHARE * (mean.high - mean.low):
        ends = found.measure.between(mean.low, mean.high)
        return f"; on average over nodes the error is about the same (95 % interval {ends}{sure})"
    side, seen = ("lower", mean) if mean.mean >= 0 else ("higher", -mean)
    ends = found.measure.between(seen.low, seen.high, sign="")
    size = found.measure.gap(seen.mean, sign="")
    return f"; on average over nodes the error is {size} {side} (95 % interval {ends}{sure})"


def where(found: Evaluation | None, group_sizes: list[int]) -> list[str]:
    """Say which nodes and which kinds of models gained and which lost, and which groups there are."""
    groups = _groups(group_sizes)
    if found is None:
        return [
            "The nodes and their graph are below; there are no test errors to compare.",
            *groups,
        ]
    ranked = found.ranked()
    gap = difference(ranked[ALONE].to_numpy(float), ranked[TOGETHER].to_numpy(float))
    best, lost = ranked[gap > 0], ranked[gap < 0]
    lines = [f"The largest gains: {_names(best.head(MOST_NAMED), found)}."] if len(best) else []
    if len(lost):
        have = "1 node has" if len(lost) == 1 else f"{len(lost):,} nodes have"
        which = "It is" if len(lost) == 1 else "The largest losses are at"
        worst = _names(lost[::-1].head(MOST_NAMED), found)
        lines.append(f"{have} a larger error than alone. {which} {worst}.")
    else:
        lines.append("No node has a larger error than alone.")
    kinds = found.by_kind()
    if len(kinds) > 1:
        (most, *_, gain), (least, *_, other) = kinds[0], kinds[-1]
        lines.append(
            f"Of the kinds of models, {short(most)} gained most ({percent(gain)}) and "
            f"{short(least)} least ({percent(other)})."
        )
    return lines + groups


def _groups(sizes: list[int]) -> list[str]:
    if not sizes:
        return []
    shown = ", ".join(f"{size:,}" for size in sizes[:8]) + (", ..." if len(sizes) > 8 else "")
    return [f"The nodes sorted themselves into {counted(len(sizes), 'group')} ({shown} nodes)."]


def _names(lines: Any, found: Evaluation) -> str:
    return ", ".join(
        f"{short(line['node'])} ({_change(line, found)})" for line in lines.to_dict("records")
    )


def _change(line: dict[str, Any], found: Evaluation) -> str:
    """Return a node's gain; its errors where the one alone is 0, of which there is no percentage."""
    if np.isfinite(line["gain"]):
        return percent(line["gain"])
    return f"from {found.measure.show(line[ALONE])} to {found.measure.show(line[TOGETHER])}"


SUMS = (
    "Each node's sums over its rows: products of its features with each other and with the target. The "
    "settings were found from these, without added noise. To tell what pooling all rows would be worth, "
    "this process, which has them all, also trained on all of them."
)


FEW_ROWS = "Sums over few rows reveal much about these rows: they are not a privacy guarantee."


def what_left(shared: Sharing) -> list[str]:
    """Say in brief what every node gave away."""
    if shared.only_sums:
        return [SUMS, FEW_ROWS]
    if shared.sums:
        return [SUMS, *_predicted(shared)]
    return _predicted(shared)


def _predicted(shared: Sharing) -> list[str]:
    if shared.exchanges == 0:
        return [
            "Nothing, in the run that was kept: each node trained alone." + _also_trials(shared),
            "No row, label or parameter is ever sent.",
        ]
    size = size_text(BYTES * shared.per_neighbour)
    sent = (
        f"Predictions on {shared.public_rows:,} public rows, {shared.exchanges} times: {size} from "
        f"each node to each neighbour. No label or parameter is sent; the public rows reveal "
        f"{shared.reveals}."
    )
    attacked = [shared.attacked] if shared.attacked else []
    if shared.promises:
        return [sent, shared.promised, *attacked]
    return [sent, "No noise was added.", NOT_PRIVATE, *attacked]


def _also_trials(shared: Sharing) -> str:
    return " Predictions were exchanged while alpha was chosen." if shared.trials else ""


SCHEMA_TELLS = (
    "Before the first round all nodes agreed on what the columns mean: their names and kinds, categories "
    "and how common they are, and means, spreads and ranges over all nodes together."
)


def sharing_details(saved: SavedResult, shared: Sharing) -> list[tuple[str, str]]:
    """Return the full account, as (name, sentence) pairs."""
    outputs = "one number" if shared.outputs == 1 else f"{shared.outputs} class probabilities"
    if shared.outputs > 1 and not saved.task.is_classification:
        outputs = f"{shared.outputs} numbers"
    sets = " for the public rows of both ends" if shared.sets == 2 else ""
    sent = [
        ("Rows, labels, parameters", "None: no message contains any of them."),
        ("Predictions", _predictions(shared, outputs, sets)),
        ("To candidate neighbours", _to_candidates(saved)),
        ("While alpha was chosen", _in_trials(shared)),
    ]
    told = told_by_sites(saved)
    run = (
        "It was computed in one process that held all nodes' rows; the sizes are what would travel "
        "between sites. The pooled model used everybody's rows, for comparison only."
    )
    kept = [
        *([("Sums", SUMS)] if shared.sums else []),
        *([] if shared.only_sums else sent),
        ("Public rows", f"{_drawn(shared.how)}. They reveal {shared.reveals}."),
        *([] if saved.preparation is None else [("Schema", SCHEMA_TELLS)]),
        (
            "To whoever runs the rounds",
            "Each node reports its losses, its disagreement with its neighbours and the number of its "
            "validation rows after every round.",
        ),
        *_privacy(shared),
        ("An attack", shared.attacked),
        ("This run", run if told is None else computed_there(told)),
        (
            "This page",
            "It shows every node's name, row counts, errors and losses, but no model. Models in the "
            "result directory may hold more: nearest neighbours, support vectors and Gaussian "
            "processes contain training rows.",
        ),
    ]
    return [(name, text) for name, text in kept if text]


def _privacy(shared: Sharing) -> list[tuple[str, str]]:
    if shared.promises:
        return [("Privacy", shared.promised)]
    return [
        ("Noise", "None was added, so there is no formal (differential) privacy guarantee."),
        ("Privacy", f"{NOT_PRIVATE} If the rows are secret, treat the predictions as secret too."),
    ]


def _predictions(shared: Sharing, outputs: str, sets: str) -> str:
    if shared.exchanges == 0:
        return "None in the run that was kept: alpha is 0, so no node listens to another."
    counts = sorted(shared.neighbours.values())
    spread = f"{counts[0]:,} to {counts[-1]:,}" if counts[0] != counts[-1] else f"{counts[0]:,}"
    total = sum(counts) * shared.per_neighbour
    per = shared.per_neighbour
    return (
        f"{shared.public_rows:,} public rows x {outputs}{sets} x {shared.exchanges:,} exchanges (the "
        f"first models, then every round) = {per:,} numbers of {BYTES} bytes, "
        f"{size_text(BYTES * per)}, from each node to each neighbour. With {spread} neighbours, all "
        f"nodes together sent {size_text(BYTES * total)}."
    )


def _to_candidates(saved: SavedResult) -> str:
    """Say what the table of edges cannot: in large graphs it has only the edges that were found."""
    if saved.about["wiring"] != "discover" or len(saved.graph) <= SMALL:
        return ""
    return (
        "During the search for neighbours, predictions also went to candidates that did not become "
        "neighbours; these are not counted."
    )


def _in_trials(shared: Sharing) -> str:
    if not shared.trials:
        return ""
    size = size_text(BYTES * shared.per_neighbour_in_trials)
    return (
        f"{shared.trials} candidates ran up to {shared.trial_exchanges:,} exchanges each, once for every "
        f"fold that was held out (usually three): at most {size} more to each neighbour and fold, "
        "from models trained on the other folds."
    )


def _drawn(how: str) -> str:
    if how == "given":
        return "Provided by the user"
    return f"Drawn from all nodes' inputs ({how})" if how != "standard" else "Drawn from N(0, I)"
