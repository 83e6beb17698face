"""Networks that live on: newcomers, ripples, and rows hour by hour.

``python -m benchmarks.living [PART ...] [--weather FILE]`` prints, using the estimators alone, how good
the models of newcomers to a network that has wired itself are, what a ripple costs compared with a full
run and how well the weather is predicted hour by hour. Parts: newcomers, large, ripple, trees, cost,
weather.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import Ridge
from sklearn.tree import DecisionTreeRegressor

from fedrelax import FedRelax, FedRelaxRegressor, Graph
from fedrelax.datasets import SyntheticNetwork, clustered, load_weather
from fedrelax.models import LinearModel

WEATHER = Path("../shared/data/fmi_hourly.csv")


def _split(data: SyntheticNetwork, sizes: int, first: int) -> tuple[list[int], list[int]]:
    """Return the nodes present from the start, ``first`` of every cluster, and the newcomers."""
    place = np.arange(len(data.X)) % sizes
    return np.flatnonzero(place < first).tolist(), np.flatnonzero(place >= first).tolist()


def _rows(data: SyntheticNetwork, nodes: list[int]) -> tuple[Any, Any, Any]:
    n, m, d = data.X[nodes].shape
    return data.X[nodes].reshape(n * m, d), data.y[nodes].ravel(), np.repeat(nodes, m)


def _error(est: FedRelaxRegressor, data: SyntheticNetwork, nodes: list[int]) -> float:
    """Return the mean squared error of the weights."""
    W = np.stack([est.models_[i].coef_ for i in nodes])
    return float(np.square(W - data.true_weights[nodes]).mean())


def _clusters(data: SyntheticNetwork, nodes: Iterable[Any]) -> set[int]:
    return {int(data.clusters[i]) for i in nodes}


def newcomers() -> None:
    """Measure fig. 1c's benchmark: 150 nodes wire themselves, and 50 newcomers come one by one."""
    data = clustered((40,) * 5, m=10, d=50, random_state=0)
    first, new = _split(data, 40, 30)
    for rows in (10, 3):
        est = FedRelaxRegressor(
            LinearModel(fit_intercept=False),
            data.graph.subgraph(first),
            alpha="auto",
            wiring="auto",
        ).fit(*_rows(data, first))
        right, seconds = 0, []
        for i in new:
            begin = time.perf_counter()
            change = est.plug_in(i, data.X[i][:rows], data.y[i][:rows])
            seconds.append(time.perf_counter() - begin)
            right += _clusters(data, change.neighbours) == {int(data.clusters[i])}
        print(
            f"newcomers, m={rows}: MSE_w {_error(est, data, new):.2e} (of those before them "
            f"{_error(est, data, first):.2e}), circles right {right} of {len(new)}, "
            f"{np.mean(seconds):.3f} s each, at most {np.max(seconds):.3f} s"
        )


def large() -> None:
    """Measure the same at 2,000 nodes, against one run of ``fit`` with known settings."""
    data = clustered((410,) * 5, m=10, d=50, p_in=0.06, p_out=0.015, random_state=0)
    first, new = _split(data, 410, 400)
    start = time.perf_counter()
    est = FedRelaxRegressor(
        LinearModel(fit_intercept=False), data.graph.subgraph(first), alpha=0.0006, wiring="rewire"
    ).fit(*_rows(data, first))
    full, seconds, right = time.perf_counter() - start, [], 0
    for i in new:
        begin = time.perf_counter()
        change = est.plug_in(i, data.X[i], data.y[i])
        seconds.append(time.perf_counter() - begin)
        right += _clusters(data, change.neighbours) == {int(data.clusters[i])}
    shares = [100 * value / full for value in (np.mean(seconds), np.median(seconds))]
    print(
        f"2,000 nodes: one run {full:.1f} s; a newcomer {np.mean(seconds):.3f} s ({shares[0]:.2g} %), the "
        f"median {np.median(seconds):.3f} s ({shares[1]:.2g} %); circles right {right} of {len(new)}; "
        f"MSE_w {_error(est, data, new):.2e}"
    )


def _ring(n: int, reach: int = 3) -> Graph:
    i = np.repeat(np.arange(n), reach)
    j = (i + np.tile(np.arange(1, reach + 1), n)) % n
    return Graph.from_edges(np.column_stack([i, j]), labels=range(n))


def _slow_change(n: int, m: int = 10, d: int = 5, seed: int = 0) -> tuple[Any, Any, Any]:
    """Draw linear models that change slowly along a ring."""
    rng = np.random.default_rng(seed)
    angle = 2 * np.pi * np.arange(n)[:, None] * np.arange(1, d + 1) / n
    X, w = rng.standard_normal((n * m, d)), np.sin(angle)
    y = (X * np.repeat(w, m, axis=0)).sum(axis=1) + 0.3 * rng.standard_normal(n * m)
    return X, y, np.repeat(np.arange(n), m)


def ripple() -> None:
    """Compare a newcomer, new rows and a departure with full runs from scratch on the final graph."""
    n, model = 200, Ridge(1.0)
    X, y, nodes = _slow_change(n + 1)
    public = np.random.default_rng(1).standard_normal((50, X.shape[1]))
    settings: dict[str, Any] = {"alpha": 0.3, "public": public, "solver": FedRelax(tol=1e-12)}
    old = nodes < n
    est = FedRelaxRegressor(model, _ring(n), **settings).fit(X[old], y[old], nodes[old])
    near, tol = [0, 1, 2, n - 2, n - 1], 1e-9

    def apart(keep: Any) -> float:
        full = FedRelaxRegressor(model, est.whole_graph_, **settings)
        full.fit(X[keep], y[keep], nodes[keep])
        return max(
            float(np.abs(full.models_[i].coef_ - m.coef_).max()) for i, m in est.models_.items()
        )

    change = est.plug_in(n, X[~old], y[~old], neighbours=near, tol=tol)
    print(
        f"ripple, join: {change.refits} refits, largest difference to a full run {apart(nodes >= 0):.1e}"
    )
    rng = np.random.default_rng(2)
    more = rng.standard_normal((5, X.shape[1]))
    target = more.sum(axis=1)
    change = est.update(more, target, [7] * 5, tol=tol)
    X, y, nodes = np.vstack([X, more]), np.concatenate([y, target]), np.append(nodes, [7] * 5)
    print(f"ripple, update: {change.refits} refits, largest difference {apart(nodes >= 0):.1e}")
    change = est.unplug(30, tol=tol)
    print(f"ripple, leave: {change.refits} refits, largest difference {apart(nodes != 30):.1e}")


def trees(n: int = 60, m: int = 40, seeds: int = 8) -> None:
    """Compare a newcomer with a full run for trees, by the error on unseen rows."""
    differences, refitted = [], []
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        X, nodes = rng.uniform(-1, 1, (2 * n * m, 3)), np.repeat(np.arange(n), 2 * m)
        shift = np.sin(2 * np.pi * nodes / n)
        y = np.sign(X[:, 0] - 0.3 * shift) + shift * X[:, 1] + 0.5 * rng.standard_normal(len(X))
        train = np.tile(np.arange(2 * m) < m, n)
        old, own = train & (nodes < n - 1), train & (nodes == n - 1)
        public, graph = rng.uniform(-1, 1, (200, 3)), _ring(n)
        settings: dict[str, Any] = {"alpha": 0.1, "public": public, "rounds": 10}
        model = DecisionTreeRegressor(max_depth=5, min_samples_leaf=5)
        est = FedRelaxRegressor(model, graph.subgraph(range(n - 1)), **settings)
        est.fit(X[old], y[old], nodes[old])
        change = est.plug_in(n - 1, X[own], y[own], neighbours=graph.neighbours(n - 1))
        full = FedRelaxRegressor(model, graph, **settings).fit(X[train], y[train], nodes[train])
        errors = [
            float(np.square(y[~train] - fit.predict(X[~train], nodes[~train])).mean())
            for fit in (est, full)
        ]
        differences.append(100 * (errors[0] / errors[1] - 1))
        refitted.append(len(change.refitted))
    shown = ", ".join(f"{value:+.2f}" for value in differences)
    print(
        f"trees, {n} nodes: {np.mean(refitted):.0f} refitted; error on unseen rows against a full run "
        f"{np.mean(differences):+.2f} % on average over {seeds} draws ({shown})"
    )


def cost() -> None:
    """Measure the seconds per newcomer against the size of the network, at a fixed degree."""
    sizes, seconds = (200, 2_000, 20_000, 200_000), []
    for n in sizes:
        X, y, nodes = _slow_change(n)
        est = FedRelaxRegressor(Ridge(1.0), _ring(n), alpha=0.3, public_rows=20).fit(X, y, nodes)
        rng, times = np.random.default_rng(3), []
        for k in range(21):
            at = int(rng.integers(n))
            near = [(at + step) % n for step in range(6)]
            own = rng.standard_normal((10, X.shape[1]))
            begin = time.perf_counter()
            change = est.plug_in(n + k, own, own @ np.ones(X.shape[1]), neighbours=near)
            times.append(time.perf_counter() - begin)
        seconds.append(float(np.median(times[1:])))
        print(
            f"cost, {n:,} nodes: first newcomer {times[0]:.3f} s, then {seconds[-1]:.4f} s, "
            f"{change.refits} refits"
        )
    slope = np.polyfit(np.log(sizes), np.log(seconds), 1)[0]
    print(f"cost: exponent {slope:.3f}")


def weather(path: Path = WEATHER, first: int = 24) -> None:
    """Let stations predict each hour from the two before, and then learn from it."""
    data = load_weather(path)
    hours, hour = np.unique(data.timestamps, return_inverse=True)
    names = data.coordinates.index.tolist()
    table = np.full((len(hours), len(names)), np.nan)
    place = {name: k for k, name in enumerate(names)}
    table[hour, [place[name] for name in data.stations]] = data.y
    day = np.full((len(hours), 2, 1), np.nan)
    for h, stamp in enumerate(hours):
        angle = 2 * np.pi * (stamp - stamp.astype("datetime64[D]")) / np.timedelta64(1, "D")
        day[h, :, 0] = np.sin(angle), np.cos(angle)
    rows = []
    for h in range(2, len(hours)):
        known = np.flatnonzero(np.isfinite(table[h - 2 : h + 1]).all(axis=0))
        X = np.column_stack(
            [table[h - 1, known], table[h - 2, known], np.tile(day[h, :, 0], (len(known), 1))]
        )
        rows.append((X, table[h, known], [names[k] for k in known]))
    start = tuple(np.concatenate(part) for part in zip(*rows[:first], strict=True))
    present = set(start[2])
    graph = Graph.from_coordinates(data.coordinates, k=5)
    model = LinearModel(ridge=1.0)
    together = FedRelaxRegressor(model, graph, alpha="auto", wiring="fixed").fit(*start)
    alone = FedRelaxRegressor(model, graph, alpha=0.0).fit(*start)
    again = together
    sums, seconds = np.zeros(3), np.zeros(2)
    count, past = 0, [start]
    for X, y, stations in rows[first:]:
        own = np.array([name in present for name in stations])
        X, y, stations = X[own], y[own], np.array(stations, dtype=object)[own]
        sums[2] += np.square(y - again.predict(X, stations)).sum()
        begin = time.perf_counter()
        change = together.update(X, y, stations)
        seconds[0] += time.perf_counter() - begin
        sums[0] += change.error * change.rows
        lone = alone.update(X, y, stations)
        sums[1] += lone.error * lone.rows
        past.append((X, y, stations))
        begin = time.perf_counter()
        again = together_again(again, past)
        seconds[1] += time.perf_counter() - begin
        count += len(y)
    errors, each = np.sqrt(sums / count), seconds / len(rows[first:])
    print(
        f"weather, {len(rows) - first} hours, alpha {together.alpha_:.3g}: running RMSE together "
        f"{errors[0]:.4f}, alone {errors[1]:.4f}, full refit every hour {errors[2]:.4f}; "
        f"{each[0]:.3f} s an hour, full refit {each[1]:.3f} s"
    )


def together_again(fit: FedRelaxRegressor, past: list[Any]) -> FedRelaxRegressor:
    """Return an estimator trained from scratch on all rows so far, with the settings first chosen."""
    return fit.refitted(*(np.concatenate(part) for part in zip(*past, strict=True)))


PARTS = {part.__name__: part for part in (newcomers, large, ripple, trees, cost, weather)}


def main() -> None:
    """Run the named parts, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=list(PARTS))
    parser.add_argument("--weather", type=Path, default=WEATHER)
    given = parser.parse_args()
    for name in given.parts:
        start = time.perf_counter()
        if name == "weather":
            weather(given.weather)
        else:
            PARTS[name]()
        print(f"  ({name}: {time.perf_counter() - start:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
