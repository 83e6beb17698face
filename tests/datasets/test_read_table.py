from __future__ import annotations

import os
import sys

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedrelax.datasets import read_table
from fedrelax.errors import FedRelaxError


@pytest.fixture
def write(tmp_path):
    def to_file(content, name="table.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return to_file


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_separator_encoding_and_line_ends_are_found(write, separator, encoding, end):
    rows = [["städte", "wind speed", "y"], ["Kölñ", "1.5", "2"], ["Ås", "2.5", "3"]]
    frame = read_table(write((end.join(separator.join(r) for r in rows) + end).encode(encoding)))
    assert frame.columns.tolist() == rows[0]
    assert frame["städte"].tolist() == ["Kölñ", "Ås"]
    assert frame["wind speed"].tolist() == [1.5, 2.5]
    assert pd.api.types.is_integer_dtype(frame["y"])


def test_windows_characters_survive(write):
    assert read_table(write("a,b\n1,5 €\n".encode("cp1252")))["b"].tolist() == ["5 €"]


@pytest.mark.parametrize("separator", [";", "\t"])
def test_decimal_commas_where_the_comma_does_not_separate(write, separator):
    text = "a;b;c;d\n1,5;2;x,y;1.5\n-0,25;3;z;2\n;4;1,5;3\n".replace(";", separator)
    frame = read_table(write(text))
    assert frame["a"].dropna().tolist() == [1.5, -0.25]
    assert frame["b"].tolist() == [2, 3, 4]
    assert frame["c"].tolist() == ["x,y", "z", "1,5"]
    assert frame["d"].tolist() == [1.5, 2, 3]


def test_commas_inside_a_semicolon_header_do_not_mislead(write):
    frame = read_table(write("temp, C;wind, m/s\n1,5;2,5\n2,5;3\n"))
    assert frame.columns.tolist() == ["temp, C", "wind, m/s"]


def test_the_index_is_the_line_in_the_file(write):
    frame = read_table(write('\na,b\n1,x\n\n2,"two\nlines"\n3,z\n,\n4,w\n\n'))
    assert frame.index.name == "line"
    assert dict(zip(frame["a"], frame.index, strict=True)) == {1: 3, 2: 5, 3: 7, 4: 9}


def test_a_saved_row_number_stays_and_an_empty_nameless_column_goes(write):
    frame = read_table(write(",a,b,\n0,1,2,\n1,3,4,\n"))
    assert frame.columns.tolist() == ["Unnamed: 0", "a", "b"]


@given(
    names=st.lists(
        st.text(
            st.characters(codec="utf-8", exclude_categories=("Cc", "Zl", "Zp", "Cs")), min_size=1
        ).filter(lambda s: s.strip() == s and not s.startswith("\ufeff")),
        min_size=2,
        max_size=5,
        unique=True,
    )
)
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_awkward_column_names_survive(tmp_path, names):
    path = tmp_path / "awkward.csv"
    pd.DataFrame([range(len(names))] * 3, columns=names).to_csv(path, index=False, quoting=1)
    frame = read_table(path)
    assert frame.columns.tolist() == names
    assert frame.iloc[0].tolist() == list(range(len(names)))


def test_parquet(tmp_path):
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame({"a": [1, 2], "b": ["x", "y"]})
    frame.to_parquet(tmp_path / "table.parquet")
    pd.testing.assert_frame_equal(read_table(tmp_path / "table.parquet"), frame)


def test_parquet_without_pyarrow_says_what_to_install(write, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(FedRelaxError, match=r"fedrelax\[parquet\]"):
        read_table(write(b"PAR1", "table.parquet"))


@pytest.mark.parametrize(
    ("content", "name", "words"),
    [
        ("", "empty.csv", "is empty"),
        (" \n\n \n", "blank.csv", "is empty"),
        ("a,b\n", "header.csv", "no rows"),
        ("a,b\n,\n\n", "separators.csv", "no rows"),
        (bytes(range(256)) * 4, "junk.csv", "not a text file"),
        (b"PK\x03\x04" + bytes(60), "sheet.csv", "not a text file"),
        ("a,b\n1,2\n", "table.xlsx", r"ending '.xlsx'"),
        ("a,b\n1,2\n", "table", r"ending ''"),
        ("a,b,a\n1,2,3\n", "twice.csv", "more than one column named 'a'"),
        ("a,b\n1,2,3\n4,5,6\n", "wide.csv", "more fields than its header of 2"),
        ("a,b\n1,2\n4,5,6\n", "ragged.csv", "in line 3, saw 3"),
        ('a,b\n1,"2\n4,5\n', "quote.csv", "close every quotation mark"),
        (b"no parquet", "table.parquet", "cannot be read as a Parquet"),
    ],
)
def test_bad_files_are_refused_in_one_sentence(write, content, name, words):
    if name.endswith(".parquet"):
        pytest.importorskip("pyarrow")
    path = write(content, name)
    with pytest.raises(FedRelaxError, match=words) as raised:
        read_table(path)
    assert str(path) in str(raised.value)
    assert "\n" not in str(raised.value)


def test_missing_file_and_directory(tmp_path):
    with pytest.raises(FedRelaxError, match="does not exist"):
        read_table(tmp_path / "nowhere.csv")
    with pytest.raises(FedRelaxError, match="is a directory"):
        read_table(tmp_path)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read all")
def test_a_file_without_permission(write):
    path = write("a,b\n1,2\n")
    path.chmod(0)
    with pytest.raises(FedRelaxError, match="check its permissions"):
        read_table(path)


def test_a_file_that_fails_to_be_read(write, monkeypatch):
    path = write("a,b\n1,2\n")

    def fail(path, most):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("fedrelax.schema.reading.read_file", fail)
    with pytest.raises(FedRelaxError, match="Permission denied"):
        read_table(path)
