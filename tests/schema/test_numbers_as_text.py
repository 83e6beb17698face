"""Numbers, dates and targets as people write them are read as such, in training and afterwards."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from fedrelax import FedRelaxClassifier, FedRelaxError, FedRelaxRegressor
from fedrelax.datasets import prepare_table, read_table
from fedrelax.schema import schema_of
from fedrelax.schema.agreeing import agreed, tell
from fedrelax.schema.schema import Schema

NUMBERS = [1053.56, 12.5, 7.0, 1234.0, -3.25, 900.0, 20000.0, 0.5, 31.0, 45.5]


def column(texts):
    return pd.DataFrame({"x": pd.Series(texts, dtype=object)})


def written(number, form):
    """Return a number in one of the ways in which tables have them."""
    point = f"{number:,.2f}"
    comma = point.translate(str.maketrans({",": ".", ".": ","}))
    return {
        "decimal comma": comma.replace(".", ""),
        "thousands": point,
        "continental": comma,
        "spaces": comma.replace(".", " "),
        "narrow spaces": comma.replace(".", "\u202f"),
        "Swiss": "CHF " + point.replace(",", "'"),
        "euro before": f"-€{point[1:]}" if number < 0 else f"€{point}",
        "euro after": f"{comma} €",
        "code before": f"EUR {point}",
        "dollar": f"US${point}",
        "percent": f"{number:.2f}%",
        "spaced percent": f"{comma.replace('.', '')} %",
    }[form]


FORMS = [
    *("decimal comma", "thousands", "continental", "spaces", "narrow spaces", "Swiss"),
    *("euro before", "euro after", "code before", "dollar"),
    *("percent", "spaced percent"),
]


@pytest.mark.parametrize("form", FORMS)
def test_numbers_are_read_and_the_note_names_what_is_odd(form):
    texts = [written(number, form) for number in NUMBERS] * 2
    schema, notes = schema_of(column([*texts, "n/a", None, "call us"]))
    assert schema.columns[0].kind == "number"
    said = " ".join(notes)
    assert "'call us' on the row with index 22" in said and "missing" in said
    if form != "decimal comma":
        assert "Column 'x' holds numbers such as" in said
    again = Schema.from_dict(json.loads(json.dumps(schema.to_dict())))
    for text, number in zip(
        texts, NUMBERS * 2, strict=True
    ):  # one row at a time, as a service gets them
        assert again.code(column([text]))[0, 0] == number


def test_the_whole_column_tells_what_a_comma_means():
    assert schema_of(column(["1,234", "1,5", "2,25"]))[0].code(column(["1,234"])) == 1.234
    assert schema_of(column(["1,234", "1.5", "2,250.75"]))[0].code(column(["1,234"])) == 1234
    schema, notes = schema_of(column(["1,234", "2,250", "3,125"]))
    assert schema.code(column(["1,234"])) == 1234
    assert "read as 1234; if ',' is the decimal mark, write these numbers without" in notes[0]


def test_the_separator_of_a_file_tells_if_nothing_else_does(tmp_path):
    for separator, number in ((",", 1234.0), (";", 1.234)):
        file = tmp_path / "t.csv"
        rows = ['a{0}"1,234"{0}1', 'a{0}"2,250"{0}2', 'b{0}"3,125"{0}4', 'b{0}"4,125"{0}5.5']
        file.write_text("\n".join(["site{0}x{0}y", *rows]).format(separator))
        table = prepare_table(read_table(file), "site", "y")
        assert table.X[0, 0] == number and "holds numbers such as '1,234'" in table.notes[0]


def test_what_cannot_be_decided_later_is_not_guessed():
    schema, _ = schema_of(pd.DataFrame({"x": [1.0, 2.0, 3.0]}))
    with pytest.raises(
        FedRelaxError, match="'x' must hold numbers, as in training, but has '1,234'"
    ):
        schema.code(column(["1,234"]))
    assert schema.code(column(["1,5"])) == 1.5


@pytest.mark.parametrize(
    ("texts", "kind"),
    [
        (["007", "123", "450", "1,000"], "category"),
        (["12345678901234567890", "12345678901234567891", "1,000"] * 4, "category"),
        (["a", "b", "12%", "c"] * 5, "category"),
        (["31.12.2023", "01.02.2024", "15.03.2024"] * 4, "date"),
        (["10.0.0.1", "10.0.0.2", "192.168.1.1"] * 4, "category"),
    ],
)
def test_what_only_looks_like_a_number_is_none(texts, kind):
    assert schema_of(column(texts))[0].columns[0].kind == kind


def test_sites_agree_on_the_decimal_mark():
    sure, unsure = column(["1,5", "2,25", "3,5"]), column(["1,234", "2,250", "3,125"])
    point = column(["1.5", "2,000.25", "3,125"])
    schema, _ = agreed({"a": tell(sure)[0], "b": tell(unsure)[0]}, named=True)
    assert schema.columns[0].decimal == ","
    assert schema.code(unsure)[:, 0].tolist() == [1.234, 2.25, 3.125]
    with pytest.raises(
        FedRelaxError, match="'b': column 'x' holds decimal points, but at site 'a' decimal commas"
    ):
        agreed({"a": tell(sure)[0], "b": tell(point)[0]}, named=True)


def test_moments_with_different_offsets_are_read_in_utc():
    texts = ["2024-01-15T12:00:00+01:00", "2024-07-15T12:00:00+02:00", "2024-10-27T02:30:00+01:00"]
    schema, _ = schema_of(column(texts * 4))
    utc = ["2024-01-15 11:00", "2024-07-15 10:00", "2024-10-27 01:30"]
    assert schema.columns[0].kind == "date"
    moments = pd.to_datetime(pd.Series(utc)).to_numpy("datetime64[s]").astype(float)
    assert schema.code(column(texts))[:, 0].tolist() == moments.tolist()


def test_periods_are_dates():
    months = pd.Series(pd.period_range("2020-01", periods=24, freq="M"))
    schema, _ = schema_of(pd.DataFrame({"x": months}))
    assert schema.columns[0].kind == "date"
    assert schema.frame(schema.code(pd.DataFrame({"x": months})))["x"][5] == pd.Timestamp(
        "2020-06-01"
    )


# Estimators


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {"node": ["a", "b"] * 10, "x": rng.normal(size=20), "y": rng.normal(size=20)}
    )


def test_an_empty_column_is_no_obstacle_to_predict(frame):
    model = FedRelaxRegressor(alpha=0.1, rounds=2)
    X = frame[["node", "x"]].assign(empty=np.nan)
    with pytest.warns(match="'empty' is left out: it is empty"):
        model.fit(X, frame["y"], nodes="node")
    expected = model.predict(X)
    np.testing.assert_array_equal(model.predict(X.assign(empty=1.0)), expected)
    with pytest.raises(FedRelaxError, match="missing value"):
        model.predict(X.assign(x=np.nan))


@pytest.mark.parametrize(
    ("y", "words"),
    [
        (pd.Series(pd.date_range("2024-01-01", periods=20)), "y holds '2024-01-01"),
        (pd.Series(pd.date_range("2024-01-01", periods=20, tz="CET")), "y holds '2024-"),
        (pd.Series(pd.period_range("2024-01", periods=20, freq="M")), "y holds '2024-"),
        (["low", "high"] * 10, "y holds 'low'.*FedRelaxClassifier"),
    ],
)
def test_targets_that_a_regressor_cannot_predict(frame, y, words):
    with pytest.raises(FedRelaxError, match=words):
        FedRelaxRegressor().fit(frame[["x"]], y, nodes=frame["node"])


def test_lazy_frames_of_polars(frame):
    pl = pytest.importorskip("polars")
    lazy = pl.from_pandas(frame[["node", "x"]]).lazy()
    model = FedRelaxClassifier(alpha=0.1, rounds=2).fit(lazy, frame["y"] > 0, nodes="node")
    expected = model.predict_proba(frame[["node", "x"]])
    np.testing.assert_array_equal(model.predict_proba(lazy), expected)
