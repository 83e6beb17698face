"""The command that says what faults and attacks would do to a table."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from fedrelax.cli.app import app
from fedrelax.cli.stress import WAYS, troubles


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    rng = np.random.default_rng(0)
    lines = ["site,a,b,y"]
    for site in range(10):
        for a, b, e in rng.normal(size=(12, 3)):
            lines.append(f"s{site},{a:.4f},{b:.4f},{2 * a - b + 0.3 * e:.4f}")
    file = tmp_path_factory.mktemp("stress") / "table.csv"
    file.write_text("\n".join(lines))
    return str(file)


def run(*words):
    return CliRunner().invoke(app, ["stress", *words])


def test_says_what_breaks_and_what_helps(table):
    done = run(
        table, "--node", "site", "--target", "y", "--model", "ridge", "--rounds", "4", "--json"
    )
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert [line["trouble"] for line in found["lines"]] == list(troubles())
    verdicts = {line["trouble"]: line["verdict"] for line in found["lines"]}
    assert verdicts["20 % send a constant"]["mean"] == "breaks"
    assert verdicts["20 % send no numbers"]["mean"] != "breaks"
    assert verdicts["20 % send a constant"]["median"] != "breaks"
    first = found["lines"][0]
    assert first["undisturbed"] == first["mean"]
    assert all(np.isfinite(line[way]) for line in found["lines"] for way in WAYS)


def test_the_table_for_people(table):
    done = run(table, "--node", "site", "--target", "y", "--model", "ridge", "--rounds", "2")
    assert done.exit_code == 0, done.output
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("20 % send a constant")]
    assert "breaks" in line and "holds" in line
    assert "…" not in done.stdout  # no column is cut off at 80 characters


def test_a_table_with_gaps(table, tmp_path):
    header, first, *lines = Path(table).read_text().splitlines()
    gap = ",".join([first.split(",")[0], "", *first.split(",")[2:]])
    file = tmp_path / "gaps.csv"
    file.write_text("\n".join([header, gap, *lines]))
    done = run(str(file), "--node", "site", "--target", "y", "--model", "ridge", "--rounds", "1")
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize("flag", [["--wiring", "rewire"], ["--quick"], ["--overwrite"]])
def test_flags_that_would_change_nothing_are_refused(table, flag):
    done = run(table, "--node", "site", "--target", "y", *flag)
    assert done.exit_code == 2
    assert f"so {flag[0]} does not" in " ".join(done.output.split())


def test_the_level_is_used(table):
    words = (
        table,
        "--node",
        "site",
        "--target",
        "y",
        "--model",
        "ridge",
        "--rounds",
        "1",
        "--json",
    )
    plain, shape = (json.loads(run(*words, *more).stdout) for more in ((), ("--level", "0")))
    assert plain["lines"][0]["mean"] != shape["lines"][0]["mean"]


def test_without_test_rows_nothing_can_be_said(table):
    done = run(table, "--node", "site", "--target", "y", "--test-share", "0")
    assert done.exit_code == 2
    assert "give more than 0" in done.output
