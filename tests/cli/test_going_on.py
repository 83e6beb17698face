"""``fedrelax join``, ``update`` and ``unplug``: a result goes on, and the former one stays whole."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedrelax.storage import load_result, read_result

from .runs import Run, towns

FIT = ("fit", "towns.csv", "--node", "town", "--target", "power", "--graph", "knn:lat,lon:2")


@pytest.fixture
def result(run: Run, table: pd.DataFrame) -> Path:
    run.made(
        *FIT, "--model", "linear", "--alpha", "0.3", "--features", "wind,sun", "--out", "first"
    )
    newcomer = towns().query("town == 'Hamar'").assign(town="Alta", lat=64.2)
    newcomer.to_csv("alta.csv", index=False)
    return Path("first")


def test_join_update_leave(run: Run, result: Path) -> None:
    text = run("join", result, "alta.csv", "--out", "second", "--table", "towns.csv")
    assert run.code == 0, run.output
    assert "Node 'Alta' joined: it learns from 'Bodø'" in text
    assert "first stays as it is" in text
    assert "Alta" in load_result("second").models_

    text = run("update", "second", "towns.csv", "--out", "third", "--keep", "10")
    assert "Learned 32 new rows of 'Oslo'" in text
    assert "the old rows of 4 of these nodes are not available" in text

    text = run("unplug", "third", "Oslo", "--out", "fourth", "--table", "towns.csv")
    assert "Node 'Oslo' left." in text
    assert "Oslo" not in read_result("fourth").graph

    text = run("info", "fourth")
    assert "'Alta' joined" in text
    assert "'Oslo' left" in text
    story = read_result("fourth").living["story"]
    assert [event["what"] for event in story] == ["join", "update", "leave"]
    run("predict", "fourth", "alta.csv", "--out", "said.csv")
    assert len(pd.read_csv("said.csv")) == 8


def test_coordinates_that_are_text_are_not_used(run: Run, result: Path) -> None:
    pd.read_csv("alta.csv").assign(lat="north").to_csv("alta.csv", index=False)
    text = run("join", result, "alta.csv", "--out", "second")
    assert run.code == 0 and "Node 'Alta' joined" in text, run.output


def test_names_and_neighbours_can_be_given(run: Run, result: Path) -> None:
    rows = pd.read_csv("alta.csv").drop(columns=["town", "lat", "lon"])
    rows.to_csv("rows.csv", index=False)
    text = run(
        "join", result, "rows.csv", "--label", "Vadsø", "--neighbours", "Oslo, Bodø", "--out", "b"
    )
    assert run.code == 0, run.output
    assert (
        "Node 'Vadsø' joined: it learns from 'Oslo' and 'Bodø'" in text or "'Oslo', 'Bodø'" in text
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("join", "first", "alta.csv", "--neighbours", "Olso"),
            "node 'Olso' is not in the network",
        ),
        (("join", "first", "towns.csv"), "is in the network already"),
        (("update", "first", "alta.csv"), "rows belong to nodes that are neither"),
        (("unplug", "first", "Alta"), "node 'Alta' is not in the network"),
        (("join", "towns.csv", "alta.csv"), "is not a result of fedrelax"),
        (("update", "first", "towns.csv", "--keep", "0"), "keep"),
    ],
)
def test_what_is_refused(run: Run, result: Path, words: tuple[str, ...], said: str) -> None:
    assert said in run.refused(*words, "--out", "out")


NAMES = {
    " a ": "a",
    "007": "007",
    "-3": -3,
    "--7": "--7",
    "": "the newcomer's label is ''; give it a name that is not blank",
    " ": "the newcomer's label is ' '; give it a name that is not blank",
    "a\rb": "node 'a\\rb' has a label with a character that text files cannot hold",
    " 1 ": "node 1 is in the network already",
}
"""What a newcomer is called, and its label in a network of numbers or why it has none."""


@pytest.mark.slow
def test_a_newcomer_has_a_label_that_predict_finds(run: Run, table: pd.DataFrame) -> None:
    numbers = {town: k for k, town in enumerate(table["town"].unique(), start=1)}
    table.replace({"town": numbers}).to_parquet("towns.parquet")
    words = ("--node", "town", "--target", "power", "--features", "wind,sun", "--model", "linear")
    run("fit", "towns.parquet", *words, "--alpha", "0.3", "--rounds", "2", "--out", "first")
    assert run.code == 0, run.output
    for name, label in NAMES.items():
        table.head(4).assign(town=name).to_parquet("new.parquet")
        for given in ((), ("--label", name)) if name in (" a ", "-3", "") else ((),):
            join = ("join", "first", "new.parquet", *given, "--out", "second")
            if isinstance(label, str) and len(label) > 5:
                assert label in run.refused(*join, "--overwrite")
                continue
            run(*join, "--overwrite")
            assert run.code == 0, run.output
            assert label in load_result("second").models_
            again = ("predict", "second", "new.parquet", "--unknown-nodes", "refuse")
            run(*again, "--out", "said.csv", "--overwrite")
            assert run.code == 0, run.output


def test_an_update_that_overflows_is_not_saved(run: Run, result: Path) -> None:
    for column, least in (("power", 1e308), ("wind", 1e308), ("wind", 1e200)):
        towns().head(2).assign(**{column: least}).to_csv("new.csv", index=False)
        text = run.refused("update", "first", "new.csv", "--table", "towns.csv", "--out", "second")
        assert "too large" in text


def test_what_an_update_saves_can_be_used_however_large(run: Run, result: Path) -> None:
    before = result
    for column, after in (("power", "second"), ("wind", "third")):
        towns().head(2).assign(**{column: 1e99}).to_csv("new.csv", index=False)
        run("update", before, "new.csv", "--table", "towns.csv", "--out", after)
        assert run.code == 0, run.output
        run("predict", after, "towns.csv", "--out", f"{after}.csv")
        assert run.code == 0, run.output
        assert np.isfinite(pd.read_csv(f"{after}.csv")["prediction"]).all()
        before = Path(after)


def test_a_table_of_known_rows_without_the_nodes_is_named(run: Run, result: Path) -> None:
    towns().drop(columns="town").to_csv("nameless.csv", index=False)
    words = ("unplug", "first", "Oslo", "--table", "nameless.csv", "--out", "out")
    assert "nameless.csv: there is no column 'town'" in run.refused(*words)


def test_the_former_result_is_never_replaced(run: Run, result: Path) -> None:
    text = run("unplug", result, "Oslo", "--out", result, "--overwrite")
    assert run.code == 2
    assert "is never replaced" in text
    assert "Oslo" in load_result(result).models_


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="signals of Unix")
@pytest.mark.parametrize("command", ["join", "update"])
def test_killed_on_the_way(run: Run, result: Path, command: str) -> None:
    """SIGKILL while the new result is being written: the former is whole, and there is no new one."""
    before = {p: p.read_bytes() for p in result.rglob("*") if p.is_file()}
    stop = """
import sys, time
import fedrelax.storage.saving as saving
write = saving.write_json
def slow(path, value):
    write(path, value)
    open("writing", "w").close()
    time.sleep(60)
saving.write_json = slow
from fedrelax.cli.app import main
main()
"""
    data = "alta.csv" if command == "join" else "towns.csv"
    words = [sys.executable, "-c", stop, command, "first", data, "--out", "second"]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    end = time.monotonic() + 60
    while not Path("writing").exists() and time.monotonic() < end:
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert Path("writing").exists()
    assert not Path("second").exists()
    assert {p: p.read_bytes() for p in result.rglob("*") if p.is_file()} == before
    assert load_result(result).alpha_ == 0.3
    run(command, "first", data, "--out", "second")
    assert run.code == 0, run.output
