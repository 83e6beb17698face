from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from fedrelax.errors import FedRelaxError
from fedrelax.public import DRAWS, draw_public
from fedrelax.schema import Column, Preparation, Schema, schema_of
from fedrelax.schema.dates import DAY, cycles_of, waves

from .tables import mixed


def kinds(frame):
    return {column.name: column.kind for column in schema_of(frame)[0].columns}


def test_kinds_of_columns():
    frame, _ = mixed()
    assert kinds(frame.drop(columns="site")) == {
        "size": "number",
        "kind": "category",
        "open": "flag",
        "day": "date",
    }


def test_a_plain_table_of_numbers_is_seen_as_it_is():
    frame = pd.DataFrame({"a": [1.0, 2.5, 3.0], "b": [10, 20, 25]})
    schema, notes = schema_of(frame)
    assert schema.is_plain and notes == []
    np.testing.assert_array_equal(schema.encode(schema.code(frame)), frame.to_numpy(float))


@pytest.mark.parametrize(("offset", "unit"), [(1e9, 1.0), (0.0, 1e-9), (0.0, 1e9), (1.7e9, 1e5)])
def test_extreme_numbers_are_centred_and_scaled(offset, unit):
    rng = np.random.default_rng(0)
    usual = rng.normal(size=200)
    frame = pd.DataFrame({"odd": offset + unit * usual, "usual": usual})
    schema, _ = schema_of(frame)
    seen = schema.encode(schema.code(frame))
    assert abs(seen[:, 0].mean()) < 1e-3 and abs(seen[:, 0].std() - 1) < 1e-3
    np.testing.assert_array_equal(seen[:, 1], usual)


def test_gaps_count_as_average_and_are_marked():
    frame = pd.DataFrame({"x": [1.0, 3.0, np.nan], "kind": ["a", None, "b"]})
    schema, _ = schema_of(frame)
    assert schema.names == [
        *("x", "x is missing", "kind is a", "kind is b", "kind is missing"),
    ]
    seen = schema.encode(schema.code(frame))
    np.testing.assert_allclose(seen[2], [0, 1, 0, 1, 0])
    np.testing.assert_allclose(seen[1], [1, 0, 0.5, 0.5, 1])


def test_a_category_that_was_never_met_counts_as_average():
    schema, _ = schema_of(pd.DataFrame({"kind": ["a", "a", "b", "a"]}))
    seen = schema.encode(schema.code(pd.DataFrame({"kind": ["b", "zebra"]})))
    np.testing.assert_allclose(seen, [[0, 1], [0.75, 0.25]])


def test_rare_categories_are_one():
    names = [f"n{k}" for k in range(40)]
    frame = pd.DataFrame({"kind": ["x"] * 200 + ["y"] * 200 + names})
    (column,) = schema_of(frame)[0].columns
    assert column.categories == ("x", "y") and column.others
    assert column.names[-1] == "kind of another kind"


def test_identifiers_beyond_exact_floats_stay_apart():
    big = 2**53
    frame = pd.DataFrame({"id": [big + k % 3 for k in range(30)]})
    (column,) = schema_of(frame)[0].columns
    assert column.categories == tuple(str(big + k) for k in range(3))


def test_free_texts_and_names_of_rows_are_left_out():
    rng = np.random.default_rng(0)
    words = ["fresh", "bread", "milk", "late", "early", "closed", "roof", "street"]
    texts = [" ".join(rng.choice(words, 4)) + f" {k}" for k in range(60)]
    frame = pd.DataFrame({"note": texts, "id": [f"R{k:04d}x" for k in range(60)], "x": range(60)})
    _, notes = schema_of(frame)
    assert kinds(frame) == {"x": "number"}
    assert all(f"Column {name!r} is left out" in " ".join(notes) for name in ("note", "id"))
    named = schema_of(frame, ["note", "x"], named=True)[0]
    assert named.names == ["note of another kind", "x"]


# Dates


def test_cycles_follow_the_span():
    hours, days = np.arange(96) * 3600.0, np.arange(60) * DAY
    assert cycles_of(hours) == ("hour",)
    assert cycles_of(days) == ("weekday",)
    assert cycles_of(np.arange(800) * DAY) == ("weekday", "season")
    assert cycles_of(np.arange(10) * 60.0) == ()


def test_weekdays_are_told_apart_by_their_waves():
    seen = waves(np.arange(14) * DAY, "weekday")
    weekend = np.isin((np.arange(14) + 3) % 7, [5, 6]).astype(float)
    design = np.column_stack([np.ones(14), seen])
    fitted = design @ np.linalg.lstsq(design, weekend, rcond=None)[0]
    np.testing.assert_allclose(fitted, weekend, atol=1e-12)


@pytest.mark.parametrize(
    ("texts", "order", "first"),
    [
        (["2024-01-05", "2024-03-07"], "iso", "2024-01-05"),
        (["31/01/2024", "05/03/2024"], "day first", "2024-01-31"),
        (["01/31/2024", "03/05/2024"], "month first", "2024-01-31"),
    ],
)
def test_the_order_of_day_and_month_is_found_and_kept(texts, order, first):
    schema, notes = schema_of(pd.DataFrame({"day": texts * 5}))
    assert schema.columns[0].order == order and notes == []
    code = schema.code(pd.DataFrame({"day": texts[:1]}))[0, 0]
    assert pd.Timestamp(code, unit="s") == pd.Timestamp(first)


def test_dates_that_can_be_read_two_ways_are_named():
    _, notes = schema_of(pd.DataFrame({"day": ["03/04/2024", "05/06/2024"] * 5}))
    assert "'day' such as '03/04/2024' are read with the month first" in notes[0]


# Files


def test_a_schema_survives_its_file(tmp_path):
    frame, _ = mixed()
    schema, _ = schema_of(frame.drop(columns="site"))
    (tmp_path / "schema.json").write_text(json.dumps(schema.to_dict()))
    assert Schema.read(tmp_path / "schema.json") == schema


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({}, "has no 'columns'"),
        ({"columns": [{"name": "a"}]}, "has no 'columns.0.kind'"),
        ({"columns": [{"name": "a", "kind": "colour"}]}, "has 'colour' under 'columns.0.kind'"),
        (
            {"columns": [{"name": 3, "kind": "number"}]},
            "3 under 'columns.0.name'",
        ),
        ({"columns": [{"name": "a", "kind": "number", "scale": 0}]}, "scale above 0"),
        (
            {"columns": [{"name": "a", "kind": "number", "run": "rm"}]},
            "'columns.0.run', which is not known",
        ),
        ({"columns": [{"name": "a", "kind": "number"}] * 2}, "each with its own name"),
        ({"columns": [{"name": "a", "kind": "category", "categories": "ab"}]}, "should be a valid"),
        (
            {"columns": [{"name": "a", "kind": "date", "categories": [], "cycles": "day"}]},
            "'columns.0.cycles', which should be a valid",
        ),
        ({"columns": [{"name": "a", "kind": "category", "categories": ["x", "x"]}]}, "different"),
    ],
)
def test_a_bad_schema_is_one_sentence(said, words):
    with pytest.raises(FedRelaxError, match=words):
        Schema.from_dict(said)


def test_a_missing_column_is_named():
    schema = Schema((Column("wind", "number"),))
    with pytest.raises(FedRelaxError, match="no column 'wind'.*did you mean 'wnd'"):
        schema.code(pd.DataFrame({"wnd": [1.0]}))


# Nodes that lack columns


def lacking():
    rng = np.random.default_rng(0)
    base = rng.normal(size=(60, 1))
    coded = base + 0.1 * rng.normal(size=(60, 3))
    coded[:20, 1] = np.nan
    rows = {"a": np.arange(20), "b": np.arange(20, 40), "c": np.arange(40, 60)}
    return Schema(tuple(Column(name, "number") for name in "xyz")), coded, rows


def test_a_column_that_is_empty_at_a_node_is_not_that_nodes():
    schema, coded, rows = lacking()
    ready = Preparation.of(schema, coded, rows)
    assert ready.lacks == {"a": (1,)} and ready.has("a") == [0, 2]
    assert not ready.schema.columns[1].gaps
    assert ready.absent(["a"]) == {"y"} and ready.absent(["a", "b"]) == set()


def test_it_is_filled_in_from_the_columns_that_the_node_has():
    schema, coded, rows = lacking()
    ready = Preparation.of(schema, coded, rows)
    seen = ready.rows(coded, rows)
    assert np.isfinite(seen).all()
    np.testing.assert_allclose(seen[:20, 1], (seen[:20, 0] + seen[:20, 2]) / 2, atol=0.35)
    changed = coded.copy()
    changed[:20, 1] = 1e6  # a value that the node should not have tells nothing
    np.testing.assert_array_equal(ready.rows(changed, rows)[:20], seen[:20])


def test_a_preparation_survives_its_file():
    schema, coded, rows = lacking()
    ready = Preparation.of(schema, coded, rows)
    again = Preparation.from_dict(json.loads(json.dumps(ready.to_dict())))
    np.testing.assert_array_equal(again.rows(coded, rows), ready.rows(coded, rows))
    said = ready.to_dict()
    said["fills"][0]["weights"] = [[1.0]]
    with pytest.raises(FedRelaxError, match="do not fit its columns"):
        Preparation.from_dict(said)


# Public rows


@pytest.mark.parametrize("how", list(DRAWS))
@pytest.mark.parametrize("encoded", [True, False])
def test_public_rows_hold_nothing_that_a_column_cannot(how, encoded):
    frame, _ = mixed()
    schema, _ = schema_of(frame.drop(columns="site"))
    coded = schema.code(frame)
    rows = schema.encode(coded) if encoded else coded
    pieces = Preparation(schema, encoded).pieces
    drawn = draw_public(how, [rows], 300, np.random.default_rng(0), pieces)
    assert drawn.shape == (300, rows.shape[1])
    for (place, mixes), column in zip(pieces, schema.columns, strict=True):
        block = drawn[:, place]
        if not mixes:
            known = {tuple(np.nan_to_num(line, nan=-1)) for line in rows[:, place]}
            assert {tuple(np.nan_to_num(line, nan=-1)) for line in block} <= known, column.name
        elif how in ("blend", "uniform"):
            values = rows[:, place.start]
            inside = block[np.isfinite(block[:, 0]), 0]
            assert inside.min() >= np.nanmin(values) and inside.max() <= np.nanmax(values)
