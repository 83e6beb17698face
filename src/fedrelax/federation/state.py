"""What a site remembers between messages, in a folder: every message may start a new process.

Of every round it keeps arrays only: its model's answers, what it has shared and what it has heard. The
model itself is not kept: the same rows, seed and neighbours' answers give the same fit again.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np

from fedrelax.errors import FedRelaxError, listing
from fedrelax.federation.codec import Envelope, Refused, from_npy, pack, to_npy, unpack
from fedrelax.files import RESULT, read_file, why_unread
from fedrelax.runtime import Site
from fedrelax.storage.whole import write_whole
from fedrelax.typing import AnyArray

RUN = "run.bin"
CHECKSUM = 32
"""Bytes of the checksum at the beginning of a kept file."""


@dataclass
class LaneState:
    """The state of one lane after a round.

    ``origin`` is the round whose problem the model was fitted to; -1 is the site's own rows alone.
    ``neighbours`` are those that the site hears, with the weights of the current graph.
    """

    answers: dict[str, AnyArray]
    shared: dict[str, AnyArray]
    received: dict[str, AnyArray]
    change: float
    origin: int
    neighbours: dict[str, float]

    @classmethod
    def of(cls, site: Site, origin: int) -> LaneState:
        """Return what is to be kept of a site."""
        return cls(
            {_key(key): value for key, value in site.answers.items()},
            {str(owner): value for owner, value in site.shared.items()},
            {_pair(pair): value for pair, value in site.received.items()},
            site.change,
            origin,
            {str(name): weight for name, weight in site.neighbours.items()},
        )

    def restore(self, site: Site) -> None:
        """Put a site back into this state; its model is not fitted."""
        site.answers = {_unkey(key): value for key, value in self.answers.items()}
        site.shared = {owner: value for owner, value in self.shared.items()}
        site.received = {tuple(key.split("\n")): value for key, value in self.received.items()}  # type: ignore[misc]
        site.change = self.change
        site.neighbours = {name: weight for name, weight in self.neighbours.items()}


def _key(key: object) -> str:
    if isinstance(key, tuple):
        return "\n".join(map(str, key))
    return str(key)


def _unkey(text: str) -> str | tuple[str, str | int]:
    kind, *rest = text.split("\n")
    if not rest:
        return kind
    return kind, int(rest[0]) if kind == "echo" else rest[0]


def _pair(pair: tuple[object, object]) -> str:
    return f"{pair[0]}\n{pair[1]}"


MARKER, WORDS = (
    "fedrelax-state.txt",
    b"fedrelax keeps the state of a run here, and may delete it.\n",
)
"""The file by which a folder is recognised as ours, and what it says."""


def is_claimed(folder: Path) -> bool:
    """Tell whether a folder was made by fedrelax for state."""
    return (folder / MARKER).is_file()


def claim(folder: Path) -> None:
    """Make a folder for state that only its owner can read; refuse one that holds other files."""
    try:
        if is_claimed(folder):
            return
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        others = sorted(path.name for path in folder.iterdir())
        if others:
            raise FedRelaxError(
                f"the folder {folder} holds {listing(others, most=3)}, and fedrelax did not make it; name "
                "another one under folder, or an empty one"
            )
        folder.chmod(0o700)
        write_whole(folder / MARKER, WORDS)
    except OSError as error:
        raise FedRelaxError(
            f"the folder {folder} cannot be used ({why_unread(error)}); name another one under folder"
        ) from error


class Folder:
    """The folder of a site. Every file appears whole or not at all."""

    def __init__(self, where: Path) -> None:
        self.where = where

    def begin(self) -> None:
        """Forget earlier runs; a folder that is not ours is refused, and nothing in it is touched."""
        claim(self.where)
        for path in (*self._files(), self.where / RUN):
            path.unlink(missing_ok=True)

    def remember(self, about: Envelope) -> None:
        """Keep what is known about the current run."""
        write_kept(self.where / RUN, about)

    def run(self) -> Envelope | None:
        """Return what is known about the current run, or None."""
        path = self.where / RUN
        return read_kept(path) if is_claimed(self.where) and path.is_file() else None

    def save(self, round: int, lanes: dict[int, LaneState]) -> None:
        """Keep the states of the lanes after a round."""
        head, parts = {}, {}
        for number, lane in lanes.items():
            head[str(number)] = {
                "change": lane.change,
                "origin": lane.origin,
                "neighbours": lane.neighbours,
            }
            for kind in ("answers", "shared", "received"):
                for key, array in getattr(lane, kind).items():
                    parts[f"{number}\t{kind}\t{key}"] = _stored(array)
        home = self.where / "rounds"
        home.mkdir(mode=0o700, exist_ok=True)
        write_kept(home / f"{round:05d}.bin", Envelope("state", head, parts))

    def rounds(self) -> list[int]:
        """Return the rounds whose state is kept."""
        return sorted(int(path.stem) for path in self._files())

    def _files(self) -> list[Path]:
        return list((self.where / "rounds").glob("[0-9]" * 5 + ".bin"))

    def load(self, round: int) -> tuple[int, dict[int, LaneState]]:
        """Return the round of the latest state up to this one, and the state."""
        known = [found for found in self.rounds() if found <= round]
        if not known:
            raise FedRelaxError(
                f"{self.where} holds no state up to round {round}; the site has to join a run from its "
                "beginning"
            )
        path = self.where / "rounds" / f"{known[-1]:05d}.bin"
        try:
            return known[-1], _lanes(read_kept(path))
        except Refused:
            raise
        except Exception as error:  # values of the wrong type fail in many ways
            raise Refused(f"{path} is damaged ({type(error).__name__}); begin a new run") from error


def _lanes(envelope: Envelope) -> dict[int, LaneState]:
    """Return the states in an envelope."""
    lanes = {
        int(number): LaneState(
            {}, {}, {}, float(said["change"]), int(said["origin"]), dict(said["neighbours"])
        )
        for number, said in envelope.head.items()
    }
    for name, data in envelope.parts.items():
        number, kind, key = name.split("\t", 2)
        lane = lanes[int(number)]
        {"answers": lane.answers, "shared": lane.shared, "received": lane.received}[kind][key] = (
            _restored(data)
        )
    return lanes


def _stored(array: AnyArray) -> bytes:
    shape = np.asarray(array.shape, dtype="<i8")
    return bytes([array.ndim]) + shape.tobytes() + to_npy(array)


def _restored(data: bytes) -> AnyArray:
    if not data:
        raise Refused("a kept array is empty; begin a new run")
    end = 1 + 8 * data[0]
    shape = tuple(np.frombuffer(data[1:end], dtype="<i8").tolist())
    return from_npy(data[end:], shape, "a kept array", finite=False)


def write_kept(path: Path, envelope: Envelope) -> None:
    """Keep an envelope in a file, with a checksum."""
    data = pack(envelope)
    write_whole(path, sha256(data).digest() + data)


def read_kept(path: Path) -> Envelope:
    """Return the envelope in a file, or refuse a file that is not as it was written."""
    try:
        data = read_file(path, RESULT)
    except OSError as error:
        raise Refused(f"{path} cannot be read ({why_unread(error)})") from error
    if sha256(data[CHECKSUM:]).digest() != data[:CHECKSUM]:
        raise Refused(
            f"{path} is damaged: its checksum does not match; delete it and begin a new run"
        )
    return unpack(data[CHECKSUM:])
