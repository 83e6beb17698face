"""The boosted models of the command line."""

from __future__ import annotations

from typing import Any

from fedrelax.extras import need


def xgboost(classify: bool) -> Any:
    """Return few shallow trees with small leaves, since nodes have few rows."""
    library = need("xgboost", "boost")
    kind = library.XGBClassifier if classify else library.XGBRegressor
    least = 0.1 if classify else 0.5
    return kind(n_estimators=40, max_depth=3, learning_rate=0.15, min_child_weight=least)


def lightgbm(classify: bool) -> Any:
    """Return few shallow trees with small leaves: LightGBM's defaults find no split in 20 rows."""
    library = need("lightgbm", "boost")
    kind = library.LGBMClassifier if classify else library.LGBMRegressor
    return kind(
        n_estimators=40,
        num_leaves=8,
        learning_rate=0.15,
        min_child_samples=3,
        min_data_in_bin=1,
        verbosity=-1,
    )
