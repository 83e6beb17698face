"""The paper's figures of the total variation, against the target figures and the theory's bound."""

from __future__ import annotations

import pytest

from tests.reproduction.figures import assert_targets_hold, reproduced


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    return reproduced(["fig5a", "fig5b"], tmp_path_factory.mktemp("figures"))


@pytest.mark.figures
@pytest.mark.parametrize("sheet", ["5a variation noise", "5b variation p_in"])
def test_every_target_holds_within_three_combined_standard_errors(done, linear_targets, sheet):
    assert_targets_hold(done, linear_targets, sheet)


@pytest.mark.figures
@pytest.mark.parametrize("figure", ["fig5a", "fig5b"])
def test_every_runs_variation_ends_below_its_bound(done, figure):
    found = next(
        f for f in done.findings if f.figure == figure and "below the bound" in f.statement
    )
    assert found.verdict == "confirmed", found.numbers
