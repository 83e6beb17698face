"""The paper's tree figures, against the target figures."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from fedrelax.experiments.trees import tree_curve

FIGURES = {"clustered": "2b DT clustered noise", "noniid": "4 DT noniid noise"}
SEEDS = {"clustered": range(3), "noniid": range(2)}


@pytest.mark.slow
@pytest.mark.parametrize("setting", list(FIGURES))
def test_ratio_to_training_alone(tree_targets, setting):
    table = pd.read_csv(tree_targets)
    table = table[(table.figure == FIGURES[setting]) & (table.d == 10) & (table.sigma == 0)]

    def target(alpha, first_exchange):
        rows = table[(table.alpha == alpha) & (table.first_exchange == first_exchange)]
        return rows.sort_values("iteration").mse_val.to_numpy()

    alone = tree_curve(setting, 0.0, SEEDS[setting])
    for alpha in (0.001, 1.0):
        ratio = tree_curve(setting, alpha, SEEDS[setting]) / alone
        expected = target(alpha, "initial models") / target(0, "zeros")
        assert np.abs(ratio - expected).max() < 0.05
