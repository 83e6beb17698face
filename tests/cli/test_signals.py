"""A run that is stopped from outside: a whole directory, or none."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

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


def test_a_killed_run_leaves_no_directory(run, table):
    done = start_and_signal(signal.SIGKILL)
    assert done.returncode == -signal.SIGKILL
    assert not Path("out").exists()


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_ctrl_c_during_the_rounds_keeps_a_whole_result(run, table, jobs):
    done = start_and_signal(signal.SIGINT, "--jobs", jobs)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert "stopping after this round" in done.stderr and "its models are kept" in done.stderr
    saved = read_result("out")
    assert saved.about["reason"] == "stopped by Ctrl-C"
    assert saved.about["rounds"] == len(saved.history) - 1 < 5000
    assert saved.metrics["errors"]["together"] > 0


def test_ctrl_c_while_settings_are_chosen_takes_the_best_so_far(run, table):
    """The signal comes in the second trial or later: the first, each node alone, has no weights."""
    done = start_and_signal(signal.SIGINT, alpha="auto", rounds="4")
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert "taking the best so far" in done.stderr
    saved = read_result("out")
    assert "the search was stopped by Ctrl-C" in str(saved.metrics) + str(saved.about)
    assert saved.metrics["errors"]["together"] > 0
