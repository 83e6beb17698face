"""The answer in words: federate, pool or stay alone, and how sure that is."""

from __future__ import annotations

from collections.abc import Mapping

from fedrelax.evaluation import ALONE, POOLED, TOGETHER, Interval, Measure
from fedrelax.evaluation.evaluation import NAMES

FEDERATE = "Federate"
POOL_OR_FEDERATE = "Pool, if rows may be brought together; if they may not, federate"
POOL_OR_ALONE = "Pool, if rows may be brought together; if they may not, stay alone"
STAY_ALONE = "Stay alone"


def advise(
    measure: Measure,
    errors: Mapping[str, float],
    gaps: Mapping[str, Interval],
    alone_minus_pooled: Interval | None = None,
) -> str:
    """Return the advice and the numbers behind it.

    ``errors`` are the mean errors by way, ``gaps`` the intervals of each way's error minus that of
    learning together. One way is clearly better than another if the interval of their difference
    leaves out zero. Where nothing is clearly better than each node alone, the advice is to stay
    alone, the simplest way. Without ``alone_minus_pooled``, pooling was not among the ways.

    >>> from fedrelax.evaluation import MEASURES
    >>> gaps = {"alone": Interval(1.0, 0.8, 1.2)}
    >>> print(advise(MEASURES["RMSE"], {"alone": 3.0, "together": 2.0}, gaps))
    Federate. Learning together has a lower RMSE than each node alone: 2 against 3 (by 1, 95 % interval 0.8 to 1.2).
    """  # noqa: E501
    pooled, found = gaps.get(POOLED), []
    together_helps = gaps[ALONE].above_zero
    if alone_minus_pooled is not None and not together_helps:
        found.append(gap_text(measure, errors, POOLED, ALONE, -alone_minus_pooled))
    found.append(gap_text(measure, errors, TOGETHER, ALONE, -gaps[ALONE]))
    if pooled is not None and together_helps:
        found.append(gap_text(measure, errors, POOLED, TOGETHER, pooled))
    better = [way for way in gaps if way not in (ALONE, POOLED) and gaps[way].below_zero]
    if better:
        listed = ", ".join(f"{way} ({measure.show(errors[way])})" for way in better)
        found.append(f"Clearly better than learning together over the graph: {listed}.")
    if together_helps:
        head = POOL_OR_FEDERATE if pooled is not None and pooled.below_zero else FEDERATE
    elif alone_minus_pooled is not None and alone_minus_pooled.above_zero:
        head = POOL_OR_ALONE
    else:
        head = STAY_ALONE
    return f"{head}. {' '.join(found)}"


def gap_text(
    measure: Measure, errors: Mapping[str, float], one: str, other: str, gap: Interval
) -> str:
    """Say what is known of error(one) - error(other)."""
    first, second = NAMES[one], NAMES[other]
    a, b = (measure.show(errors[way]) for way in (one, other))
    start = first[0].upper() + first[1:]
    if gap.mean == gap.low == gap.high == 0:
        return f"{start} and {second} do not differ: the {measure.name} is {a}."
    if gap.low <= 0 <= gap.high:
        ends = measure.between(gap.low, gap.high)
        return (
            f"The splits cannot tell {first} from {second}: the {measure.name} is {a} against {b} "
            f"(difference {measure.gap(gap.mean)}, 95 % interval {ends})."
        )
    side, size = ("lower", -gap) if gap.mean < 0 else ("higher", gap)
    ends = measure.between(size.low, size.high, sign="")
    return (
        f"{start} has a {side} {measure.name} than {second}: {a} against {b} "
        f"(by {measure.gap(size.mean, sign='')}, 95 % interval {ends})."
    )
