"""How sure a mean is: over nodes, or over overlapping random splits."""

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

    def __neg__(self) -> Interval:
        """Return the interval of b - a for that of a - b."""
        return Interval(-self.mean, -self.high, -self.low)


def student_interval(
    values: FloatArray, *, overlap: float = 0.0, least_variance: float = 0.0
) -> Interval:
    """Return the mean m of J values of variance s^2 (divisor J - 1) with its 95 % interval

        m +- t sqrt((1/J + overlap) s^2),

    in which t is the 97.5 % quantile of Student's distribution with J - 1 degrees of freedom.
    Independent values have no overlap. Random splits of one table share most of their rows; with
    test rows / training rows as ``overlap`` this is the corrected resampled interval of Nadeau and
    Bengio (2003), meant for fewer test rows than training rows. Where it is known that the variance
    of a value cannot be below ``least_variance``, a smaller s^2 counts as that.

    >>> found = student_interval(np.array([1.0, 2.0, 3.0]), overlap=20 / 80)
    >>> round(found.mean, 3), round(found.low, 3), round(found.high, 3)
    (2.0, -1.286, 5.286)
    """
    count = len(values)
    variance = max(float(np.var(values, ddof=1)), least_variance)
    quantile = float(stdtrit(count - 1, (1 + LEVEL) / 2))
    mean, half = float(np.mean(values)), quantile * float(np.sqrt((1 / count + overlap) * variance))
    return Interval(mean, mean - half, mean + half)


def difference(one: FloatArray, other: FloatArray) -> FloatArray:
    """Return one - other, without the last digits in which equal errors may differ by rounding.

    >>> difference(np.array([0.1 + 0.2, 1.0]), np.array([0.3, 0.5])).tolist()
    [0.0, 0.5]
    """
    same = np.isclose(one, other, rtol=1e-9, atol=0.0)
    return np.where(same, 0.0, one - other)
