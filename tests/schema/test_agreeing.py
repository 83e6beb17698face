"""Places that do not pool rows agree on the schema that their rows together would have."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrelax.errors import FedRelaxError
from fedrelax.jsonfiles import from_plain
from fedrelax.schema import schema_of
from fedrelax.schema.agreeing import ColumnSummary, agreed, tell
from fedrelax.schema.schema import Schema


def table(rows: int = 90, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    days = pd.Timestamp("2024-03-01") + pd.to_timedelta(rng.integers(0, 400, rows), unit="D")
    size = rng.normal(40.0, 5.0, rows)
    size[rng.random(rows) < 0.2] = np.nan
    return pd.DataFrame(
        {
            "size": size,
            "open": rng.random(rows) < 0.5,
            "type": rng.choice(["kiosk", "mall", "market"], rows),
            "day": days.strftime("%Y-%m-%d"),
        }
    )


def parts(frame: pd.DataFrame, places: int = 3) -> dict[str, pd.DataFrame]:
    return {f"site {k}": frame.iloc[k::places] for k in range(places)}


def agree(found: dict[str, pd.DataFrame], named: bool = False) -> tuple[Schema, list[str]]:
    # As letters carry it: through JSON.
    told = {
        place: [
            from_plain(ColumnSummary, json.loads(json.dumps(asdict(line))))
            for line in tell(frame)[0]
        ]
        for place, frame in found.items()
    }
    return agreed(told, named)


def test_the_schema_is_that_of_all_rows_together() -> None:
    frame = table()
    pooled = schema_of(frame)[0]
    found, notes = agree(parts(frame))
    assert notes == []
    assert found.names == pooled.names
    for one, other in zip(found.columns, pooled.columns, strict=True):
        assert (one.kind, one.categories, one.cycles) == (
            other.kind,
            other.categories,
            other.cycles,
        )
        assert (one.gaps, one.others, one.order) == (other.gaps, other.others, other.order)
        assert one.centre == pytest.approx(other.centre, rel=1e-4)
        assert one.scale == pytest.approx(other.scale, rel=1e-4)
        assert one.shares == pytest.approx(other.shares, abs=2e-3)


def test_numbers_keep_their_units_unless_they_are_extreme() -> None:
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"a": rng.normal(size=60), "b": rng.normal(5.0, 2.0, 60)})
    assert agree(parts(frame))[0].is_plain
    found = agree(parts(frame.assign(b=1e9 + frame["b"])))[0]
    assert found.columns[0].is_plain and found.columns[1].centre == pytest.approx(1e9)


def test_rare_categories_and_single_values_are_not_told() -> None:
    frame = pd.DataFrame({"town": ["Oslo"] * 5 + ["Bergen"] * 2 + ["Moss"], "x": np.arange(8.0)})
    told = {line.name: line for line in tell(frame)[0]}
    assert told["town"].categories == ("Oslo",) and told["town"].others == 3
    few = {line.name: line for line in tell(frame.iloc[:2])[0]}
    assert (few["x"].known, few["x"].mean) == (0, 0.0)


def test_a_column_that_is_empty_or_the_same_everywhere() -> None:
    frame = table().assign(nothing=None, country="Norway")
    found, notes = agree(parts(frame))
    assert found.column_names == ["size", "open", "type", "day"]
    assert notes == [
        "Column 'nothing' is left out: it is empty.",
        "Column 'country' is left out: it is 'Norway' in every row.",
    ]
    two = parts(table())
    two["site 1"] = two["site 1"].assign(type=None)
    column = agree(two)[0].columns[2]
    assert column.kind == "category" and column.gaps


def test_what_differs_between_sites_only_is_kept() -> None:
    found = {place: part.assign(region=place) for place, part in parts(table()).items()}
    assert agree(found)[0].columns[-1].categories == ("site 0", "site 1", "site 2")


def test_a_name_of_every_row_is_left_out() -> None:
    frame = table(150).assign(key=[f"r{k:04d}" for k in range(150)])
    found, notes = agree(parts(frame))
    assert "key" not in found.column_names and "its texts are too different" in notes[0]


@pytest.mark.parametrize(
    ("column", "values", "text"),
    [
        (
            "size",
            "large",
            "site 'site 1': column 'size' holds categories, but at site 'site 0' num",
        ),
        (
            "type",
            3.5,
            "site 'site 1': column 'type' holds numbers, but at site 'site 0' categories",
        ),
        (
            "day",
            "25/12/2024",
            "column 'day' holds dates with the day first, but at site 'site 0' dates as year",
        ),
    ],
)
def test_kinds_that_differ_are_refused_by_name(column: str, values: Any, text: str) -> None:
    found = parts(table())
    found["site 1"] = found["site 1"].assign(**{column: values})
    with pytest.raises(FedRelaxError, match=text):
        agree(found)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
KEYS = st.sampled_from(
    ["name", "kind", "known", "gaps", "mean", "spread", "categories", "counts", "others", "cycles"]
)


@given(st.dictionaries(KEYS, ANYTHING | st.sampled_from(["number", "category", 3, ["a"], [1]])))
def test_whatever_is_told_is_read_or_refused(said: dict[str, Any]) -> None:
    try:
        told = from_plain(ColumnSummary, said)
    except FedRelaxError:
        return
    assert from_plain(ColumnSummary, asdict(told)) == told
    try:
        schema, _ = agreed({"one": [told]}, named=True)
    except FedRelaxError:
        return
    assert np.isfinite(schema.encode(np.zeros((1, 1)))).all()
