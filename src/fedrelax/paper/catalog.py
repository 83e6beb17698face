"""The figures of the paper: panels, lines and the settings that may be changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fedrelax.errors import FedRelaxError, did_you_mean
from fedrelax.paper.cells import ROWS, Cell
from fedrelax.paper.linear import AUTO, FURTHER

Numbers = tuple[float, ...]
LINEAR, TREES, OURS = "linear", "tree", "fedrelax"
ALPHA, SIGMA = r"$\alpha$", r"$\sigma$"
VARIATION = r"variation: sum of $|w_i - \overline{w}|^2$"
P_IN = (0.2, 0.6, 1.0)
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
    """One curve of a panel, what divides it and its bound, if any.

    ``sheet`` and ``method`` are its names in the table of results.
    """

    label: str
    cell: Cell
    sheet: str
    method: str = "fedrelax"
    by_local: Cell | None = None
    by_oracle: Cell | None = None
    bound: Cell | None = None

    @property
    def cells(self) -> list[Cell]:
        """All that must be computed to draw the line."""
        found = [self.cell, self.by_local, self.by_oracle, self.bound]
        return [cell for cell in found if cell is not None]


@dataclass(frozen=True)
class Panel:
    """One pair of axes."""

    title: str
    lines: list[Line] = field(default_factory=list)


@dataclass(frozen=True)
class Figure:
    """Panels side by side, as in the paper."""

    name: str
    title: str
    ylabel: str
    panels: list[Panel]
    log: bool = False
    hidden: list[Line] = field(default_factory=list)
    """Lines that are in the table only: what others are divided by."""

    @property
    def lines(self) -> list[Line]:
        """All lines of all panels, and the hidden ones."""
        return [*(line for panel in self.panels for line in panel.lines), *self.hidden]

    @property
    def cells(self) -> list[Cell]:
        """All that must be computed, once each."""
        return list(dict.fromkeys(cell for line in self.lines for cell in line.cells))


@dataclass(frozen=True)
class Choice:
    """What the user asked for; None keeps the paper's settings of each figure."""

    features: tuple[int, ...] | None = None
    noise: Numbers | None = None
    alpha: Numbers | None = None
    first_exchange: str = "models"
    beyond: bool = True
    """Whether fig1c has its panel with what the paper does not have."""


def fig1a(ask: Choice) -> Figure:
    """Clustered nodes, linear models, by d/m."""

    def line(d: int, alpha: float) -> Line:
        cell = Cell("clustered", LINEAR, OURS, "MSE_w", d, 0.0, 0.8, alpha, ask.first_exchange)
        return Line(_ratio(d), cell, "1a clustered d/m")

    title = "Clustered nodes, linear models: by features per row d/m (no noise)"
    panels = _panels(ask.alpha or (0.0, 0.01, 0.05), ask.features or (2, 10, 50), line)
    return Figure("fig1a", title, "MSE of the weights", panels)


def fig1b(ask: Choice) -> Figure:
    """Clustered nodes, linear models, by noise."""

    def line(sigma: float, alpha: float) -> Line:
        cell = Cell("clustered", LINEAR, OURS, "MSE_w", 10, sigma, 0.8, alpha, ask.first_exchange)
        return Line(_noise(sigma), cell, "1b clustered noise")

    title = rf"Clustered nodes, linear models: by noise {SIGMA} (d/m = 1)"
    panels = _panels(ask.alpha or (0.0, 0.01, 0.05), ask.noise or (0.0, 1.0, 5.0), line)
    return Figure("fig1b", title, "MSE of the weights", panels, log=True)


def fig1c(ask: Choice) -> Figure:
    """The benchmark: five clusters, other federated methods beside."""
    sheet = "1c benchmark"

    def line(alpha: float) -> Line:
        cell = Cell("benchmark", LINEAR, OURS, "MSE_w", 50, 0.0, 0.8, alpha, ask.first_exchange)
        name = f"{OURS} " + (f"{alpha:g}".removeprefix("0") or "0")
        return Line(rf"FedRelax, {ALPHA} = {alpha:g}", cell, sheet, name)

    def other(method: str) -> Line:
        return Line(NAMES[method], Cell("benchmark", LINEAR, method, "MSE_w", 50), sheet, method)

    ours = [line(alpha) for alpha in ask.alpha or (0.0, 0.01, 0.05)]
    panels = [Panel(one.label, [one, *map(other, BASELINES)]) for one in ours]
    if ask.beyond:
        more = [ours[len(ours) // 2], *map(other, (AUTO, *FURTHER))]
        panels.append(Panel("beyond the paper", more))
    title = "Benchmark: 5 clusters of 30 nodes, d/m = 5, no noise"
    return Figure("fig1c", title, "MSE of the weights", panels)


def fig2a(ask: Choice) -> Figure:
    """Clustered nodes, decision trees, by d/m."""

    def line(d: int, alpha: float) -> Line:
        return _clustered_trees(_ratio(d), "2a DT clustered d/m", d, 0.0, alpha, ask)

    title = "Clustered nodes, decision trees: by features per row d/m (no noise)"
    panels = _panels(ask.alpha or (0.0, 0.001, 1.0), ask.features or (2, 10, 50), line)
    return Figure("fig2a", title, "validation MSE / oracle's", panels, log=True)


def fig2b(ask: Choice) -> Figure:
    """Clustered nodes, decision trees, by noise."""

    def line(sigma: float, alpha: float) -> Line:
        return _clustered_trees(_noise(sigma), "2b DT clustered noise", 10, sigma, alpha, ask)

    title = rf"Clustered nodes, decision trees: by noise {SIGMA} (d/m = 1)"
    panels = _panels(ask.alpha or (0.0, 0.001, 1.0), ask.noise or (0.0, 1.0, 5.0), line)
    return Figure("fig2b", title, "validation MSE / oracle's", panels)


def _clustered_trees(
    label: str, sheet: str, d: int, sigma: float, alpha: float, ask: Choice
) -> Line:
    ours = Cell("clustered", TREES, OURS, "MSE_val", d, sigma, 0.8, alpha, ask.first_exchange)
    oracle = replace(ours, method="oracle", alpha=None, first_exchange="models")
    return Line(label, ours, sheet, by_local=replace(ours, alpha=0.0), by_oracle=oracle)


def fig3(ask: Choice) -> Figure:
    """Nodes that mix three distributions, linear models."""
    title = "Nodes that mix three distributions, linear models"
    return _mixtures("fig3", title, "3 noniid", LINEAR, ask, (0.01, 0.05), noisy=0.01)


def fig4(ask: Choice) -> Figure:
    """Nodes that mix three distributions, decision trees.

    The paper labels the last panel alpha = 1; its data are those of alpha = 0.001.
    """
    title = "Nodes that mix three distributions, decision trees"
    return _mixtures("fig4", title, "4 DT noniid", TREES, ask, (0.001, 1.0), noisy=0.001)


def _mixtures(
    name: str, title: str, tag: str, model: str, ask: Choice, alphas: Numbers, noisy: float
) -> Figure:
    """Both mixture figures: panels by d/m and one by noise, divided by training alone."""
    if ask.alpha is not None:
        alphas = tuple(alpha for alpha in ask.alpha if alpha > 0)
        if not alphas:
            raise FedRelaxError(f"{name} compares with alpha = 0; add a larger alpha")
        noisy = alphas[0]
    features, noise = ask.features or (2, 10, 50), ask.noise or (0.0, 1.0, 5.0)

    def line(label: str, sheet: str, d: int, sigma: float, alpha: float) -> Line:
        cell = Cell("mixture", model, OURS, "MSE_val", d, sigma, 0.8, alpha, ask.first_exchange)
        return Line(label, cell, sheet, by_local=replace(cell, alpha=0.0))

    def by_features(d: int, alpha: float) -> Line:
        return line(_ratio(d), f"{tag} d/m", d, 0.0, alpha)

    def by_noise(sigma: float, alpha: float) -> Line:
        return line(_noise(sigma), f"{tag} noise", 10, sigma, alpha)

    panels = _panels(alphas, features, by_features)
    panels.append(
        Panel(rf"{ALPHA} = {noisy:g}, d/m = 1", [by_noise(sigma, noisy) for sigma in noise])
    )
    alone = [by_features(d, 0.0) for d in features] + [by_noise(sigma, 0.0) for sigma in noise]
    label = "validation MSE / alone"
    return Figure(name, title, label, panels, log=model == TREES, hidden=alone)


def fig5a(ask: Choice) -> Figure:
    """One cluster: variation of the models and its bound, by noise."""

    def line(sigma: float, alpha: float) -> Line:
        return _variation(_noise(sigma), "5a variation noise", sigma, 0.8, alpha, ask)

    title = rf"Variation within one cluster and its bound (thin dots), by noise {SIGMA}"
    panels = _panels(ask.alpha or (0.0001, 0.01, 0.1), ask.noise or (0.1, 1.0, 5.0), line)
    return Figure("fig5a", title, VARIATION, panels, log=True)


def fig5b(ask: Choice) -> Figure:
    """One cluster: variation of the models and its bound, by connectivity."""

    def line(p_in: float, alpha: float) -> Line:
        label = rf"$p_{{in}}$ = {p_in:g}"
        return _variation(label, "5b variation p_in", 0.1, p_in, alpha, ask)

    title = r"Variation within one cluster and its bound (thin dots), by connectivity $p_{in}$"
    panels = _panels(ask.alpha or (0.0001, 0.01, 0.1), P_IN, line)
    return Figure("fig5b", title, VARIATION, panels, log=True)


def _variation(
    label: str, sheet: str, sigma: float, p_in: float, alpha: float, ask: Choice
) -> Line:
    cell = Cell("single", LINEAR, OURS, "variation", 10, sigma, p_in, alpha, ask.first_exchange)
    bound = replace(cell, metric="bound", first_exchange="models") if alpha > 0 else None
    return Line(label, cell, sheet, bound=bound)


def _panels(
    alphas: Sequence[float], values: Sequence[Any], line: Callable[[Any, float], Line]
) -> list[Panel]:
    """Return one panel per alpha with one line per value."""
    return [
        Panel(rf"{ALPHA} = {alpha:g}", [line(value, alpha) for value in values]) for alpha in alphas
    ]


def _ratio(d: int) -> str:
    return f"d/m = {d / ROWS:g}"


def _noise(sigma: float) -> str:
    return rf"{SIGMA} = {sigma:g}"


MAKERS = {
    "fig1a": fig1a,
    "fig1b": fig1b,
    "fig1c": fig1c,
    "fig2a": fig2a,
    "fig2b": fig2b,
    "fig3": fig3,
    "fig4": fig4,
    "fig5a": fig5a,
    "fig5b": fig5b,
}
USES = {
    "features": ("fig1a", "fig2a", "fig3", "fig4"),
    "noise": ("fig1b", "fig2b", "fig3", "fig4", "fig5a"),
}
"""Which figures a setting changes; the others ignore it."""


def figures(names: Sequence[str], ask: Choice) -> list[Figure]:
    """Return the figures by name; "all" is every one of them."""
    wanted: dict[str, None] = {}
    for name in names:
        if name != "all" and name not in MAKERS:
            known = (*MAKERS, "all")
            hint = did_you_mean(name, known) or f"; use {', '.join(known)}"
            raise FedRelaxError(f"there is no figure {name!r}{hint}")
        wanted |= dict.fromkeys(MAKERS if name == "all" else (name,))
    return [MAKERS[name](ask) for name in wanted]
