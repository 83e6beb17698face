"""What the hub keeps after every round, to resume after a restart: numbers, and sealed boxes."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedrelax.errors import FedRelaxError
from fedrelax.federation.codec import Envelope, Refused, pack, unpack
from fedrelax.federation.state import claim, is_claimed, read_kept, write_kept
from fedrelax.files import SETTINGS, read_file, why_unread
from fedrelax.jsonfiles import Described, Misfit, from_json
from fedrelax.storage.whole import write_whole

FILE, STATUS = "hub.bin", "status.json"


class SiteStatus(Described):
    """How far a site has got."""

    last_round: int
    missed: list[int]


class Status(Described):
    """What ``status.json`` says about a run, for people and for ``fedrelax federate status``."""

    state: str
    round: int
    rounds: int
    sites: dict[str, SiteStatus]
    notes: list[str]
    time: float
    live: str = ""

    def __str__(self) -> str:
        """One line about a run: where it is, and who is late.

        >>> sites = {"a": SiteStatus(last_round=3, missed=[]), "b": SiteStatus(last_round=1, missed=[1, 2])}
        >>> print(Status(state="running", round=2, rounds=5, sites=sites, notes=[], time=0.0))
        round 2 of 5: a; missing: b (since round 1)
        """
        if self.state != "running":
            return self.state
        there, gone = [], []
        for name, site in self.sites.items():
            if site.missed and site.missed[-1] == self.round:
                since = site.missed[-1]
                while since - 1 in site.missed:
                    since -= 1
                gone.append(f"{name} (since round {since})")
            else:
                there.append(name)
        text = f"round {self.round} of {self.rounds}: {', '.join(there)}"
        return f"{text}; missing: {', '.join(gone)}" if gone else text


def read_status(folder: Path) -> Status | None:
    """Return the last status that a hub wrote, or None if it has written none."""
    path = folder / STATUS
    try:
        status: Status = from_json(Status, read_file(path, SETTINGS))
        return status
    except (FileNotFoundError, NotADirectoryError):
        return None
    except Misfit as error:
        what = str(error)
    except OSError as error:
        what = f"cannot be read ({why_unread(error)})"
    raise FedRelaxError(f"{path} {what}; the hub writes it anew when it runs")


@dataclass
class Memory:
    """The state of a run at the hub; without ``where`` it is not written to disk.

    reports : by round, what every site reported, as received.
    boxes : (sender, receiver) -> the round of the box, and the box, which the hub cannot read if sealed.
    heard : by site, the last round for which it sent predictions.
    missed : by site, the rounds in which it did not answer.
    notes : what was refused, and who was lost or came back, in sentences.
    """

    run: str
    where: Path | None = None
    begun: bool = False
    reports: list[dict[str, Envelope]] = field(default_factory=list)
    boxes: dict[tuple[str, str], tuple[int, bytes]] = field(default_factory=dict)
    heard: dict[str, int] = field(default_factory=dict)
    missed: dict[str, list[int]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    live: str = ""
    """The address of the live page while there is one; it is not saved."""
    hellos: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What every site said about itself at the beginning."""
    settles: bool = True
    """Whether the models of all sites reach the same fixed point from any start."""

    def save(self) -> None:
        """Write everything to one file."""
        if self.where is None:
            return
        parts: dict[str, bytes] = {}
        for round, reports in enumerate(self.reports):
            for name, letter in reports.items():
                parts[f"report\t{round}\t{name}"] = pack(letter)
        for (sender, receiver), (round, box) in self.boxes.items():
            parts[f"box\t{round}\t{sender}\t{receiver}"] = box
        names = ("run", "begun", "heard", "missed", "notes", "hellos", "settles")
        head = {name: getattr(self, name) for name in names}
        head["rounds"] = len(self.reports)
        claim(self.where)
        write_kept(self.where / FILE, Envelope("hub", head, parts))

    @classmethod
    def load(cls, where: Path) -> Memory | None:
        """Return the memory that a hub left there, or None."""
        path = where / FILE
        if not (is_claimed(where) and path.is_file()):
            return None
        kept = read_kept(path)
        memory = cls(
            run=kept.value("run", str),
            where=where,
            begun=kept.value("begun", bool),
            reports=[{} for _ in range(kept.value("rounds", int))],
            heard=kept.value("heard", dict),
            missed=kept.value("missed", dict),
            notes=kept.value("notes", list),
            hellos=kept.value("hellos", dict),
            settles=kept.value("settles", bool),
        )
        try:
            for key, data in kept.parts.items():
                kind, round, *names = key.split("\t")
                if kind == "report":
                    memory.reports[int(round)][names[0]] = unpack(data)
                else:
                    memory.boxes[names[0], names[1]] = int(round), data
        except (ValueError, IndexError) as error:
            raise Refused(f"{path} is damaged; delete it and begin a new run") from error
        return memory

    def forget(self) -> None:
        """Remove the file once a run has ended."""
        if self.where is not None:
            (self.where / FILE).unlink(missing_ok=True)

    def tell(self, state: str, rounds: int, **more: Any) -> None:
        """Write down where the run is, for people and for ``fedrelax federate status``."""
        if self.where is None:
            return
        said = {
            "run": self.run,
            "state": state,
            "round": len(self.reports) - 1,
            "rounds": rounds,
            "sites": {
                name: {"last_round": last, "missed": self.missed.get(name, [])}
                for name, last in self.heard.items()
            },
            "notes": self.notes,
            "time": time.time(),
            **({"live": self.live} if self.live and state != "finished" else {}),
            **more,
        }
        claim(self.where)
        write_whole(self.where / STATUS, json.dumps(said, indent=2).encode())
