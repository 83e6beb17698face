"""One extreme value does not lead to an absurd prediction: numbers are held within agreed limits."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge
from typer.testing import CliRunner

from fedrelax import FedRelaxRegressor, Graph
from fedrelax.cli.app import app
from fedrelax.errors import FedRelaxError
from fedrelax.jsonfiles import from_plain
from fedrelax.schema import Column, schema_of
from fedrelax.schema.agreeing import ColumnSummary, agreed, tell
from fedrelax.storage import load_result, save_result


def ratings(seed: int = 0) -> pd.DataFrame:
    """Return ratings from 1 to 10 that grow with the logarithm of a heavy-tailed column."""
    rng = np.random.default_rng(seed)
    length = rng.lognormal(4.0, 1.0, 200).round(2)
    site = np.repeat([f"site {k}" for k in range(8)], 25)
    rating = 1.0 + np.log(length) + 0.3 * rng.normal(size=200)
    return pd.DataFrame({"site": site, "length": length, "rating": rating.clip(1.0, 10.0)})


def extreme(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a row fifty times as large as any in training."""
    return pd.DataFrame({"site": ["site 3"], "length": [50.0 * frame["length"].max()]})


def fitted(frame: pd.DataFrame, *model: object, **more: object) -> FedRelaxRegressor:
    X = frame[["site", "length"]]
    return FedRelaxRegressor(*model, **more).fit(X, frame["rating"], nodes="site")


@pytest.mark.parametrize("model", ["auto", Ridge()])
def test_an_extreme_row_is_held_near_those_of_training(model: object) -> None:
    frame = ratings()
    found = fitted(frame, model, quick=True)
    prediction = found.predict(extreme(frame))[0]
    # Twice as far from the median as the largest value: at most twice as far from the ratings.
    middle, most = frame["rating"].median(), frame["rating"].max()
    ends = found.predict(pd.DataFrame({"site": ["site 3"], "length": [frame["length"].max()]}))[0]
    assert prediction <= middle + 2.0 * (max(ends, most) - middle) + 0.5


def test_arrays_of_the_default_are_held_and_those_of_explicit_models_are_not() -> None:
    frame = ratings()
    X, y, site = frame[["length"]].to_numpy(), frame["rating"], frame["site"].to_numpy()
    far = extreme(frame)[["length"]].to_numpy()
    found = FedRelaxRegressor(quick=True).fit(X, y, nodes=site)
    assert found.predict(far, nodes=["site 3"])[0] < 20.0
    assert np.array_equal(
        found.predict(X, nodes=site)[75:100], found.models_["site 3"].predict(X[75:100])
    )
    graph = Graph.complete(dict.fromkeys(site))
    given = FedRelaxRegressor(Ridge(), graph, alpha=0.1, rounds=3).fit(X, y, nodes=site)
    line = given.models_["site 3"]
    exact = line.intercept_ + line.coef_[0] * far[0, 0]
    assert given.predict(far, nodes=["site 3"])[0] == pytest.approx(exact, rel=1e-12)


def test_limits_contain_all_rows_and_leave_room_for_trends() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"year": np.arange(2000.0, 2021.0), "one": 1.0, "spike": 0.0})
    frame.loc[4, "spike"] = 7.0
    year, one, spike = schema_of(frame, named=True)[0].columns
    assert year.limits[0] <= 1980 and year.limits[1] >= 2040
    assert one.limits == (-np.inf, np.inf)
    assert spike.limits[0] <= 0.0 and 7.0 <= spike.limits[1] <= 14.2
    heavy = pd.DataFrame({"x": rng.standard_t(1, size=500)})
    schema = schema_of(heavy)[0]
    assert schema.is_plain and np.array_equal(schema.encode(schema.code(heavy)), heavy.to_numpy())
    assert np.array_equal(schema.encode(np.array([[np.inf]])), [[schema.columns[0].high]])


def test_sites_agree_on_limits_that_suit_all_of_them() -> None:
    frame = ratings()[["site", "length"]]
    parts = {site: own[["length"]] for site, own in frame.groupby("site")}
    told = {
        site: [from_plain(ColumnSummary, asdict(line)) for line in tell(own)[0]]
        for site, own in parts.items()
    }
    schema, _ = agreed(told, named=True)
    low, high = schema.columns[0].limits
    for own in parts.values():
        alone = schema_of(own)[0].columns[0].limits
        assert low <= alone[0] and alone[1] <= high
    assert high == max(line[0].high for line in told.values() if line[0].high is not None)
    again = type(schema).from_dict(json.loads(json.dumps(schema.to_dict())))
    assert again == schema
    assert tell(frame[["length"]].iloc[:2])[0][0].high is None  # of two rows, nothing is told
    with pytest.raises(FedRelaxError, match="low must not be above high"):
        Column("x", "number", low=2.0, high=1.0)


def test_a_saved_result_holds_the_same_rows(tmp_path: Path) -> None:
    frame = ratings()
    found = fitted(frame, quick=True)
    save_result(tmp_path / "result", found, target="rating")
    expected = found.predict(extreme(frame))
    extreme(frame).to_csv(tmp_path / "new.csv", index=False)
    new, out = str(tmp_path / "new.csv"), str(tmp_path / "out.csv")
    said = CliRunner().invoke(app, ["predict", str(tmp_path / "result"), new, "--out", out])
    assert said.exit_code == 0, said.output
    assert pd.read_csv(out)["prediction"].to_numpy() == pytest.approx(expected, rel=1e-12)
    plain = FedRelaxRegressor(quick=True).fit(
        frame[["length"]].to_numpy(), frame["rating"], nodes=frame["site"].to_numpy()
    )
    save_result(tmp_path / "array", plain, feature_names=["minutes"])
    far = extreme(frame)[["length"]].to_numpy()
    again = load_result(tmp_path / "array").predict(far, nodes=["site 3"])
    assert again == pytest.approx(expected, rel=1e-12)
