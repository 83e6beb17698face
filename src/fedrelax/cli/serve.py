"""``fedrelax serve``: a saved result that answers over HTTP."""

from __future__ import annotations

import secrets
import signal
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Annotated

import typer

from fedrelax.cli.config import command
from fedrelax.cli.console import Talk
from fedrelax.cli.flags import SavedDir, Trust
from fedrelax.cli.results import UnknownNodes


@command
def serve(
    talk: Talk,
    directory: SavedDir,
    *,
    host: str = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535)] = 8000,
    token: Annotated[str | None, typer.Option(envvar="FEDRELAX_TOKEN")] = None,
    no_token: bool = False,
    max_bytes: Annotated[int, typer.Option(min=1)] = 1_000_000,
    learn: Annotated[Path | None, typer.Option(metavar="TABLE")] = None,
    unknown_nodes: UnknownNodes = "consensus",
    trust: Trust = None,
) -> None:
    """Serve predictions over HTTP, as JSON, until Ctrl-C.

    POST /predict predicts rows as fedrelax predict does, GET / shows the report, GET /nodes says what
    can be asked, and GET /health that the service is up.

    [bold]Example:[/bold] fedrelax serve result --port 8000

    host : Address to listen on. 127.0.0.1 is for this machine only.
    port : Port to listen on; 0 takes any free one.
    token : Secret that every request must carry. Default: a random one, which is printed.
    no_token : Ask for no secret; for this machine only.
    max_bytes : Largest request body.
    learn : Learn from new rows sent to POST /rows; TABLE holds the training rows. New results are saved
        in DIR.learned, and DIR stays as it is.
    """
    from fedrelax.extras import need_live

    need_live()
    from fedrelax.cli.inputs import look_here_for_modules
    from fedrelax.cli.new_rows import Learner
    from fedrelax.errors import FedRelaxError
    from fedrelax.serving import Application, Served
    from fedrelax.serving.application import HEALTH
    from fedrelax.storage import read_result
    from fedrelax.web import Server, check_token, listen

    if token is not None and no_token:
        raise FedRelaxError("--token and --no-token contradict each other; give one of them")
    if token is not None:
        check_token(token)
    secret = None if no_token else token or secrets.token_urlsafe(24)
    saved, allowed = read_result(directory), tuple(trust or ())
    if allowed:
        look_here_for_modules()
    with listen(host, port, secret) as listening:
        learner = None if learn is None else Learner(directory, learn, allowed, talk)
        served = Served(saved, allowed, "raise" if unknown_nodes == "refuse" else "consensus")
        app = Application(served, max_bytes, talk.address, learner)
        server = Server(app.routes(), listening, host, secret, open_paths=[HEALTH])
        # a given token is known and stays out of logs; a random one has to be shown
        where = server.page if token is None else server.address
        talk.address(f"serving: {where} (Ctrl-C ends it)")
        with _signals_only_end_it(), closing(app):
            server.run()
    talk.address("stopped")


@contextmanager
def _signals_only_end_it() -> Iterator[None]:
    """Let the server shut down cleanly on Ctrl-C and SIGTERM; the signal it raises again is ignored."""
    kinds = (signal.SIGINT, signal.SIGTERM)
    before = {kind: signal.signal(kind, lambda *_: None) for kind in kinds}
    try:
        yield
    finally:
        for kind, former in before.items():
            signal.signal(kind, former)
