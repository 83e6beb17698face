"""The paper's figures of linear models by noise and by features, against the target figures."""

from __future__ import annotations

import pytest

from tests.reproduction.figures import assert_targets_hold, reproduced


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    out = tmp_path_factory.mktemp("figures")
    return reproduced(["fig1a", "fig1b", "fig3"], out)


@pytest.mark.figures
@pytest.mark.parametrize(
    "sheet", ["1a clustered d/m", "1b clustered noise", "3 noniid d/m", "3 noniid noise"]
)
def test_every_target_holds_within_three_combined_standard_errors(done, linear_targets, sheet):
    assert_targets_hold(done, linear_targets, sheet)
