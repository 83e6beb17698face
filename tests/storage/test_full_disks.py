"""A disk that fills up, or turns read-only, while a run goes on: nothing half-written, nothing lost."""

from __future__ import annotations

from functools import partial

import pytest

from fedrelax import Callback, FedRelax, FedRelaxError, FedRelaxWarning
from fedrelax.storage import Checkpoint
from fedrelax.storage.states import from_bytes

from .disks import disk
from .interrupting import Plug, Stop, assert_same, network_of

__all__ = ["disk"]
settings = partial(FedRelax, alpha=1.0, rounds=9, tol=0.0)


class At(Callback):
    """Does something after a round."""

    def __init__(self, **what) -> None:
        self.what = {int(name.removeprefix("round_")): do for name, do in what.items()}

    def after_round(self, record) -> None:
        self.what.get(record.round, lambda: None)()


def kept_round(home) -> int:
    """Return the round of the state on the disk, which must be whole and alone."""
    (file,) = home.iterdir()
    return from_bytes(file.read_bytes())["state"]["round"]


@pytest.mark.parametrize(
    ("fails", "works", "said"),
    [
        (lambda disk: disk.fill(), lambda disk: disk.empty(), "No space left on device.*make room"),
        (
            lambda disk: disk.writable(False),
            lambda disk: disk.writable(True),
            "Read-only file system.*allow writing in",
        ),
    ],
    ids=["full", "read-only"],
)
@pytest.mark.parametrize("kind", ["mixed", "linear"])
def test_a_run_goes_on_when_the_disk_fails(disk, fails, works, said, kind):
    """It says so, keeps the last whole state, and writes again as soon as it can."""
    network, home, seen = network_of(kind), disk.path / "run", []
    whole = settings().solve(network)
    acts = At(
        round_3=lambda: fails(disk),
        round_5=lambda: seen.append(kept_round(home)),
        round_6=lambda: works(disk),
        round_8=lambda: seen.append(kept_round(home)),
    )
    with pytest.warns(FedRelaxWarning, match=f"no checkpoint of round 3 .*{said}") as told:
        found = settings().solve(network, [Checkpoint(home), acts])
    assert_same(whole, found, network.public.common)
    assert seen == [2, 7] and kept_round(home) == 9
    assert "the last is that of round 2" in str(told[0].message) and len(told) == 1


@pytest.mark.parametrize("kind", ["mixed", "linear"])
def test_stopped_on_a_full_disk_it_goes_on_from_the_last_whole_state(disk, kind):
    network, home = network_of(kind), disk.path / "run"
    whole = settings().solve(network)
    with pytest.raises(Stop), pytest.warns(FedRelaxWarning):
        settings().solve(network, [Checkpoint(home), At(round_3=disk.fill), Plug(5)])
    assert kept_round(home) == 2
    disk.empty()
    found = settings().solve(network, [Checkpoint(home)])
    assert_same(whole, found, network.public.common)


def test_a_disk_that_is_full_or_read_only_from_the_start_is_told_before_work_starts(disk):
    plug = Plug(None)
    disk.writable(False)
    with pytest.raises(FedRelaxError, match=r"no checkpoint can be written in .*allow writing in"):
        settings().solve(network_of("linear"), [Checkpoint(disk.path / "run"), plug])
    assert plug.heard == []
