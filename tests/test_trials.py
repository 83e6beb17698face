"""Trials on folds: the better half goes on, and a search that is stopped keeps its best."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.tree import DecisionTreeRegressor

from fedrelax import Callback, FedRelax, FedRelaxRegressor, Network
from fedrelax.selection import fold_rows
from fedrelax.selection.candidates import Candidate
from fedrelax.selection.losses import Losses
from fedrelax.selection.search import choose
from fedrelax.selection.trials import ENOUGH_TREES, Trials, lighter
from fedrelax.splits import group_rows
from tests.test_selection import related

NODES, FOLDS = 20, 3
TREE = DecisionTreeRegressor(max_depth=2)


def folds_of(n: int = NODES, model=TREE) -> list[Network]:
    X, y, nodes = related(n=n)
    estimator = FedRelaxRegressor(model)
    rows = group_rows(nodes, len(X))
    parts = fold_rows(rows, 5, np.random.default_rng(0))
    return [estimator.network_of(X, y, *part) for part in parts]


class Scripted:
    """Trials whose runs have given losses: one number for each candidate, fold and node."""

    def __init__(self, losses, halving=True, tell=None):
        self.curves = np.asarray(losses, dtype=float)
        n = self.curves.shape[2]
        self.losses = Losses(range(n), np.ones((FOLDS, n), dtype=int), 1)
        self.runs = []
        folds = [SimpleNamespace(number=k) for k in range(FOLDS)]
        self.trials = Trials(
            folds, self.losses, self.solver, len(self.curves), halving=halving, tell=tell
        )
        self.trials.run([Candidate(float(k)) for k in range(len(self.curves))])

    def solver(self, candidate):
        def solve(fold, callbacks):
            self.runs.append((fold.number, int(candidate.alpha)))
            values = self.curves[int(candidate.alpha), fold.number]
            records = [SimpleNamespace(node_validation_loss=values)] * 2
            return SimpleNamespace(history=SimpleNamespace(records=records))

        return SimpleNamespace(solve=solve)


def noisy(levels, n=NODES):
    noise = np.random.default_rng(1).normal(size=(len(levels), FOLDS, n))
    return np.array(levels)[:, None, None] + 0.1 * noise


def test_the_better_half_goes_on_after_every_fold_and_so_does_each_node_alone():
    scripted = Scripted(noisy([9, 3, 1, 1.01, 5, 6, 7, 8]))
    tried = [sorted(k for fold, k in scripted.runs if fold == number) for number in range(FOLDS)]
    assert tried[0] == list(range(8))
    assert tried[1] == [0, 2, 3]  # 1 is in the better half, and clearly behind
    assert tried[2] == [0, 2, 3]
    assert np.flatnonzero(scripted.losses.complete).tolist() == [0, 2, 3]


def test_without_halving_and_with_few_nodes_all_are_tried_on_all_folds():
    for scripted in (Scripted(noisy([3, 2, 1, 4]), halving=False), Scripted(noisy([3, 2, 1], n=3))):
        assert len(scripted.runs) == FOLDS * len(scripted.curves)
        assert scripted.losses.complete.all()


def test_one_that_was_given_up_keeps_its_distance_from_the_best():
    curves = noisy([9, 5, 1, 2])
    curves[:, 0] += 100.0  # the first fold is a hard one for all
    means = Scripted(curves).losses.means[:, 1]
    np.testing.assert_allclose(means - means[2], [8, 4, 0, 1], atol=0.3)


@pytest.mark.parametrize("after", [1, 3, 6, 9, 14])
def test_a_search_that_is_stopped_chooses_among_what_it_has_seen(after):
    heard = []

    def tell(done, total):
        heard.append((done, total))
        return "stopped by Ctrl-C" if done == after else None

    choice = choose(
        folds_of(),
        FedRelax(rounds=2),
        [Candidate(a) for a in (0, 0.1, 1, 3, 9, 30)],
        levels=(0.1,),
        tell=tell,
    )
    assert [done for done, _ in heard] == list(range(1, after + 1))
    assert choice.reason.endswith("; the search was stopped by Ctrl-C")
    assert choice.chosen in (*choice.candidates, Candidate(0.0))
    assert np.isfinite(choice.losses).all()
    assert len(choice.candidates) >= min(after, 6)
    assert after > 6 or len(choice.candidates) == after


def test_the_bar_ends_where_the_runs_end():
    heard = []
    choose(
        folds_of(),
        FedRelax(rounds=2),
        [Candidate(a) for a in (0, 0.1, 1, 3, 9, 30)],
        levels=(0.1,),
        tell=lambda done, total: heard.append((done, total)),
    )
    assert heard[-1][0] == heard[-1][1] < 3 * (6 + 3)


def test_a_callback_ends_the_search_and_the_rounds_are_run():
    class Enough(Callback):
        rounds = 0

        def choosing(self, done, total):
            return done == 2

        def after_round(self, record):
            self.rounds = record.round

    X, y, nodes = related()
    listener = Enough()
    fitted = FedRelaxRegressor(
        TREE, alpha=[0.3, 1.0, 3.0], rounds=3, callbacks=[listener], solver=FedRelax(tol=0.0)
    ).fit(X, y, nodes)
    assert len(fitted.choice_.candidates) == 2
    assert "stopped by a callback" in fitted.choice_.reason
    assert listener.rounds == fitted.n_rounds_


class Counting(DecisionTreeRegressor):
    fits = 0

    def fit(self, X, y, sample_weight=None):
        Counting.fits += 1
        return super().fit(X, y, sample_weight)


def test_each_node_is_trained_alone_once_a_fold():
    folds, nodes = folds_of(n=4, model=Counting(max_depth=1)), 4
    Counting.fits = 0
    settings = FedRelax(rounds=1, tol=0.0)
    choose(folds, settings, [Candidate(a) for a in (0.1, 0.5, 1.0)], halving=False)
    alone, together = nodes * len(folds), 3 * nodes * len(folds)
    assert Counting.fits == alone + together
    assert all(fold.memory is None for fold in folds)


def test_large_networks_of_forests_are_tried_with_smaller_ones():
    small, large = RandomForestRegressor(100), RandomForestRegressor(100, max_depth=3)
    few, words, heavier = lighter(folds_of(n=5, model=small))
    assert words == "" and heavier == 1.0 and few[0].models[0] is small
    many, words, heavier = lighter(
        folds_of(n=20, model={k: small if k else large for k in range(20)})
    )
    assert "25 trees" in words and heavier == 100 / ENOUGH_TREES
    assert {m.n_estimators for m in many[0].models} == {ENOUGH_TREES}
    assert many[0].models[0].max_depth == 3 and many[0].models[1].max_depth is None
    assert small.n_estimators == large.n_estimators == 100
