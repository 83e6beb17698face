"""Trees and forests of all nodes, grown at once and by a loop over scikit-learn's."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fedrelax.bench.problems import exponent
from fedrelax.extras import need

OWN_ROWS, PUBLIC_ROWS, FEATURES, PUBLIC_WEIGHT = 20, 200, 10, 0.1
FOREST_TREES, FOREST_NODES = 100, 4
THREADS = (1, 2)

Progress = Callable[[str], None]


def problems(nodes: int) -> list[Any]:
    """Return the fits of one round: own rows, and public rows with other nodes' answers."""
    need("numba", "fast")
    from fedrelax.models.trees.batch import Problem

    rng = np.random.default_rng(0)
    public = rng.standard_normal((PUBLIC_ROWS, FEATURES))
    slope = rng.standard_normal(FEATURES)
    made = []
    for node in range(nodes):
        own = rng.standard_normal((OWN_ROWS, FEATURES))
        target = [(X @ slope + rng.standard_normal(len(X)))[:, None] for X in (own, public)]
        weight = [np.ones(OWN_ROWS), np.full(PUBLIC_ROWS, PUBLIC_WEIGHT)]
        made.append(Problem([own, public], target, weight, node, [own, public]))
    return made


def _seconds(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _at_once(estimator: Any, given: Sequence[Any], memory: Any, threads: int) -> Any:
    from fedrelax.models.trees.batch import answers
    from fedrelax.models.trees.settings import is_forest, rules_of

    return answers(rules_of(estimator, FEATURES), is_forest(estimator), given, memory, threads)


def _loop(estimator: Any, given: Sequence[Any]) -> list[Any]:
    from sklearn.base import clone

    found = []
    for problem in given:
        X, y = np.concatenate(problem.X), np.concatenate(problem.target)[:, 0]
        tree = clone(estimator).set_params(random_state=problem.seed)
        tree.fit(X, y, sample_weight=np.concatenate(problem.weight))
        found.append(tree.predict(X))
    return found


def against_loop(
    estimator: Any, nodes: int, looped: int, repeats: int = 5, progress: Progress = lambda s: None
) -> dict[str, Any]:
    """Return the time of a node's fit and answers both ways, and the median ratio of pairs of runs.

    ``looped`` nodes are fitted by ``clone(tree).fit(X, y, sample_weight=w).predict(X)``.
    """
    from fedrelax.models.trees.blocks import Sorted

    given, memory = problems(nodes), Sorted()
    progress(f"{type(estimator).__name__}: compiling and comparing")
    first = _seconds(lambda: _at_once(estimator, given[:2], Sorted(), 1))
    found = _at_once(estimator, given, memory, 1)
    expected = _loop(estimator, given[:looped])
    difference = max(
        float(np.abs(np.concatenate(mine)[:, 0] - theirs).max())
        for mine, theirs in zip(found[:looped], expected, strict=True)
    )
    lines = []
    for repeat in range(repeats):
        progress(f"{type(estimator).__name__}: pair of runs {repeat + 1} of {repeats}")
        loop = _seconds(lambda: _loop(estimator, given[:looped])) / looped
        grown = [
            _seconds(lambda: _at_once(estimator, given, memory, threads)) / nodes  # noqa: B023
            for threads in THREADS
        ]
        lines.append([loop, *grown])
    loop, *grown = np.median(lines, axis=0)
    ratios = np.median([[line[0] / part for part in line[1:]] for line in lines], axis=0)
    return {
        "nodes": nodes,
        "first_call_seconds": first,
        "loop_per_node_ms": loop * 1e3,
        **{f"per_node_ms_threads_{t}": g * 1e3 for t, g in zip(THREADS, grown, strict=True)},
        **{f"times_faster_threads_{t}": float(r) for t, r in zip(THREADS, ratios, strict=True)},
        "max_difference": difference,
    }


def measure(nodes: int, progress: Progress = lambda step: None) -> dict[str, Any]:
    """Return the comparison for trees, whole and of depth 5, and for forests of 100 trees."""
    from sklearn.ensemble import ExtraTreesRegressor, RandomForestRegressor
    from sklearn.tree import DecisionTreeRegressor

    looped = min(nodes, 60)
    return {
        "trees": against_loop(DecisionTreeRegressor(), nodes, looped, progress=progress),
        "trees_of_depth_5": against_loop(
            DecisionTreeRegressor(max_depth=5), nodes, looped, progress=progress
        ),
        "random_forests": against_loop(
            RandomForestRegressor(FOREST_TREES), FOREST_NODES, FOREST_NODES, 3, progress
        ),
        "extra_trees": against_loop(
            ExtraTreesRegressor(FOREST_TREES), FOREST_NODES, FOREST_NODES, 3, progress
        ),
    }


def scaling(sizes: Sequence[int], progress: Progress = lambda step: None) -> dict[str, Any]:
    """Return seconds and memory of a round for networks of growing size, on one thread."""
    from sklearn.tree import DecisionTreeRegressor

    from fedrelax.models.trees.blocks import Sorted

    lines, tree = [], DecisionTreeRegressor(max_depth=5)
    for nodes in sizes:
        progress(f"{nodes} nodes")
        given, memory = problems(nodes), Sorted()
        tracemalloc.start()
        _at_once(tree, given, memory, 1)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        seconds = min(_seconds(lambda: _at_once(tree, given, memory, 1)) for _ in range(3))  # noqa: B023
        lines.append(
            {
                "nodes": nodes,
                "round_seconds": seconds,
                "per_node_us": seconds / nodes * 1e6,
                "peak_megabytes": peak / 1e6,
            }
        )
    return {"exponent": exponent(lines, "round_seconds"), "lines": lines}
