"""A site's boxes: public rows before the first round, then predictions of every lane.

Predictions are one ``.npy`` array with a line per lane: its number, and the predictions on m public rows
by k outputs. That takes ``128 + 8 (1 + m k)`` bytes for one lane; a sealed box adds 29.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from fedrelax.federation.letters import Envelope
from fedrelax.federation.plan import Plan
from fedrelax.federation.sealing import NONCE, TAG, Address, OpenChannel, SealedChannel, read_key
from fedrelax.federation.settings import SiteFile
from fedrelax.files import Refused, from_npy, to_npy
from fedrelax.public import PublicRows
from fedrelax.runtime import Message
from fedrelax.typing import FloatArray

NPY_HEADER = 128
"""Bytes that numpy writes before the numbers of an array of few dimensions."""

log = logging.getLogger("fedrelax.federation")

Predictions = Mapping[int, Sequence[FloatArray]]
"""By lane: predictions on the sender's public rows and, for GTVMin, on the receiver's."""


def box_bytes(lanes: int, rows: int, outputs: int) -> int:
    """Return the size of a sealed box of predictions on one set of public rows.

    >>> box_bytes(lanes=1, rows=100, outputs=1)
    965
    """
    return 1 + NONCE + TAG + NPY_HEADER + 8 * lanes * (1 + rows * outputs)


def write_predictions(predictions: Predictions) -> bytes:
    """Return predictions as bytes."""
    lines = [[lane, *np.concatenate(sets).ravel()] for lane, sets in predictions.items()]
    return to_npy(np.array(lines, dtype=float))


def read_predictions(
    content: bytes, rows: Sequence[int], outputs: int, lanes: Collection[int]
) -> Predictions:
    """Return the predictions in a box; ``rows`` gives the size of each set of public rows.

    The whole box is refused if anything in it is of an unknown lane or another shape, or not finite.
    """
    table = from_npy(content, "what it holds", finite=True)
    if table.ndim != 2 or table.shape[1] != 1 + sum(rows) * outputs:
        raise Refused(f"predictions have another shape than {sum(rows)} rows by {outputs}")
    numbers = table[:, 0].tolist()
    if len(set(numbers)) < len(numbers) or not set(numbers) <= set(lanes):
        raise Refused(f"predictions of lanes {numbers} were not asked for, or came twice")
    ends = np.cumsum(rows)[:-1]
    return {
        int(lane): np.split(line.reshape(-1, outputs), ends)
        for lane, line in zip(numbers, table[:, 1:], strict=True)
    }


class Mailbox:
    """Closes and opens boxes for one site in one run."""

    def __init__(self, site: SiteFile, plan: Plan, nonce: str) -> None:
        self.site, self.plan = site, plan
        self._boxes: OpenChannel | SealedChannel = OpenChannel()
        if not site.open:
            assert site.key is not None
            private = read_key(site.path(site.key), site.name)
            self._boxes = SealedChannel(private, site.keys, {**plan.nonces, site.name: nonce})

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
            pair = (self.site.name, name)
            sent = {
                k: [m.predictions for m in told if m.owner in pair] for k, told in shared.items()
            }
            contents[name] = write_predictions(sent)
        return self.close(contents, round)

    def open_predictions(
        self, letter: Envelope, round: int, public: PublicRows
    ) -> tuple[dict[str, Predictions], dict[str, str]]:
        """Return the neighbours' predictions, and why those of some were refused."""
        plan, heard, refused = self.plan, {}, {}
        for name in self.site.neighbours:
            if f"from {name}" not in letter.parts:
                continue
            rows = [len(public.of(name))]
            if plan.settings.objective == "gtvmin" and public.common is None:
                rows.append(len(public.of(self.site.name)))
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
