"""The time of a search: all of it if it fits, else a part, and what was left out is named."""

from __future__ import annotations

import numpy as np
import pytest

from fedrelax import Callback, FedRelax, FedRelaxRegressor
from fedrelax.errors import FedRelaxWarning
from fedrelax.selection import candidates_for, choose
from fedrelax.selection.budget import Budget, Overtime
from tests.test_selection import related
from tests.test_trials import TREE, folds_of


class Clock:
    """A clock that is ahead by ``step`` seconds whenever somebody looks at it."""

    def __init__(self, step: float) -> None:
        self.now, self.step = 0.0, step

    def __call__(self) -> float:
        self.now += self.step
        return self.now


@pytest.fixture(scope="module")
def folds():
    return folds_of(n=8)


def searched(folds, seconds: float | None, step: float = 1.0):
    settings = FedRelax()
    budget = None if seconds is None else Budget(seconds, Clock(step))
    tried = candidates_for(folds[0], settings, "auto", "auto")
    return choose(folds, settings, tried, levels=(0.1,), budget=budget)


def test_a_search_that_fits_is_the_same_as_one_without_a_limit(folds):
    free, timed = searched(folds, None), searched(folds, 1e6)
    assert timed.left_out == "" and timed.reason == free.reason
    assert timed.chosen == free.chosen and timed.rounds == free.rounds
    assert timed.candidates == free.candidates
    np.testing.assert_array_equal(timed.losses, free.losses)


def test_what_does_not_fit_is_left_out_and_named(folds):
    """The clock goes on by a second for every round, so a run takes as many seconds as rounds."""
    choice = searched(folds, 40.0)
    assert choice.left_out.startswith("only ") and "levels and wirings" in choice.left_out
    assert choice.left_out in choice.reason and "to stay within 40 s" in choice.reason
    assert {one.wiring for one in choice.candidates} == {None}
    assert 0.0 in choice.alphas and len(choice.alphas) > 1
    assert np.isfinite(choice.losses).all()


def test_a_search_without_time_tries_one_round_of_the_usual_strength(folds):
    choice = searched(folds, 1e-9)
    assert "only 1 of 7 strengths, 1 of 3 folds, 1 of 20 rounds, 0 of " in choice.left_out
    assert choice.alphas == (0.0, pytest.approx(1 / 7))  # one over the number of neighbours
    assert choice.losses.shape == (2, 2) and choice.rounds <= 1


def test_given_rounds_are_not_cut(folds):
    settings = FedRelax(rounds=3)
    tried = candidates_for(folds[0], settings)
    choice = choose(folds, settings, tried, budget=Budget(1e-9, Clock(1.0)))
    assert "rounds" not in choice.left_out and choice.losses.shape[1] == 1 + 3


def test_a_run_over_its_time_ends_after_its_first_round(folds):
    overtime = Overtime(Budget(1e-9, Clock(1.0)))
    result = FedRelax(alpha=0.1).solve(folds[0], [overtime])
    assert overtime.cut and result.n_rounds == 1 and result.reason == "out of time"


# Through the estimator


def test_the_estimator_warns_what_it_left_out():
    X, y, nodes = related(n=6)
    with pytest.warns(FedRelaxWarning, match="only 1 of 6 strengths.*minutes=10"):
        model = FedRelaxRegressor(TREE, minutes=0.0).fit(X, y, nodes)
    assert model.choice_.left_out in model.choice_.reason
    assert np.isfinite(model.predict(X, nodes)).all()


def test_the_default_model_without_time_is_the_linear_network():
    """What takes its place, boosted differences and wirings, is not tried, and that is said."""
    X, y, nodes = related(n=6)
    with pytest.warns(FedRelaxWarning, match="not all boosted differences and wirings were tried"):
        model = FedRelaxRegressor(minutes=0.0).fit(X, y, nodes)
    assert "the search was stopped after 0 s" in model.choice_.reason
    assert np.isfinite(model.predict(X, nodes)).all()


def test_a_checkpoint_lifts_the_limit(tmp_path):
    from fedrelax.storage import Checkpoint

    assert FedRelaxRegressor(callbacks=[Callback()]).search().seconds == 30.0
    assert FedRelaxRegressor(quick=True).search().seconds == 5.0
    kept = Checkpoint(tmp_path / "run")
    assert FedRelaxRegressor(callbacks=[kept]).search().seconds is None
    assert FedRelaxRegressor(callbacks=[kept], minutes=2).search().seconds == 120.0
