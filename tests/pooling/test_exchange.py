"""Partial pooling by exchange: equal to the mixed model, to the block system, to refitting."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedrelax import Graph
from fedrelax.pooling import exchange, rows
from fedrelax.pooling.exchange import Pooling, Reply, Smooth, covariances, reply
from fedrelax.pooling.rows import ClassRows, NumberRows, contrasts_of
from fedrelax.pooling.search import (
    ALONE,
    MOST_CANDIDATES,
    ONE,
    Design,
    PoolingSearch,
    candidates_of,
)

N, D = 7, 4


def table(seed: int = 0, most: int = 9) -> tuple[Any, Any, Any]:
    """Rows of three columns and a constant; slopes and levels differ."""
    rng = np.random.default_rng(seed)
    node = np.repeat(np.arange(N), rng.integers(2, most, N))
    X = np.column_stack([rng.normal(size=(len(node), D - 1)) + 0.5, np.ones(len(node))])
    W = 1.0 + 0.5 * rng.normal(size=(N, D))
    return X, (X * W[node]).sum(axis=1) + 0.5 * rng.normal(size=len(node)), node


def public_rows() -> Any:
    rng = np.random.default_rng(2)
    return np.column_stack([rng.normal(size=(80, D - 1)) + 0.5, np.ones(80)])


def pooling(P: Any, R: Any, counts: Any, public: Any, **more: Any) -> Pooling:
    """Common knowledge that learns no strengths: only the consensus moves."""
    grams = counts[:, None, None] * (public.T @ public) / len(public)
    return Pooling(grams, counts, 1.0, P, R, [], [], [], 0, **more)


def converged(common: Pooling, own: Any, rounds: int = 40) -> Reply:
    for _ in range(rounds):
        asked = common.question()
        common.hear(asked, reply(own, asked))
    return reply(own, common.question())


STRENGTHS = [
    (np.array([0.5, 1.0, 2.0, 0.1]), np.array([0.3, 0.3, 0.3, 0.0])),
    (np.array([20.0, 20.0, 20.0, 1e-2]), np.array([1.0, 1e-3, 0.1, 0.0])),
]


def block_system(X: Any, node: Any, P: Any, R: Any) -> Any:
    """The matrix of the quadratic objective in (c_1, ..., c_n, m)."""
    system = np.zeros(((N + 1) * D, (N + 1) * D))
    for i in range(N):
        S, here, last = X[node == i].T @ X[node == i], slice(i * D, (i + 1) * D), slice(N * D, None)
        system[here, here] = S + np.diag(P)
        system[here, last] = system[last, here] = S
        system[last, last] += S
    system[N * D :, N * D :] += np.diag(R)
    return system


@pytest.mark.parametrize(("P", "R"), STRENGTHS)
def test_the_rounds_end_in_the_mixed_model(P: Any, R: Any) -> None:
    """Given the variance components: generalised least squares for the consensus, and BLUPs."""
    X, y, node = table()
    counts = np.bincount(node)
    own = NumberRows.made(X, y, node, N)
    common = pooling(P, R, counts, public_rows())
    said = converged(common, own)
    moment = np.array([X[node == i].T @ y[node == i] for i in range(N)])
    right = np.concatenate([moment.ravel(), moment.sum(axis=0)])
    expected = np.linalg.solve(block_system(X, node, P, R), right)
    c, m = expected[: N * D].reshape(N, D), expected[N * D :]
    np.testing.assert_allclose(common.consensus[0, 0], m, atol=1e-8)
    np.testing.assert_allclose(said.models[:, 0], m + c, atol=1e-8)


@pytest.mark.parametrize("rounds", [6, 12])
def test_a_few_rounds_come_near_it(rounds: int) -> None:
    """A round is nearly a step of Newton's method, also with other rows in the place of the nodes'."""
    (X, y, node), (P, R) = table(1), STRENGTHS[0]
    own, counts = NumberRows.made(X, y, node, N), np.bincount(node)
    shown = public_rows()
    near = converged(pooling(P, R, counts, shown), own, rounds).models
    far = converged(pooling(P, R, counts, shown), own, 200).models
    assert np.abs(near - far).max() < (1e-2 if rounds == 6 else 1e-4) * np.abs(far).max()


@pytest.mark.parametrize(("P", "R"), STRENGTHS)
def test_the_covariances_are_those_of_the_whole_system(P: Any, R: Any) -> None:
    """With the nodes' own rows as public rows, the estimates are exact."""
    X, y, node = table(2)
    own, counts = NumberRows.made(X, y, node, N), np.bincount(node)
    common = pooling(P, R, counts, X)
    common.public = own.gram
    converged(common, own)
    _, found = covariances(own, common.question())
    inverse = np.linalg.inv(block_system(X, node, P, R))
    for i in range(N):
        pick = np.zeros((D, (N + 1) * D))
        pick[:, i * D : (i + 1) * D] = pick[:, N * D :] = np.eye(D)
        np.testing.assert_allclose(found[i, 0], pick @ inverse @ pick.T, rtol=1e-6, atol=1e-9)


def test_the_score_is_the_restricted_likelihood_of_the_mixed_model() -> None:
    X, y, node = table(3)
    own, counts = NumberRows.made(X, y, node, N), np.bincount(node)
    found, expected = [], []
    for P, R in STRENGTHS:
        common = pooling(P, R, counts, X)
        common.public = own.gram
        converged(common, own)
        found.append(common.score)
        V = np.eye(len(y)) + np.where(node[:, None] == node, (X / P) @ X.T, 0.0)
        V += (X[:, :-1] / R[:-1]) @ X[:, :-1].T + 1e7 * np.ones((len(y), len(y)))
        power = y @ np.linalg.solve(V, y)
        expected.append((len(y) - 1) * np.log(power) + np.linalg.slogdet(V)[1])
    assert np.diff(found) == pytest.approx(np.diff(expected), abs=1e-3)


def test_left_out_scores_are_those_of_refitting_without_the_row() -> None:
    (X, y, node), (P, R) = table(4, most=5), STRENGTHS[0]
    counts = np.bincount(node, minlength=N)
    own = NumberRows.made(X, y, node, N)
    common = pooling(P, R, counts, X)
    common.public = own.gram
    converged(common, own)
    found = own.left_out(*covariances(own, common.question()))[:, 0]
    for r in range(len(y)):
        rest = np.arange(len(y)) != r
        other = NumberRows.made(X[rest], y[rest], node[rest], N)
        again = pooling(P, R, counts, X)
        again.public = other.gram
        models = converged(again, other).models
        assert found[r] == pytest.approx(X[r] @ models[node[r], 0], abs=1e-7)


@pytest.mark.parametrize("classes", [2, 3])
def test_classes_are_where_no_step_helps(classes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "STEPS", 300)
    monkeypatch.setattr(rows, "CLOSE", 1e-11)
    X, _, node = table(5, most=20)
    y = np.random.default_rng(6).integers(0, classes, len(X))
    own, (P, R) = ClassRows.made(X, y, node, N, classes), STRENGTHS[0]
    scores = max(classes - 1, 1)
    common = pooling(P, R, np.bincount(node) / 4, X, scores=scores, noise=1.0)
    models = converged(common, own, 150).models
    C, m = contrasts_of(classes), common.consensus[:, 0]
    raw = np.einsum("ri,rci->rc", X, models[node]) @ C.T
    p = np.exp(raw) / np.exp(raw).sum(axis=1, keepdims=True)
    wrong = (p - np.eye(classes)[y]) @ C
    total = 0.0
    for i in range(N):
        pull = (models[i] - m) * P
        assert np.abs(wrong[node == i].T @ X[node == i] + pull).max() < 1e-5
        total = total + pull
    np.testing.assert_allclose(total, m * R, atol=1e-4)


@pytest.mark.parametrize("classes", [2, 3])
def test_left_out_probabilities_are_nearly_those_of_refitting(classes: int) -> None:
    X, _, node = table(7, most=12)
    y = np.random.default_rng(8).integers(0, classes, len(X))
    P, consensus = np.array([1.0, 1.0, 1.0, 0.2]), np.zeros((N, max(classes - 1, 1), D))
    own = ClassRows.made(X, y, node, N, classes)
    fitted = own.fit(consensus, P)
    found, expected = own.left_out(fitted.models, fitted.inverse), []
    for r in range(len(X)):
        rest = np.arange(len(X)) != r
        other = ClassRows.made(X[rest], y[rest], node[rest], N, classes).fit(consensus, P)
        expected.append(other.models[node[r]] @ X[r])
    expected = np.array(expected)

    def loss(raw: Any) -> float:
        logs = raw @ contrasts_of(classes).T
        logs = logs - np.log(np.exp(logs).sum(axis=1, keepdims=True))
        return float(-logs[np.arange(len(y)), y].mean())

    assert loss(found) == pytest.approx(loss(expected), rel=0.06)


def test_on_a_graph_the_consensus_varies_along_its_smoothest_functions() -> None:
    (X, y, node), (P, R) = table(9), STRENGTHS[0]
    ring = Graph.from_edges([(i, (i + 1) % N) for i in range(N)])
    smooth = Smooth.of(ring.laplacian())
    assert smooth.values.shape == (N, N)  # few nodes: the constant, and all other functions
    np.testing.assert_allclose(np.square(smooth.values).mean(axis=0), 1.0)
    own = NumberRows.made(X, y, node, N)
    common = pooling(P, R, np.bincount(node), X, smooth=smooth)
    models = converged(common, own, 400).models[:, 0]
    # the same as one linear system: rows see their node's difference and every function's part
    k = smooth.values.shape[1]
    A = np.zeros((len(y), (N + k) * D))
    for r, i in enumerate(node):
        A[r, i * D : (i + 1) * D] = X[r]
        A[r, N * D :] = (smooth.values[i][:, None] * X[r]).ravel()
    penalty = np.concatenate([np.tile(P, N), common.penalty.ravel()])
    z = np.linalg.solve(A.T @ A + np.diag(penalty), A.T @ y)
    expected = z[: N * D].reshape(N, D) + smooth.values @ z[N * D :].reshape(k, D)
    np.testing.assert_allclose(models, expected, atol=1e-6)


def learned(n: int, m: int, spread: Any, seed: int = 5) -> tuple[PoolingSearch, Any]:
    rng = np.random.default_rng(seed)
    node = np.repeat(np.arange(n), m)
    X = rng.normal(size=(n * m, 2))
    W = np.array([1.0, -1.0, 2.0]) + spread * rng.normal(size=(n, 3))
    y = (X * W[node, :2]).sum(axis=1) + W[node, 2] + 0.7 * rng.normal(size=n * m)
    public, owner = rng.normal(size=(10 * n, 2)), np.repeat(np.arange(n), 10)
    level, size = float(y.mean()), float(y.std())
    design = Design.of(public, owner, np.full(n, m), level=level, size=size, curves=False)
    search = PoolingSearch(design)
    own = search.own(design.own_rows(X, y, node, n), np.arange(n))
    for _ in range(12):
        search.hear(search.understood(search.messages(search.replies(own))))
    return search, own


def test_learning_the_strengths_finds_their_scale() -> None:
    spread = np.array([2.0, 0.5, 3.0])
    search, _ = learned(300, 12, spread)
    best = search.best.pooling
    scale = np.append(search.design.columns.spread, 1.0)
    expected = 0.7**2 / np.square(spread * scale)
    assert best.coupling == pytest.approx(expected, rel=0.3)


def test_nodes_alone_and_one_model_win_where_they_should() -> None:
    assert learned(40, 12, np.array([300.0, 300.0, 300.0]))[0].best.words in (
        ALONE,
        "partial pooling",
    )
    search, own = learned(40, 6, np.zeros(3))
    replies = search.replies(own)
    models = search.average(replies, search.shares)[:, 0]
    assert models.std(axis=0).max() < 0.1
    one = search.average(replies, search.way(ONE))[:, 0]
    np.testing.assert_allclose(models, one, atol=0.15)


def test_messages_say_what_the_replies_say() -> None:
    search, own = learned(5, 8, np.ones(3))
    replies = search.replies(own)
    told = search.understood(search.messages(replies))
    for k, said in replies.items():
        np.testing.assert_allclose(told[k].models, said.models, atol=1e-8)
        np.testing.assert_array_equal(told[k].numbers, said.numbers)


def test_numbers_that_make_no_sense_change_nothing_but_the_score() -> None:
    (X, y, node), (P, R) = table(), STRENGTHS[0]
    own = NumberRows.made(X, y, node, N)
    common = pooling(P, R, np.bincount(node), X)
    asked = common.question()
    said = reply(own, asked)
    before = common.consensus.copy()
    common.hear(asked, replace(said, pull=np.full_like(said.pull, np.inf)))
    assert common.score == np.inf and np.array_equal(common.consensus, before)


def test_a_silent_node_counts_as_one_without_rows() -> None:
    nothing = NumberRows.made(np.zeros((0, D)), np.zeros(0), np.zeros(0, dtype=np.int64), 1)
    common = pooling(*STRENGTHS[0], np.array([0]), np.eye(D))
    said = reply(nothing, common.question())
    assert said.loss == 0 and not said.curvature.any()
    assert exchange.Reply.joined([said, said]).models.shape == (2, 1, D)


def test_no_candidate_has_a_larger_number_than_a_box_may_hold() -> None:
    rng, nodes = np.random.default_rng(0), 6
    owner = np.repeat(np.arange(nodes), 60)
    public = np.column_stack([rng.integers(0, 8, 360), rng.normal(size=(360, 2))]).astype(float)
    design = Design.of(public, owner, np.arange(20, 20 + nodes))
    numbers = candidates_of(design, 12)
    assert {basis for one in numbers.values() for basis in one.bases} == {
        "curves",
        "lines",
        "values",
    }
    assert MOST_CANDIDATES / 2 < max(numbers) < MOST_CANDIDATES
