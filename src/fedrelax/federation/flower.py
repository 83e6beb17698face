"""Letters over Flower: the hub is a ServerApp that pushes messages, a site a ClientApp that answers them.

Flower provides the connections: sites only dial out, over TLS, with keys registered at the hub. It
starts a new process for every message to a site, so a site's state lives in its folder.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Hashable, Mapping
from typing import Any

from fedrelax.errors import FedRelaxError
from fedrelax.extras import need
from fedrelax.federation.letters import KINDS, Envelope, pack, unpack
from fedrelax.files import Refused

Address = Hashable
ACTIONS = {kind: f"{'query' if kind == 'hello' else 'train'}.{kind}" for kind in KINDS}
"""Flower's message type for each kind of letter."""
PAUSE = 0.1
"""Seconds between two looks for answers."""
GRACE, LEAST_GRACE = 0.5, 1.0
"""Late sites get this share of the others' time on top of it, and at least so many seconds."""
KEPT = 60.0
"""Seconds for which a letter is kept beyond the wait for its answer."""

log = logging.getLogger("fedrelax.federation")


class OverFlower:
    """Carries letters by a Flower ``Grid``."""

    def __init__(self, grid: Any) -> None:
        self._grid = grid

    def addresses(self) -> Collection[Address]:
        """Return the nodes that Flower is connected to."""
        return list(self._grid.get_node_ids())

    def send(
        self, letters: Mapping[Address, Envelope], wait: float, late: Collection[Address] = ()
    ) -> dict[Address, Envelope]:
        """Push all letters, then look for answers until all are there or time is up."""
        from flwr.app import Message

        begun = time.monotonic()
        messages = [
            Message(
                to_record(letter),
                dst_node_id=node,
                message_type=ACTIONS[letter.kind],
                ttl=wait + KEPT,
                group_id=str(letter.head.get("round", letter.kind)),
            )
            for node, letter in letters.items()
        ]
        pushed = self._grid.push_messages(messages)
        open_ = {number: node for number, node in zip(pushed, letters, strict=False) if number}
        answers: dict[Address, Envelope] = {}
        end = begun + wait
        while open_ and time.monotonic() < end:
            for reply in self._grid.pull_messages(list(open_)):
                node = open_.pop(reply.metadata.reply_to_message_id, None)
                if node is not None:
                    answers[node] = from_reply(reply)
            if open_ and set(open_.values()) <= set(late):
                taken = time.monotonic() - begun
                end = min(end, begun + taken + max(GRACE * taken, LEAST_GRACE))
                late = ()
            if open_:
                time.sleep(PAUSE)
        return answers


def to_record(letter: Envelope) -> Any:
    """Return a letter as the content of a Flower message."""
    from flwr.app import ConfigRecord, RecordDict

    return RecordDict({"letter": ConfigRecord({"bytes": pack(letter)})})


def from_record(content: Any) -> Envelope:
    """Return the letter in a Flower message, or refuse it."""
    data = content.config_records.get("letter", {}).get("bytes")
    if not isinstance(data, bytes):
        raise Refused("a message holds no letter")
    return unpack(data)


def from_reply(reply: Any) -> Envelope:
    """Return the letter in an answer; where there is none, a letter "failure" says why."""
    if reply.has_error():
        return Envelope("failure", {"reason": f"no answer was made ({reply.error.reason})"})
    try:
        return from_record(reply.content)
    except Refused as error:
        return Envelope("failure", {"reason": str(error)})


def client_app() -> Any:
    """Return the ClientApp of a site; ``--node-config 'site="..."'`` names its file."""
    need("flwr", "flower")
    from flwr.app import Message
    from flwr.clientapp import ClientApp

    from fedrelax.federation.participant import Participant
    from fedrelax.federation.settings import read_site

    app = ClientApp()

    def answer(message: Any, context: Any) -> Any:
        if "site" not in context.node_config:
            raise FedRelaxError(
                "this node does not know its site; start it with --node-config "
                "'site=\"/path/to/site.toml\"'"
            )
        participant = Participant(read_site(str(context.node_config["site"])))
        return Message(
            to_record(participant.answer(from_record(message.content))), reply_to=message
        )

    for action in ACTIONS.values():
        category, name = action.split(".")
        getattr(app, category)(name)(answer)
    return app


def server_app() -> Any:
    """Return the ServerApp of the hub; the run's ``hub`` names its file."""
    need("flwr", "flower")
    from flwr.serverapp import ServerApp

    from fedrelax.federation.hub import Hub
    from fedrelax.federation.settings import read_hub
    from fedrelax.federation.writing import FederationView, write_federated

    app = ServerApp()

    @app.main()  # type: ignore[untyped-decorator, unused-ignore]
    def main(grid: Any, context: Any) -> None:
        file = read_hub(str(context.run_config["hub"]))
        logging.basicConfig(format="%(message)s")
        log.setLevel(logging.INFO)
        hub = Hub(file, OverFlower(grid), file.folder)
        if not file.live:
            write_federated(hub.run(), file)
            return
        with FederationView(hub) as view:
            write_federated(hub.run([view]), file)

    return app
