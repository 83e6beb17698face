"""What the runs say about a statement: paired comparisons, orders and bounds, with their numbers."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from fedrelax.paper.tables import Measured
from fedrelax.typing import FloatArray

CLEAR = 2.0
"""A difference of at least this many standard errors is called clear."""
CONFIRMED, REFUTED, OPEN = "confirmed", "refuted", "not decided"


@dataclass(frozen=True)
class Comparison:
    """One quantity that should be below another: their values in the same runs."""

    what: str
    below: FloatArray
    above: FloatArray

    @property
    def verdict(self) -> str:
        """Confirmed or refuted if the paired difference is clear, otherwise not decided."""
        gap = self.below - self.above
        mean = float(gap.mean())
        error = float(gap.std(ddof=1) / np.sqrt(len(gap))) if len(gap) > 1 else np.inf
        if mean < 0 and -mean >= CLEAR * error:
            return CONFIRMED
        if mean > 0 and mean >= CLEAR * error:
            return REFUTED
        return OPEN

    @property
    def numbers(self) -> str:
        """Both means as text."""
        sign = {CONFIRMED: "<", REFUTED: ">", OPEN: "~"}[self.verdict]
        return f"{self.what}: {self.below.mean():.4g} {sign} {self.above.mean():.4g}"


class Verdict(NamedTuple):
    """Whether a statement holds, and the numbers that show it."""

    verdict: str
    numbers: str


def judge(comparisons: Sequence[Comparison]) -> Verdict:
    """Return one verdict: confirmed or refuted if all agree, in part if only some do."""
    if not comparisons:
        return Verdict("not tested", "this run lacks the settings that the statement is about")
    verdicts = [comparison.verdict for comparison in comparisons]
    overall = CONFIRMED if set(verdicts) == {CONFIRMED} else OPEN
    if REFUTED in verdicts:
        overall = REFUTED if CONFIRMED not in verdicts else "refuted in part"
    elif overall == OPEN and CONFIRMED in verdicts:
        overall = "confirmed in part"
    return Verdict(overall, "; ".join(comparison.numbers for comparison in comparisons))


class Runs:
    """The runs of a figure by setting: ``runs.find(d=2, alpha=0.0)`` is a line or None."""

    def __init__(self, lines: list[Measured]) -> None:
        self.lines = lines

    def find(self, **setting: Any) -> Measured | None:
        """Return the first line whose cell has these settings."""
        for one in self.lines:
            cell = one.line.cell
            if all(getattr(cell, name) == value for name, value in setting.items()):
                return one
        return None

    def values(self, name: str) -> list[Any]:
        """Return all values of a setting."""
        found = {getattr(one.line.cell, name) for one in self.lines}
        return sorted(value for value in found if value is not None)

    def against(
        self, what: str, below: Mapping[str, Any], above: Mapping[str, Any], at: int = -1
    ) -> list[Comparison]:
        """Return the comparison of two settings at an iteration, or nothing if one is missing."""
        one, other = self.find(**below), self.find(**above)
        if one is None or other is None:
            return []
        return [Comparison(what, one.values[:, at], other.values[:, at])]

    def against_alone(
        self, name: str, values: list[Any], alphas: list[float] | None = None, **fixed: Any
    ) -> list[Comparison]:
        """Return every alpha above 0 against alpha = 0, for every value of one setting."""
        found = []
        for alpha in self.coupled if alphas is None else alphas:
            for value in values:
                here = {name: value, **fixed}
                found += self.against(
                    f"{name}={value:g}, alpha={alpha:g} against alone",
                    {**here, "alpha": alpha},
                    {**here, "alpha": 0.0},
                )
        return found

    def falling(self, name: str, values: list[float], other: str) -> list[Comparison]:
        """Return comparisons of successive values: each should give less than the one before."""
        found = []
        for fixed in self.values(other):
            for before, after in itertools.pairwise(values):
                found += self.against(
                    f"{other}={fixed:g}: {name}={after:g} against {before:g}",
                    {name: after, other: fixed},
                    {name: before, other: fixed},
                )
        return found

    @property
    def coupled(self) -> list[float]:
        """All alphas above 0."""
        return [alpha for alpha in self.values("alpha") if alpha > 0]

    def within(self, name: str, least: float = -np.inf, below: float = np.inf) -> list[Any]:
        """Return the values of a setting in a range."""
        return [value for value in self.values(name) if least <= value < below]


def ordered(chain: list[tuple[str, Measured]]) -> Verdict:
    """Return whether the intervals at the last iteration follow each other without overlap."""
    if len(chain) < 2:
        return judge([])
    ends = [(name, line.values[:, -1]) for name, line in chain]
    spans = [interval(values) for _, values in ends]
    apart = [low[1] < high[0] for low, high in itertools.pairwise(spans)]
    falling = [low[1].mean() > high[1].mean() for low, high in itertools.pairwise(ends)]
    numbers = "; ".join(
        f"{name} {values.mean():.3g} [{low:.2g}, {high:.2g}]"
        for (name, values), (low, high) in zip(ends, spans, strict=True)
    )
    verdict = CONFIRMED if all(apart) else REFUTED if any(falling) else OPEN
    return Verdict(verdict, f"{numbers} (95 % bootstrap intervals)")


def interval(values: FloatArray, level: float = 0.95) -> tuple[float, float]:
    """Return the bootstrap percentile interval of the mean, which suits skewed values.

    >>> interval(np.array([1.0, 1.0, 1.0]))
    (1.0, 1.0)
    """
    rng = np.random.default_rng(0)
    means = rng.choice(values, (4000, len(values))).mean(axis=1)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def below_bound(runs: Runs) -> Verdict:
    """Compare the final variation of every single run with its own bound, not only the means."""
    shares = [one.values[:, -1] / one.bounds for one in runs.lines if one.bounds is not None]
    if not shares:
        return judge([])
    every = np.concatenate(shares)
    numbers = (
        f"{int((every < 1).sum())} of {len(every)} runs below their own bound; the largest "
        f"variation is {every.max():.3g} of its bound"
    )
    return Verdict(CONFIRMED if (every < 1).all() else REFUTED, numbers)
