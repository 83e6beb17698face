"""A run that is stopped from outside: models that exist are kept, and a directory is whole or not there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import fedrelax.cli.running
import fedrelax.cli.training  # noqa: F401 - wrapped by name below
from fedrelax.estimators.base import FedRelaxEstimator
from fedrelax.storage import read_result

from .runs import FIT

SLOW = """
import os, time
from sklearn.linear_model import Ridge
class Slow(Ridge):
    def fit(self, X, y, sample_weight=None):
        if sample_weight is not None:
            open("started", "w").close()
            time.sleep(0.05)
        return super().fit(X, y, sample_weight)
"""


def start_and_signal(
    how: signal.Signals, *more: str, alpha: str = "0.3", rounds: str = "5000"
) -> subprocess.CompletedProcess[str]:
    """Start a run that would take minutes, wait for its first round, and send the signal."""
    Path("slow.py").write_text(SLOW)
    words = [*FIT, "--alpha", alpha, "--rounds", rounds, "--model", "slow:Slow", "--out", "out"]
    process = subprocess.Popen(
        [sys.executable, "-m", "fedrelax", *words, *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 60
    while not Path("started").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    os.killpg(process.pid, how)  # as a terminal does: to the command and all its workers
    out, err = process.communicate(timeout=60)
    return subprocess.CompletedProcess(words, process.returncode, out, err)


@pytest.mark.slow
def test_a_killed_run_leaves_no_directory(run, table):
    done = start_and_signal(signal.SIGKILL)
    assert done.returncode == -signal.SIGKILL
    assert not Path("out").exists()


@pytest.mark.slow
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_ctrl_c_during_the_rounds_keeps_a_whole_result(run, table, jobs):
    done = start_and_signal(signal.SIGINT, "--jobs", jobs)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert (
        "stopping as soon as there are models" in done.stderr
        and "its models are kept" in done.stderr
    )
    saved = read_result("out")
    assert saved.about["reason"] == "stopped by Ctrl-C"
    assert saved.about["rounds"] == len(saved.history) - 1 < 5000
    assert saved.metrics["errors"]["together"] > 0


@pytest.mark.slow
def test_ctrl_c_while_settings_are_chosen_takes_the_best_so_far(run, table):
    """The signal comes in the second trial or later: the first, each node alone, has no weights."""
    done = start_and_signal(signal.SIGINT, "--update", "refit", alpha="auto", rounds="4")
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert "stopping as soon as there are models" in done.stderr
    saved = read_result("out")
    assert "the search was stopped by Ctrl-C" in str(saved.metrics) + str(saved.about)
    assert saved.metrics["errors"]["together"] > 0


# The default fit, in this process: the signal comes as a step begins.

PHASES = {
    "finding": ("fedrelax.selection.default.find", "stopping as soon as there are models"),
    "trying": ("fedrelax.selection.default.compare_beside", "stopping as soon as there are models"),
    "measuring": ("fedrelax.cli.training.evaluate", "stopping as soon as there are models"),
    "all rows": (FedRelaxEstimator, "no second training on all rows"),
    "saving": ("fedrelax.cli.training.save_result", "the result is being saved"),
    "report": ("fedrelax.cli.training.write_report", "the result is being saved"),
}
NOT_AGAIN = ("finding", "trying", "measuring", "all rows")
"""Steps after which models are not trained on all rows."""


def signal_at(
    monkeypatch: pytest.MonkeyPatch, where: Any, number: signal.Signals, times: int = 1
) -> None:
    """Send a signal to this process when a function begins that marks a step."""
    owner, _, name = where.rpartition(".") if isinstance(where, str) else (where, "", "refitted")
    module = sys.modules[owner] if isinstance(owner, str) else owner
    real, calls = getattr(module, name), []

    def signalled(*given: Any, **named: Any) -> Any:
        first, calls[:] = not calls, [name]
        for _ in range(times if first else 0):
            signal.raise_signal(number)
        return real(*given, **named)

    monkeypatch.setattr(module, name, signalled)


@pytest.mark.slow
@pytest.mark.parametrize("phase", PHASES)
def test_a_signal_keeps_the_models_in_every_step_of_the_default(
    run, table, monkeypatch, capfd, phase
):
    where, note = PHASES[phase]
    number = signal.SIGTERM if phase == "measuring" else signal.SIGINT
    signal_at(monkeypatch, where, number)
    text = run(*FIT, "--out", "out")
    assert run.code == 0, run.output
    assert note in text + " ".join(capfd.readouterr().err.split())
    again = phase not in NOT_AGAIN
    rows = "all rows" if again else "training rows"
    assert read_result("out").metrics["saved_models_trained_on"] == rows
    assert ("no second training on all rows" in text) == (not again)
    assert Path("out/report.html").exists()
    run("predict", "out", "towns.csv", "--out", "predictions.csv")
    assert run.code == 0, run.output
    assert len(Path("predictions.csv").read_text().splitlines()) == 1 + len(table)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("phase", ["reading", "saving"])
def test_where_nothing_can_be_kept_nothing_is_written(run, table, monkeypatch, number, code, phase):
    """Before there are models one signal ends the command; after that, two of them do."""
    where = {"reading": "fedrelax.cli.running.read_inputs", "saving": PHASES["report"][0]}[phase]
    signal_at(monkeypatch, where, number, times=1 if phase == "reading" else 2)
    text = run(*FIT, "--quick", "--out", "out")
    assert run.code == code and "error: interrupted; nothing was written" in text
    assert sorted(path.name for path in Path().iterdir()) == ["towns.csv"]
