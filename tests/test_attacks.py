"""Attackers around the exchange, and what defences make of them."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

from fedrelax import FedRelax, FedRelaxError, Graph, LinearModel, Network
from fedrelax.attacks import (
    Attack,
    Colluding,
    Constant,
    Drifting,
    NotANumber,
    Random,
    Scaled,
    SignFlipped,
    flip_labels,
)
from fedrelax.combining import Nearest
from fedrelax.datasets import clustered
from fedrelax.runtime import LocalExchange, Message
from fedrelax.wiring import Guarded, Rewire
from tests.conftest import classification_network, regression_network

ATTACKS = [
    Constant(value=30.0),
    SignFlipped(),
    Scaled(),
    Random(),
    NotANumber(),
    NotANumber(value=float("inf")),
    Colluding(),
    Drifting(step=1.0),
]


def told(attack: Attack, network: Network, round: int = 2) -> dict:
    """Return what every node's neighbours hear where all would say 1 to 12."""
    exchange = attack.around(LocalExchange(), network, None)
    rows = len(network.public.common)
    honest = np.arange(1.0, rows + 1)[:, None] * np.ones(network.task.n_outputs)
    for k, label in enumerate(network.labels):
        exchange.post([Message(label, label, round, honest + k)])
    return {label: exchange.collect(label, [label])[0].predictions for label in network.labels}


def numbers(n: int = 5) -> Network:
    return regression_network(np.random.default_rng(0), LinearModel(ridge=0.1), n=n)


def test_lies_are_what_they_are_called():
    network = numbers()
    honest = np.arange(1.0, 13.0)[:, None]
    size = float(np.sqrt(np.square(honest + 1).mean()))
    expected = {
        Constant(value=7.0, nodes=(1,)): np.full((12, 1), 7.0),
        SignFlipped(nodes=(1,)): -(honest + 1),
        Scaled(factor=4.0, nodes=(1,)): 4 * (honest + 1),
        Drifting(step=0.5, nodes=(1,)): honest + 1 + 0.5 * 2 * size,
        NotANumber(nodes=(1,)): np.full((12, 1), np.nan),
    }
    for attack, lie in expected.items():
        found = told(attack, network)
        assert found[1] == pytest.approx(lie, nan_ok=True)
        assert np.array_equal(found[0], honest)
    copies = told(Colluding(nodes=(1, 3), factor=-1.0), network)
    assert np.array_equal(copies[3], copies[1])
    assert np.array_equal(copies[1], -(honest + 1))
    noise = told(Random(nodes=(1, 3), scale=2.0), network)
    assert not np.array_equal(noise[1], noise[3])
    assert np.array_equal(noise[1], told(Random(nodes=(1, 3), scale=2.0), network)[1])


def test_who_lies_is_drawn_by_the_seed():
    labels = tuple("abcdefghij")
    chosen = SignFlipped(share=0.2).attackers(labels)
    assert len(chosen) == 2
    assert chosen == Constant(share=0.2).attackers(labels)
    assert {SignFlipped(share=0.2, seed=seed).attackers(labels) for seed in range(9)} != {chosen}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e200])
def test_what_is_no_number_is_never_taken_in(value):
    """The attackers might as well be silent: the others learn as on the graph without them."""
    network = numbers(6)
    solver = {"alpha": 0.5, "rounds": 30, "tol": 0, "engine": "sites"}
    attack = NotANumber(value=value, nodes=(2,))
    result = FedRelax(exchange=attack, **solver).solve(network)
    A = network.graph.adjacency.toarray()
    A[2] = A[:, 2] = 0
    silent = Network(Graph.from_matrix(A), public=network.public.common)
    for node in network:
        silent.add(node.label, node.X, node.y, node.model)
    without = FedRelax(**solver).solve(silent)
    for label in (0, 1, 3, 4, 5):
        assert result.models[label].coef_ == pytest.approx(without.models[label].coef_, abs=1e-9)
    assert np.isfinite(result.history["objective"]).all()


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: type(attack).__name__)
def test_classifiers_live_through_every_attack(attack):
    network = classification_network(np.random.default_rng(0), DecisionTreeClassifier(max_depth=2))
    for combine in ("mean", "median"):
        result = FedRelax(alpha=1.0, rounds=3, exchange=attack, combine=combine).solve(network)
        assert np.isfinite(result.history["local_loss"]).all()


@pytest.fixture(scope="module")
def clusters():
    data = clustered((10, 10), m=6, d=10, p_in=0.9, p_out=0.4, m_pub=30, random_state=0)
    network = Network(data.graph, public=data.public[0])
    for i in range(len(data.X)):
        network.add(i, data.X[i], data.y[i], LinearModel(fit_intercept=False))
    liars = SignFlipped().attackers(network.labels)
    honest = [i for i in network.labels if i not in liars]

    def error(**changes) -> float:
        settings = {"alpha": 0.1, "rounds": 12, "tol": 0, "engine": "sites", **changes}
        result = FedRelax(**settings).solve(network)
        W = np.stack([result.models[i].coef_ for i in honest])
        return float(np.square(W - data.true_weights[honest]).mean())

    return network, liars, error, error()


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: type(attack).__name__)
def test_those_who_agree_bound_every_attack(clusters, attack):
    _, _, error, free = clusters
    assert error(exchange=attack, combine="nearest") < 1.2 * free
    if not isinstance(attack, NotANumber | Random):
        assert error(exchange=attack) > 1.2 * free


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: type(attack).__name__)
def test_a_guarded_graph_wires_itself_among_liars(clusters, attack):
    """Without liars it would go to an error of zero; ``free`` is that of the graph as given."""
    _, _, error, free = clusters
    guarded = {"rounds": 20, "wiring": Guarded(), "combine": Nearest(times=4.0)}
    assert error(exchange=attack, **guarded) < 0.05 * free
    if not isinstance(attack, NotANumber):
        assert error(exchange=attack, rounds=20, wiring=Rewire()) > 0.05 * free


def test_labels_are_flipped_at_the_named_nodes_only():
    network = numbers()
    flipped = flip_labels(network, [1, 3])
    assert flipped.public.common is network.public.common
    for label in network.labels:
        sign = -1 if label in (1, 3) else 1
        assert np.array_equal(flipped.nodes[label].y, sign * network.nodes[label].y)
    classes = classification_network(np.random.default_rng(0), DecisionTreeClassifier())
    other = flip_labels(classes, [1])
    ends = dict(zip(classes.task.classes, classes.task.classes[::-1], strict=True))
    assert [ends[name] for name in classes.nodes[1].y] == other.nodes[1].y.tolist()


def test_what_is_no_attack_is_refused():
    with pytest.raises(FedRelaxError, match="SignFlipped\\(share=2\\) must be a share"):
        SignFlipped(share=2)
    with pytest.raises(FedRelaxError, match="SignFlipped\\(nodes=...\\): node 'z' is not in the"):
        FedRelax(exchange=SignFlipped(nodes=("z",))).solve(numbers())


@pytest.mark.parametrize(
    ("nodes", "words"), [("x", "node 'x' is not"), ("xy", "nodes 'x', 'y' are not")]
)
def test_attackers_that_are_not_in_the_network_are_named(nodes, words):
    with pytest.raises(FedRelaxError, match=f"{words} in the network"):
        SignFlipped(nodes=tuple(nodes)).check(Network(Graph.complete(["a", "b"])), None)
