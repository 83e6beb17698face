"""How sure the mean over overlapping random splits is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from fedrelax.typing import FloatArray

LEVEL = 0.95


@dataclass(frozen=True)
class Interval:
    """A mean and the ends of its interval."""

    mean: float
    low: float
    high: float

    @property
    def above_zero(self) -> bool:
        """Whether the whole interval is positive."""
        return self.low > 0

    @property
    def below_zero(self) -> bool:
        """Whether the whole interval is negative."""
        return self.high < 0


def corrected_interval(
    values: FloatArray, test_rows: int, training_rows: int, least_variance: float = 0.0
) -> Interval:
    """Return the corrected resampled t interval of Nadeau and Bengio (2003).

    With J values of mean m and variance s^2 (divisor J - 1), one from each random split,

        m +- t sqrt((1/J + test_rows / training_rows) s^2),

    in which t is the 97.5 % quantile of Student's distribution with J - 1 degrees of freedom. The
    usual factor 1/J would be right for independent values. Random splits of one table share most of
    their rows, and the second term pays for that. It is meant for fewer test rows than training
    rows; with more, the interval is wider than it needs to be. Where it is known that the variance
    cannot be below ``least_variance``, a smaller s^2 counts as that.

    >>> found = corrected_interval(np.array([1.0, 2.0, 3.0]), test_rows=20, training_rows=80)
    >>> round(found.mean, 3), round(found.low, 3), round(found.high, 3)
    (2.0, -1.286, 5.286)
    """
    splits = len(values)
    quantile = float(stdtrit(splits - 1, (1 + LEVEL) / 2))
    mean, variance = float(np.mean(values)), float(np.var(values, ddof=1))
    variance = max(variance, least_variance)
    half = quantile * float(np.sqrt((1 / splits + test_rows / training_rows) * variance))
    return Interval(mean, mean - half, mean + half)


def difference(one: FloatArray, other: FloatArray) -> FloatArray:
    """Return one - other, without the last digits in which equal errors may differ by rounding.

    >>> difference(np.array([0.1 + 0.2, 1.0]), np.array([0.3, 0.5])).tolist()
    [0.0, 0.5]
    """
    same = np.isclose(one, other, rtol=1e-9, atol=0.0)
    return np.where(same, 0.0, one - other)


def share_variance(share: float, rows: int) -> float:
    """Return the least variance that a share of rows, or a difference of two shares, can have.

    A difference d of two error rates on m rows comes from at least |d| m rows on which one is right
    and the other wrong, so its variance is |d| (1 - |d|) / m or more. A few splits of a few rows
    can happen to give the same difference each; that does not make it certain.

    >>> share_variance(-0.5, 10), share_variance(0.0, 10)
    (0.025, 0.0)
    """
    return abs(share) * (1.0 - abs(share)) / rows
