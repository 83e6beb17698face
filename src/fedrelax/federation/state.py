"""What sites and hub remember: every message may start a new process at a site, and a hub may be restarted.

Of every round a site keeps arrays only: its answers, what it has shared and heard. The model itself is not
kept: the same problem and seed give the same fit again. The hub keeps one file, written after every round:
see ``HubProtocol.save``.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from fedrelax.errors import FedRelaxError, listing
from fedrelax.files import Refused, why_unread, write_whole
from fedrelax.runtime import Site
from fedrelax.runtime.site import AnswerKey
from fedrelax.storage.states import read_state, write_state
from fedrelax.typing import AnyArray, Label

RUN, HUB = "run.bin", "hub.bin"
MARKER, WORDS = (
    "fedrelax-state.txt",
    b"fedrelax keeps the state of a run here, and may delete it.\n",
)
"""The file by which a folder is recognised as ours, and what it says."""


@dataclass
class Run:
    """What a site keeps about the current run: its nonce, the hub's plan, and public rows."""

    run: str
    nonce: str
    plan: dict[str, Any] | None = None
    """The plan as the hub told it."""
    public: AnyArray | None = None
    """The site's own public rows."""
    heard: dict[str, AnyArray] | None = None
    """The neighbours' public rows."""


ALONE = -1
"""In place of a round: a model is fitted to the site's own rows only."""


@dataclass
class LaneState:
    """The state of one lane in a round: its ``Site``'s, and the round whose problem its model solves."""

    answers: dict[AnswerKey, AnyArray]
    shared: dict[Label, AnyArray]
    received: dict[tuple[Label, Label], AnyArray]
    change: float
    neighbours: dict[Label, float]
    consensus: AnyArray | None
    steps: list[tuple[AnyArray, AnyArray]]
    fitted: int

    @classmethod
    def of(cls, site: Site, fitted: int) -> LaneState:
        """Return what is to be kept of a site."""
        return cls(**{name: copy(getattr(site, name)) for name in OF_SITE}, fitted=fitted)


OF_SITE = tuple(f.name for f in fields(LaneState))[:-1]


class Folder:
    """A folder for the state of a run, one file per round. Every file appears whole or not at all."""

    def __init__(self, where: Path) -> None:
        self.where = where

    def claim(self) -> None:
        """Make a folder that only its owner can read; refuse one that holds other files."""
        try:
            if (self.where / MARKER).is_file():
                return
            self.where.mkdir(mode=0o700, parents=True, exist_ok=True)
            others = sorted(path.name for path in self.where.iterdir())
            if others:
                raise FedRelaxError(
                    f"the folder {self.where} holds {listing(others, most=3)}, and fedrelax did not make "
                    "it; name another one under folder, or an empty one"
                )
            self.where.chmod(0o700)
            write_whole(self.where / MARKER, WORDS)
        except OSError as error:
            raise FedRelaxError(
                f"the folder {self.where} cannot be used ({why_unread(error)}); name another one under "
                "folder"
            ) from error

    def begin(self) -> None:
        """Forget earlier runs; a folder that is not ours is refused, and nothing in it is touched."""
        self.claim()
        for name in (*map(of_round, self.rounds()), RUN, HUB):
            (self.where / name).unlink(missing_ok=True)

    def write(self, name: str, state: Any) -> None:
        """Keep a state under the name of a file."""
        path = self.where / name
        path.parent.mkdir(mode=0o700, exist_ok=True)
        write_state(path, state)

    def read(self, name: str) -> Any:
        """Return a state, or None if there is none; refuse a file that is not as it was written."""
        path = self.where / name
        if not ((self.where / MARKER).is_file() and path.is_file()):
            return None
        try:
            return read_state(path)
        except Refused as error:
            raise Refused(f"{path} {error}; delete it and begin a new run") from error

    def run(self) -> Run | None:
        """Return what is kept about the current run, or None."""
        kept = self.read(RUN)
        return None if kept is None else Run(**kept)

    def rounds(self) -> list[int]:
        """Return the rounds whose state is kept."""
        files = (self.where / "rounds").glob("[0-9]" * 5 + ".bin")
        return sorted(int(path.stem) for path in files)

    # A site's lanes

    def save(self, round: int, lanes: dict[int, LaneState]) -> None:
        """Keep the states of the lanes after a round."""
        self.write(of_round(round), {number: vars(lane) for number, lane in lanes.items()})

    def load(self, round: int) -> dict[int, LaneState]:
        """Return the latest state of the lanes up to a round."""
        earlier = [number for number in self.rounds() if number <= round]
        if not earlier:
            raise FedRelaxError(
                f"{self.where} holds no state up to round {round}; the site has to join a run from its "
                "beginning"
            )
        lanes = self.read(of_round(earlier[-1]))
        try:
            return {int(number): LaneState(**lane) for number, lane in lanes.items()}
        except Exception as error:  # values of the wrong type fail in many ways
            raise Refused(
                f"{self.where} holds a damaged state of round {earlier[-1]} ({type(error).__name__}); "
                "begin a new run"
            ) from error


def of_round(round: int) -> str:
    """Return the name of the file for a round."""
    return f"rounds/{round:05d}.bin"
