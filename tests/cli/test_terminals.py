"""Names of others in a terminal, terminals that know ASCII only, paths that no system takes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fedrelax.cli.app import app

from .runs import towns

EVIL = "Oslo\x1b[31m", "Bodø\x9b31m", "Dombås\u202e 🌲"
ALLOWED = re.compile(r"\x1b\[[0-9;]*m")
"""What the command itself may write: colours."""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a table whose names would steer a terminal, a result of it, and what fit said."""
    home = tmp_path_factory.mktemp("terminals")
    names = dict(zip(("Oslo", "Bodø", "Dombås"), EVIL, strict=True))
    table = towns().drop(columns=["lat", "lon", "alarm"])
    table = table.assign(town=table["town"].replace(names)).rename(columns={"wind": "wind\x9b2J"})
    table.to_csv(home / "towns.csv", index=False)
    said = fedrelax("fit", home / "towns.csv", "--node", "town", "--target", "power", "--quick",
                    "--out", home / "result")  # fmt: skip
    (home / "fit.txt").write_text(said, encoding="utf-8")
    return home


def fedrelax(*words: object, charset: str = "utf-8") -> str:
    """Run a command in this process and return what it printed."""
    done = CliRunner(charset=charset, env={"COLUMNS": "100"}).invoke(app, [str(w) for w in words])
    text = done.output_bytes.decode(charset)
    assert "Traceback" not in text and "unexpected" not in text, text
    return text


def steering(text: str) -> set[str]:
    """Return the characters that a terminal or a reader's eye would obey."""
    plain = ALLOWED.sub("", text)
    return {c for c in plain if (ord(c) < 32 and c not in "\n\t") or "\x7f" <= c <= "\x9f"} | (
        {"\u202e"} & set(plain)
    )


def test_names_do_not_steer_the_terminal(home):
    columns = ["--node", "town", "--target", "sun"]
    texts = [
        (home / "fit.txt").read_text(encoding="utf-8"),
        fedrelax("info", home / "result"),
        fedrelax("unplug", home / "result", "nobody", "--out", home / "out"),
        fedrelax("fit", home / "towns.csv", *columns, "--features", "w", "--out", home / "out"),
    ]
    assert [steering(text) for text in texts] == [set()] * len(texts)
    assert r"Oslo\x1b[31m" in texts[0] and r"Oslo\x1b[31m" in texts[1]


def test_ascii_terminals_get_every_name_in_ascii(home):
    assert r"Bod\xf8" in fedrelax("info", home / "result", charset="ascii")
    words = ("--target", "power", "--quick", "--json", "--out", home / "again")
    told = fedrelax("fit", home / "towns.csv", "--node", "town", *words, charset="ascii")
    assert steering(told) == set()
    nodes = json.loads(told[told.index("{") :])["per_node"]
    assert {line["node"] for line in nodes} >= set(EVIL)
    assert "Train one model per node" in fedrelax("fit", "--help", charset="ascii")


LONG = "a" * 5000


@pytest.mark.parametrize("long", [LONG, "/".join(["b" * 200] * 25)], ids=["name", "path"])
def test_paths_that_are_too_long_are_one_sentence(run, long):
    columns = ["--node", "town", "--target", "power"]
    for words in (
        ["fit", long, *columns, "--out", "out"],
        ["fit", "towns.csv", *columns, "--out", long],
        ["info", long],
        ["report", long],
        ["predict", "result", f"{long}.csv", "--out", "out.csv"],
        ["predict", long, "towns.csv", "--out", "out.csv"],
        ["join", long, "towns.csv", "--out", "out"],
        ["resume", long],
        ["example", f"{long}.csv"],
        ["federate", "keys", long],
    ):
        text = run.refused(*words)
        assert len(text) < 400 and "unexpected" not in text, words
