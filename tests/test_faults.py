"""Faults around the exchange: what they do to messages, and that the fixed point is reached."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.tree import DecisionTreeRegressor

from fedrelax import FedRelax, FedRelaxError, LinearModel, Network
from fedrelax.datasets import clustered
from fedrelax.faults import Absent, Churn, Delayed, Lost, Reordered
from fedrelax.runtime import LocalExchange, Message
from fedrelax.runtime.exchange import layered
from tests.conftest import regression_network

NAMES = tuple("abcdefgh")
HARD = [Absent(0.5), Lost(0.2), Delayed(3)]


class Labels:
    """All that these layers need of a network."""

    labels = NAMES


def heard(layers, rounds: int) -> dict[tuple[str, str], list[int]]:
    """Return, for every pair, the round of the message that the receiver holds after each round."""
    exchange = layered(LocalExchange(), layers, Labels, None)
    last: dict[tuple[str, str], int] = {}
    found: dict[tuple[str, str], list[int]] = {}
    for round in range(rounds):
        for name in NAMES:
            exchange.post([Message(name, name, round, np.zeros((1, 1)))])
        for name in NAMES:
            others = [other for other in NAMES if other != name]
            for message in exchange.collect(name, others):
                last[message.sender, name] = message.round
            for other in others:
                found.setdefault((other, name), []).append(last.get((other, name), -1))
    return found


def ages(layers, rounds: int = 300) -> np.ndarray:
    return np.arange(rounds) - np.array(list(heard(layers, rounds).values()))


def test_absent_nodes_neither_send_nor_hear():
    age = ages([Absent(0.5)])
    assert (age == 0).mean() == pytest.approx(0.25, abs=0.03)  # both ends must be there
    away = Absent(0.5).away(300, len(NAMES))
    rounds = heard([Absent(0.5)], 300)["a", "b"]
    for round in range(1, 300):
        sent = max(np.flatnonzero(~away[: round + 1, 0]), default=-1)
        assert rounds[round] == (rounds[round - 1] if away[round, 1] else sent)


def test_lost_messages_leave_the_last_one():
    age = ages([Lost(0.2)])
    assert (age == 0).mean() == pytest.approx(0.8, abs=0.02)
    assert (age == 1).mean() == pytest.approx(0.16, abs=0.02)


def test_delays_are_bounded_and_never_go_back():
    found = np.array(list(heard([Delayed(3)], 300).values()))
    age = np.arange(300) - found
    assert age[:, 3:].max() == 3
    assert (np.diff(found, axis=1) >= 0).all()
    assert {0, 1, 2, 3} == set(np.unique(age[:, 3:]))


def test_reordered_messages_replace_newer_ones():
    found = np.array(list(heard([Reordered(0.3)], 300).values()))
    age = np.arange(300) - found
    assert (age == 0).mean() == pytest.approx(
        0.7**2, abs=0.03
    )  # a late one replaces the newest, too
    assert age.max() == 2


def test_churn_takes_nodes_away_for_spells():
    away = Churn(leave=0.1, back=0.3).away(4000, 5)
    assert away.mean() == pytest.approx(0.25, abs=0.03)
    assert (away[1:] & away[:-1]).sum() / away[:-1].sum() == pytest.approx(0.7, abs=0.03)


def test_the_same_seed_gives_the_same_faults_in_any_company():
    assert heard(HARD, 30) == heard(HARD, 30)
    assert heard([Lost(0.2, seed=1)], 30) != heard([Lost(0.2)], 30)
    late = Absent(0.5).away(100, 8)
    assert np.array_equal(late[:10], Absent(0.5).away(10, 8))


@pytest.mark.parametrize(
    ("layers", "common"),
    [
        (HARD, True),
        (HARD, False),
        ([*HARD, Reordered(0.2)], True),
        ([Churn(0.2, 0.2), Lost(0.2), Delayed(3)], True),
    ],
)
def test_linear_networks_reach_the_same_fixed_point(layers, common):
    network = regression_network(
        np.random.default_rng(3), LinearModel(ridge=1.0), n=6, common=common, m_pub=20
    )
    settings = {"alpha": 0.1, "tol": 0}
    exact = FedRelax(rounds=2000, engine="linear", **settings).solve(network)
    result = FedRelax(rounds=320, exchange=layers, **settings).solve(network)
    assert result.engine == "sites"
    assert len(result.around) == len(layers)
    gap = [np.abs(result.models[i].coef_ - exact.models[i].coef_).max() for i in network.labels]
    assert max(gap) < 1e-4
    short = FedRelax(rounds=2, exchange=layers, **settings).solve(network)
    assert (
        max(np.abs(short.models[i].coef_ - exact.models[i].coef_).max() for i in network.labels)
        > 1e-2
    )


def tree_network(seed: int) -> Network:
    data = clustered((15, 15, 15), d=5, m_val=100, random_state=seed)
    network = Network(data.graph, public=data.public[0])
    for i in range(len(data.X)):
        tree = DecisionTreeRegressor(max_depth=4, random_state=0)
        network.add(i, data.X[i], data.y[i], tree, validation=(data.X_val[i], data.y_val[i]))
    return network


def test_trees_stay_as_good():
    """Trees teach best as they were when trained alone, so they go on telling that until it has arrived."""
    losses: dict[str, list[float]] = {"none": [], "hard": [], "hard, undamped": []}
    for seed in range(3):
        network = tree_network(seed)
        for name, changes in (
            ("none", {"rounds": 4, "patience": 4}),
            ("hard", {"rounds": 16, "exchange": HARD}),
            ("hard, undamped", {"rounds": 16, "exchange": HARD, "damping": 1e-9, "patience": 16}),
        ):
            result = FedRelax(alpha=0.1, tol=0, engine="sites", **changes).solve(network)
            losses[name].append(result.history["validation_loss"][result.n_rounds])
    assert np.mean(losses["hard"]) < 1.02 * np.mean(losses["none"])
    assert np.mean(losses["hard, undamped"]) > 1.05 * np.mean(losses["none"])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Absent(1.0), "Absent\\(share=1.0\\) must be a share of at least 0 and below 1"),
        (lambda: Lost("x"), "Lost\\(share='x'\\) must be a share"),
        (lambda: Delayed(-1), "Delayed\\(most=-1\\) must be a whole number of rounds"),
        (lambda: Churn(back=0), "nodes that leave never return"),
    ],
)
def test_what_is_no_fault_is_refused(make, words):
    with pytest.raises(FedRelaxError, match=words):
        make()
