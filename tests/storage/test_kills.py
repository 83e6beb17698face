"""kill -9 at any moment: what was finished is there, and the run ends as if nothing had happened."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from functools import partial
from typing import Any

import numpy as np
import pytest

from fedrelax import FedRelax
from fedrelax.storage import Checkpoint
from fedrelax.storage.states import from_bytes

from .interrupting import assert_same, network_of

fork = multiprocessing.get_context("fork")
RUNS = {
    "sites": ("mixed", 7, partial(FedRelax, alpha=1.0, rounds=30, tol=0.0, damping=0.3)),
    "linear": ("linear", 7, partial(FedRelax, alpha=2.0, rounds=150, tol=0.0, damping=0.5)),
    "trees": ("trees", 6, partial(FedRelax, alpha=1.0, rounds=60, tol=0.0, damping=0.5)),
}
"""Network, number of kills (20 in all) and settings of a run of every engine."""


class Telling(Checkpoint):
    """Says which round is on the disk, once it is."""

    def __init__(self, path: Any, told: Any) -> None:
        super().__init__(path)
        self.told = told

    def keep(self, what: Any, identity: Any, state: Any, round: int, ends: bool) -> None:
        super().keep(what, identity, state, round, ends)
        os.write(self.told, b"%d\n" % round)


def solve_and_stay(settings: Any, network: Any, home: Any, writer: int) -> None:
    """Run, and stay until killed: fast rounds may all be done before that."""
    settings().solve(network, [Telling(home, writer)])
    time.sleep(60)


def killed(settings: Any, network: Any, home: Any, after: int, wait: float) -> int:
    """Run in a process of its own, kill it a moment after a round; return the last finished round."""
    reader, writer = os.pipe()
    process = fork.Process(target=solve_and_stay, args=(settings, network, home, writer))
    process.start()
    os.close(writer)
    with os.fdopen(reader) as told:
        last = -1
        for line in told:
            last = int(line)
            if last >= after:
                break
        time.sleep(wait)
        os.kill(process.pid, signal.SIGKILL)
        process.join(60)
        assert process.exitcode == -signal.SIGKILL
        return max([last, *map(int, told)])


@pytest.mark.slow
@pytest.mark.parametrize("engine", RUNS)
def test_a_run_that_is_killed_again_and_again_loses_no_finished_round(tmp_path, engine):
    kind, kills, settings = RUNS[engine]
    network, home = network_of(kind), tmp_path / "run"
    whole = settings().solve(network)
    assert (
        whole.engine == ("linear" if engine == "linear" else "sites")
        and len(whole.history) == settings().rounds + 1
    )
    rng = np.random.default_rng(18)
    moments = sorted(rng.choice(settings().rounds - 3, kills, replace=False).tolist())
    for moment in moments:
        finished = killed(settings, network, home, moment, float(rng.uniform(0, 0.01)))
        kept = from_bytes((home / "rounds.state").read_bytes())["state"]["round"]
        assert finished <= kept <= finished + 1  # killed before it could say so
    again = settings().solve(network, [Checkpoint(home)])
    assert_same(whole, again, network.public.common)
    assert [path.name for path in home.iterdir() if path.suffix != ".draft"] == ["rounds.state"]
