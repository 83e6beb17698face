"""Ridge for a network on any graph: penalty, coupling, level and curves are found from the rows.

As in ``ridge`` for the complete graph. One factorisation per candidate is too expensive for a full grid,
so a coarse one is followed by steps along one setting at a time, of a decade and then of half a decade.
The evidence assumes that models follow a random walk along the edges; true ones may be smoother and
deserve more coupling, so what it finds is refined on rows left out. Besides the pull along the given
graph, or instead of it, all nodes may pull on each other equally.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from fedrelax.engines.whole.closed import NodeSums, rows_of, solve_complete, solve_one
from fedrelax.engines.whole.graph_rows import GraphRows, Setting, fold_error
from fedrelax.engines.whole.graphs import OPERATIONS, Mesh, operations, solve_graph, solve_parts
from fedrelax.engines.whole.ridge import MARGIN, PENALTIES, choose_ridge, straight_candidates
from fedrelax.engines.whole.ridge_rows import (
    ALONE,
    FAINT,
    ONE,
    Candidate,
    Fold,
    NetworkRidge,
    Rows,
    Scale,
    ridge_of,
    square,
)
from fedrelax.models.curves import Curves
from fedrelax.typing import FloatArray, IntArray, SparseMatrix

COARSE = {"penalty": (-3.0, 0.0), "strength": (-2.0, 0.0, 2.0, 4.0, 6.0), "level": (-2.0, 0.0)}
"""Powers of ten tried in a grid; the pull is relative to a node's own rows."""
RANGES = {"penalty": (-4.0, 2.0), "strength": (-3.0, 6.0), "level": (-6.0, 2.0)}
"""The powers of ten that single steps may reach from there."""
SHARES = (0.0, 0.1, 1.0)
"""Equal pulls between all nodes tried besides the graph's, relative to it."""
BENDS, BEND_STRENGTHS = (-1.0, 0.0, 1.0, 2.0), (-1.0, 1.0, 3.0, 5.0)
"""Penalties and pulls tried for curves, as powers of ten."""
BENT_OPERATIONS = 3 * OPERATIONS
"""Operations that a factorisation with curves may take; there are few of these."""
FOLDS = 10
"""Folds used to refine what was found, and to compare it with every node alone and one model."""
BETTER = "joining all nodes alike did better than the given graph: "


@dataclass(frozen=True)
class GraphRidge(NetworkRidge):
    """The same on a graph, with one candidate: coupling along its edges and between all nodes equally."""

    everywhere: FloatArray
    """The equal coupling E between all nodes."""

    def refitted(
        self, X: FloatArray, y: FloatArray, node: IntArray, n: int, laplacian: SparseMatrix = None
    ) -> NetworkRidge:
        """Refit to other rows, and possibly other nodes, with the settings found here."""
        straight, sums = self.sums_of(X, y, node, n)
        mesh = Mesh.of(laplacian, self.per_edge)
        (chosen,), (alone, one) = self.parts, self.simple
        apart = solve_complete(straight, alone.ridge, _faint(len(alone.ridge))).models
        if chosen.words == ALONE:
            models = apart
        elif chosen.coupling is None:
            models = solve_parts(straight, mesh, chosen.ridge, FAINT)
        else:
            E = self.everywhere
            models = solve_graph(sums, mesh, chosen.ridge, chosen.coupling, E).models
        return replace(
            self,
            models=self.scale.models(models),
            apart=self.scale.models(apart),
            one=self.scale.models(solve_one(straight, one.ridge)[0]),
        )


def choose_ridge_on(
    laplacian: SparseMatrix,
    X: FloatArray,
    y: FloatArray,
    node: IntArray,
    *,
    curves: bool = True,
    folds: Sequence[Fold] = (),
) -> NetworkRidge:
    """Choose and fit all nodes' models on the graph of a Laplacian; otherwise like ``choose_ridge``."""
    mesh = Mesh.of(laplacian)
    n = mesh.n
    scale = Scale.of(X, y)
    counts = np.bincount(node, minlength=n)
    ways = [scale] if counts.min() == counts.max() else [scale, replace(scale, means=True)]
    tried = [Rows(way, X, y, node, n, folds) for way in ways]
    judged = folds or _dealt(node, n)
    graph, best, together = _straight([GraphRows(rows, mesh) for rows in tried], judged)
    if _complete_error(tried, judged) < together:
        found = choose_ridge(X, y, node, n, curves=curves, folds=folds)
        coupled = len(found.parts) > 1  # rather than every node alone, or one model for all
        return replace(found, words=BETTER + found.words) if coupled else found
    plain = graph.rows
    scale = ways[next(k for k, rows in enumerate(tried) if rows is plain)]
    basis = Curves.of((X - scale.centre) / scale.spread) if curves else None
    if basis and operations(laplacian, len(basis) + X.shape[1] + 1) <= BENT_OPERATIONS:
        bent_scale = replace(scale, curves=basis)
        bent = GraphRows(Rows(bent_scale, X, y, node, n, folds), mesh, len(basis))
        least = graph.score(best) - (0.0 if folds else MARGIN)
        setting = _bent(bent, best, least)
        if bent.score(setting) < least:
            error = bent.with_folds(judged).score(setting)
            if error < together:
                graph, best, scale, together = bent, setting, bent_scale, error
    R, P, E = graph.matrices(best)
    level = min(10**best.level, 1.0)
    chosen = Candidate(best.words, R, P, graph.models(best), graph.score(best), level)
    (alone, one), plainly = _simple(plain.with_folds(judged), mesh)
    for candidate, error in zip((alone, one), plainly, strict=True):
        if error < together:
            chosen, scale, together = candidate, scale.plain, error
    errors = {"alone": plainly[0], "one model": plainly[1], "together": together}
    return GraphRidge(
        scale=scale,
        parts=(chosen,),
        simple=(alone, one),
        models=scale.models(chosen.models),
        apart=scale.models(alone.models),
        one=scale.models(solve_one(plain.sums, one.ridge)[0]),
        words=scale.words + chosen.words,
        errors={way: error * scale.size**2 for way, error in errors.items()},
        per_edge=mesh.per_edge,
        everywhere=E,
    )


def _dealt(node: IntArray, n: int) -> list[Fold]:
    """Split every node's rows into folds."""
    rng = np.random.default_rng(0)
    fold = np.empty(len(node), dtype=np.int64)
    start = 0
    for own in rows_of(node, n):
        fold[own] = (start + rng.permutation(len(own))) % FOLDS
        start += len(own)
    return [(fold != f, fold == f) for f in range(FOLDS) if (fold == f).any()]


def _straight(
    graphs: Sequence[GraphRows], judged: Sequence[Fold]
) -> tuple[GraphRows, Setting, float]:
    """Return the rows (weighted one way or the other), the best setting without curves, and its error."""
    coarse = [Setting(*powers) for powers in product(*COARSE.values())]
    firsts = [min(coarse, key=graph.score) for graph in graphs]
    place = int(np.argmin([g.score(first) for g, first in zip(graphs, firsts, strict=True)]))
    graph = graphs[place]
    best = [_descend(graph, firsts[place], (1.0, 0.5))]
    best += [_descend(graph, replace(best[0], share=share), (0.5,)) for share in SHARES[1:]]
    left_out = graph.with_folds(judged)
    setting = _descend(left_out, min(best, key=left_out.score), (0.5, 0.25))
    return graph, setting, left_out.score(setting)


def _descend(graph: GraphRows, start: Setting, steps: Sequence[float]) -> Setting:
    """Step along one setting at a time for as long as that helps."""
    best = start
    for step in steps:
        moved = True
        while moved:
            moved = False
            for name, (low, high) in RANGES.items():
                for by in (step, -step):
                    while low <= getattr(best, name) + by <= high:
                        near = replace(best, **{name: getattr(best, name) + by})
                        if not graph.improves(near, best):
                            break
                        best, moved = near, True
    return best


def _complete_error(tried: Sequence[Rows], judged: Sequence[Fold]) -> float:
    """Return the error on folds of what is chosen on the complete graph."""
    found = [straight_candidates(rows) for rows in tried]
    place = int(np.argmin([min(part.score for part in parts) for parts in found]))
    return square(tried[place].with_folds(judged).left_out(found[place]))


def _bent(graph: GraphRows, straight: Setting, least: float) -> Setting:
    """Return the best setting of curves on top of what was found for the columns.

    Curves that are almost common to all nodes come first; looser ones are tried only if these help.
    """
    common = [replace(straight, bend=bend, bend_strength=BEND_STRENGTHS[-1]) for bend in BENDS]
    best = min(common, key=graph.score)
    if graph.score(best) >= least:
        return best
    looser = (replace(best, bend_strength=strength) for strength in BEND_STRENGTHS)
    return min(looser, key=graph.score)


def _simple(rows: Rows, mesh: Mesh) -> tuple[tuple[Candidate, Candidate], tuple[float, float]]:
    """Return every node alone and one model, each with its best penalty, and their errors on folds."""
    d = rows.X.shape[1]
    words = ONE if mesh.parts == 1 else "one model for each connected part"

    def alone(sums: NodeSums, ridge: FloatArray) -> FloatArray:
        return solve_complete(sums, ridge, _faint(d)).models

    def one(sums: NodeSums, ridge: FloatArray) -> FloatArray:
        return solve_parts(sums, mesh, ridge, FAINT)

    def best(words: str, solve: Any, coupling: FloatArray | None) -> tuple[Candidate, float]:
        ridges = [ridge_of(penalty, d) for penalty in PENALTIES]
        errors = [fold_error(rows, partial(solve, ridge=ridge)) for ridge in ridges]
        ridge = ridges[int(np.argmin(errors))]
        return Candidate(words, ridge, coupling, solve(rows.sums, ridge), np.inf), min(errors)

    first, second = best(ALONE, alone, _faint(d)), best(words, one, None)
    return (first[0], second[0]), (first[1], second[1])


def _faint(d: int) -> FloatArray:
    """Return a coupling just strong enough to give a node without rows the level of the others."""
    coupling = np.zeros((d, d))
    coupling[-1, -1] = FAINT
    return coupling
