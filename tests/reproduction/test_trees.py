"""The paper's tree figures, against the target figures."""

from __future__ import annotations

import pytest

from fedrelax.paper.catalog import Choice
from fedrelax.paper.reproduce import reproduce
from tests.reproduction.figures import tree_ratios


@pytest.mark.figures
@pytest.mark.parametrize(("figure", "runs"), [("fig2b", 3), ("fig4", 2)])
def test_ratio_to_training_alone(tree_targets, tmp_path, figure, runs):
    """At d = 10 without noise, alpha = 0.001 and 1, after each of four rounds."""
    ask = Choice(features=(10,), noise=(0.0,))
    done = reproduce([figure], tmp_path, runs=runs, jobs=2, ask=ask)
    table = tree_ratios(done, tree_targets)
    assert set(table["alpha"]) == {0.001, 1.0}
    assert set(table["iteration"]) == {1, 2, 3, 4}
    apart = (table["normalised_by_local"] - table["known"]).abs() > 0.05
    assert not apart.any(), table[apart].to_string()
