"""Choosing alpha and rounds by cross-validation."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.tree import DecisionTreeRegressor

from fedrelax import (
    Callback,
    FedRelax,
    FedRelaxClassifier,
    FedRelaxError,
    FedRelaxRegressor,
    Graph,
)
from fedrelax.models.names import model_by_name
from fedrelax.selection import Candidate, Choice, alphas_for
from fedrelax.selection.losses import Losses
from fedrelax.selection.search import decide
from fedrelax.splits import as_seed


def related(seed=0, n=10, rows=6, d=4, spread=0.0):
    """Nodes whose true weights differ by ``spread`` around a common vector."""
    rng = np.random.default_rng(seed)
    X, nodes = rng.normal(size=(n * rows, d)), np.repeat(np.arange(n), rows)
    weights = np.ones(d) + spread * rng.normal(size=(n, d))
    y = np.einsum("rd,rd->r", X, weights[nodes]) + 0.5 * rng.normal(size=len(X))
    return X, y, nodes


def choose_alpha(model, X, y, nodes, alphas="auto", **settings):
    return clone(model).set_params(alpha=alphas, **settings).fit(X, y, nodes=nodes).choice_


def test_related_nodes_choose_coupling_and_unrelated_nodes_choose_to_stay_alone():
    alike, apart = related(), related(spread=20.0, rows=12)
    model = FedRelaxRegressor(LinearRegression(), Graph.complete(range(10)), rounds=10, alpha=0.1)
    assert choose_alpha(model, *alike).alpha > 0
    chosen = choose_alpha(model, *apart)
    assert chosen.alpha == 0 or chosen.rounds == 0


def test_every_loss_is_from_models_that_did_not_see_the_row():
    """Recomputed by hand for alpha = 0 with leave-out folds of an ordinary model."""
    X, y, nodes = related(n=3)
    model = FedRelaxRegressor(Ridge(), rounds=2, alpha=0.1)
    choice = choose_alpha(model, X, y, nodes, alphas=[0.0, 0.5], folds=2)
    assert choice.losses.shape == (2, 3)
    assert choice.losses[0] == pytest.approx(choice.losses[0, 0])
    assert choice.losses[:, 0] == pytest.approx(choice.losses[0, 0])
    train = np.mean(
        [
            (Ridge().fit(X[nodes == i], y[nodes == i]).predict(X[nodes == i]) - y[nodes == i]) ** 2
            for i in range(3)
        ]
    )
    assert choice.losses[0, 0] > train
    assert list(choice.to_frame().columns) == [
        "wiring",
        "level",
        "alpha",
        "round",
        "validation_loss",
    ]


def test_the_round_is_chosen_too():
    """Where trees drift, and there are nodes enough to tell that an earlier round is clearly better."""
    X, y, nodes = related(n=30, rows=10)
    model = FedRelaxRegressor(
        DecisionTreeRegressor(max_depth=3), rounds=6, alpha=0.1, solver=FedRelax(update="refit")
    )
    choice = choose_alpha(model, X, y, nodes, alphas=[0.3])
    assert choice.rounds == int(np.argmin(choice.losses[0])) < 6


def test_a_node_with_one_row_takes_part():
    X, y, nodes = related(n=4)
    keep = (nodes != 3) | (np.arange(len(nodes)) == 18)
    choice = choose_alpha(
        FedRelaxRegressor(Ridge(), rounds=2, alpha=0.1), X[keep], y[keep], nodes[keep]
    )
    assert np.isfinite(choice.losses).all()


def test_nodes_with_fewer_rows_than_folds():
    X, y, nodes = related(n=4, rows=2)
    choice = choose_alpha(FedRelaxRegressor(Ridge(), rounds=2, alpha=0.1), X, y, nodes, folds=5)
    assert np.isfinite(choice.losses).all()
    with pytest.raises(FedRelaxError, match="every node has a single row"):
        choose_alpha(FedRelaxRegressor(Ridge(), alpha=0.1), X[::2], y[::2], nodes[::2])


class Listener(Callback):
    def __init__(self):
        self.heard = []

    def choosing(self, done, total):
        self.heard.append((done, total))

    def begin(self, rounds, n_nodes):
        self.heard.append("begin")

    def end(self, outcome):
        self.heard.append("end")


@pytest.mark.parametrize("model", [Ridge(), DecisionTreeRegressor(max_depth=2)])
def test_callbacks_hear_one_run_and_how_far_the_choice_is(model):
    X, y, nodes = related(n=3)
    listener = Listener()
    model = FedRelaxRegressor(model, alpha=[0, 1], rounds=1, folds=2, callbacks=[listener])
    model.fit(X, y, nodes=nodes)
    assert listener.heard == [(1, 4), (2, 4), (3, 4), (4, 4), "begin", "end"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "wiring"),
    [
        (2, "fixed"),
        (2, "auto"),
        (30, "fixed"),
        (30, "auto"),
        pytest.param(2001, "auto", marks=pytest.mark.thorough),
    ],
)
def test_fit_and_compare_try_the_same_candidates(n, wiring, monkeypatch):
    from fedrelax.comparison import Together, compare_ways

    tried = []

    def spy(folds, settings, candidates, **more):
        tried.append([(c.alpha, c.wiring) for c in candidates])
        return Choice(Candidate(0.0), 1, tuple(candidates), np.zeros((1, 2)), "spied on")

    monkeypatch.setattr("fedrelax.selection.plan.choose", spy)
    X, y, nodes = related(n=n, rows=3)
    model = FedRelaxRegressor(Ridge(), alpha="auto", wiring=wiring, rounds=1)
    model.fit(X, y, nodes=nodes)
    compare_ways(model, X, y, nodes, ways=[Together.of(model)], splits=2, test_share=0.4)
    assert len(tried) == 3 and len(tried[0]) > 1
    assert tried[0] == tried[1] == tried[2]


def test_a_second_fit_forgets_the_choice_of_the_first():
    X, y, nodes = related(n=3)
    model = FedRelaxRegressor(Ridge(), alpha="auto", rounds=2).fit(X, y, nodes=nodes)
    assert model.choice_ is not None
    assert model.set_params(alpha=0.1).fit(X, y, nodes=nodes).choice_ is None


def test_bad_folds():
    X, y, nodes = related(n=3)
    model = FedRelaxRegressor(Ridge(), rounds=1, alpha=0.1)
    with pytest.raises(FedRelaxError, match="folds=1"):
        choose_alpha(model, X, y, nodes, folds=1)


def test_alphas_follow_the_degree():
    sparse, dense = Graph.from_edges([(0, 1), (1, 2)]), Graph.complete(range(30))
    assert np.array(alphas_for(sparse)[1:]) / alphas_for(dense)[1:] == pytest.approx(29 / (4 / 3))


def clusters_of(seed=0):
    from fedrelax.datasets import clustered

    data = clustered((10, 10, 10), m=8, d=10, p_in=0.9, p_out=0.4, random_state=seed)
    n, m, d = data.X.shape
    return data, data.X.reshape(n * m, d), data.y.ravel(), np.repeat(range(n), m)


@pytest.mark.slow
def test_auto_rewires_where_the_graph_misleads():
    from fedrelax import LinearModel

    data, X, y, nodes = clusters_of()
    model = LinearModel(fit_intercept=False)
    fit = FedRelaxRegressor(model, data.graph, alpha="auto", wiring="auto").fit(X, y, nodes=nodes)
    assert fit.wiring_.name == "rewire"
    assert fit.alpha_ > 0
    assert set(fit.choice_.to_frame()["wiring"]) == {"fixed", "rewire"}
    W = np.stack([fit.models_[i].coef_ for i in range(30)])
    assert np.square(W - data.true_weights).mean() < 1e-3


@pytest.mark.slow
def test_auto_keeps_the_graph_where_it_is_right_and_stays_alone_where_nothing_helps():
    alike, apart = related(n=20, rows=8), related(spread=20.0, rows=12)
    graph = Graph.complete(range(20))
    fit = FedRelaxRegressor(LinearRegression(), graph, alpha="auto", wiring="auto")
    fit.fit(*alike[:2], nodes=alike[2])
    assert fit.wiring_ == "fixed"
    assert fit.alpha_ > 0
    graph = Graph.complete(range(10))
    fit = FedRelaxRegressor(LinearRegression(), graph, alpha="auto", wiring="auto")
    fit.fit(*apart[:2], nodes=apart[2])
    assert fit.alpha_ == 0
    assert fit.n_rounds_ == 0
    assert "alone" in fit.choice_.reason


def test_the_settings_of_an_estimator_are_not_changed_by_auto():
    X, y, nodes = related()
    fit = FedRelaxRegressor(Ridge(), alpha="auto", rounds=3).fit(X, y, nodes=nodes)
    assert fit.alpha == "auto"
    assert fit.rounds == 3
    again = FedRelaxRegressor(Ridge(), alpha=fit.alpha_, rounds=fit.choice_.rounds)
    again.fit(X, y, nodes=nodes)
    np.testing.assert_array_equal(fit.predict(X, nodes), again.predict(X, nodes))


def decided(lines, curves, rows, early=True):
    """Decide by given losses: ``curves[line]`` has the shape (folds, rounds, nodes)."""
    curves = np.asarray(curves, dtype=float)
    counts = np.full(curves.shape[1::2], rows)
    losses = Losses(range(curves.shape[3]), counts, curves.shape[2] - 1, ends=not early)
    for folds in curves:
        records = [[SimpleNamespace(node_validation_loss=row) for row in fold] for fold in folds]
        losses.append([SimpleNamespace(history=SimpleNamespace(records=r)) for r in records])
    return decide(lines, losses, early)


def test_only_a_clear_gain_is_chosen():
    noise = np.random.default_rng(0).normal(size=50)

    def chosen(gain):
        curves = np.full((2, 1, 3, 50), 10.0)
        curves[1, 0, 1:] = 10 - gain + noise  # alpha = 1, rounds 1 and 2
        return decided([Candidate(0.0), Candidate(1.0)], curves, rows=4).alpha

    error = noise.std(ddof=1) / 50**0.5
    assert chosen(noise.mean() + 1.5 * error) == 1
    assert chosen(noise.mean() + 0.5 * error) == 0


def test_an_early_stop_needs_a_clear_gain_too():
    def rounds(early_gain, early=True):
        curves = np.tile(np.array([9.0, 1.0, 2.0, 2.0])[:, None], (1, 1, 1, 40))
        curves[0, 0, 1] = 2.0 - early_gain + np.linspace(-1, 1, 40)
        return decided([Candidate(0.5)], curves, rows=1, early=early).rounds

    assert rounds(1.0) == 1
    assert rounds(0.01) == 3
    assert rounds(1.0, early=False) == 3


@pytest.mark.parametrize("early", [True, False])
def test_a_node_decides_for_itself_only_with_enough_rows_and_a_clear_difference(early):
    curves = np.full((2, 3, 3, 10), 2.0)
    curves[1, :, 1:] = 1.0
    curves[1, :, 1:, 3] = 3.0  # node 3 does worse together in every fold,
    curves[1, :, 1:, 4] = np.array([0.0, 0.0, 7.0])[:, None]  # and node 4 in one of them
    lines = [Candidate(0.0), Candidate(1.0)]
    choice = decided(lines, curves, rows=7, early=early)
    assert choice.alpha == 1
    assert choice.alone == (3,)
    assert decided(lines, curves, rows=6, early=early).alone == ()


@pytest.mark.slow
def test_a_stranger_with_rows_of_its_own_stays_alone_and_the_others_do_not():
    X, y, nodes = related(n=12, rows=40, d=25)
    stranger = nodes == 5
    y[stranger] = X[stranger, :5].sum(axis=1)
    graph = Graph.complete(range(12))
    model = FedRelaxRegressor(Ridge(0.1), graph, alpha="auto").fit(X, y, nodes=nodes)
    assert model.alpha_ > 0
    assert model.choice_.alone == model.result_.stayed == (5,)
    np.testing.assert_allclose(
        model.predict(X[stranger], nodes[stranger]),
        Ridge(0.1).fit(X[stranger], y[stranger]).predict(X[stranger]),
    )
    given = FedRelaxRegressor(Ridge(0.1), graph, alpha="auto", alone=[2]).fit(X, y, nodes=nodes)
    assert given.result_.stayed == (2, 5)
    with pytest.raises(FedRelaxError, match="alone: node 77 has no rows"):
        FedRelaxRegressor(Ridge(), graph, alone=[77], alpha=0.1).fit(X, y, nodes=nodes)


def test_dear_models_try_a_wiring_with_the_best_alpha_and_stronger_ones():
    data, X, y, nodes = clusters_of()
    model = FedRelaxRegressor(DecisionTreeRegressor(max_depth=3), data.graph, level=1.0, rounds=13)
    choice = model.fit(X, y, nodes=nodes).choice_
    tried = {wiring is None: [] for wiring in choice.wirings}
    for wiring, alpha in zip(choice.wirings, choice.alphas, strict=True):
        tried[wiring is None].append(alpha)
    usual = list(alphas_for(data.graph))
    assert tried[True] == usual
    best = tried[True][int(np.argmin(choice.losses[: len(usual)].min(axis=1)))]
    first = min(usual.index(best), len(usual) - 3)
    assert tried[False] == usual[first : first + 3]


def test_wirings_that_were_asked_for_and_not_tried_are_said(monkeypatch):
    monkeypatch.setattr("fedrelax.selection.default.MOST_NODES", 3)
    rng = np.random.default_rng(0)
    X, nodes = rng.normal(size=(80, 2)), np.repeat(list("abcd"), 20)
    y = (X[:, 0] + rng.normal(size=80) > 0).astype(int)
    for wiring in ("auto", None):
        found = FedRelaxClassifier(wiring=wiring).fit(X, y, nodes=nodes).choice_
        assert {way.wiring for way in found.candidates} == {None}
        assert ("no wiring was tried" in found.reason) == (wiring == "auto")


def test_lists_of_alphas_and_wirings_are_chosen_from():
    data, X, y, nodes = clusters_of()
    model = FedRelaxRegressor(
        LinearRegression(fit_intercept=False),
        data.graph,
        alpha=[0.0, 0.05],
        wiring=["fixed", "rewire"],
        rounds=60,
    ).fit(X, y, nodes=nodes)
    assert model.choice_.wiring.name == "rewire"
    assert set(model.choice_.alphas) == {0.0, 0.05}
    assert model.score(X, y, nodes=nodes) > 0.99


@pytest.mark.parametrize("alpha", ["much", [], [0.1, "a"], -1.0, [0.1, -1.0], None])
def test_bad_alphas(alpha):
    X, y, nodes = related(n=3)
    with pytest.raises(FedRelaxError, match="alpha="):
        FedRelaxRegressor(Ridge(), alpha=alpha).fit(X, y, nodes=nodes)


@pytest.mark.parametrize("wiring", [1, [], {}, ["fixed", "rewird"], ["fixed", 2]])
def test_bad_wirings(wiring):
    X, y, nodes = related(n=3)
    with pytest.raises(FedRelaxError, match="wiring="):
        FedRelaxRegressor(Ridge(), wiring=wiring, alpha=0.1).fit(X, y, nodes=nodes)


def test_settings_of_the_solver_that_the_estimator_has_are_refused_there():
    X, y, nodes = related(n=3)
    with pytest.raises(FedRelaxError, match="the estimator has its own alpha"):
        FedRelaxRegressor(solver=FedRelax(alpha=0.7), alpha=0.1).fit(X, y, nodes=nodes)
    with pytest.raises(FedRelaxError, match="solver='fast' must be a fedrelax.FedRelax"):
        FedRelaxRegressor(solver="fast", alpha=0.1).fit(X, y, nodes=nodes)


@pytest.mark.parametrize("make", [np.random.default_rng, np.random.RandomState])
def test_a_generator_is_drawn_from_once_per_fit(make):
    X, y, nodes = related(n=3)
    fits = [
        FedRelaxRegressor(Ridge(), random_state=make(3), alpha=0.1).fit(X, y, nodes=nodes)
        for _ in range(2)
    ]
    np.testing.assert_array_equal(fits[0].predict(X, nodes), fits[1].predict(X, nodes))
    one, other = make(3), make(3)
    FedRelaxRegressor(Ridge(), random_state=one, alpha=0.1).fit(X, y, nodes=nodes)
    as_seed(other)
    assert as_seed(one) == as_seed(other)
    with pytest.raises(FedRelaxError, match="random_state='x' must be"):
        FedRelaxRegressor(random_state="x", alpha=0.1).fit(X, y, nodes=nodes)


@pytest.mark.parametrize(
    ("model", "given", "update"),
    [
        (DecisionTreeRegressor(max_depth=3), {}, "difference"),
        (DecisionTreeRegressor(max_depth=3), {"alpha": [0.1, 0.2]}, "difference"),
        (DecisionTreeRegressor(max_depth=3), {"alpha": 0.1}, "refit"),
        (DecisionTreeRegressor(max_depth=3), {"level": 0.1}, "refit"),
        (DecisionTreeRegressor(max_depth=3), {"solver": FedRelax(update="refit")}, "refit"),
        (DecisionTreeRegressor(max_depth=3), {"solver": FedRelax(objective="gtvmin")}, "refit"),
        (DecisionTreeRegressor(criterion="poisson"), {}, "refit"),
        (Ridge(), {}, "refit"),
        (model_by_name("mlp", "regression"), {}, "refit"),
        (
            lambda node: Ridge() if node % 2 else DecisionTreeRegressor(max_depth=3),
            {},
            "difference",
        ),
        (None, {}, "refit"),
    ],
)
def test_named_models_learn_their_difference_where_alpha_is_chosen(model, given, update):
    X, y, nodes = related(n=4, rows=10)
    plan = (
        FedRelaxRegressor(model, rounds=1, quick=True, **given).fit(X, np.exp(y / 9), nodes).plan_
    )
    assert plan.solver.update == update
