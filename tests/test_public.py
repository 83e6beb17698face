"""Public rows: what each way of drawing them gives, and does not give, away."""

from __future__ import annotations

import numpy as np
import pytest

from fedrelax.public import DRAWS, draw_public

RNG = np.random.default_rng(0)
INPUTS = [RNG.normal(size=(30, 3)) * [1, 5, 0.1] + [0, 10, 0] for _ in range(3)]
POOLED = np.concatenate(INPUTS)


def drawn(how, rows=2000):
    return draw_public(how, INPUTS, rows, np.random.default_rng(1))


@pytest.mark.parametrize("how", list(DRAWS))
def test_seeded_and_of_the_right_shape(how):
    assert drawn(how, 7).shape == (7, 3)
    assert np.array_equal(drawn(how, 7), drawn(how, 7))


def whole_rows_given_away(rows):
    return sum((row == POOLED).all(axis=1).any() for row in rows)


def test_what_is_revealed():
    assert whole_rows_given_away(drawn("bootstrap")) == 2000
    for how in ("gaussian", "uniform", "standard", "blend"):
        assert whole_rows_given_away(drawn(how)) == 0
    assert np.isin(drawn("marginals"), POOLED).all()


def test_gaussian_has_the_pooled_moments():
    rows = drawn("gaussian", 200_000)
    assert rows.mean(axis=0) == pytest.approx(POOLED.mean(axis=0), abs=0.05)
    assert np.cov(rows.T) == pytest.approx(np.cov(POOLED.T), rel=0.1, abs=0.05)


def test_uniform_and_blend_stay_inside_the_box():
    for how in ("uniform", "blend"):
        rows = drawn(how)
        assert (rows >= POOLED.min(axis=0)).all()
        assert (rows <= POOLED.max(axis=0)).all()


def test_a_single_row_is_enough():
    for how in DRAWS:
        assert draw_public(how, [np.ones((1, 2))], 3, np.random.default_rng(0)).shape == (3, 2)
