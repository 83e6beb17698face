"""``fedrelax serve``: a saved result that answers over HTTP."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedrelax.cli.console import Talk, speaking
from fedrelax.cli.predict import UnknownNodes

if TYPE_CHECKING:
    from fedrelax.serving import Service


def serve(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="Result directory, as fedrelax fit writes it.")
    ],
    host: Annotated[
        str, typer.Option(help="Address to listen on. 127.0.0.1 is for this machine only.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes any free one.")
    ] = 8000,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="FEDRELAX_TOKEN",
            help="Secret that every request must carry. Default: a random one, which is printed.",
        ),
    ] = None,
    no_token: Annotated[
        bool, typer.Option("--no-token", help="Ask for no secret; for this machine only.")
    ] = False,
    max_bytes: Annotated[int, typer.Option(min=1, help="Largest request body.")] = 1_000_000,
    learn: Annotated[
        Path | None,
        typer.Option(
            metavar="TABLE",
            help="Learn from new rows sent to POST /rows; TABLE holds the training rows. New results "
            "are saved in DIR.learned, and DIR stays as it is.",
        ),
    ] = None,
    unknown_nodes: UnknownNodes = "consensus",
    trust: Annotated[
        list[str] | None,
        typer.Option(
            metavar="package.module.Class",
            help="Type of another package that may be loaded; can be repeated.",
        ),
    ] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
) -> None:
    """Serve predictions over HTTP, as JSON, until Ctrl-C.

    POST /predict predicts rows as fedrelax predict does, GET / shows the report, GET /nodes says what
    can be asked, and GET /health that the service is up.

    [bold]Example:[/bold] fedrelax serve result --port 8000
    """
    with speaking(debug) as talk:
        secret = _secret(token, no_token)
        unknown = "raise" if unknown_nodes == "refuse" else "consensus"
        place, allowed = (host, port), tuple(trust or ())
        with _service(
            directory, place, secret, max_bytes, learn, allowed, unknown, talk
        ) as service:
            # a given token is known and stays out of logs; a random one has to be shown
            where = service.page if token is None else service.address
            _say(talk, f"serving: {where} (Ctrl-C ends it)")
            with _signals_only_end_it():
                service.run()
        _say(talk, "stopped")


def _secret(token: str | None, no_token: bool) -> str | None:
    """Return the token to ask for, or None."""
    import secrets

    from fedrelax.errors import FedRelaxError
    from fedrelax.serving.service import check_token

    if token is None:
        return None if no_token else secrets.token_urlsafe(24)
    if no_token:
        raise FedRelaxError("--token and --no-token contradict each other; give one of them")
    check_token(token)
    return token


@contextmanager
def _service(
    directory: Path,
    place: tuple[str, int],
    token: str | None,
    max_bytes: int,
    learn: Path | None,
    trust: tuple[str, ...],
    unknown: str,
    talk: Talk,
) -> Iterator[Service]:
    """Check everything, take the port, load the models, and yield the service."""
    from fedrelax.cli.inputs import look_here_for_modules
    from fedrelax.cli.learning import Learner
    from fedrelax.cli.live import check_live
    from fedrelax.serving import Application, Served, Service, listen
    from fedrelax.storage import read_result

    check_live()
    saved = read_result(directory)
    if trust:
        look_here_for_modules()
    with listen(*place, token) as listening:
        learner = None if learn is None else Learner(directory, learn, trust, talk)
        served = Served(saved, trust, unknown)
        app = Application(served, max_bytes, partial(_say, talk), learner)
        yield Service(app, listening, place[0], token)


def _say(talk: Talk, text: str) -> None:
    talk.activity.pause()
    talk.err.print(text, markup=False, soft_wrap=True)  # one line, so that it can be copied


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
