"""The figures of the paper: panels, lines and the settings that may be changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fedrelax.errors import FedRelaxError
from fedrelax.paper.curves import AUTO, FEDPROX, ROWS, Cell
from fedrelax.validation import check_choice

Numbers = tuple[float, ...]
LINEAR, TREES, OURS = "linear", "tree", "fedrelax"
ALPHA, SIGMA = r"$\alpha$", r"$\sigma$"
BASELINES = ("oracle", "ifca5", "ifca2", "fedavg")
NAMES = {
    "oracle": "Oracle",
    "ifca5": "IFCA, 5 clusters",
    "ifca2": "IFCA, 2 clusters",
    "fedavg": "FedAvg",
    FEDPROX: "FedProx",
    AUTO: "FedRelax, all automatic",
}


@dataclass(frozen=True)
class Line:
    """One curve of a panel; ``sheet`` and ``method`` name it in the table of results."""

    label: str
    cell: Cell
    sheet: str
    method: str = OURS


@dataclass(frozen=True)
class Figure:
    """Panels side by side, as in the paper: the lines of each by its title."""

    name: str
    title: str
    ylabel: str
    panels: dict[str, list[Line]]
    log: bool = False
    hidden: list[Line] = field(default_factory=list)
    """Lines in the table only, by which others are divided."""

    @property
    def lines(self) -> list[Line]:
        """All lines of all panels, and the hidden ones, once each."""
        shown = [line for lines in self.panels.values() for line in lines]
        return list(dict.fromkeys([*shown, *self.hidden]))

    @property
    def cells(self) -> list[Cell]:
        """All that must be computed, once each."""
        return list(
            dict.fromkeys(
                cell for one in self.lines for cell in (one.cell, *one.cell.references.values())
            )
        )


@dataclass(frozen=True)
class Choice:
    """What the user asked for; None keeps the paper's settings of each figure."""

    features: tuple[int, ...] | None = None
    noise: Numbers | None = None
    alpha: Numbers | None = None
    first_exchange: str = "models"


@dataclass(frozen=True)
class Sweep:
    """Panels with a line per value of one setting: a panel per alpha, or one with the first alpha."""

    sheet: str
    by: str
    """The setting that varies: "d", "sigma" or "p_in"."""
    values: Numbers
    base: Cell
    """All other settings."""
    single: bool = False

    def panels(self, alphas: Numbers, ask: Choice) -> dict[str, list[Line]]:
        """Return the panels with the settings that the user asked for."""
        if self.single:
            return {rf"{ALPHA} = {alphas[0]:g}, d/m = 1": self.lines(alphas[0], ask)}
        return {rf"{ALPHA} = {alpha:g}": self.lines(alpha, ask) for alpha in alphas}

    def lines(self, alpha: float, ask: Choice) -> list[Line]:
        """Return a line for every value."""
        values: Any = {"d": ask.features, "sigma": ask.noise}.get(self.by) or self.values
        base = replace(self.base, alpha=alpha, first_exchange=ask.first_exchange)
        return [
            Line(LABELS[self.by](value), replace(base, **{self.by: value}), self.sheet)
            for value in values
        ]


LABELS: dict[str, Callable[[float], str]] = {
    "d": lambda value: f"d/m = {value / ROWS:g}",
    "sigma": lambda value: rf"{SIGMA} = {value:g}",
    "p_in": lambda value: rf"$p_{{in}}$ = {value:g}",
}
FEATURES, NOISE = (2, 10, 50), (0.0, 1.0, 5.0)
WEAK, TREE_ALPHAS, BOUND_ALPHAS = (0.0, 0.01, 0.05), (0.0, 0.001, 1.0), (0.0001, 0.01, 0.1)
CLUSTERED = Cell("clustered", LINEAR, OURS, "MSE_w", 10)
TREES_OF_CLUSTERS = Cell("clustered", TREES, OURS, "MSE_val", 10)
SINGLE = Cell("single", LINEAR, OURS, "variation", 10)
MIXED = Cell("mixture", LINEAR, OURS, "MSE_val", 10)
MIXED_TREES = replace(MIXED, model=TREES)
YLABELS = {
    "clustered": {"MSE_w": "MSE of the weights", "MSE_val": "validation MSE / oracle's"},
    "single": {"variation": r"variation: sum of $|w_i - \overline{w}|^2$"},
    "mixture": {"MSE_val": "validation MSE / alone"},
}
SWEEPS: dict[str, tuple[str, Numbers, bool, list[Sweep]]] = {
    "fig1a": (
        "Clustered nodes, linear models: by features per row d/m (no noise)",
        WEAK, False, [Sweep("1a clustered d/m", "d", FEATURES, CLUSTERED)],
    ),
    "fig1b": (
        rf"Clustered nodes, linear models: by noise {SIGMA} (d/m = 1)",
        WEAK, True, [Sweep("1b clustered noise", "sigma", NOISE, CLUSTERED)],
    ),
    "fig2a": (
        "Clustered nodes, decision trees: by features per row d/m (no noise)",
        TREE_ALPHAS, True, [Sweep("2a DT clustered d/m", "d", FEATURES, TREES_OF_CLUSTERS)],
    ),
    "fig2b": (
        rf"Clustered nodes, decision trees: by noise {SIGMA} (d/m = 1)",
        TREE_ALPHAS, False, [Sweep("2b DT clustered noise", "sigma", NOISE, TREES_OF_CLUSTERS)],
    ),
    "fig3": (
        "Nodes that mix three distributions, linear models",
        (0.01, 0.05), False,
        [Sweep("3 noniid d/m", "d", FEATURES, MIXED),
         Sweep("3 noniid noise", "sigma", NOISE, MIXED, single=True)],
    ),
    "fig4": (
        "Nodes that mix three distributions, decision trees",
        (0.001, 1.0), True,
        [Sweep("4 DT noniid d/m", "d", FEATURES, MIXED_TREES),
         Sweep("4 DT noniid noise", "sigma", NOISE, MIXED_TREES, single=True)],
    ),
    "fig5a": (
        rf"Variation within one cluster and its bound (thin dots), by noise {SIGMA}",
        BOUND_ALPHAS, True, [Sweep("5a variation noise", "sigma", (0.1, 1.0, 5.0), SINGLE)],
    ),
    "fig5b": (
        r"Variation within one cluster and its bound (thin dots), by connectivity $p_{in}$",
        BOUND_ALPHAS, True,
        [Sweep("5b variation p_in", "p_in", (0.2, 0.6, 1.0), replace(SINGLE, sigma=0.1))],
    ),
}  # fmt: skip
"""Title, alphas, whether the axis is logarithmic, and what varies.

The paper labels the last panel of fig4 alpha = 1; its data are those of alpha = 0.001.
"""


def swept(name: str, ask: Choice) -> Figure:
    """Return a figure of sweeps; mixtures are divided by alpha = 0, which has no panel of its own."""
    title, alphas, log, sweeps = SWEEPS[name]
    base, alphas, hidden = sweeps[0].base, ask.alpha or alphas, list[Line]()
    if base.data == "mixture":
        alphas = tuple(alpha for alpha in alphas if alpha > 0)
        if not alphas:
            raise FedRelaxError(f"{name} compares with alpha = 0; add a larger alpha")
        hidden = [line for sweep in sweeps for line in sweep.lines(0.0, ask)]
    panels = {key: own for s in sweeps for key, own in s.panels(alphas, ask).items()}
    return Figure(name, title, YLABELS[base.data][base.metric], panels, log, hidden)


def benchmark(name: str, ask: Choice) -> Figure:
    """Return fig1c: five clusters, compared with other federated methods."""
    base, sheet = Cell("benchmark", LINEAR, OURS, "MSE_w", 50), "1c benchmark"

    def line(alpha: float) -> Line:
        cell = replace(base, alpha=alpha, first_exchange=ask.first_exchange)
        method = f"{OURS} " + (f"{alpha:g}".removeprefix("0") or "0")
        return Line(rf"FedRelax, {ALPHA} = {alpha:g}", cell, sheet, method)

    def others(methods: Sequence[str]) -> list[Line]:
        return [Line(NAMES[one], replace(base, method=one), sheet, one) for one in methods]

    ours = [line(alpha) for alpha in ask.alpha or WEAK]
    panels = {one.label: [one, *others(BASELINES)] for one in ours}
    panels["beyond the paper"] = [ours[len(ours) // 2], *others([AUTO, FEDPROX])]
    title = "Benchmark: 5 clusters of 30 nodes, d/m = 5, no noise"
    return Figure(name, title, "MSE of the weights", panels)


FIGURES = tuple(sorted([*SWEEPS, "fig1c"]))


def figures(names: Sequence[str], ask: Choice) -> list[Figure]:
    """Return the figures with these names; "all" means every figure."""
    for name in names:
        check_choice("figure", name, (*FIGURES, "all"))
    every = dict.fromkeys(one for name in names for one in (FIGURES if name == "all" else (name,)))
    return [(swept if name in SWEEPS else benchmark)(name, ask) for name in every]
