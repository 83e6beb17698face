"""A federation that is told to end, or whose terminal is closed, leaves no process behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.federation,
    pytest.mark.skipif(find_spec("flwr") is None, reason="pip install 'fedrelax[flower]'"),
    pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc"),
]
INTERRUPTED, LIMIT = 130, 120.0


def running_in(home: Path) -> list[int]:
    """Return the processes of Flower whose files are in this directory."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"FLWR_HOME={home}".encode() in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:  # it has ended, or is not ours
            continue
    return found


@pytest.mark.parametrize(
    "number", [signal.SIGHUP, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)]
)
def test_a_signal_ends_all_processes(tmp_path: Path, number: signal.Signals) -> None:
    home = tmp_path / "home"
    words = ["federate", "try", "--sites", "2", "--rounds", "0", "--alpha", "1", "--out", str(home)]
    with open(tmp_path / "said.txt", "wb") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "fedrelax", *words],
            stdout=said,
            stderr=subprocess.STDOUT,
            env={**os.environ, "NO_COLOR": "1"},
        )
        try:
            end = time.monotonic() + LIMIT
            while not (home / "flower" / "site-1" / "log.txt").exists():
                assert process.poll() is None and time.monotonic() < end
                time.sleep(0.1)
            assert running_in(home)
            process.send_signal(number)
            assert process.wait(LIMIT) == INTERRUPTED, (tmp_path / "said.txt").read_text()
        finally:
            process.kill()
            process.wait()
    assert running_in(home) == []
