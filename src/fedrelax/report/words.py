"""The report in words: did it help, where, and what left each node. Plain text, never markup."""

from __future__ import annotations

from typing import Any

from fedrelax.comparison.intervals import Interval
from fedrelax.report.gains import Saving, most_and_least, saving
from fedrelax.report.sharing import BYTES, NOT_PRIVATE, Sharing, size_text
from fedrelax.report.summary import Summary
from fedrelax.report.tables import by_kind, percent
from fedrelax.storage import SavedResult
from fedrelax.wiring.discover import SMALL

LONGEST = 40
UNMEASURED = "No rows were kept for testing, so whether it helped was not measured."


def short(label: object) -> str:
    """Return a name that fits into a sentence."""
    text = " ".join(str(label).split()) or "(no name)"
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def amount(measure: str, value: float) -> str:
    """Return a difference of errors with its unit.

    >>> amount("error rate", 0.125), amount("RMSE", 1.3), amount("RMSE", 12345.6)
    ('12.5 points', '1.30', '12346')
    """
    if measure == "error rate":
        return f"{100 * value:.1f} points"
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:#.3g}".rstrip(".")


def headline(summary: Summary | None) -> str:
    """Return the verdict in a few words."""
    if summary is None:
        return "Not measured"
    gain = saving(summary, "alone").interval
    if gain is None:
        return "Learning together helped" if summary.gain > 0 else "It did not help"
    if gain.above_zero:
        return "Learning together helped"
    return "Learning together hurt" if gain.below_zero else "No clear difference"


def did_it_help(summary: Summary | None) -> list[str]:
    """Return the verdict in sentences, with intervals over nodes."""
    if summary is None:
        return [UNMEASURED]
    return [summary.verdict] + [
        _compared(summary.measure, saving(summary, against)) for against in ("alone", "pooled")
    ]


def _compared(measure: str, found: Saving) -> str:
    names = {"alone": "each node alone", "pooled": "one pooled model"}
    counts = f"better at {found.better}, worse at {found.worse}, equal at {found.equal}"
    start = f"Against {names[found.against]}: {counts} of {found.nodes} nodes"
    return f"{start}{_mean(measure, found.interval)}."


def _mean(measure: str, gap: Interval | None) -> str:
    if gap is None:
        return ""
    side = "lower" if gap.mean >= 0 else "higher"
    low, high = (gap.low, gap.high) if gap.mean >= 0 else (-gap.high, -gap.low)
    ends = f"{amount(measure, low)} to {amount(measure, high)}".replace(" points to", " to")
    sure = "" if gap.above_zero or gap.below_zero else ", which includes no difference"
    mean = amount(measure, abs(gap.mean))
    return f"; on average over nodes the error is {mean} {side} (95 % interval {ends}{sure})"


def where(saved: SavedResult, summary: Summary | None) -> list[str]:
    """Say which nodes and which kinds of models gained and which lost, and which groups there are."""
    groups = _groups(saved.metrics.get("clusters", []))
    if summary is None:
        return [
            "The nodes and their graph are below; there are no test errors to compare.",
            *groups,
        ]
    best, worst = most_and_least(summary)
    found = []
    if len(best):
        found.append(f"The largest gains: {_names(best)}.")
    if len(worst):
        count = saving(summary, "alone").worse
        lost = "1 node has" if count == 1 else f"{count} nodes have"
        which = "It is" if count == 1 else "The largest losses are at"
        found.append(f"{lost} a larger error than alone. {which} {_names(worst)}.")
    else:
        found.append("No node has a larger error than alone.")
    kinds = by_kind(summary)
    if len(kinds) > 1:
        (most, *_, gain), (least, *_, other) = kinds[0], kinds[-1]
        found.append(
            f"Of the kinds of models, {short(most)} gained most ({percent(gain)}) and "
            f"{short(least)} least ({percent(other)})."
        )
    return found + groups


def _groups(sizes: list[int]) -> list[str]:
    if not sizes:
        return []
    shown = ", ".join(f"{size:,}" for size in sizes[:8]) + (", ..." if len(sizes) > 8 else "")
    return [f"The nodes sorted themselves into {len(sizes)} groups, of {shown} nodes."]


def _names(lines: Any) -> str:
    return ", ".join(
        f"{short(line['node'])} ({percent(line['gain'])})" for line in lines.to_dict("records")
    )


def what_left(shared: Sharing) -> list[str]:
    """Say in brief what every node gave away."""
    if shared.exchanges == 0:
        return [
            "Nothing in the run that was kept: each node trained alone." + _also_trials(shared),
            "No row, label or parameter is ever sent.",
        ]
    size = size_text(BYTES * shared.per_neighbour)
    return [
        f"Predictions on {shared.public_rows:,} public rows, {shared.exchanges} times: {size} from "
        f"each node to each neighbour. No row, label or parameter is sent, and no noise was added.",
        NOT_PRIVATE,
    ]


def _also_trials(shared: Sharing) -> str:
    return " Trials were exchanged while alpha was chosen." if shared.trials else ""


def sharing_details(saved: SavedResult, shared: Sharing) -> list[tuple[str, str]]:
    """Return the full account, as (name, sentence) pairs."""
    outputs = "one number" if shared.outputs == 1 else f"{shared.outputs} class probabilities"
    if shared.outputs > 1 and not saved.task.is_classification:
        outputs = f"{shared.outputs} numbers"
    sets = " for the public rows of both ends" if shared.sets == 2 else ""
    kept = [
        ("Rows, labels, parameters", "0. None of them is in any message."),
        ("Predictions", _predictions(shared, outputs, sets)),
        ("To candidates", _to_candidates(saved)),
        ("While alpha was chosen", _in_trials(shared)),
        ("Public rows", f"{_drawn(shared.how)}. They reveal {shared.reveals}."),
        (
            "To whoever runs the rounds",
            "Each node reports its losses, its disagreement with its neighbours and the number of its "
            "validation rows after every round.",
        ),
        ("Noise", "None was added, so there is no formal (differential) privacy guarantee."),
        ("Privacy", f"{NOT_PRIVATE} If the rows are secret, treat the predictions as secret too."),
        (
            "This run",
            "It was computed in one process that held all nodes' rows; the sizes are those that would "
            "cross between sites. The pooled model used everybody's rows, for comparison only.",
        ),
        (
            "This page",
            "It shows every node's name, row counts, errors and losses, and no model. Models in the "
            "result directory may hold more: nearest neighbours, support vectors and Gaussian "
            "processes contain training rows.",
        ),
    ]
    return [(name, text) for name, text in kept if text]


def _predictions(shared: Sharing, outputs: str, sets: str) -> str:
    if shared.exchanges == 0:
        return "None in the run that was kept: alpha is 0, so nobody listens."
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
    """Say what the table of edges cannot: beyond so many nodes only the found ones are in it."""
    if saved.about["wiring"] != "discover" or len(saved.graph) <= SMALL:
        return ""
    return (
        "While neighbours were searched for, predictions also went to candidates that did not become "
        "neighbours; these are not counted."
    )


def _in_trials(shared: Sharing) -> str:
    if not shared.trials:
        return ""
    size = size_text(BYTES * shared.per_neighbour_in_trials)
    return (
        f"{shared.trials} candidates ran up to {shared.trial_exchanges:,} exchanges each, on every "
        f"held-out part of the rows (usually three parts): at most {size} more to each neighbour and "
        "part, of models that trained on the other parts."
    )


def _drawn(how: str) -> str:
    if how == "given":
        return "Given by the user"
    return f"Drawn from all nodes' inputs ({how})" if how != "standard" else "Drawn from N(0, I)"
