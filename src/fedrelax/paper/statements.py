"""What the paper says of its figures, each confirmed or refuted by the numbers of a run."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedrelax.paper.catalog import Figure
from fedrelax.paper.cells import ROWS
from fedrelax.paper.linear import AUTO
from fedrelax.paper.tables import Measured
from fedrelax.typing import FloatArray

CLEAR = 2.0
"""A difference of so many standard errors is called clear."""
CONFIRMED, REFUTED, OPEN = "confirmed", "refuted", "not decided"


@dataclass(frozen=True)
class Finding:
    """A statement, whether it holds here, and the numbers."""

    figure: str
    statement: str
    verdict: str
    numbers: str


@dataclass(frozen=True)
class Comparison:
    """Something that should be below something else: values per run, on the same runs."""

    what: str
    below: FloatArray
    above: FloatArray

    @property
    def verdict(self) -> str:
        """Whether the paired difference is clear."""
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
        """Both means in words."""
        sign = {CONFIRMED: "<", REFUTED: ">", OPEN: "~"}[self.verdict]
        return f"{self.what}: {self.below.mean():.4g} {sign} {self.above.mean():.4g}"


def judge(figure: str, statement: str, comparisons: list[Comparison]) -> Finding:
    """Return one finding from all comparisons: refuted if one is, confirmed if all are."""
    if not comparisons:
        needs = "the run has not the settings that it speaks of"
        return Finding(figure, statement, "not tested", needs)
    verdicts = [comparison.verdict for comparison in comparisons]
    overall = CONFIRMED if set(verdicts) == {CONFIRMED} else OPEN
    if REFUTED in verdicts:
        overall = REFUTED if CONFIRMED not in verdicts else "refuted in part"
    elif overall == OPEN and CONFIRMED in verdicts:
        overall = "confirmed in part"
    numbers = "; ".join(comparison.numbers for comparison in comparisons)
    return Finding(figure, statement, overall, numbers)


class Runs:
    """The runs of a figure by setting: ``runs(d=2, alpha=0.0)`` is (runs, iterations) or None."""

    def __init__(self, lines: list[Measured]) -> None:
        self._lines = lines

    def find(self, **setting: Any) -> Measured | None:
        """Return the line with these settings of its cell."""
        for one in self._lines:
            cell = one.line.cell
            if all(getattr(cell, name) == value for name, value in setting.items()):
                return one
        return None

    def values(self, name: str) -> list[Any]:
        """Return all values of a setting."""
        found = {getattr(one.line.cell, name) for one in self._lines}
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

    @property
    def coupled(self) -> list[float]:
        """All alphas above 0."""
        return [alpha for alpha in self.values("alpha") if alpha > 0]

    def above(self, name: str, least: float) -> list[Any]:
        """Return the values of a setting that are at least so large."""
        return [value for value in self.values(name) if value >= least]


def findings(figure: Figure, lines: list[Measured]) -> list[Finding]:
    """Return the paper's statements on a figure with their verdicts."""
    check = _CHECKS.get(figure.name)
    return [] if check is None else check(Runs(lines))


def _fig1a(runs: Runs) -> list[Finding]:
    text = "without noise, FedRelax helps nodes with d/m >= 1"
    return [judge("fig1a", text, runs.against_alone("d", runs.above("d", ROWS)))]


def _fig1b(runs: Runs) -> list[Finding]:
    early, late = [], []
    for alpha in runs.coupled:
        early += runs.against(
            f"alpha={alpha:g} against alone at iteration 49",
            {"sigma": 0.0, "alpha": alpha},
            {"sigma": 0.0, "alpha": 0.0},
            at=49,
        )
        line = runs.find(sigma=5.0, alpha=alpha)
        if line is not None:
            late.append(
                Comparison(
                    f"alpha={alpha:g}, end against start", line.values[:, -1], line.values[:, 0]
                )
            )
    alone = runs.find(sigma=5.0, alpha=0.0)
    away = []
    if alone is not None:
        away = [Comparison("alone, start against end", alone.values[:, 0], alone.values[:, -1])]
    return [
        judge("fig1b", "without noise at d/m = 1, FedRelax speeds up convergence a little", early),
        judge("fig1b", "at sigma = 5, training alone moves away from the truth", away),
        judge("fig1b", "at sigma = 5, FedRelax prevents that", late),
    ]


def _fig1c(runs: Runs) -> list[Finding]:
    alphas = runs.coupled
    local = {"method": "fedrelax", "alpha": 0.0}
    best = _best(runs, alphas)
    ours: dict[str, Any] = {"method": "fedrelax", "alpha": best}
    name = "FedRelax" if best is None else f"FedRelax (alpha={best:g})"
    alone = [
        c
        for alpha in alphas
        for c in runs.against(
            f"alpha={alpha:g} against alone", {"method": "fedrelax", "alpha": alpha}, local
        )
    ]
    ways: list[tuple[str, dict[str, Any]]] = [
        (method, {"method": method}) for method in ("oracle", "ifca5", "ifca2", "fedavg")
    ]
    ways.insert(2, (name, ours))
    chain = [(way, line) for way, setting in ways if (line := runs.find(**setting)) is not None]
    return [
        judge("fig1c", "FedRelax is far better than training alone", alone),
        _ordered("fig1c", "Oracle < IFCA(5) < FedRelax < IFCA(2) < FedAvg", chain),
        judge(
            "fig1c",
            "even FedAvg is better than training alone",
            runs.against("fedavg against alone", {"method": "fedavg"}, local),
        ),
        judge(
            "fig1c",
            "(beyond the paper) told nothing, FedRelax with automatic wiring beats plain FedRelax",
            runs.against(f"automatic against {name}", {"method": AUTO}, ours),
        ),
        judge(
            "fig1c",
            "(beyond the paper) and IFCA that was told the number of clusters",
            runs.against("automatic against ifca5", {"method": AUTO}, {"method": "ifca5"}),
        ),
    ]


def _ordered(figure: str, text: str, chain: list[tuple[str, Measured]]) -> Finding:
    """Return whether the intervals of the last iteration follow each other without overlap."""
    if len(chain) < 2:
        return judge(figure, text, [])
    ends = [(name, line.values[:, -1]) for name, line in chain]
    spans = [interval(values) for _, values in ends]
    apart = [low[1] < high[0] for low, high in itertools.pairwise(spans)]
    falling = [low[1].mean() > high[1].mean() for low, high in itertools.pairwise(ends)]
    numbers = "; ".join(
        f"{name} {values.mean():.3g} [{low:.2g}, {high:.2g}]"
        for (name, values), (low, high) in zip(ends, spans, strict=True)
    )
    verdict = CONFIRMED if all(apart) else REFUTED if any(falling) else OPEN
    return Finding(figure, text, verdict, f"{numbers} (95 % bootstrap intervals)")


def interval(values: FloatArray, level: float = 0.95) -> tuple[float, float]:
    """Return the bootstrap percentile interval of the mean, which follows skewed runs.

    >>> interval(np.array([1.0, 1.0, 1.0]))
    (1.0, 1.0)
    """
    rng = np.random.default_rng(0)
    means = rng.choice(values, (4000, len(values))).mean(axis=1)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def _best(runs: Runs, alphas: list[float]) -> float | None:
    """Return the alpha with the least error in the end."""
    found = {}
    for alpha in alphas:
        line = runs.find(method="fedrelax", alpha=alpha)
        if line is not None:
            found[alpha] = float(line.values[:, -1].mean())
    return min(found, key=lambda alpha: found[alpha]) if found else None


def _fig2a(runs: Runs) -> list[Finding]:
    few = [d for d in runs.values("d") if d < ROWS]
    return [
        judge(
            "fig2a",
            "with d/m >= 1, FedRelax lowers the validation error of trees",
            runs.against_alone("d", runs.above("d", ROWS)),
        ),
        judge(
            "fig2a",
            "(beyond the paper) it also does so with d/m < 1",
            runs.against_alone("d", few),
        ),
    ]


def _fig2b(runs: Runs) -> list[Finding]:
    noise, more = runs.values("sigma"), []
    for alpha in runs.coupled:
        gains = {}
        for sigma in noise:
            for pair in runs.against_alone("sigma", [sigma], [alpha]):
                gains[sigma] = pair.below / pair.above
        if len(gains) > 1:
            low, high = min(gains), max(gains)
            what = f"alpha={alpha:g}, error against alone at sigma={high:g} and at {low:g}"
            more.append(Comparison(what, gains[high], gains[low]))
    return [
        judge(
            "fig2b",
            "FedRelax denoises: the error is lower at every noise level",
            runs.against_alone("sigma", noise),
        ),
        judge("fig2b", "the gain is largest at high noise", more),
    ]


def _fig3(runs: Runs) -> list[Finding]:
    return [
        judge(
            "fig3",
            "the validation error is below training alone for every d/m and alpha",
            runs.against_alone("d", runs.values("d"), sigma=0.0),
        ),
        judge("fig3", "it is so with noise as well", _with_noise(runs)),
    ]


def _fig4(runs: Runs) -> list[Finding]:
    few = [d for d in runs.values("d") if d < ROWS]
    strong = [
        Comparison(f"{pair.what}, the other way round", pair.above, pair.below)
        for pair in runs.against_alone("d", few, runs.coupled[1:][-1:], sigma=0.0)
    ]
    return [
        judge(
            "fig4",
            "weak coupling lowers the validation error of trees for every d/m",
            runs.against_alone("d", runs.values("d"), runs.coupled[:1], sigma=0.0),
        ),
        judge("fig4", "strong coupling can make it worse at low d/m", strong),
        judge("fig4", "coupling helps with noise as well", _with_noise(runs)),
    ]


def _with_noise(runs: Runs) -> list[Comparison]:
    return runs.against_alone("sigma", [sigma for sigma in runs.values("sigma") if sigma > 0])


def _fig5a(runs: Runs) -> list[Finding]:
    alphas, noise = runs.values("alpha"), runs.values("sigma")
    stronger = _falling(runs, "alpha", alphas, [{"sigma": s} for s in noise])
    noisier = _falling(runs, "sigma", noise[::-1], [{"alpha": a} for a in alphas])
    return [
        _below_bound("fig5a", runs),
        judge("fig5a", "a larger alpha makes the variation smaller", stronger),
        judge("fig5a", "more noise makes it larger", noisier),
    ]


def _fig5b(runs: Runs) -> list[Finding]:
    alphas, joined = runs.values("alpha"), runs.values("p_in")
    tighter = _falling(runs, "p_in", joined, [{"alpha": a} for a in alphas])
    return [
        _below_bound("fig5b", runs),
        judge("fig5b", "a better connected cluster varies less", tighter),
    ]


def _falling(
    runs: Runs, name: str, values: list[float], others: list[dict[str, Any]]
) -> list[Comparison]:
    """Return comparisons of neighbouring values: each should have less than the one before."""
    found = []
    for other in others:
        fixed = ", ".join(f"{key}={value:g}" for key, value in other.items())
        for before, after in itertools.pairwise(values):
            found += runs.against(
                f"{fixed}: {name}={after:g} against {before:g}",
                {name: after, **other},
                {name: before, **other},
            )
    return found


def _below_bound(figure: str, runs: Runs) -> Finding:
    """Every single run's last variation against its own bound, not only the means."""
    text = "the variation ends below the bound epsilon / (alpha lambda_2)"
    known = [one for one in runs._lines if one.bounds is not None]
    if not known:
        return judge(figure, text, [])
    shares = np.concatenate(
        [one.values[:, -1] / one.bounds for one in known if one.bounds is not None]
    )
    verdict = CONFIRMED if (shares < 1).all() else REFUTED
    numbers = (
        f"{int((shares < 1).sum())} of {len(shares)} runs below their own bound; the largest "
        f"variation is {shares.max():.3g} of its bound"
    )
    return Finding(figure, text, verdict, numbers)


_CHECKS: dict[str, Callable[[Runs], list[Finding]]] = {
    "fig1a": _fig1a,
    "fig1b": _fig1b,
    "fig1c": _fig1c,
    "fig2a": _fig2a,
    "fig2b": _fig2b,
    "fig3": _fig3,
    "fig4": _fig4,
    "fig5a": _fig5a,
    "fig5b": _fig5b,
}
