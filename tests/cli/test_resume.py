"""``fit --checkpoint-every`` and ``resume``: stopped at any moment, the result is the same."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest

from fedrelax.cli.app import app
from fedrelax.cli.config import make_config
from fedrelax.cli.fit import FitConfig
from fedrelax.cli.run_directory import RunDirectory

from ..storage.disks import disk
from .runs import FIT, Run

__all__ = ["disk"]

fork = multiprocessing.get_context("fork")
SLOW = """
import time
from sklearn.linear_model import Ridge
class Slow(Ridge):
    def fit(self, X, y, sample_weight=None):
        if sample_weight is not None:
            open("started", "w").close()
            time.sleep(0.01)
        return super().fit(X, y, sample_weight)
"""
SITES = ("--model", "slow:Slow", "--alpha", "0.3", "--rounds", "12")
TREES = ("--model", "tree", "--alpha", "0.3", "--rounds", "12")
LINEAR = ("--model", "linear", "--alpha", "0.3", "--rounds", "60")
CHOSEN = (
    *("--model", "slow:Slow", "--alpha", "auto", "--rounds", "3", "--quick"),
    *("--minutes", "60"),  # the same trials, however slow
)
KEPT = Path("out.checkpoint")
WHOLE: dict[tuple[str, ...], dict[str, Any]] = {}
"""Results of runs that nobody stops, which all tests share."""


@pytest.fixture(autouse=True)
def slow(run: Run) -> None:
    Path("slow.py").write_text(SLOW)


def said(words: tuple[str, ...], told: Path) -> None:
    """Run a command as a process would, with what it says in a file."""
    with open(told, "wb", buffering=0) as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    sys.stdout = os.fdopen(os.dup(1), "w")
    sys.stderr = os.fdopen(os.dup(2), "w")
    app(list(words))


def start(*words: str) -> Any:
    """Start a command in a process of its own."""
    process = fork.Process(target=said, args=(words, Path("told")))
    process.start()
    return process


def signalled(
    number: int, *words: str, after: str = "training/rounds.state", until: str = ""
) -> tuple[int, str]:
    """Send a signal once a file is there, or many until a text is; return exit code and output."""
    process = start(*words)
    deadline = time.monotonic() + 60
    while not (KEPT / after).exists() and process.is_alive() and time.monotonic() < deadline:
        time.sleep(0.001)
    os.kill(process.pid, number)
    while until and process.is_alive() and until not in Path("told").read_text():
        time.sleep(0.002)
        os.kill(process.pid, number)
    process.join(60)
    return process.exitcode, Path("told").read_text()


def contents(directory: Path) -> dict[str, Any]:
    """Return all files of a result, without times and places in memory: of models, all arrays."""
    found: dict[str, Any] = {}
    for path in sorted(p for p in directory.rglob("*") if p.is_file()):
        name = str(path.relative_to(directory))
        found[name] = path.read_bytes().replace(str(Path.cwd()).encode(), b"HOME")
        if path.suffix == ".skops":
            with zipfile.ZipFile(path) as file:
                arrays = [entry for entry in file.namelist() if entry.endswith(".npy")]
                found[name] = sorted(file.read(entry) for entry in arrays)
    for name in ("result.json", "models.json"):
        found[name] = without(json.loads(found[name]), ("made", "sha256", "size", "files"))
    found.pop("report.html", None)  # tells when the result was made
    return found


def without(values: Any, keys: tuple[str, ...]) -> Any:
    """Return values of JSON without some keys, on every level."""
    if isinstance(values, list):
        return [without(value, keys) for value in values]
    if isinstance(values, dict):
        return {key: without(value, keys) for key, value in values.items() if key not in keys}
    return values


def trusted(words: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(part for word in words if ":" in word for part in ("--trust", word))


def whole(run: Run, words: tuple[str, ...]) -> dict[str, Any]:
    """Return the result of a run that nobody stops."""
    if words not in WHOLE:
        run(*FIT, *words, "--out", "out")
        assert run.code == 0, run.output
        WHOLE[words] = contents(Path("out"))
        shutil.rmtree("out")
    return WHOLE[words]


def resumed(run: Run, words: tuple[str, ...]) -> dict[str, Any]:
    """Go on, and return the result; what was kept is gone then."""
    run("resume", KEPT, *trusted(words))
    assert run.code == 0, run.output
    assert not KEPT.exists()
    return contents(Path("out"))


@pytest.mark.parametrize("words", [SITES, TREES, LINEAR], ids=["sites", "trees", "linear"])
def test_killed_in_both_phases_the_result_is_the_same(run, table, words):
    expected = whole(run, words)
    command = (*FIT, *words, "--out", "out", "--checkpoint-every", "1")
    code, _ = signalled(signal.SIGKILL, *command)
    assert code == -signal.SIGKILL and not Path("out").exists()
    go_on = ("resume", str(KEPT), *trusted(words))
    code, _ = signalled(signal.SIGKILL, *go_on, after="all-rows/rounds.state")
    assert code == -signal.SIGKILL and not Path("out").exists()
    assert resumed(run, words) == expected


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["ctrl-c", "term"]
)
def test_a_signal_finishes_the_round_and_says_how_to_go_on(run, table, number, code):
    expected = whole(run, SITES)
    command = (*FIT, *SITES, "--out", "out", "--checkpoint-every", "100")
    found, text = signalled(number, *command)
    assert found == code, text
    assert "interrupted; round" in text and "Traceback" not in text
    assert text.split("continue with: ")[1].split() == [
        *("fedrelax", "resume", str(KEPT.absolute()), "--trust", "slow:Slow"),
    ]
    assert resumed(run, SITES) == expected


def test_ctrl_c_again_stops_at_once_keeps_the_last_state_and_says_how_to_go_on(run, table):
    expected = whole(run, SITES)
    command = (*FIT, *SITES, "--out", "out", "--checkpoint-every", "1")
    code, text = signalled(signal.SIGINT, *command, until="error: ")
    assert code == 130 and "continue with: fedrelax resume" in " ".join(text.split())
    assert resumed(run, SITES) == expected


@pytest.mark.slow
def test_a_search_that_was_stopped_does_not_repeat_its_trials(run, table):
    expected = whole(run, CHOSEN)
    command = (*FIT, *CHOSEN, "--out", "out", "--checkpoint-every", "1")
    code, text = signalled(signal.SIGINT, *command, after="training/trial-0004.state")
    assert code == 130 and "finished trials" in text
    before = {p.name: p.stat().st_mtime_ns for p in (KEPT / "training").iterdir()}
    assert len(before) >= 5
    code, _ = signalled(signal.SIGKILL, "resume", str(KEPT), *trusted(CHOSEN))
    after = {p.name: p.stat().st_mtime_ns for p in (KEPT / "training").iterdir()}
    assert {name: after[name] for name in before} == before
    assert len(after) > len(before)
    assert resumed(run, CHOSEN) == expected


def test_all_settings_found_from_the_rows_are_found_again(run, table):
    expected = whole(run, ())
    command = (*FIT, "--out", "out", "--checkpoint-every", "1")
    code, text = signalled(signal.SIGTERM, *command)
    if code == 0:  # few rounds: it was done before the signal came
        assert contents(Path("out")) == expected
        return
    assert code == 143, text
    assert resumed(run, ()) == expected


def test_a_table_that_has_changed_is_refused(run, table):
    signalled(signal.SIGKILL, *FIT, *LINEAR, "--out", "out", "--checkpoint-every", "1")
    kept = sorted(p for p in KEPT.rglob("*"))
    table.assign(wind=table["wind"] + 1).to_csv("towns.csv", index=False)
    text = run.refused("resume", KEPT)
    assert "towns.csv has changed since the run was stopped" in text
    assert sorted(p for p in KEPT.rglob("*")) == kept


def test_code_runs_only_if_it_is_trusted_again(run, table):
    signalled(signal.SIGKILL, *FIT, *SITES, "--out", "out", "--checkpoint-every", "1")
    text = run.refused("resume", KEPT)
    assert "names the model 'slow:Slow'" in text and "--trust slow:Slow" in text


def test_the_name_of_the_result_finds_the_run_too(run, table):
    signalled(signal.SIGKILL, *FIT, *LINEAR, "--out", "out", "--checkpoint-every", "1")
    run("resume", "out")
    assert run.code == 0 and Path("out").is_dir() and not KEPT.exists()


def test_a_new_run_does_not_replace_one_that_was_stopped(run, table):
    command = (*FIT, *LINEAR, "--out", "out", "--checkpoint-every", "1")
    signalled(signal.SIGKILL, *command)
    text = run.refused(*command)
    assert "is the checkpoint of a run that was stopped" in text
    run(*command, "--overwrite")
    assert run.code == 0 and not KEPT.exists()


def test_a_refused_run_leaves_no_checkpoint(run, table):
    run.refused(*FIT, "--target", "nothing", "--out", "out", "--checkpoint-every", "1")
    assert not KEPT.exists()


FILL = """
import os
from tests.storage.disks import fill
fits = 0
def count():
    global fits
    fits += "FILL" in os.environ
    if fits == 24 and "FILL" in os.environ:
        fill(os.environ.pop("FILL"))
"""


def test_a_disk_that_fills_up_loses_nothing(run, table, disk, monkeypatch):
    """The state of the run and the result are on it; the command says what to do, and that works."""
    lines = SLOW.splitlines()
    lines.insert(-1, "        count()")
    Path("filling.py").write_text("\n".join([*lines, FILL]))
    words = ("--model", "filling:Slow", *SITES[2:])
    expected = whole(run, words)
    monkeypatch.setenv("FILL", str(disk.path / "filler"))
    monkeypatch.setattr(tempfile, "tempdir", str(disk.path))
    out = disk.path / "out"
    command = (*FIT, *words, "--out", str(out), "--checkpoint-every", "1")
    process = start(*command)
    process.join(120)
    text = " ".join(Path("told").read_text().split())
    assert process.exitcode == 2, text
    assert "no checkpoint of round" in text and "make room there" in text
    assert "could not be written (No space left on device), and nothing of it was left" in text
    assert f"continue with: fedrelax resume {out}.checkpoint --trust filling:Slow" in text
    assert sorted(path.name for path in disk.path.iterdir()) == ["filler", "out.checkpoint"]
    assert (Path(f"{out}.checkpoint") / "training" / "rounds.state").exists()
    disk.empty()
    monkeypatch.delenv("FILL")
    run("resume", f"{out}.checkpoint", *trusted(words))
    assert run.code == 0, run.output
    assert contents(out) == expected


@pytest.mark.parametrize("kept", [False, True])
def test_only_what_was_kept_is_claimed(run, table, kept):
    """Rounds were computed, but the disk may have refused every one of them."""
    needed = {"data": "towns.csv", "node": "town", "target": "power", "out": "out"}
    made = RunDirectory(make_config(FitConfig, None, needed), KEPT)
    if kept:
        made.training.path.mkdir(parents=True)
        (made.training.path / "rounds.state").touch()
        made.training.saved = 4
    text = str(made._stopped(130))
    assert ("round 4 and everything before are kept" in text) == kept
    assert ("before a round was kept; there is nothing to continue" in text) != kept


def test_a_directory_without_a_run(run, table):
    text = run.refused("resume", ".")
    assert "holds no run that was stopped" in text
    Path("x.checkpoint").mkdir()
    Path("x.checkpoint/run.json").write_text('{"format": 1}')
    text = run.refused("resume", "x.checkpoint")
    assert "this checkpoint is damaged" in text and "run.json" in text
