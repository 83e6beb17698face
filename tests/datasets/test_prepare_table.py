from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

from fedrelax.datasets import prepare_table, read_table
from fedrelax.errors import FedRelaxError


def make(rows: int = 12, **columns) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "site": ["north", "south", "west"] * (rows // 3),
            "wind": rng.normal(size=rows),
            "hour": np.arange(rows),
            "power": rng.normal(size=rows),
        }
    )
    return frame.assign(**columns)


def with_value(column, row, value):
    frame = make()
    frame[column] = frame[column].astype(object)
    frame.loc[row, column] = value
    return frame


def prepare(frame, **options):
    return prepare_table(frame, **{"node": "site", "target": "power", **options})


def test_the_plain_case():
    frame = make()
    table = prepare(frame)
    assert table.feature_names == ("wind", "hour")
    np.testing.assert_array_equal(table.X, frame[["wind", "hour"]].to_numpy(float))
    np.testing.assert_array_equal(table.y, frame["power"])
    assert table.nodes.tolist() == frame["site"].tolist()
    assert (table.task, table.classes, table.notes) == ("regression", None, ())
    assert table.row_index.tolist() == list(range(12))


def test_true_and_false_are_features_and_excluded_columns_are_not():
    table = prepare(make(sunny=[True, False] * 6), exclude=["hour"])
    assert table.feature_names == ("wind", "sunny")
    assert set(table.X[:, 1]) == {0.0, 1.0}


def test_named_features_keep_their_order_even_if_excluded():
    table = prepare(make(), features=["hour", "wind"], exclude=["hour"])
    assert table.feature_names == ("hour", "wind")
    assert prepare(make(), features="wind").feature_names == ("wind",)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["calm", "storm"] * 6, "category"),
        (pd.Categorical(["a", "b"] * 6), "category"),
        (["2024-01-31 12:00", "2024-02-01"] * 6, "date"),
        (["31/01/2024", "01/02/2024"] * 6, "date"),
        (pd.date_range("2024-01-01", periods=12), "date"),
        (["yes", "no"] * 6, "flag"),
        ([1.0] * 11 + ["?"], "number"),
        ([1.0] * 11 + ["x"], "number"),
    ],
)
def test_every_kind_of_column_is_a_feature(values, kind):
    table = prepare(make(extra=values))
    assert table.feature_names == ("wind", "hour", "extra")
    assert table.schema.columns[2].kind == kind
    assert len(table.y) == 12
    assert prepare(make(extra=values), features=["extra"]).schema.columns[0].kind == kind


def test_a_value_that_looks_wrong_is_named_once_with_its_line():
    (note,) = prepare(make(extra=[1.0] * 11 + ["12,5x"])).notes
    assert "'extra' holds numbers except in 1 row, such as '12,5x' on the row with index 11" in note
    dates = ["2024-01-05"] * 11 + ["yesterday"]
    (note,) = prepare(make(extra=dates)).notes
    assert "'extra' holds dates except in 1 row, such as 'yesterday'" in note


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([None] * 12, "'extra'.*is empty"),
        ([np.nan] * 12, "'extra'.*is empty"),
        (["calm"] * 12, "'extra'.*'calm' in every row"),
        (["kiosk", "mall", "market"] * 4, "'extra'.*is only another name of the node"),
    ],
)
def test_columns_left_out_are_noted(values, words):
    table = prepare(make(extra=values))
    assert table.feature_names == ("wind", "hour")
    (note,) = table.notes
    assert re.search(words, note)


def test_an_empty_column_cannot_be_asked_for():
    with pytest.raises(FedRelaxError, match="'extra' is empty"):
        prepare(make(extra=[None] * 12), features=["extra"])


def test_a_nameless_column_is_no_feature_unless_named():
    frame = make().rename(columns={"hour": "Unnamed: 0"})
    assert prepare(frame).feature_names == ("wind",)
    assert "no name" in prepare(frame).notes[0]
    assert prepare(frame, features=["Unnamed: 0"]).X.shape == (12, 1)


def test_nullable_and_object_columns_of_numbers_are_numbers():
    frame = make(a=pd.array(range(12), dtype="Int64"), b=pd.Series([1, 2.5] * 6, dtype=object))
    assert prepare(frame).feature_names == ("wind", "hour", "a", "b")


@pytest.mark.parametrize(
    "name", [" wind ", "wínd\u0301", 'say "wind"', "wind's", "風", "a, b", "x;y"]
)
def test_awkward_names_work_through_a_file(tmp_path, name):
    frame = make().rename(columns={"wind": name, "site": " site", "power": "power "})
    frame.to_csv(tmp_path / "t.csv", index=False)
    table = prepare(read_table(tmp_path / "t.csv"), features=[name])
    np.testing.assert_allclose(table.X[:, 0], frame[name])


def test_column_names_need_not_be_text():
    frame = make().set_axis([0, 1, 2, 3], axis=1)
    assert prepare_table(frame, node=0, target=3).feature_names == ("1", "2")


# Missing and infinite values


@pytest.mark.parametrize("column", ["site", "power"])
@pytest.mark.parametrize("value", [None, np.nan, pd.NA])
def test_missing_values_are_counted_and_located(column, value):
    frame = with_value(column, 4, value)
    if column == "site":
        with pytest.raises(FedRelaxError, match=r"'site' has 1 missing.*index 4"):
            prepare(frame)
        return
    table = prepare(frame)
    assert table.row_index.tolist() == [r for r in range(12) if r != 4]
    assert "1 of 12 rows are left out" in table.notes[0]
    assert table.task == "regression"


@pytest.mark.parametrize("value", [None, np.nan, pd.NA])
def test_gaps_of_features_stay(value):
    frame = with_value("wind", 4, value)
    table = prepare(frame)
    assert np.flatnonzero(np.isnan(table.X[:, 0])).tolist() == [4] and len(table.y) == 12
    assert table.schema.columns[0].gaps


@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_infinite_values_count_as_missing(value):
    table = prepare(with_value("wind", 2, value))
    assert np.isnan(table.X[2, 0])
    assert len(prepare(with_value("power", 2, value)).y) == 11


def test_a_blank_node_is_missing():
    with pytest.raises(FedRelaxError, match="'site' has 1 missing"):
        prepare(with_value("site", 2, "  "))


def test_the_line_of_the_file_is_named(tmp_path):
    (tmp_path / "t.csv").write_text("site,x,y\na,1,0.5\nb,2,0.7\n\n,3,0.9\n")
    with pytest.raises(FedRelaxError, match="line 5"):
        prepare_table(read_table(tmp_path / "t.csv"), "site", "y")


def test_rows_without_a_target_are_left_out_but_not_those_with_gaps():
    frame = with_value("wind", 3, np.nan).assign(power=["n/a", *map(str, range(2, 12)), "x"])
    table = prepare(frame)
    assert table.row_index.tolist() == list(range(1, 11)) and np.isnan(table.X).sum() == 1
    assert any("2 of 12 rows are left out: 'power' is missing" in note for note in table.notes)
    assert any("numbers except in 1 row, such as 'x' on" in note for note in table.notes)
    with pytest.raises(FedRelaxError, match="target column 'power' is missing .* in every row"):
        prepare(make(power=np.nan))


# Nodes


def test_blanks_around_nodes_are_removed():
    table = prepare(make(site=["a", " a", "a ", "b"] * 3))
    assert set(table.nodes) == {"a", "b"}


def test_numbers_and_text_as_nodes_become_text():
    table = prepare(make(site=pd.Series([1, "1", "b"] * 4, dtype=object)))
    assert set(table.nodes) == {"1", "b"}


def test_whole_numbers_as_nodes_are_whole():
    nodes = prepare(make(site=[1.0, 2.0, 3.0] * 4)).nodes
    assert {type(node) for node in nodes} == {int}
    assert set(nodes) == {1, 2, 3}


def test_nodes_are_plain_python_values():
    assert type(prepare(make(site=[1.5, 2.0] * 6)).nodes[0]) is float
    assert type(prepare(make(site=pd.Categorical(["a", "b"] * 6))).nodes[0]) is str
    dates = pd.to_datetime(["2024-01-01", "2024-01-02"] * 6)
    assert type(prepare(make(site=dates)).nodes[0]) is str


def test_a_single_node_has_no_neighbours():
    with pytest.raises(FedRelaxError, match="single node, 'a'"):
        prepare(make(site="a"))


# The target


@pytest.mark.parametrize(
    ("values", "task"),
    [
        (["yes", "no"] * 6, "classification"),
        ([True, False] * 6, "classification"),
        (pd.Categorical(["a", "b", "c"] * 4), "classification"),
        (pd.Categorical([1, 2, 3] * 4), "classification"),
        ([0, 1, 2] * 4, "classification"),
        ([-1, 1] * 6, "classification"),
        (pd.array([0, 1] * 6, dtype="Int64"), "classification"),
        ([0.0, 1.0] * 6, "regression"),
        ([-3, 0, 5] * 4, "regression"),
        ([0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 9], "regression"),
        (list(range(12)), "regression"),
    ],
)
def test_the_task_is_found(values, task):
    table = prepare(make(power=values))
    assert table.task == task
    if task == "classification":
        assert table.classes.tolist() == sorted(set(values))
        assert table.y.tolist() == list(values)
    else:
        assert table.y.dtype == np.float64


def test_many_whole_numbers_are_quantities():
    assert prepare(make(63, power=np.arange(63) % 21)).task == "regression"
    assert prepare(make(60, power=np.arange(60) % 20)).task == "classification"


@pytest.mark.parametrize(
    ("values", "other"),
    [([0, 1, 2] * 4, "regression"), ([-3, 0, 5] * 4, "classification")],
)
def test_a_guess_on_whole_numbers_is_noted_and_can_be_overruled(values, other):
    frame = make(power=values)
    assert f"task={other!r}" in prepare(frame).notes[0]
    overruled = prepare(frame, task=other)
    assert (overruled.task, overruled.notes) == (other, ())


def test_whole_classes_with_gaps_are_still_classes():
    table = prepare(make(power=[0, 1, 2] * 3 + [0, 1, np.nan]))
    assert table.task == "classification"
    assert table.classes.tolist() == [0, 1, 2]


def test_blanks_around_classes_are_removed():
    table = prepare(make(power=["yes", " yes", "no"] * 4))
    assert table.classes.tolist() == ["no", "yes"]


@pytest.mark.parametrize(
    ("values", "task", "words"),
    [
        (2.5, "auto", "2.5 in every row, so there is nothing to learn"),
        (1, "auto", "nothing to learn"),
        ("yes", "auto", "single class 'yes'"),
        (1, "classification", "single class 1"),
        (list("abcdefghijkl"), "auto", "different class in each"),
        (["yes", "no"] * 6, "regression", "holds text such as 'yes'.*task='classification'"),
        ([0.5, 1.5] * 6, "classification", "decimal numbers such as 0.5.*task='regression'"),
        ([1.5, 2.5] * 5 + ["x"] * 2, "auto", "numbers except in 2 rows, such as 'x'.* index 10"),
        (pd.date_range("2024-01-01", periods=12), "auto", "holds dates"),
        (["2024-01-31", "2024-02-01"] * 6, "auto", "holds dates"),
        ([0, 1] * 6, "guess", "task is 'guess'"),
    ],
)
def test_targets_that_cannot_be_learned(values, task, words):
    with pytest.raises(FedRelaxError, match=words):
        prepare(make(power=values), task=task)


# Names of columns


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"node": "sit"}, "no column 'sit'.*did you mean 'site'"),
        ({"target": "powr"}, "did you mean 'power'"),
        ({"features": ["wnd"]}, "did you mean 'wind'"),
        ({"exclude": ["hours"]}, "did you mean 'hour'"),
        ({"target": "qqq"}, "no column 'qqq' among 'site', 'wind', 'hour', 'power'"),
        ({"target": "site"}, "both as node and as target"),
        ({"features": []}, "features is empty"),
        ({"features": ["wind", "power"]}, "'power' is the target"),
        ({"features": ["site"]}, "'site' is the node"),
        ({"exclude": ["wind", "hour"]}, "no column is left to learn from"),
    ],
)
def test_wrong_names_are_explained(options, words):
    with pytest.raises(FedRelaxError, match=words):
        prepare(make(), **options)


def test_repeated_column_names():
    frame = make().set_axis(["site", "x", "x", "power"], axis=1)
    with pytest.raises(FedRelaxError, match="more than one column named 'x'"):
        prepare(frame)


def test_a_table_without_rows():
    with pytest.raises(FedRelaxError, match="no rows"):
        prepare(make().iloc[:0])
