"""A site's boxes: what it puts into them for its neighbours, and what it takes out of theirs."""

from __future__ import annotations

import logging

from fedrelax.federation.boxes import OWN, THEIRS, Predictions, read_predictions, write_predictions
from fedrelax.federation.codec import Envelope, Refused
from fedrelax.federation.plan import Plan
from fedrelax.federation.sealing import Address, Boxes, OpenBoxes, SealedBoxes, read_key
from fedrelax.federation.sitefile import SiteFile
from fedrelax.public import PublicRows
from fedrelax.runtime import Message


def again(round: int) -> int:
    """Return the number of a round whose predictions are shared anew, so that no address repeats."""
    return -2 - round


log = logging.getLogger("fedrelax.federation")


class Post:
    """Closes and opens boxes for one site in one run."""

    def __init__(self, site: SiteFile, plan: Plan, nonce: str) -> None:
        self.site, self.plan = site, plan
        self._boxes = _boxes_of(site, plan, nonce)

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


def _boxes_of(site: SiteFile, plan: Plan, nonce: str) -> Boxes:
    if site.open:
        return OpenBoxes()
    assert site.key is not None
    private = read_key(site.path(site.key), site.name)
    return SealedBoxes(private, dict(site.keys), {**plan.nonces, site.name: nonce})
