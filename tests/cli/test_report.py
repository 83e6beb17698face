"""The report on the command line."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from .runs import FIT, QUICK


@pytest.fixture
def plotly():
    pytest.importorskip("plotly", reason="needs plotly (the extra report)")


def test_fit_writes_the_report_and_the_command_writes_the_same(plotly, run, table):
    auto = ("--rounds", "2", "--model", "linear", "--wiring", "auto", "--out", "out")
    text = run(*FIT, *auto, "--graph", "knn:lat,lon:2")
    assert run.code == 0
    assert "Open out/report.html" in text
    first = Path("out/report.html").read_bytes()
    text = run("report", "out", "--out", "again.html")
    assert run.code == 0 and "Wrote again.html" in text
    assert Path("again.html").read_bytes() == first
    run("report", "out")
    assert Path("out/report.html").read_bytes() == first
    page = first.decode()
    assert "Learning together" in page or "No clear difference" in page
    assert "wiring = &quot;auto&quot;" in page and "Chosen by cross-validation" in page


def test_files_are_not_replaced_unasked(plotly, run, table):
    run.made(*FIT, *QUICK)
    Path("mine.html").write_text("mine")
    assert "exists" in run.refused("report", "out", "--out", "mine.html")
    assert Path("mine.html").read_text() == "mine"
    run("report", "out", "--out", "mine.html", "--overwrite")
    assert run.code == 0


def test_bad_input_is_one_sentence(run, table):
    assert "does not exist" in run.refused("report", "nothing")
    assert "not a result of fedrelax" in run.refused("report", ".")
    assert "ending '.txt'" in run.refused("report", "out", "--out", "report.txt")


def test_without_plotly_fit_says_so_once_and_goes_on(run, table, monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "plotly"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr("fedrelax.cli.training.find_spec", lambda name: None)
    text = run(*FIT, *QUICK)
    assert run.code == 0 and text.count("pip install 'fedrelax[report]'") == 1
    assert not Path("out/report.html").exists() and "report.html in a browser" not in text
