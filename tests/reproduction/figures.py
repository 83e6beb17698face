"""The paper's linear figures, computed as often as the target figures were."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from fedrelax.paper.reproduce import Reproduction, reproduce

LINEAR = ["method", "d", "alpha", "sigma", "p_in", "metric", "iteration"]
TREES = ["data", "d", "sigma", "alpha", "iteration"]


def reproduced(figures: list[str], out: Path) -> Reproduction:
    """Compute figures of the paper for 20 seeds."""
    return reproduce(figures, out, runs=20)


def assert_targets_hold(done: Reproduction, targets: Path, sheet: str) -> None:
    """Ours is within three combined standard errors (and rounding) of every target of a sheet."""
    known = pd.read_csv(targets).query("figure == @sheet")
    both = pd.concat(done.frames.values()).query("figure == @sheet")
    both = both.merge(known.astype({"alpha": float}), on=LINEAR, suffixes=("", "_target"))
    assert len(both) == len(known) > 0
    assert set(both["iteration"]) == {0, 49, 99, 249, 499}
    size = np.hypot(both["sem"], both["sem_target"])
    apart = (both["mean"] - both["mean_target"]).abs() > 3 * size + 1e-5
    assert not apart.any(), both[apart].to_string()


def tree_ratios(done: Reproduction, targets: Path) -> pd.DataFrame:
    """Ours and the known ratios to training alone, by data and settings, after every round."""
    known = pd.read_csv(targets)
    alone = known.query("alpha == 0").drop_duplicates(["figure", "d", "sigma", "iteration"])
    known = known.query("first_exchange == 'initial models' and alpha > 0")
    known = known.merge(alone, on=["figure", "d", "sigma", "iteration"], suffixes=("", "_alone"))
    known["known"] = known["mse_val"] / known["mse_val_alone"]
    ours = pd.concat(done.frames.values()).query("alpha > 0 and iteration > 0")
    ours, known = (
        frame.assign(data=frame["figure"].str.split().str[1:3].str.join(" "))
        for frame in (ours, known)
    )
    return ours.merge(known[[*TREES, "known"]].drop_duplicates(TREES), on=TREES)
