"""A site's boxes: public rows before the first round, then predictions of every lane.

Predictions of one lane take ``5 + 128 + 8 m k`` bytes: the lane's number (4), on whose public rows (1),
and an ``.npy`` array of m public rows by k outputs. A sealed box adds 29 bytes.
"""

from __future__ import annotations

import logging
import math
import struct
from collections.abc import Collection, Mapping

from fedrelax.federation.letters import Envelope
from fedrelax.federation.plan import Plan
from fedrelax.federation.sealing import NONCE, TAG, Address, OpenBoxes, SealedBoxes, read_key
from fedrelax.federation.settings import SiteFile
from fedrelax.files import Refused, from_npy, to_npy
from fedrelax.public import PublicRows
from fedrelax.runtime import Message
from fedrelax.typing import FloatArray

NPY_HEADER = 128
"""Bytes that numpy writes before the numbers of an array of few dimensions."""

ENTRY = struct.Struct("<IB")
"""The number of a lane, and whose rows: 0 the sender's (or common ones), 1 the receiver's."""
OWN, THEIRS = 0, 1

log = logging.getLogger("fedrelax.federation")

Predictions = dict[int, dict[int, FloatArray]]
"""Lane -> whose rows -> predictions."""


def box_bytes(lanes: int, rows: int, outputs: int) -> int:
    """Return the size of a sealed box of predictions on one set of public rows.

    >>> box_bytes(lanes=1, rows=100, outputs=1)
    962
    """
    return 1 + NONCE + TAG + lanes * (ENTRY.size + NPY_HEADER + 8 * rows * outputs)


def write_predictions(predictions: Predictions) -> bytes:
    """Return predictions as bytes."""
    found = []
    for lane, answers in predictions.items():
        for whose, array in answers.items():
            found += [ENTRY.pack(lane, whose), to_npy(array)]
    return b"".join(found)


def read_predictions(
    content: bytes, rows: Mapping[int, int], outputs: int, lanes: Collection[int]
) -> Predictions:
    """Return the predictions in a box; ``rows`` gives the number of public rows of each owner.

    The whole box is refused if anything in it is of an unknown lane or another shape, or not finite.
    """
    place, found = 0, Predictions()
    while place < len(content):
        if place + ENTRY.size > len(content):
            raise Refused("predictions are truncated")
        lane, whose = ENTRY.unpack_from(content, place)
        if lane not in lanes or whose not in rows or whose in found.get(lane, {}):
            raise Refused(f"predictions of lane {lane} were not asked for, or came twice")
        shape = (rows[whose], outputs)
        start, place = place + ENTRY.size, place + ENTRY.size + NPY_HEADER + 8 * math.prod(shape)
        if place > len(content):
            raise Refused(
                f"predictions of lane {lane} are truncated or have another shape than {shape}"
            )
        what = f"predictions of lane {lane}"
        found.setdefault(lane, {})[whose] = from_npy(content[start:place], what, shape, finite=True)
    return found


class Post:
    """Closes and opens boxes for one site in one run."""

    def __init__(self, site: SiteFile, plan: Plan, nonce: str) -> None:
        self.site, self.plan = site, plan
        self._boxes: OpenBoxes | SealedBoxes = OpenBoxes()
        if not site.open:
            assert site.key is not None
            private = read_key(site.path(site.key), site.name)
            self._boxes = SealedBoxes(private, site.keys, {**plan.nonces, site.name: nonce})

    def close(self, contents: dict[str, bytes], round: int) -> dict[str, bytes]:
        """Return a box for each receiver."""
        return {
            f"to {name}": self._boxes.close(
                content, Address(self.plan.run, self.site.name, name, round)
            )
            for name, content in contents.items()
        }

    def open(self, sender: str, letter: Envelope, round: int) -> bytes:
        """Return the content of a neighbour's box for this site."""
        address = Address(self.plan.run, sender, self.site.name, round)
        try:
            return self._boxes.open(letter.part(f"from {sender}"), address)
        except Refused as error:
            raise Refused(f"what came from site {sender!r} is refused: {error}") from error

    def close_predictions(self, shared: dict[int, list[Message]], round: int) -> dict[str, bytes]:
        """Return boxes with the predictions of all lanes, on the site's public rows and the receiver's."""
        contents = {}
        for name in self.site.neighbours:
            whose = {self.site.name: OWN, name: THEIRS}
            found: Predictions = {
                number: {whose[str(m.owner)]: m.predictions for m in told if m.owner in whose}
                for number, told in shared.items()
            }
            contents[name] = write_predictions(found)
        return self.close(contents, round)

    def open_predictions(
        self, letter: Envelope, round: int, public: PublicRows
    ) -> tuple[dict[str, Predictions], dict[str, str]]:
        """Return the neighbours' predictions, and why those of some were refused."""
        plan, heard, refused = self.plan, {}, {}
        for name in self.site.neighbours:
            if f"from {name}" not in letter.parts:
                continue
            rows = {OWN: len(public.of(name))}
            if plan.settings.objective == "gtvmin" and public.common is None:
                rows[THEIRS] = len(public.of(self.site.name))
            try:
                content = self.open(name, letter, round)
                lanes = range(len(plan.lanes))
                heard[name] = read_predictions(content, rows, plan.task.n_outputs, lanes)
            except Refused as error:
                log.warning(
                    "site %r, round %d, from site %r: %s", self.site.name, round, name, error
                )
                refused[name] = str(error)
        return heard, refused
