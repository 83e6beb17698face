"""Measures of error, and how sure a mean of them is. A new measure is a class here.

A measure is an error: 0 is perfect, and lower is better. Where higher is better, as with accuracy, the
measure is what is missing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import stdtrit

from fedrelax.errors import FedRelaxError
from fedrelax.models import Task
from fedrelax.typing import AnyArray, FloatArray
from fedrelax.validation import check_choice

TINY = 1e-9
"""Percentage points below which a share counts as 0."""


class Measure(ABC):
    """How errors are counted and written: as numbers, or as shares in percent."""

    name: ClassVar[str]
    task: ClassVar[str]
    """"regression" or "classification"."""
    share: ClassVar[bool] = False
    """Whether an error is a share of the rows."""

    @abstractmethod
    def per_row(self, task: Task, y: AnyArray, prediction: FloatArray) -> FloatArray:
        """Return a number per row; ``of_rows`` turns any of them into an error."""

    @abstractmethod
    def axis(self, target: str) -> str:
        """Return the label of an axis of errors."""

    def of_rows(self, per_row: FloatArray) -> float:
        """Return the error over rows; NaN if there are none."""
        return float(np.mean(per_row)) if len(per_row) else float("nan")

    def least_variance(self, mean: float, rows: int) -> float:
        """Return the least variance that a mean error, or difference of errors, d can have.

        A difference d of two shares comes from at least |d| of the rows, on which one is right and
        the other wrong, so its variance is |d| (1 - |d|) / rows or more. A few splits of a few rows
        can happen to give the same difference each; that does not make it certain.

        >>> ErrorRate().least_variance(-0.5, 10), RMSE().least_variance(-0.5, 10)
        (0.025, 0.0)
        """
        return abs(mean) * (1.0 - abs(mean)) / rows if self.share else 0.0

    @property
    def scale(self) -> float:
        """What a number is multiplied by before it is shown."""
        return 100.0 if self.share else 1.0

    @property
    def unit(self) -> str:
        """What is written after an error."""
        return " %" if self.share else ""

    def show(self, error: float) -> str:
        """Return an error as text, "-" if there is none.

        >>> ErrorRate().show(0.125), RMSE().show(3.0712), RMSE().show(float("nan"))
        ('12.5 %', '3.07', '-')
        """
        return f"{self._digits(error)}{self.unit}" if np.isfinite(error) else "-"

    def gap(self, difference: float, sign: str = "+") -> str:
        """Return a difference of errors, with its sign unless ``sign`` is empty.

        >>> ErrorRate().gap(0.0123), RMSE().gap(-3.0712), RMSE().gap(0.5, sign="")
        ('+1.2 points', '-3.07', '0.5')
        >>> ErrorRate().gap(-0.0003), ErrorRate().gap(0.0, sign="")
        ('-0.03 points', '0.0 points')
        """
        return f"{self._digits(difference, sign)}{' points' * self.share}"

    def between(self, low: float, high: float, sign: str = "+") -> str:
        """Return the ends of an interval of differences, with the unit once.

        >>> ErrorRate().between(-0.01, 0.02), RMSE().between(0.5, 1.0, sign="")
        ('-1.0 to +2.0 points', '0.5 to 1')
        """
        return f"{self._digits(low, sign)} to {self.gap(high, sign)}"

    def gap_axis(self, target: str) -> str:
        """Return the unit of an axis of differences."""
        return "percentage points" if self.share else f"units of {target}"

    def decimals(self, usual: float | None, digits: int = 3) -> int:
        """Return how many decimals show ``digits`` digits of errors of a ``usual`` size.

        >>> [RMSE().decimals(usual) for usual in (3.09, 0.0123, 2500.0, None)]
        [2, 4, 0, 0]
        """
        if self.share:
            return 1
        if usual is None or not np.isfinite(usual) or usual <= 0:
            return 0
        return int(min(max(digits - 1 - np.floor(np.log10(usual)), 0), 12))

    def _digits(self, value: float, sign: str = "") -> str:
        if self.share:
            points = 100 * value
            small = TINY < abs(points) < 0.05  # one decimal would show 0
            return f"{points:{sign}.1g}" if small else f"{round(points, 1) + 0.0:{sign}.1f}"
        if value == 0:
            return "0"
        return f"{value:{sign}.0f}" if abs(value) >= 1000 else f"{value:{sign}.3g}"


class RMSE(Measure):
    """The root of the mean square difference between target and prediction."""

    name, task = "RMSE", "regression"

    def per_row(self, task: Task, y: AnyArray, prediction: FloatArray) -> FloatArray:
        """Return the square difference, mean over outputs."""
        return np.asarray(np.mean((task.encode(y) - prediction) ** 2, axis=1))

    def of_rows(self, per_row: FloatArray) -> float:
        """Return the root of the mean."""
        return float(np.sqrt(super().of_rows(per_row)))

    def axis(self, target: str) -> str:
        """Return the label of an axis of errors."""
        return f"error (RMSE, units of {target})"


class ErrorRate(Measure):
    """The share of wrong labels."""

    name, task, share = "error rate", "classification", True

    def per_row(self, task: Task, y: AnyArray, prediction: FloatArray) -> FloatArray:
        """Return 1 for a wrong label."""
        return np.asarray(task.decode(prediction) != y, dtype=float)

    def axis(self, target: str) -> str:
        """Return the label of an axis of errors."""
        return "error rate (% of test rows)"


MEASURES: dict[str, Measure] = {measure.name: measure for measure in (RMSE(), ErrorRate())}
"""By name; the first one of a task is its usual one."""


def measure_named(name: str) -> Measure:
    """Return a measure by its name."""
    check_choice("measure", name, list(MEASURES))
    return MEASURES[name]


def get_measure(measure: str | Measure | None, task: str) -> Measure:
    """Return a measure for a task: the usual one for None, the named one, or the ``Measure`` itself.

    >>> get_measure(None, "classification").name
    'error rate'
    """
    if measure is None:
        return next(usual for usual in MEASURES.values() if usual.task == task)
    if isinstance(measure, str):
        measure = measure_named(measure)
    if measure.task != task:
        raise FedRelaxError(
            f"measure={measure.name!r} is for {measure.task}, but the task is {task}"
        )
    return measure


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
