"""How letters travel: to several sites at once, and back. The hub knows no more about it than this."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from typing import Protocol

from fedrelax.federation.codec import Envelope, pack, unpack
from fedrelax.federation.participant import Participant

Address = Hashable


class Transport(Protocol):
    """Carries letters."""

    def addresses(self) -> Collection[Address]:
        """Return who can be reached now."""

    def send(
        self, letters: Mapping[Address, Envelope], wait: float, late: Collection[Address] = ()
    ) -> dict[Address, Envelope]:
        """Send one letter each and return the answers that come within ``wait`` seconds.

        Those that are ``late`` are not waited for much longer once all others have answered. Where no
        answer could be made, a letter "failure" says why.
        """


class WithinProcess:
    """Carries letters to sites of this process, as bytes."""

    def __init__(self, sites: Mapping[str, Participant]) -> None:
        self.sites = dict(sites)
        self.letters = self.bytes = 0
        """Letters and bytes carried, there and back."""

    def addresses(self) -> Collection[Address]:
        """Return the names of the sites."""
        return list(self.sites)

    def send(
        self, letters: Mapping[Address, Envelope], wait: float, late: Collection[Address] = ()
    ) -> dict[Address, Envelope]:
        """Let every site answer in turn."""
        answers: dict[Address, Envelope] = {}
        for name, letter in letters.items():
            if name not in self.sites:
                continue
            there = pack(letter)
            back = pack(self.sites[str(name)].answer(unpack(there)))
            self.letters += 2
            self.bytes += len(there) + len(back)
            answers[name] = unpack(back)
        return answers
