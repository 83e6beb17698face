"""The answer in words: federate, pool or stay alone, and how certain that is."""

from __future__ import annotations

from collections.abc import Mapping

from fedrelax.baselines import MixedModel, Pooled, PooledNode
from fedrelax.evaluation import ALONE, TOGETHER, Interval, Measure
from fedrelax.evaluation.evaluation import NAMES

FEDERATE = "Federate"
POOL_OR_FEDERATE = "Pool, if rows may be brought together; if they may not, federate"
POOL_OR_ALONE = "Pool, if rows may be brought together; if they may not, stay alone"
STAY_ALONE = "Stay alone"
POOLING = {
    Pooled.name: NAMES[Pooled.name],
    PooledNode.name: "one pooled model with a column per node",
    MixedModel.name: "a mixed model of all rows",
}
"""The ways that need all rows in one place, and what sentences call them."""


def advise(
    measure: Measure,
    errors: Mapping[str, float],
    gaps: Mapping[str, Interval],
    alone_minus_pooled: Interval | None = None,
) -> str:
    """Return the advice and the numbers behind it.

    ``errors`` are the mean errors by way, ``gaps`` the intervals of each way's error minus that of
    learning together. To pool means ``best_pooling`` of the ways; ``alone_minus_pooled`` is the
    interval of the error alone minus that way's. One way is clearly better than another if the
    interval of their difference excludes zero. The advice is to pool if that is clearly better
    than learning together, and on average no worse than each node alone; or clearly better than
    each node alone where learning together is not. Otherwise, where learning together is not clearly
    better than each node alone, it is to stay alone, the simplest way.

    >>> from fedrelax.evaluation import MEASURES
    >>> gaps = {"alone": Interval(1.0, 0.8, 1.2)}
    >>> print(advise(MEASURES["RMSE"], {"alone": 4.0, "together": 3.0}, gaps))
    Federate. Learning together has a lower RMSE than each node alone: 3 against 4 (by 1 or 25 %, 95 % interval 0.8 to 1.2 or 20 to 30 %).
    """  # noqa: E501
    pool, together_helps = best_pooling(errors, gaps), gaps[ALONE].above_zero
    found = [gap_text(measure, errors, TOGETHER, ALONE, -gaps[ALONE])]
    head = FEDERATE if together_helps else STAY_ALONE
    if pool is not None and together_helps:
        pools = gaps[pool].below_zero
        found.insert(0 if pools else 1, gap_text(measure, errors, pool, TOGETHER, gaps[pool]))
        head = POOL_OR_FEDERATE if pools else FEDERATE
    elif pool is not None and alone_minus_pooled is not None:
        found.insert(0, gap_text(measure, errors, pool, ALONE, -alone_minus_pooled))
        beats_together = gaps[pool].below_zero and alone_minus_pooled.mean > 0
        if beats_together:
            found.insert(0, gap_text(measure, errors, pool, TOGETHER, gaps[pool]))
        if beats_together or alone_minus_pooled.above_zero:
            head = POOL_OR_ALONE
    better = [way for way in gaps if way != ALONE and way not in POOLING and gaps[way].below_zero]
    if better:
        listed = ", ".join(f"{way} ({measure.show(errors[way])})" for way in better)
        found.append(f"Clearly better than learning together over the graph: {listed}.")
    return f"{head}. {' '.join(found)}"


def best_pooling(errors: Mapping[str, float], gaps: Mapping[str, Interval]) -> str | None:
    """Return the pooling way with the smallest error; those clearly better than together come first.

    >>> gaps = {"pooled": Interval(-1.0, -1.5, -0.5), "mixed model": Interval(-1.2, -3.0, 0.6)}
    >>> best_pooling({"pooled": 2.0, "mixed model": 1.8}, gaps)
    'pooled'
    """
    ways = [way for way in POOLING if way in gaps]
    return min(ways, key=lambda way: (not gaps[way].below_zero, errors[way]), default=None)


def gap_text(
    measure: Measure, errors: Mapping[str, float], one: str, other: str, gap: Interval
) -> str:
    """Say what is known about error(one) - error(other), also in percent of error(other)."""
    names = NAMES | POOLING
    first, second = names[one], names[other]
    a, b = (measure.show(errors[way]) for way in (one, other))
    start = first[0].upper() + first[1:]
    if gap.mean == gap.low == gap.high == 0:
        return f"{start} and {second} do not differ: the {measure.name} is {a}."
    if gap.low <= 0 <= gap.high:
        return (
            f"The splits cannot tell {first} from {second}: the {measure.name} is {a} against {b} "
            f"(difference {_sizes(measure, gap, errors[other], '+')})."
        )
    side, size = ("lower", -gap) if gap.mean < 0 else ("higher", gap)
    return (
        f"{start} has a {side} {measure.name} than {second}: {a} against {b} "
        f"(by {_sizes(measure, size, errors[other], '')})."
    )


def _sizes(measure: Measure, gap: Interval, base: float, sign: str) -> str:
    """Return a difference and its interval, each as a number and in percent of ``base``."""
    mean, ends = measure.gap(gap.mean, sign), measure.between(gap.low, gap.high, sign)
    if base > 0:
        share, low, high = (
            _percent(100 * value / base, sign) for value in (gap.mean, gap.low, gap.high)
        )
        mean, ends = f"{mean} or {share} %", f"{ends} or {low} to {high} %"
    return f"{mean}, 95 % interval {ends}"


def _percent(value: float, sign: str) -> str:
    return f"{value:{sign}.0f}" if abs(value) >= 10 else f"{value:{sign}.1f}"
