"""Comparing ways: on which rows it stands, which settings are chosen, and what comes out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.tree import DecisionTreeRegressor

from fedrelax import FedRelax, FedRelaxClassifier, FedRelaxError, FedRelaxRegressor, Graph
from fedrelax.baselines import Alone, Baseline, FedAvg, FedMD, NetworkLasso, Pooled, Run
from fedrelax.comparison import Together, compare_ways, usual_ways, ways_by_name
from fedrelax.models import LinearModel
from fedrelax.splits import TEST_STREAM, group_rows, training_mask

from .tables import apart, few, linear

# What it stands on


@dataclass(frozen=True)
class Spy(Alone):
    """Local models that remember every row they were shown, by its first feature."""

    name = "spy"
    seen: ClassVar[list[set[float]]] = []

    def candidates(self, network):
        return [self, self]

    def run(self, network, *, seed=0, n_jobs=None):
        held = [node.validation[0] for node in network if node.validation]
        rows = np.concatenate([node.X for node in network] + held)
        Spy.seen.append(set(rows[:, 0].tolist()))
        return super().run(network, seed=seed, n_jobs=n_jobs)


def test_no_way_sees_a_test_row():
    X, y, nodes = few(rows=12)
    masks = []

    def estimator(mask):
        masks.append(mask)
        return linear()

    Spy.seen.clear()
    compare_ways(estimator, X, y, nodes, ways=[Spy()], splits=2, test_share=0.25)
    runs = len(Spy.seen) // 2
    assert runs == 2 * 3 + 1  # both candidates on three folds, then the training rows
    for split, mask in enumerate(masks[1:]):
        for rows in Spy.seen[split * runs : (split + 1) * runs]:
            assert rows == set(X[mask, 0].tolist())


def test_poisoned_test_rows_change_the_error_and_nothing_else():
    X, y, nodes = few(rows=15)
    rows = {node: np.flatnonzero(nodes == node) for node in range(4)}
    first = training_mask(rows, 0.2, np.random.default_rng([7, TEST_STREAM]))
    poison = np.where(first, y, 1e6)
    ways = [Pooled(), FedMD(rounds=3), FedAvg(rounds=30)]
    clean, poisoned = (
        compare_ways(linear(), X, target, nodes, ways=ways, splits=2, seed=7)
        for target in (y, poison)
    )
    assert poisoned.settings[0] == clean.settings[0]
    # The models are the same, so the predictions err by the poison and next to nothing else.
    assert poisoned.errors[0] == pytest.approx(1e6, rel=1e-3)
    assert (clean.errors[0] < 10).all()


def test_errors_are_those_of_ordinary_models_on_the_test_rows():
    X, y, nodes = few(rows=12)
    rows = {node: np.flatnonzero(nodes == node) for node in range(4)}
    train = training_mask(rows, 0.25, np.random.default_rng([0, TEST_STREAM]))
    model = FedRelaxRegressor(LinearRegression(), rounds=2, alpha=0.1)
    found = compare_ways(model, X, y, nodes, ways=[Pooled()], splits=2, test_share=0.25)
    pooled = LinearRegression().fit(X[train], y[train]).predict(X[~train])
    squares = (pooled - y[~train]) ** 2
    number = found.ways.index("pooled")
    assert found.errors[0, number] == pytest.approx(np.sqrt(squares.mean()))
    own = np.sqrt([squares[nodes[~train] == node].mean() for node in range(4)])
    assert found.node_errors[0, number] == pytest.approx(own)
    assert (found.training_rows, found.test_rows) == (train.sum(), (~train).sum())


def test_any_number_of_workers_and_the_same_seed_give_the_same():
    X, y, nodes = few(n=3, rows=10)
    model = FedRelaxRegressor(DecisionTreeRegressor(max_depth=3), rounds=2, alpha=0.1)
    ways = [Together(alpha=0.3, rounds=2), FedMD(rounds=1)]
    one, two, other = (
        compare_ways(model, X, y, nodes, ways=ways, splits=2, seed=seed, n_jobs=jobs)
        for seed, jobs in ((3, 1), (3, 2), (4, 1))
    )
    assert np.array_equal(one.errors, two.errors) and one.settings == two.settings
    assert not np.array_equal(one.errors, other.errors)


# Choosing settings


@dataclass(frozen=True)
class Penalised(Baseline):
    """Ridge at every node; without rounds, so its validation loss is computed for it."""

    name = "ridge"
    penalty: float = 0.0
    label: str = ""

    def candidates(self, network):
        return [
            replace(self, penalty=penalty, label=label)
            for penalty, label in ((1e6, "strong"), (1e-3, "weak"), (1e-3, "weak again"))
        ]

    def run(self, network, *, seed=0, n_jobs=None):
        from fedrelax import Network

        changed = Network(network.graph, network.kind, network.public.common)
        for node in network:
            changed.add(node.label, node.X, node.y, Ridge(self.penalty))
        return Alone().run(changed)


@dataclass(frozen=True)
class Scripted(Baseline):
    """Validation curves from a script; the second settles early."""

    name = "scripted"
    rounds: int = 3
    curve: int = 0
    curves: ClassVar = ([3.0, 2.0, 4.0, 4.0], [3.0, 1.5], [1.5, 9.0, 9.0, 9.0])

    def candidates(self, network):
        return [replace(self, curve=number) for number in range(len(self.curves))]

    def run(self, network, *, seed=0, n_jobs=None):
        return Run({}, np.array(self.curves[self.curve]))


def folds_of(estimator, X, y, nodes):
    rows = group_rows(nodes, len(nodes)).arranged(X, y, "regression")  # as fit does
    third = {node: index[::3] for node, index in rows.items()}
    rest = {node: np.setdiff1d(index, third[node]) for node, index in rows.items()}
    return estimator.network_of(X, y, rows, {}), [estimator.network_of(X, y, rest, third)]


def test_settings_have_the_least_validation_loss_and_ties_go_to_the_first():
    network, folds = folds_of(linear(), *few())
    assert Penalised().choose(network, folds, seed=0, n_jobs=None).label == "weak"
    chosen = Scripted().choose(network, folds, seed=0, n_jobs=None)
    assert (chosen.curve, chosen.rounds) == (1, 1)


def test_fedrelax_may_choose_to_stay_alone():
    estimator = linear()
    network, folds = folds_of(estimator, *apart(seed=2))
    chosen = Together.of(estimator).choose(network, folds, seed=0, n_jobs=None)
    assert chosen.alpha == 0 or chosen.rounds == 0


def test_fedrelax_keeps_the_settings_of_the_estimator():
    estimator = FedRelaxRegressor(
        LinearModel(), rounds=4, solver=FedRelax(objective="gtvmin", damping=0.5), alpha=0.1
    )
    network, _ = folds_of(estimator, *few())
    run = Together.of(estimator, alpha=0.7).run(network)
    same = estimator.set_params(alpha=0.7).fit(*few()[:2], nodes=few()[2])
    X = np.eye(3)
    assert run.models[2].predict(X)[:, 0] == pytest.approx(same.predict(X, nodes=[2] * 3))
    with pytest.raises(FedRelaxError, match="still to be chosen"):
        Together().run(network)


# Ways that do not apply, and bad input


def test_ways_that_do_not_apply_are_listed_with_their_reason(monkeypatch):
    X, y, nodes = few()
    model = FedRelaxRegressor(DecisionTreeRegressor(max_depth=2), rounds=1, alpha=0.1)
    found = compare_ways(model, X, y, nodes, ways=[FedAvg(), NetworkLasso()], splits=2)
    assert found.refused.keys() == {"FedAvg", "network Lasso"}
    assert "DecisionTreeRegressor" in found.refused["FedAvg"]
    monkeypatch.setattr("fedrelax.baselines.exchange.MOST_NODES", 3)
    monkeypatch.setattr("fedrelax.baselines.descent.MOST_EDGES", 5)
    found = compare_ways(linear(), X, y, nodes, ways=[FedMD(), NetworkLasso()], splits=2)
    assert found.ways == ("alone", "together")
    assert "4 of them" in found.refused["FedMD"] and "6 edges" in found.refused["network Lasso"]


def test_ways_by_name():
    ways = usual_ways(linear())
    found = ways_by_name(["Network Lasso", "network-lasso", "FEDMD"], ways)
    assert [way.name for way in found] == ["network Lasso", "FedMD"]
    with pytest.raises(FedRelaxError, match="'dito' is not known; did you mean 'ditto'"):
        ways_by_name(["dito"], ways)


def test_bad_input_is_refused_before_any_work():
    X, y, nodes = few()
    with pytest.raises(FedRelaxError, match="splits=1 must be a whole number of at least 2"):
        compare_ways(linear(), X, y, nodes, splits=1)
    with pytest.raises(FedRelaxError, match="leaves no test row at any node"):
        compare_ways(linear(), X[::10], y[::10], nodes[::10])
    with pytest.raises(FedRelaxError, match="every node has a single training row"):
        compare_ways(linear(), X[::5], y[::5], nodes[::5], test_share=0.5)
    with pytest.raises(FedRelaxError, match="two ways are called 'FedAvg'"):
        compare_ways(linear(), X, y, nodes, ways=[FedAvg(), FedAvg(rounds=3)])
    rare = np.where(np.arange(len(X)) == 0, "rare", "usual")
    with pytest.raises(FedRelaxError, match="have one class, 'usual'"):
        compare_ways(FedRelaxClassifier(alpha=0.1), X, rare, nodes, splits=20)


# The outcome


def test_a_node_without_test_rows_has_no_error_and_takes_part():
    X, y, nodes = few()
    keep = (nodes != 3) | (np.arange(len(nodes)) == 30)
    found = compare_ways(linear(), X[keep], y[keep], nodes[keep], ways=[Pooled()], splits=2)
    lines = found.nodes_to_frame().set_index("node")
    assert lines.loc[3, "test_rows"] == 0 and np.isnan(lines.loc[3, "together"])
    assert lines.loc[:2, ["alone", "pooled", "together"]].notna().all(axis=None)


def test_frames_and_numbers_for_a_machine():
    seen = []
    found = compare_ways(
        *(linear(), *few()), ways=[Pooled()], splits=3, progress=lambda *words: seen.append(words)
    )
    frame = found.to_frame()
    assert list(frame.columns) == ["split", "way", "error", "settings"] and len(frame) == 9
    assert frame.groupby("way")["error"].mean()["alone"] == pytest.approx(found.error("alone").mean)
    assert "alpha=" in frame[frame["way"] == "together"]["settings"].iloc[0]
    answer = found.to_dict()
    assert answer["splits"] == 3 and answer["advice"] == found.advice
    errors = [line["error"] for line in answer["ways"]]
    assert errors == sorted(errors)
    assert seen[0] == (0, 9, "split 1: alone") and seen[-1][:2] == (9, 9)


@dataclass(frozen=True)
class Pressed(Alone):
    """Presses Ctrl-C in a given run."""

    name = "pressed"
    calls: ClassVar[list[int]] = []
    at: int = 0

    def run(self, network, *, seed=0, n_jobs=None):
        self.calls.append(0)
        if len(self.calls) > self.at:
            raise KeyboardInterrupt
        return super().run(network, seed=seed, n_jobs=n_jobs)


def test_ctrl_c_keeps_whole_splits_if_there_are_two():
    whole = compare_ways(linear(), *few(), ways=[Alone()], splits=2)
    Pressed.calls.clear()
    found = compare_ways(linear(), *few(), ways=[Alone(), Pressed(at=2)], splits=5)
    assert (found.splits, found.planned) == (2, 5)
    for way in ("alone", "together"):
        assert found.error(way) == whole.error(way)
    Pressed.calls.clear()
    with pytest.raises(KeyboardInterrupt):
        compare_ways(linear(), *few(), ways=[Pressed(at=1)], splits=5)


def test_classes_are_measured_by_their_error_rate():
    X, y, nodes = few(n=3, rows=20)
    labels = np.where(y > 0, "up", "down")
    model = FedRelaxClassifier(graph=Graph.complete(range(3)), rounds=1, alpha=0.1)
    found = compare_ways(model, X, labels, nodes, ways=[Together(alpha=0.3, rounds=1)], splits=2)
    assert found.measure.name == "error rate"
    wrong = found.errors * found.test_rows
    assert wrong == pytest.approx(wrong.round()) and (found.errors <= 1).all()


def test_compare_and_fit_choose_fedrelax_alike():
    """One rule for both: what is compared is what fit would give."""
    X, y, nodes = few()
    estimator = linear().set_params(wiring="auto", alpha="auto", random_state=4)
    comparison = compare_ways(estimator, X, y, nodes, ways=[Alone()], splits=2, seed=4)
    mask = training_mask(group_rows(nodes, len(X)), 0.2, np.random.default_rng([4, TEST_STREAM]))
    fitted = estimator.fit(X[mask], y[mask], nodes=nodes[mask])
    settings = comparison.settings[0][comparison.ways.index(Together.name)]
    assert settings["alpha"] == fitted.alpha_ and settings["rounds"] == fitted.choice_.rounds
    error = np.sqrt(np.mean((fitted.predict(X[~mask], nodes[~mask]) - y[~mask]) ** 2))
    assert comparison.errors[0, comparison.ways.index(Together.name)] == pytest.approx(error)
