"""Federate, pool or stay alone: what a comparison of ways says, and on which rows it stands."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.tree import DecisionTreeRegressor

from fedrelax import FedRelax, FedRelaxClassifier, FedRelaxError, FedRelaxRegressor, Graph
from fedrelax.baselines import (
    Alone,
    Baseline,
    FedAvg,
    FedMD,
    NetworkLasso,
    Pooled,
    PooledNode,
    Run,
)
from fedrelax.comparison import (
    Comparison,
    Together,
    advise,
    compare_ways,
    usual_ways,
    ways_by_name,
)
from fedrelax.datasets import clustered, single_cluster
from fedrelax.evaluation import MEASURES, Interval, student_interval
from fedrelax.models import LinearModel
from fedrelax.splits import TEST_STREAM, group_rows, training_mask

LINE = Interval(0.0, 0.0, 0.0)


def flat(network):
    """All rows of a synthetic network, training and validation, below each other."""
    X = np.concatenate([network.X, network.X_val], axis=1)
    y = np.concatenate([network.y, network.y_val], axis=1)
    n, m, d = X.shape
    return X.reshape(n * m, d), y.ravel(), np.repeat(np.arange(n), m)


def apart(n=6, rows=40, d=3, seed=0):
    """Nodes whose weights have nothing in common."""
    rng = np.random.default_rng(seed)
    X, nodes = rng.normal(size=(n * rows, d)), np.repeat(np.arange(n), rows)
    weights = 5 * rng.normal(size=(n, d))
    return X, np.einsum("rd,rd->r", X, weights[nodes]) + 0.3 * rng.normal(size=len(X)), nodes


def few(n=4, rows=10, seed=0):
    return flat(single_cluster(n, m=rows, m_val=0, d=3, sigma=0.5, random_state=seed))


def linear(graph=None, rounds=10):
    return FedRelaxRegressor(
        LinearModel(ridge=1.0), graph, rounds=rounds, solver=FedRelax(tol=1e-3), alpha=0.1
    )


# What the user is told


def test_clusters_of_alike_nodes_should_federate():
    network = clustered((15, 15), m=10, m_val=0, d=5, sigma=1.0, p_out=0.0, random_state=0)
    found = compare_ways(linear(network.graph), *flat(network), ways=[Pooled()], splits=5)
    assert found.difference("alone").above_zero and found.difference("pooled").above_zero
    assert found.advice.startswith("Federate.")


def test_nodes_with_nothing_in_common_should_stay_alone():
    found = compare_ways(linear(), *apart(), ways=[Pooled()], splits=4)
    assert found.advice.startswith("Stay alone.")
    assert found.difference("pooled", "alone").above_zero


def test_alike_nodes_lose_nothing_by_pooling():
    network = single_cluster(12, m=10, m_val=0, d=5, sigma=1.0, random_state=1)
    found = compare_ways(linear(network.graph), *flat(network), ways=[Pooled()], splits=5)
    assert found.error("pooled").mean <= found.error("together").mean
    assert found.difference("alone", "pooled").above_zero
    assert not found.advice.startswith("Stay alone")


@pytest.mark.parametrize(
    ("alone", "pooled", "alone_pooled", "head"),
    [
        ((1, 0.5, 1.5), (2, 1, 3), (-1, -2, -0.5), "Federate."),
        ((1, 0.5, 1.5), (0.1, -1, 1.2), (0.9, 0.5, 1), "Federate."),
        ((1, 0.5, 1.5), (-2, -3, -1), (3, 2, 4), "Pool, if rows may be brought together; if they "),
        (
            (0.1, -1, 1.2),
            (-2, -3, -1),
            (2, 1, 3),
            "Pool, if rows may be brought together; if they ",
        ),
        ((0.1, -1, 1.2), (0.1, -1, 1.2), (0, -1, 1), "Stay alone."),
        ((-1, -2, -0.5), (3, 2, 4), (-4, -5, -3), "Stay alone."),
        ((0, 0, 0), (1, 0.5, 2), (-1, -2, -0.5), "Stay alone."),
    ],
)
def test_advice_by_what_is_clear(alone, pooled, alone_pooled, head):
    gaps = {"alone": Interval(*alone), "pooled": Interval(*pooled)}
    errors = {"alone": 10.0 + alone[0], "pooled": 10.0 + pooled[0], "together": 10.0}
    text = advise(MEASURES["RMSE"], errors, gaps, Interval(*alone_pooled))
    assert text.startswith(head)
    assert ("if they may not, federate" in text) == (pooled[2] < 0 and alone[1] > 0)
    assert ("if they may not, stay alone" in text) == (alone_pooled[1] > 0 >= alone[1])
    unclear = alone[1] <= 0 <= alone[2] and any(alone)
    assert ("cannot tell learning together from each node alone" in text) == unclear
    assert ("Learning together and each node alone do not differ" in text) == (not any(alone))


def test_advice_gives_the_numbers_and_names_what_is_better_still():
    gaps = {
        "alone": Interval(0.02, 0.01, 0.03),
        "Ditto": Interval(-0.04, -0.05, -0.03),
        "IFCA": Interval(-0.01, -0.03, 0.01),
    }
    errors = {"alone": 0.12, "together": 0.1, "Ditto": 0.06, "IFCA": 0.09}
    assert advise(MEASURES["error rate"], errors, gaps) == (
        "Federate. Learning together has a lower error rate than each node alone: 10.0 % against 12.0 % "
        "(by 2.0 points or 17 %, 95 % interval 1.0 to 3.0 points or 8.3 to 25 %). Clearly better than "
        "learning together over the graph: Ditto (6.0 %)."
    )


def test_to_pool_is_the_best_way_that_needs_rows_in_one_place():
    """Named in the first sentence; the other pooling ways are not mentioned."""
    gaps = {
        "alone": Interval(1.0, 0.5, 1.5),
        "pooled": Interval(0.5, 0.2, 0.8),
        "pooled+node": Interval(-0.5, -0.75, -0.25),
        "mixed model": Interval(-0.25, -0.3, -0.2),
    }
    errors = {"together": 5.0} | {way: 5.0 + gap.mean for way, gap in gaps.items()}
    text = advise(MEASURES["RMSE"], errors, gaps, Interval(1.5, 1.0, 2.0))
    assert text == (
        "Pool, if rows may be brought together; if they may not, federate. One pooled model with a "
        "column per node has a lower RMSE than learning together: 4.5 against 5 (by 0.5 or 10 %, "
        "95 % interval 0.25 to 0.75 or 5.0 to 15 %). Learning together has a lower RMSE than each "
        "node alone: 5 against 6 (by 1 or 17 %, 95 % interval 0.5 to 1.5 or 8.3 to 25 %)."
    )
    unsure = gaps | {"pooled+node": Interval(-0.5, -1.5, 0.5)}
    text = advise(MEASURES["RMSE"], errors, unsure, Interval(1.25, 1.0, 1.5))
    assert "A mixed model of all rows has a lower RMSE than learning together: 4.75" in text
    unsure |= {"mixed model": Interval(-0.25, -1.0, 0.5)}
    text = advise(MEASURES["RMSE"], errors, unsure, Interval(1.5, 1.0, 2.0))
    assert text.startswith("Federate. Learning together has a lower RMSE than each node alone")
    assert (
        "The splits cannot tell one pooled model with a column per node from learning together: the "
        "RMSE is 4.5 against 5 (difference -0.5 or -10 %, 95 % interval -1.5 to +0.5 or -30 to +10 %)."
    ) in text


def test_to_pool_needs_more_than_to_beat_learning_together():
    """With a lower error alone, nobody should bring rows together."""
    gaps = {"alone": Interval(0.5, -1.0, 2.0), "mixed model": Interval(-1.0, -1.5, -0.5)}
    errors = {"alone": 5.5, "together": 5.0, "mixed model": 4.0}
    text = advise(MEASURES["RMSE"], errors, gaps, Interval(1.5, -0.1, 3.1))
    assert text.startswith(
        "Pool, if rows may be brought together; if they may not, stay alone. A mixed model of all rows "
        "has a lower RMSE than learning together: 4 against 5 (by 1 or 20 %,"
    )
    assert "cannot tell a mixed model of all rows from each node alone" in text
    gaps["alone"], errors["alone"] = Interval(-1.5, -2.0, -1.0), 3.5
    text = advise(MEASURES["RMSE"], errors, gaps, Interval(-0.5, -0.8, -0.2))
    assert text.startswith("Stay alone. A mixed model of all rows has a higher RMSE than each node")


def test_no_percentage_of_an_error_of_zero():
    gaps, errors = {"alone": Interval(-1.0, -2.0, -0.5)}, {"alone": 0.0, "together": 1.0}
    assert advise(MEASURES["RMSE"], errors, gaps) == (
        "Stay alone. Learning together has a higher RMSE than each node alone: 1 against 0 "
        "(by 1, 95 % interval 0.5 to 2)."
    )


def test_levels_of_many_small_nodes_are_pooled_with_the_node():
    """Every node has a level of its own and all slopes are equal; the advice names a pooling way."""
    rng = np.random.default_rng(0)
    X, nodes = rng.normal(size=(160, 4)), np.repeat(np.arange(20), 8)
    y = X @ [1.0, -2.0, 3.0, 1.0] + 5 * rng.normal(size=20)[nodes] + 0.5 * rng.normal(size=160)
    found = compare_ways(linear(), X, y, nodes, ways=[Pooled(), PooledNode()], splits=3)
    assert found.error("pooled+node").mean < 0.9 < 3 < found.error("pooled").mean
    assert found.advice.startswith("Pool, if") and "a column per node has a lower" in found.advice
    chosen = {split[found.ways.index("pooled+node")]["factor"] for split in found.settings}
    assert chosen <= {0.001, 0.1, 1.0, 10.0}


def test_ways_that_need_rows_in_one_place_are_compared_by_default():
    names = [way.name for way in usual_ways(linear())]
    assert names[:5] == ["alone", "pooled", "pooled+node", "mixed model", "together"]
    assert len(ways_by_name(["pooled+node", "mixed-model"], usual_ways(linear()))) == 2


def test_the_interval_by_hand():
    """Mean 7/3 and variance 7/3; 4.302653 is the 97.5 % point of Student's t with 2 degrees."""
    found = student_interval(np.array([1.0, 2.0, 4.0]), overlap=25 / 100)
    half = 4.302653 * np.sqrt((1 / 3 + 25 / 100) * 7 / 3)
    assert found.mean == pytest.approx(7 / 3)
    assert (found.low, found.high) == pytest.approx((7 / 3 - half, 7 / 3 + half), rel=1e-6)


def test_the_same_few_wrong_labels_in_every_split_are_not_certain():
    """One of 8 test rows: the variance is at least 1/8 * 7/8 / 8, whatever the splits say."""
    found = Comparison(
        measure=MEASURES["error rate"],
        ways=("alone", "together"),
        errors=np.array([[0.25, 0.125]] * 3),
        node_errors=np.array([[[0.25], [0.125]]] * 3),
        settings=[[{}, {}]] * 3,
        nodes=("a",),
        rows=np.array([[32, 8]]),
        refused={},
        planned=3,
    )
    half = 4.302653 * np.sqrt((1 / 3 + 8 / 32) * 7 / 512)
    assert found.difference("alone").low == pytest.approx(0.125 - half, rel=1e-6)
    assert found.advice.startswith("Stay alone. The splits cannot tell")
    assert replace(found, measure=MEASURES["RMSE"]).difference("alone").low == pytest.approx(0.125)


def test_equal_ways_are_not_told_apart_by_rounding():
    """FedRelax that chooses alpha = 0 is alone, computed in another way."""
    found = compare_ways(linear(), *few(), ways=[Together(alpha=0.0)], splits=3)
    assert found.difference("alone") == LINE
    assert "Learning together and each node alone do not differ" in found.advice


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
    rows = {node: np.flatnonzero(nodes == node) for node in dict.fromkeys(nodes.tolist())}
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
    monkeypatch.setattr("fedrelax.baselines.fedmd.MOST_NODES", 3)
    monkeypatch.setattr("fedrelax.baselines.network_lasso.MOST_EDGES", 5)
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
