"""The figures of the paper: panels, lines and the settings that may be changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from fedrelax.errors import FedRelaxError, did_you_mean
from fedrelax.paper.curves import AUTO, FURTHER, ROWS, Cell

Numbers = tuple[float, ...]
LINEAR, TREES, OURS = "linear", "tree", "fedrelax"
ALPHA, SIGMA = r"$\alpha$", r"$\sigma$"
BASELINES = ("oracle", "ifca5", "ifca2", "fedavg")
NAMES = {
    "oracle": "Oracle",
    "ifca5": "IFCA, 5 clusters",
    "ifca2": "IFCA, 2 clusters",
    "fedavg": "FedAvg",
    "fedprox": "FedProx",
    "ditto": "Ditto",
    "network lasso": "network Lasso",
    "fedmd": "FedMD",
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
        return list(dict.fromkeys(cell for line in self.lines for cell in line.cell.needed))


@dataclass(frozen=True)
class Choice:
    """What the user asked for; None keeps the paper's settings of each figure."""

    features: tuple[int, ...] | None = None
    noise: Numbers | None = None
    alpha: Numbers | None = None
    first_exchange: str = "models"
    beyond: bool = True
    """Whether fig1c gets a further panel of methods that are not in the paper."""


@dataclass(frozen=True)
class Sweep:
    """A figure with a panel per alpha and a line per value of one setting."""

    title: str
    sheet: str
    by: str
    """The setting that varies: "d", "sigma" or "p_in"."""
    values: Numbers
    alphas: Numbers
    data: str = "clustered"
    model: str = LINEAR
    sigma: float = 0.0
    """The noise, unless the figure varies it."""
    log: bool = False

    def figure(self, name: str, ask: Choice) -> Figure:
        """Return the figure with the settings that the user asked for."""
        metric, ylabel = METRICS[self.data, self.model]

        def line(value: float, alpha: float) -> Line:
            d, sigma, p_in = (
                value if self.by == setting else usual
                for setting, usual in (("d", 10), ("sigma", self.sigma), ("p_in", 0.8))
            )
            cell = Cell(
                self.data, self.model, OURS, metric, int(d), sigma, p_in, alpha, ask.first_exchange
            )
            return Line(_label(self.by, value), cell, self.sheet)

        values = {"d": ask.features, "sigma": ask.noise}.get(self.by) or self.values
        panels = _panels(ask.alpha or self.alphas, values, line)
        return Figure(name, self.title, ylabel, panels, log=self.log)


METRICS = {
    ("clustered", LINEAR): ("MSE_w", "MSE of the weights"),
    ("clustered", TREES): ("MSE_val", "validation MSE / oracle's"),
    ("single", LINEAR): ("variation", r"variation: sum of $|w_i - \overline{w}|^2$"),
}
FEATURES, NOISE = (2, 10, 50), (0.0, 1.0, 5.0)
WEAK, TREE_ALPHAS, BOUND_ALPHAS = (0.0, 0.01, 0.05), (0.0, 0.001, 1.0), (0.0001, 0.01, 0.1)
SWEEPS = {
    "fig1a": Sweep(
        "Clustered nodes, linear models: by features per row d/m (no noise)",
        "1a clustered d/m", "d", FEATURES, WEAK,
    ),
    "fig1b": Sweep(
        rf"Clustered nodes, linear models: by noise {SIGMA} (d/m = 1)",
        "1b clustered noise", "sigma", NOISE, WEAK, log=True,
    ),
    "fig2a": Sweep(
        "Clustered nodes, decision trees: by features per row d/m (no noise)",
        "2a DT clustered d/m", "d", FEATURES, TREE_ALPHAS, model=TREES, log=True,
    ),
    "fig2b": Sweep(
        rf"Clustered nodes, decision trees: by noise {SIGMA} (d/m = 1)",
        "2b DT clustered noise", "sigma", NOISE, TREE_ALPHAS, model=TREES,
    ),
    "fig5a": Sweep(
        rf"Variation within one cluster and its bound (thin dots), by noise {SIGMA}",
        "5a variation noise", "sigma", (0.1, 1.0, 5.0), BOUND_ALPHAS, "single", log=True,
    ),
    "fig5b": Sweep(
        r"Variation within one cluster and its bound (thin dots), by connectivity $p_{in}$",
        "5b variation p_in", "p_in", (0.2, 0.6, 1.0), BOUND_ALPHAS, "single", sigma=0.1, log=True,
    ),
}  # fmt: skip


def benchmark(ask: Choice) -> Figure:
    """Return fig1c: five clusters, compared with other federated methods."""
    sheet = "1c benchmark"

    def line(alpha: float) -> Line:
        cell = Cell("benchmark", LINEAR, OURS, "MSE_w", 50, 0.0, 0.8, alpha, ask.first_exchange)
        name = f"{OURS} " + (f"{alpha:g}".removeprefix("0") or "0")
        return Line(rf"FedRelax, {ALPHA} = {alpha:g}", cell, sheet, name)

    def other(method: str) -> Line:
        return Line(NAMES[method], Cell("benchmark", LINEAR, method, "MSE_w", 50), sheet, method)

    ours = [line(alpha) for alpha in ask.alpha or WEAK]
    panels = {one.label: [one, *map(other, BASELINES)] for one in ours}
    if ask.beyond:
        panels["beyond the paper"] = [ours[len(ours) // 2], *map(other, (AUTO, *FURTHER))]
    title = "Benchmark: 5 clusters of 30 nodes, d/m = 5, no noise"
    return Figure("fig1c", title, "MSE of the weights", panels)


def mixtures(name: str, ask: Choice) -> Figure:
    """Return fig3 or fig4, nodes that mix three distributions: panels by d/m and one by noise.

    The paper labels the last panel of fig4 alpha = 1; its data are those of alpha = 0.001.
    """
    model, models, tag, alphas = MIXTURES[name]
    if ask.alpha is not None:
        alphas = tuple(alpha for alpha in ask.alpha if alpha > 0)
        if not alphas:
            raise FedRelaxError(f"{name} compares with alpha = 0; add a larger alpha")
    features, noise = ask.features or FEATURES, ask.noise or NOISE

    def line(label: str, sheet: str, d: int, sigma: float, alpha: float) -> Line:
        cell = Cell("mixture", model, OURS, "MSE_val", d, sigma, 0.8, alpha, ask.first_exchange)
        return Line(label, cell, f"{tag} {sheet}")

    def by_features(d: float, alpha: float) -> Line:
        return line(_label("d", d), "d/m", int(d), 0.0, alpha)

    def by_noise(sigma: float, alpha: float) -> Line:
        return line(_label("sigma", sigma), "noise", 10, sigma, alpha)

    panels = _panels(alphas, features, by_features)
    noisy = rf"{ALPHA} = {alphas[0]:g}, d/m = 1"
    panels[noisy] = [by_noise(sigma, alphas[0]) for sigma in noise]
    alone = [by_features(d, 0.0) for d in features] + [by_noise(sigma, 0.0) for sigma in noise]
    title, label = f"Nodes that mix three distributions, {models}", "validation MSE / alone"
    return Figure(name, title, label, panels, log=model == TREES, hidden=alone)


def _panels(
    alphas: Sequence[float], values: Sequence[float], line: Callable[[float, float], Line]
) -> dict[str, list[Line]]:
    """Return one panel per alpha with one line per value."""
    return {rf"{ALPHA} = {alpha:g}": [line(value, alpha) for value in values] for alpha in alphas}


def _label(setting: str, value: float) -> str:
    if setting == "d":
        return f"d/m = {value / ROWS:g}"
    return rf"{SIGMA if setting == 'sigma' else '$p_{in}$'} = {value:g}"


MIXTURES: dict[str, tuple[str, str, str, Numbers]] = {
    "fig3": (LINEAR, "linear models", "3 noniid", (0.01, 0.05)),
    "fig4": (TREES, "decision trees", "4 DT noniid", (0.001, 1.0)),
}
FIGURES = tuple(sorted([*SWEEPS, *MIXTURES, "fig1c"]))
USES = {
    "features": ("fig1a", "fig2a", "fig3", "fig4"),
    "noise": ("fig1b", "fig2b", "fig3", "fig4", "fig5a"),
}
"""The figures that each setting changes; the others ignore it."""


def figures(names: Sequence[str], ask: Choice) -> list[Figure]:
    """Return the figures with these names; "all" means every figure."""
    wanted: dict[str, None] = {}
    for name in names:
        if name != "all" and name not in FIGURES:
            options = (*FIGURES, "all")
            hint = did_you_mean(name, options) or f"; use {', '.join(options)}"
            raise FedRelaxError(f"there is no figure {name!r}{hint}")
        wanted |= dict.fromkeys(FIGURES if name == "all" else (name,))
    return [
        SWEEPS[name].figure(name, ask)
        if name in SWEEPS
        else mixtures(name, ask)
        if name in MIXTURES
        else benchmark(ask)
        for name in wanted
    ]
