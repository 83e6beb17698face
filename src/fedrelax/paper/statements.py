"""What the paper says about its figures, each statement confirmed or refuted by the numbers of a run."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from fedrelax.paper.curves import AUTO, ROWS
from fedrelax.paper.runs import Measured
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
        wanted = setting.items()
        matching = (one for one in self.lines if wanted <= vars(one.line.cell).items())
        return next(matching, None)

    def values(self, name: str) -> list[Any]:
        """Return all values of a setting."""
        return sorted({getattr(one.line.cell, name) for one in self.lines} - {None})

    def against(
        self, what: str, below: Mapping[str, Any], above: Mapping[str, Any], at: int = -1
    ) -> list[Comparison]:
        """Return the comparison of two settings at an iteration, or nothing if one is missing."""
        one, other = self.find(**below), self.find(**above)
        if one is None or other is None:
            return []
        return [Comparison(what, one.values[:, at], other.values[:, at])]

    def against_alone(
        self, name: str, values: list[Any], alphas: list[float] | None = None, **fixed: float
    ) -> list[Comparison]:
        """Return every alpha above 0 against alpha = 0, for every value of one setting."""
        found = []
        for alpha, value in itertools.product(self.coupled if alphas is None else alphas, values):
            what = f"{name}={value:g}, alpha={alpha:g} against alone"
            setting = {name: value, **fixed}
            found += self.against(what, {**setting, "alpha": alpha}, {**setting, "alpha": 0.0})
        return found

    def falling(self, name: str, values: list[float], other: str) -> list[Comparison]:
        """Return comparisons of successive values: each should give less than the one before."""
        found = []
        for fixed, (before, after) in itertools.product(
            self.values(other), itertools.pairwise(values)
        ):
            what = f"{other}={fixed:g}: {name}={after:g} against {before:g}"
            found += self.against(what, {name: after, other: fixed}, {name: before, other: fixed})
        return found

    @property
    def coupled(self) -> list[float]:
        """All alphas above 0."""
        return [alpha for alpha in self.values("alpha") if alpha > 0]

    @property
    def few(self) -> list[int]:
        """The numbers of features below the number of rows."""
        return [d for d in self.values("d") if d < ROWS]

    @property
    def many(self) -> list[int]:
        """The other numbers of features."""
        return [d for d in self.values("d") if d >= ROWS]

    @property
    def with_noise(self) -> list[Comparison]:
        """Every alpha above 0 against alpha = 0, wherever there is noise."""
        return self.against_alone("sigma", [sigma for sigma in self.values("sigma") if sigma > 0])


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


BELOW = "the variation ends below the bound epsilon / (alpha lambda_2)"


class Finding(NamedTuple):
    """A statement, the verdict on it, and the numbers behind it."""

    figure: str
    statement: str
    verdict: str
    numbers: str


Statements = dict[str, Sequence[Comparison] | Verdict]
"""The paper's statements on a figure, each with what decides it."""


def findings(figure: str, lines: list[Measured]) -> list[Finding]:
    """Return the paper's statements on a figure with their verdicts."""
    return [
        Finding(figure, text, *(by if isinstance(by, Verdict) else judge(by)))
        for text, by in _CHECKS[figure](Runs(lines)).items()
    ]


def _fig1b(runs: Runs) -> Statements:
    early, late, away = [], [], []
    for alpha in runs.coupled:
        pair = {"sigma": 0.0, "alpha": alpha}, {"sigma": 0.0, "alpha": 0.0}
        early += runs.against(f"alpha={alpha:g} against alone at iteration 49", *pair, at=49)
    for line in runs.lines:
        cell, start, end = line.line.cell, line.values[:, 0], line.values[:, -1]
        if cell.sigma == 5.0 and cell.alpha:
            late.append(Comparison(f"alpha={cell.alpha:g}, end against start", end, start))
        elif cell.sigma == 5.0:
            away.append(Comparison("alone, start against end", start, end))
    return {
        "without noise at d/m = 1, FedRelax speeds up convergence a little": early,
        "at sigma = 5, training alone moves away from the truth": away,
        "at sigma = 5, FedRelax prevents that": late,
    }


def _fig1c(runs: Runs) -> Statements:
    coupled = [one for one in runs.lines if one.line.cell.alpha]
    best = min(coupled, key=lambda one: float(one.values[:, -1].mean()), default=None)
    alpha = None if best is None else best.line.cell.alpha
    local: dict[str, Any] = {"method": "fedrelax", "alpha": 0.0}
    ours = {**local, "alpha": alpha}
    name = "FedRelax" if alpha is None else f"FedRelax (alpha={alpha:g})"
    names = ("oracle", "ifca5", name, "ifca2", "fedavg")
    ways = {way: ours if way == name else {"method": way} for way in names}
    chain = [
        (way, line) for way, setting in ways.items() if (line := runs.find(**setting)) is not None
    ]
    auto = {"method": AUTO}
    return {
        "FedRelax is far better than training alone": [
            pair
            for alpha in runs.coupled
            for pair in runs.against(f"alpha={alpha:g} against alone", {"alpha": alpha}, local)
        ],
        "Oracle < IFCA(5) < FedRelax < IFCA(2) < FedAvg": ordered(chain),
        "even FedAvg is better than training alone": runs.against(
            "fedavg against alone", ways["fedavg"], local
        ),
        "(beyond the paper) told nothing, FedRelax with automatic wiring beats plain FedRelax": (
            runs.against(f"automatic against {name}", auto, ours)
        ),
        "(beyond the paper) it also beats IFCA that was told the number of clusters": runs.against(
            "automatic against ifca5", auto, ways["ifca5"]
        ),
    }


def _fig2b(runs: Runs) -> Statements:
    noise, more = runs.values("sigma"), []
    for alpha in runs.coupled:
        gains = {
            sigma: pair.below / pair.above
            for sigma in noise
            for pair in runs.against_alone("sigma", [sigma], [alpha])
        }
        if len(gains) > 1:
            low, high = min(gains), max(gains)
            what = f"alpha={alpha:g}, error against alone at sigma={high:g} and at {low:g}"
            more.append(Comparison(what, gains[high], gains[low]))
    every = runs.against_alone("sigma", noise)
    return {
        "FedRelax denoises: the error is lower at every noise level": every,
        "the gain is largest at high noise": more,
    }


def _fig4(runs: Runs) -> Statements:
    weak = runs.against_alone("d", runs.values("d"), runs.coupled[:1], sigma=0.0)
    strong = [
        Comparison(f"{pair.what}, the other way round", pair.above, pair.below)
        for pair in runs.against_alone("d", runs.few, runs.coupled[1:][-1:], sigma=0.0)
    ]
    return {
        "weak coupling lowers the validation error of trees for every d/m": weak,
        "strong coupling can make it worse at low d/m": strong,
        "coupling helps with noise as well": runs.with_noise,
    }


_CHECKS: dict[str, Callable[[Runs], Statements]] = {
    "fig1a": lambda runs: {
        "without noise, FedRelax helps nodes with d/m >= 1": runs.against_alone("d", runs.many)
    },
    "fig1b": _fig1b,
    "fig1c": _fig1c,
    "fig2a": lambda runs: {
        "with d/m >= 1, FedRelax lowers the validation error of trees": runs.against_alone(
            "d", runs.many
        ),
        "(beyond the paper) it also does so with d/m < 1": runs.against_alone("d", runs.few),
    },
    "fig2b": _fig2b,
    "fig3": lambda runs: {
        "the validation error is below training alone for every d/m and alpha": (
            runs.against_alone("d", runs.values("d"), sigma=0.0)
        ),
        "the same holds with noise": runs.with_noise,
    },
    "fig4": _fig4,
    "fig5a": lambda runs: {
        BELOW: below_bound(runs),
        "a larger alpha makes the variation smaller": runs.falling(
            "alpha", runs.values("alpha"), "sigma"
        ),
        "more noise makes it larger": runs.falling("sigma", runs.values("sigma")[::-1], "alpha"),
    },
    "fig5b": lambda runs: {
        BELOW: below_bound(runs),
        "a better connected cluster varies less": runs.falling(
            "p_in", runs.values("p_in"), "alpha"
        ),
    },
}
