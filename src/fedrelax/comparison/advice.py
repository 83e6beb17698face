"""The answer in words: federate, pool or stay local, and how sure that is."""

from __future__ import annotations

from collections.abc import Mapping

from fedrelax.comparison.intervals import Interval
from fedrelax.comparison.ways import LOCAL, POOLED, TOGETHER
from fedrelax.evaluation import show

FEDERATE = "Federate"
POOL_OR_FEDERATE = "Pool, if rows may be brought together; if they may not, federate"
POOL_OR_LOCAL = "Pool, if rows may be brought together; if they may not, stay local"
STAY_LOCAL = "Stay local"


def advise(
    measure: str,
    errors: Mapping[str, float],
    gaps: Mapping[str, Interval],
    local_minus_pooled: Interval | None = None,
) -> str:
    """Return the advice and the numbers behind it.

    ``errors`` are the mean errors by way, ``gaps`` the intervals of each way's error minus that of
    FedRelax. One way is clearly better than another if the interval of their difference leaves out
    zero. Where nothing is clearly better than local models, the advice is to stay local, the
    simplest way. Without ``local_minus_pooled``, pooling was not among the ways.

    >>> advise("RMSE", {"local": 3.0, "FedRelax": 2.0}, {"local": Interval(1.0, 0.8, 1.2)})
    'Federate. FedRelax has a lower RMSE than local models: 2 against 3 (by 1, 95 % interval 0.8 to 1.2).'
    """
    words = _Words(measure, errors)
    pooled, found = gaps.get(POOLED), []
    together_helps = gaps[LOCAL].above_zero
    if local_minus_pooled is not None and not together_helps:
        found.append(words.gap(POOLED, LOCAL, _turned(local_minus_pooled)))
    found.append(words.gap(TOGETHER, LOCAL, _turned(gaps[LOCAL])))
    if pooled is not None and together_helps:
        found.append(words.gap(POOLED, TOGETHER, pooled))
    better = [way for way in gaps if way not in (LOCAL, POOLED) and gaps[way].below_zero]
    if better:
        found.append(f"Clearly better than FedRelax: {words.listed(better)}.")
    if together_helps:
        head = POOL_OR_FEDERATE if pooled is not None and pooled.below_zero else FEDERATE
    elif local_minus_pooled is not None and local_minus_pooled.above_zero:
        head = POOL_OR_LOCAL
    else:
        head = STAY_LOCAL
    return f"{head}. {' '.join(found)}"


def _turned(gap: Interval) -> Interval:
    """Return the interval of b - a for that of a - b."""
    return Interval(-gap.mean, -gap.high, -gap.low)


class _Words:
    """Sentences about the differences of errors."""

    names: Mapping[str, str] = {LOCAL: "local models", POOLED: "one pooled model"}

    def __init__(self, measure: str, errors: Mapping[str, float]) -> None:
        self._measure, self._errors = measure, errors

    def gap(self, one: str, other: str, gap: Interval) -> str:
        """Say what is known of error(one) - error(other)."""
        first, second = self._named(one), self._named(other)
        a, b = (show(self._measure, self._errors[way]) for way in (one, other))
        if gap.mean == gap.low == gap.high == 0:
            return f"{_capital(first)} and {second} do not differ: the {self._measure} is {a}."
        if gap.low <= 0 <= gap.high:
            ends = between(signed(self._measure, gap.low), signed(self._measure, gap.high))
            return (
                f"The splits cannot tell {first} from {second}: the {self._measure} is {a} against "
                f"{b} (difference {signed(self._measure, gap.mean)}, 95 % interval {ends})."
            )
        size, near, far = (self._size(x) for x in (gap.mean, *sorted((gap.low, gap.high), key=abs)))
        return (
            f"{_capital(first)} has a {'lower' if gap.mean < 0 else 'higher'} {self._measure} than "
            f"{second}: {a} against {b} (by {size}, 95 % interval {between(near, far)})."
        )

    def listed(self, ways: list[str]) -> str:
        """Return the ways with their errors."""
        return ", ".join(f"{way} ({show(self._measure, self._errors[way])})" for way in ways)

    def _named(self, way: str) -> str:
        return self.names.get(way, way)

    def _size(self, value: float) -> str:
        return signed(self._measure, abs(value)).lstrip("+")


def signed(measure: str, difference: float) -> str:
    """Return a difference of errors with its sign; shares of wrong labels in percentage points.

    >>> signed("error rate", 0.0123), signed("RMSE", -3.0712), signed("RMSE", 0.0)
    ('+1.2 points', '-3.07', '0')
    """
    if measure == "error rate":
        return f"{100 * difference:+.1f} points"
    if difference == 0:
        return "0"
    return f"{difference:+.0f}" if abs(difference) >= 1000 else f"{difference:+.3g}"


def between(low: str, high: str) -> str:
    """Return the ends of an interval with their unit once.

    >>> between("-1.0 points", "+2.0 points")
    '-1.0 to +2.0 points'
    """
    return f"{low.removesuffix(' points')} to {high}"


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]
