"""The live page of a federation: that of ``fit --live``, and which sites are missing."""

from __future__ import annotations

from fedrelax.federation.hub import Hub
from fedrelax.live import LiveView
from fedrelax.live.state import Progress
from fedrelax.runtime import Record


class FederationView(LiveView):
    """Shows a run on a page that the hub's machine serves; its address is in the hub's status."""

    def __init__(self, hub: Hub) -> None:
        super().__init__(say=self._tell_address)
        self._hub = hub

    def _tell_address(self, text: str) -> None:
        self._hub.memory.live = text

    def after_round(self, record: Record) -> str | None:
        """Show the numbers, and which sites did not answer."""
        told = super().after_round(record)
        missing = [
            name for name, rounds in self._hub.memory.missed.items() if record.round in rounds
        ]
        if missing:
            most = self._hub.settings.rounds
            words = f"Round {record.round} of {most}. Missing: {', '.join(missing)}."
            more = record.round < most
            self._state.tell(Progress(words, record.round, most, stoppable=more))
        return told
