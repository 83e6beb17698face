"""The paper's linear figures, computed as often as the target figures were."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from fedrelax.paper.catalog import Choice
from fedrelax.paper.reproduce import Reproduction, reproduce


def reproduced(figures: list[str], targets: Path, out: Path) -> Reproduction:
    """Compute figures of the paper, without what fedrelax adds to them, for 20 seeds."""
    return reproduce(figures, out, runs=20, ask=Choice(beyond=False), targets=[targets])


def assert_targets_hold(done: Reproduction, targets: Path, sheet: str) -> None:
    """Every target of a sheet is there, and ours is within three combined standard errors of it."""
    assert done.agreement is not None
    ours, known = done.agreement, pd.read_csv(targets)
    table = ours[ours["figure"] == sheet]
    assert len(table) == (known["figure"] == sheet).sum()
    assert set(table["iteration"]) == {0, 49, 99, 249, 499}
    assert table["holds"].all(), table[~table["holds"]].to_string()
