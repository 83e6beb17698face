"""A network of linear models by partial pooling, all rounds in one process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedrelax.linear.arrays import softmax
from fedrelax.losses import usual_loss
from fedrelax.models import LinearModel, SoftmaxModel, Task
from fedrelax.network import Network
from fedrelax.pooling.columns import Columns, level_and_size, told_of
from fedrelax.pooling.design import Design
from fedrelax.pooling.exchange import Smooth
from fedrelax.pooling.rows import contrasts_of, positions_of
from fedrelax.pooling.search import ALONE, ONE, ROUNDS, PoolingSearch
from fedrelax.threads import one_thread
from fedrelax.typing import AnyArray, FloatArray, IntArray

TOGETHER = "together"
ONE_MODEL = 1e9
"""The alpha that stands for one model for all nodes."""
MOST_NODES, FEWEST_NODES = 1000, 30
"""The most and fewest nodes used to find the settings; of a larger network, a sample."""
MOST_WORK = 1e8
"""Nodes of this sample times columns cubed, at most."""
SAMPLE_STREAM = 5
"""Keeps the draw of that sample independent of other draws under one seed."""


@dataclass(frozen=True)
class PooledNetwork:
    """What the rounds led to: models of all nodes, and how they were chosen.

    ``rounds`` are the models (n, c, d) after each round; ``alone`` are those of nodes without the others,
    ``pooled`` is one model for all. ``left_out`` are the mean losses of rows under models that have not
    seen them. ``alpha`` is the mean strength of the coupling along an edge of weight one, relative to a
    node's rows; ``level`` is the share of it for the level.
    """

    task: Task
    columns: Columns
    rounds: tuple[FloatArray, ...]
    apart: FloatArray
    one: FloatArray
    first: FloatArray
    """One model for all after the first round."""
    way: str
    words: str
    alpha: float
    level: float
    penalty: float
    left_out: dict[str, float]
    learned: dict[int, dict[str, Any]]
    """What the rounds have learned, from which a search with other rows can go on."""
    ways: tuple[int, ...]
    """The candidates that did best."""
    numbers: int
    """How many numbers a node said to each other node in all rounds: answers, and what is reported."""

    def saying(self, numbers: int) -> PooledNetwork:
        """Return the same, with so many numbers more that nodes said in other rounds."""
        return replace(self, numbers=self.numbers + numbers)

    def instead(self, way: str) -> PooledNetwork:
        """Return the network with every node alone, or with one model for all."""
        models = self.apart if way == ALONE else np.repeat(self.one, len(self.apart), axis=0)
        left_out = self.left_out | {TOGETHER: self.left_out.get(way, np.nan)}
        alpha = 0.0 if way == ALONE else ONE_MODEL
        return replace(
            self,
            rounds=(models,),
            way=way,
            words=way,
            alpha=alpha,
            level=1.0,
            left_out=left_out,
        )

    @property
    def best_learned(self) -> dict[int, dict[str, Any]]:
        """What the candidates that did best have learned."""
        return {k: self.learned[k] for k in self.ways if k in self.learned}

    @property
    def is_one_model(self) -> bool:
        """Whether all nodes share one model."""
        return self.way == ONE

    @property
    def together(self) -> list[Any]:
        """Every node's estimator."""
        return self.estimators(self.rounds[-1])

    @property
    def alone(self) -> list[Any]:
        """Every node's estimator without the others."""
        return self.estimators(self.apart)

    @property
    def pooled(self) -> Any:
        """One estimator for all nodes."""
        return self.estimators(self.one)[0]

    def estimators(self, models: FloatArray) -> list[Any]:
        """Return models (n, c, d) as plain fitted estimators."""
        return estimators_of(self.task, self.columns, models)

    def model(self, rows: float) -> LinearModel | SoftmaxModel:
        """Return an unfitted linear model with the penalty that suits nodes with this many rows."""
        scale = self.columns.spread.tolist()
        if self.task.is_classification:
            return SoftmaxModel(ridge=self.penalty / (2.0 * rows), scale=scale)
        return LinearModel(ridge=self.penalty / rows, scale=scale)

    def predict(self, models: FloatArray, X: FloatArray, node: IntArray) -> FloatArray:
        """Return the predictions (N, k) for rows by the models (n, c, d) of their nodes."""
        return predictions(self.task, np.einsum("ri,rci->rc", self.columns(X), models[node]))

    def losses(self, models: FloatArray, X: FloatArray, y: AnyArray, node: IntArray) -> FloatArray:
        """Return the loss of every row (N,) under the models (n, c, d) of their nodes."""
        answers = self.predict(models, X, node)
        return usual_loss(self.task.kind).per_row(self.task.encode(y), answers)


def estimators_of(task: Task, columns: Columns, models: FloatArray) -> list[Any]:
    """Return models (n, c, d) as plain fitted estimators, without curves that none of them has."""
    classes, plain = task.classes, len(columns.centre)
    if classes is not None and len(classes) > 2:
        models = contrasts_of(len(classes)) @ models
    if not models[..., plain:-1].any():
        columns = columns.plain
        models = np.concatenate([models[..., :plain], models[..., -1:]], axis=-1)
    return columns.estimators(models, classes)


def predictions(task: Task, scores: FloatArray) -> FloatArray:
    """Return scores (..., c) as predictions: numbers, or the probabilities of all classes."""
    return softmax(scores @ contrasts_of(task.n_outputs).T) if task.is_classification else scores


def find(
    network: Network,
    folds: Sequence[Network] = (),
    *,
    curves: bool = True,
    seed: int = 0,
    learned: dict[int, dict[str, Any]] | None = None,
    anew: bool = False,
) -> PooledNetwork:
    """Run all rounds of a network, or the last ones from what was ``learned`` from other rows.

    With ``anew``, run all rounds of the candidates that did best there.

    ``folds``, if rows of several nodes belong together, tell the losses on held-out rows, and whether nodes
    alone or one model for all do better. In a large network, candidates are first compared on a sample of
    the nodes.
    """
    with one_thread():
        if learned is not None:
            return _found(network, curves, seed, learned, anew=anew)
        found = _found(network, curves, seed, judged=not folds)
        if not folds:
            return found
        parts = [_found(fold, curves, seed, found.best_learned, anew=True) for fold in folds]
        judged = _judged(found, list(zip(parts, folds, strict=True)))
        return judged.saying(sum(part.numbers for part in parts))


def rows_of(network: Network) -> tuple[FloatArray, AnyArray, IntArray]:
    """Return the nodes' own rows, targets (numbers, or class codes), and the node of each row."""
    own, task = network.own_rows, network.task
    node = np.repeat(np.arange(len(network)), own.counts)
    X = np.asarray(own.X, dtype=float)
    if task.is_classification:
        assert task.classes is not None
        return X, np.searchsorted(task.classes, own.y), node
    return X, np.asarray(own.y, dtype=float).reshape(len(X)), node


def sample_size(n: int, columns: int) -> int:
    """Return how many of n nodes are used to find the settings."""
    fit = int(MOST_WORK / (columns + 1) ** 3)
    return min(n, MOST_NODES, max(fit, FEWEST_NODES))


def _found(
    network: Network,
    curves: bool,
    seed: int,
    learned: dict[int, dict[str, Any]] | None = None,
    judged: bool = False,
    anew: bool = False,
) -> PooledNetwork:
    (X, y, node), task, public = rows_of(network), network.task, network.public
    assert public.common is not None
    n, counts = len(network), network.own_rows.counts
    common, owner = np.asarray(public.common, dtype=float), public.owner
    few = sample_size(n, X.shape[1])
    kept = np.sort(np.random.default_rng([seed, SAMPLE_STREAM]).permutation(n)[:few])
    graph = network.graph
    along = n > 2 and few == n and graph.n_edges and not graph.is_uniform
    smooth = Smooth.of(graph.laplacian()) if along else None
    design = Design.of(
        common,
        owner,
        counts,
        **_target(task, y, node, counts),
        curves=curves,
        nodes=few,
        smooth=smooth,
    )
    if learned is None and few < n:
        learned = _sampled(design, X, y, node, kept).learned
    search = PoolingSearch(design, ROUNDS, learned, anew)
    own, rounds = search.own(design.own_rows(X, y, node, n), np.arange(n)), []
    replies, numbers, first = search.replies(own), 0, np.zeros(0)
    while search.round < ROUNDS:
        numbers += search.numbers
        search.hear(search.understood(search.messages(replies)))
        replies = search.replies(own)
        rounds.append(search.average(replies, search.shares))
        one = search.average(replies, search.way(ONE))[:1]
        first = one if len(rounds) == 1 else first
    best = search.best
    shares = {TOGETHER: search.shares, ALONE: search.way(ALONE), ONE: search.way(ONE)}
    loss, target = usual_loss(task.kind), task.encode(network.own_rows.y)
    left = {
        name: loss.mean(target, predictions(task, search.left_out(own, share)))
        for name, share in shares.items()
        if judged
    }
    p, coupling = len(design.plain), best.pooling.coupling
    return PooledNetwork(
        task=task,
        columns=design.columns,
        rounds=tuple(rounds),
        apart=search.average(replies, shares[ALONE]),
        one=one,
        first=first,
        way=best.words,
        words=search.words,
        alpha={ALONE: 0.0, ONE: ONE_MODEL}.get(best.words, search.alpha),
        level=float(min(coupling[-1] / coupling[:p].mean(), 1.0)) if p else 1.0,
        penalty=search.penalty,
        left_out=left,
        learned=search.learned,
        ways=search.ways,
        numbers=numbers,
    )


def _target(task: Task, y: AnyArray, node: IntArray, counts: IntArray) -> dict[str, Any]:
    if task.is_classification:
        return {"classes": task.n_outputs}
    level, size = level_and_size(
        [told_of(y[own]) for own in positions_of(node, len(counts))], counts
    )
    return {"level": level, "size": size}


def _sampled(
    design: Design, X: FloatArray, y: AnyArray, node: IntArray, kept: IntArray
) -> PoolingSearch:
    """Return the search among some of the nodes."""
    place = np.full(len(design.rows), -1)
    place[kept] = np.arange(len(kept))
    own, owner = place[node] >= 0, design.owner
    part = replace(design, rows=design.rows[kept], owner=None if owner is None else place[owner])
    search = PoolingSearch(part)
    rows = search.own(
        part.own_rows(X[own], y[own], place[node[own]], len(kept)), np.arange(len(kept))
    )
    while search.round < ROUNDS:
        search.hear(search.understood(search.messages(search.replies(rows))))
    return search


def _judged(found: PooledNetwork, folds: Sequence[tuple[PooledNetwork, Network]]) -> PooledNetwork:
    """Return what was found with the losses on folds; or nodes alone, or one model, if these do better."""
    losses: dict[str, list[FloatArray]] = {TOGETHER: [], ALONE: [], ONE: []}
    for part, fold in folds:
        held = fold.validation_rows
        assert held is not None
        X, where = np.asarray(held.X, dtype=float), np.repeat(np.arange(len(fold)), held.counts)
        one = np.repeat(part.one, len(fold), axis=0)
        for name, models in ((TOGETHER, part.rounds[-1]), (ALONE, part.apart), (ONE, one)):
            losses[name].append(part.losses(models, X, held.y, where))
    left_out = {name: float(np.concatenate(each).mean()) for name, each in losses.items()}
    best = min(left_out, key=lambda name: left_out[name])
    found = replace(found, left_out=left_out)
    return found if best == TOGETHER else found.instead(best)
