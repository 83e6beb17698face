"""Do trees wire themselves? ``wiring="auto"`` in the setting of the paper's tree figure.

``python -m benchmarks.tree_wiring [SEEDS]`` prints, for 3 clusters of 50 nodes with 10 rows of 10
features each (no noise, alpha 1, trees of depth 5, the paper's weighting and self-distillation), the
validation error of: every node alone, plain FedRelax after one round and after seven, automatic wiring,
and the oracle, a tree per cluster. Then the same wiring with what brings it closer to the oracle: many
common public rows, and deeper trees, which can follow their neighbours more closely. Validation rows are
not used for any choice: "auto" holds out training rows.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import numpy as np

from fedrelax.datasets import SyntheticNetwork
from fedrelax.estimators import FedRelaxRegressor
from fedrelax.paper.curves import DEPTH, DISTILLATION, Cell, tree_curve, tree_network
from fedrelax.solvers import FedRelax

CELL = Cell("clustered", "tree", "fedrelax", "MSE_val", 10, 0.0, 0.8, 1.0)
PAPERS = {"alpha": 1.0, "weighting": "rows", "distillation": DISTILLATION}
PUBLIC_ROWS = 2000
DEEPER = 12


def automatic(data: SyntheticNetwork, depth: int, **settings: Any) -> tuple[float, float, str]:
    """Return the error, the share of kept edges within clusters, and the wiring that was chosen."""
    from sklearn.tree import DecisionTreeRegressor

    n, m, d = data.X.shape
    tree = DecisionTreeRegressor(max_depth=depth)
    fit = FedRelaxRegressor(tree, data.graph, wiring="auto", **settings)
    fit.fit(data.X.reshape(n * m, d), data.y.ravel(), nodes=np.repeat(range(n), m))
    answers = np.stack([fit.models_[i].predict(data.X_val[i]) for i in range(n)])
    edges = (fit.result_.kept or fit.result_.graph).adjacency
    within = edges.multiply(data.clusters[:, None] == data.clusters).sum() / edges.sum()
    name = fit.wiring_ if isinstance(fit.wiring_, str) else fit.wiring_.name
    return float(np.square(answers - data.y_val).mean()), float(within), name


def measure(seed: int) -> dict[str, float | str]:
    """Return the errors of one drawn network."""
    data = CELL.draw(seed)
    plain = FedRelax(rounds=7, tol=0.0, **PAPERS).solve(tree_network(data))  # type: ignore[arg-type]
    curve = plain.history["validation_loss"]
    own_sets = dict(enumerate(data.public))
    auto, within, name = automatic(data, DEPTH, public=own_sets, **PAPERS)
    rng = np.random.default_rng([seed, 1])
    common = rng.standard_normal((PUBLIC_ROWS, data.X.shape[2]))
    deeper, still, _ = automatic(data, DEEPER, public=common, alpha=1.0, weighting="rows")
    oracle = tree_curve(replace(CELL, method="oracle", alpha=None), seed)[0]
    return {
        "alone": curve[0],
        "one round": curve[1],
        "seven": curve[7],
        "auto": auto,
        "within": within,
        "wiring": name,
        "auto, deeper": deeper,
        "within ": still,
        "oracle": oracle,
    }


def main(seeds: int = 3) -> None:
    """Print a line per seed, and the means."""
    lines = []
    for seed in range(seeds):
        lines.append(measure(seed))
        if seed == 0:
            print("seed  " + "  ".join(f"{name:>12}" for name in lines[0]))
        _print(str(seed), lines[-1])
    numbers = [name for name in lines[0] if name != "wiring"]
    means = {name: float(np.mean([line[name] for line in lines])) for name in numbers}
    _print("mean", {name: means.get(name, "") for name in lines[0]})
    gap = means["one round"] - means["oracle"]
    for name in ("auto", "auto, deeper"):
        closed = (means["one round"] - means[name]) / gap
        print(f"{name}: {closed:.0%} of the way from one plain round to the oracle")


def _print(seed: str, line: dict[str, Any]) -> None:
    cells = (f"{v:>12}" if isinstance(v, str) else f"{v:12.3f}" for v in line.values())
    print(f"{seed:4}  " + "  ".join(cells), flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
