"""What the paper says about its figures, each statement confirmed or refuted by the numbers of a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from fedrelax.paper.catalog import Figure
from fedrelax.paper.cells import ROWS
from fedrelax.paper.linear import AUTO
from fedrelax.paper.tables import Measured
from fedrelax.paper.verdicts import Comparison, Runs, Verdict, below_bound, judge, ordered

BELOW = "the variation ends below the bound epsilon / (alpha lambda_2)"


@dataclass(frozen=True)
class Finding:
    """A statement, the verdict on it, and the numbers behind it."""

    figure: str
    statement: str
    verdict: str
    numbers: str


Statements = dict[str, Sequence[Comparison] | Verdict]
"""The paper's statements on a figure, each with what decides it."""


def findings(figure: Figure, lines: list[Measured]) -> list[Finding]:
    """Return the paper's statements on a figure with their verdicts."""
    found = _CHECKS[figure.name](Runs(lines))
    return [
        Finding(figure.name, text, *(by if isinstance(by, Verdict) else judge(by)))
        for text, by in found.items()
    ]


def _fig1a(runs: Runs) -> Statements:
    few = runs.within("d", ROWS)
    return {"without noise, FedRelax helps nodes with d/m >= 1": runs.against_alone("d", few)}


def _fig1b(runs: Runs) -> Statements:
    early, late, away = [], [], []
    for alpha in runs.coupled:
        early += runs.against(
            f"alpha={alpha:g} against alone at iteration 49",
            {"sigma": 0.0, "alpha": alpha},
            {"sigma": 0.0, "alpha": 0.0},
            at=49,
        )
        if (line := runs.find(sigma=5.0, alpha=alpha)) is not None:
            what = f"alpha={alpha:g}, end against start"
            late.append(Comparison(what, line.values[:, -1], line.values[:, 0]))
    if (line := runs.find(sigma=5.0, alpha=0.0)) is not None:
        away = [Comparison("alone, start against end", line.values[:, 0], line.values[:, -1])]
    return {
        "without noise at d/m = 1, FedRelax speeds up convergence a little": early,
        "at sigma = 5, training alone moves away from the truth": away,
        "at sigma = 5, FedRelax prevents that": late,
    }


def _fig1c(runs: Runs) -> Statements:
    lines = {alpha: runs.find(method="fedrelax", alpha=alpha) for alpha in runs.coupled}
    ends = {alpha: line.values[:, -1].mean() for alpha, line in lines.items() if line is not None}
    best = min(ends, key=lambda alpha: float(ends[alpha])) if ends else None
    ours = {"method": "fedrelax", "alpha": best}
    local = {"method": "fedrelax", "alpha": 0.0}
    name = "FedRelax" if best is None else f"FedRelax (alpha={best:g})"
    alone = []
    for alpha in ends:
        what = f"alpha={alpha:g} against alone"
        alone += runs.against(what, {"method": "fedrelax", "alpha": alpha}, local)
    ways: dict[str, dict[str, Any]] = {
        "oracle": {"method": "oracle"},
        "ifca5": {"method": "ifca5"},
        name: ours,
        "ifca2": {"method": "ifca2"},
        "fedavg": {"method": "fedavg"},
    }
    chain = [(way, line) for way, at in ways.items() if (line := runs.find(**at)) is not None]
    auto = {"method": AUTO}
    return {
        "FedRelax is far better than training alone": alone,
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


def _fig2a(runs: Runs) -> Statements:
    few, many = runs.within("d", below=ROWS), runs.within("d", ROWS)
    lower = "with d/m >= 1, FedRelax lowers the validation error of trees"
    return {
        lower: runs.against_alone("d", many),
        "(beyond the paper) it also does so with d/m < 1": runs.against_alone("d", few),
    }


def _fig2b(runs: Runs) -> Statements:
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
    every = runs.against_alone("sigma", noise)
    return {
        "FedRelax denoises: the error is lower at every noise level": every,
        "the gain is largest at high noise": more,
    }


def _fig3(runs: Runs) -> Statements:
    every = runs.against_alone("d", runs.values("d"), sigma=0.0)
    return {
        "the validation error is below training alone for every d/m and alpha": every,
        "the same holds with noise": _with_noise(runs),
    }


def _fig4(runs: Runs) -> Statements:
    few = runs.within("d", below=ROWS)
    weak = runs.against_alone("d", runs.values("d"), runs.coupled[:1], sigma=0.0)
    strong = [
        Comparison(f"{pair.what}, the other way round", pair.above, pair.below)
        for pair in runs.against_alone("d", few, runs.coupled[1:][-1:], sigma=0.0)
    ]
    return {
        "weak coupling lowers the validation error of trees for every d/m": weak,
        "strong coupling can make it worse at low d/m": strong,
        "coupling helps with noise as well": _with_noise(runs),
    }


def _with_noise(runs: Runs) -> list[Comparison]:
    return runs.against_alone("sigma", [sigma for sigma in runs.values("sigma") if sigma > 0])


def _fig5a(runs: Runs) -> Statements:
    noisier = runs.falling("sigma", runs.values("sigma")[::-1], "alpha")
    return {
        BELOW: below_bound(runs),
        "a larger alpha makes the variation smaller": runs.falling(
            "alpha", runs.values("alpha"), "sigma"
        ),
        "more noise makes it larger": noisier,
    }


def _fig5b(runs: Runs) -> Statements:
    tighter = runs.falling("p_in", runs.values("p_in"), "alpha")
    return {BELOW: below_bound(runs), "a better connected cluster varies less": tighter}


_CHECKS: dict[str, Callable[[Runs], Statements]] = {
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
