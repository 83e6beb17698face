"""``LiveView``: a callback that shows the run on a page while it runs.

The server is for this machine only, behind a secret in the address. Every stream sends the newest state and
then waits for a newer one, so neither the run nor another page ever waits for a page that reads slowly.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping
from importlib import resources
from typing import Any, Self

from fedrelax.errors import FedRelaxError, counted
from fedrelax.extras import need
from fedrelax.graph import Graph
from fedrelax.live.state import LiveState, Progress
from fedrelax.report import palette
from fedrelax.report.data.report_data import axis_labels
from fedrelax.report.page.assembly import assemble, part, safe_json
from fedrelax.runtime import Callback, Outcome, Record
from fedrelax.typing import Label, SparseMatrix
from fedrelax.web import HEADERS, check_live, host_of, server_for

PACE, PULSE, GRACE = 0.1, 15.0, 3.0
"""Seconds between two looks at the state, between signs of life, and to send the last state."""
REFUSED = "Refused: open this page at the address that the terminal shows.\n"


class Server:
    """Serves one page from a thread of its own, until ``close``."""

    def __init__(self, state: LiveState, page: str, policy: str) -> None:
        self._state, self._streams = state, 0
        listening = socket.socket()
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
        self._token = secrets.token_urlsafe(24)
        self.url = f"http://127.0.0.1:{port}/{self._token}/"
        app = guarded(self._application(page, policy), self._token, port)
        self._server = server_for(app, timeout_graceful_shutdown=1)
        run = {"sockets": [listening]}
        self._thread = threading.Thread(
            target=self._server.run, kwargs=run, name="fedrelax-live", daemon=True
        )
        self._thread.start()
        while not self._server.started and self._thread.is_alive():
            time.sleep(0.01)
        if not self._server.started:
            raise FedRelaxError("the live page cannot be served on this machine; run without it")

    def close(self) -> None:
        """Stop the server; pages that are still reading get a moment to receive the last state."""
        end = time.monotonic() + GRACE
        while self._streams and time.monotonic() < end:
            time.sleep(0.02)
        self._server.should_exit = True
        self._thread.join(2 * GRACE)

    def _application(self, page: str, policy: str) -> Any:
        starlette = need("starlette.applications", "live")
        responses, routing = need("starlette.responses", "live"), need("starlette.routing", "live")

        async def show(request: Any) -> Any:
            headers = {**HEADERS, "Content-Security-Policy": policy}
            return responses.HTMLResponse(page, headers=headers)

        async def stream() -> AsyncIterator[str]:
            self._streams += 1
            try:
                async for event in events_of(self._state):
                    yield event
            finally:
                self._streams -= 1

        async def events(request: Any) -> Any:
            kind = "text/event-stream"
            return responses.StreamingResponse(stream(), media_type=kind, headers=HEADERS)

        async def stop(request: Any) -> Any:
            code = 202 if self._state.ask_to_stop() else 409
            return responses.Response(status_code=code, headers=HEADERS)

        routes = [
            routing.Route("/{token}/", show),
            routing.Route("/{token}/events", events),
            routing.Route("/{token}/stop", stop, methods=["POST"]),
        ]
        return starlette.Starlette(routes=routes)


async def events_of(state: LiveState) -> AsyncIterator[str]:
    """Yield the newest state whenever it is newer than the last one sent, until the run is over."""
    network, figures, quiet = -1, -1, 0.0
    while True:
        if state.versions != (network, figures):
            quiet = 0.0
            if state.versions[0] != network:
                network, text = await asyncio.to_thread(state.network_text)
                if text:
                    yield f"event: network\ndata: {text}\n\n"
            if state.versions[1] != figures:
                figures, text = await asyncio.to_thread(state.numbers_text)
                yield f"event: numbers\ndata: {text}\n\n"
            if state.progress.over and state.versions == (network, figures):
                return
        elif quiet >= PULSE:
            quiet = 0.0
            yield ": still here\n\n"
        await asyncio.sleep(PACE)
        quiet += PACE


def guarded(app: Callable[..., Any], token: str, port: int) -> Callable[..., Any]:
    """Let through only requests that name this machine as host and have the token in their path.

    The host is checked because another site's name may be made to point here (DNS rebinding).
    """
    hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost")}
    refuse = need("starlette.responses", "live").PlainTextResponse(REFUSED, 403, HEADERS)

    async def call(scope: Any, receive: Any, send: Any) -> None:
        given = scope["path"].lstrip("/").partition("/")[0].encode()
        allowed = host_of(scope) in hosts and hmac.compare_digest(given, token.encode())
        await (app if allowed else refuse)(scope, receive, send)

    return call


FAILED = "The run ended with an error; see the terminal."
BROKEN_OFF = "The run was interrupted; nothing was kept."
STOPPED = "stopped from the live page"


class LiveView(Callback):
    """Shows a run on a page that this machine serves: the grid, the curves, and a button to stop.

    ``say`` is called with the address, which contains a secret, when the run begins. The page is served
    until the run ends; in a ``with`` block, until the block ends. Opening or closing it does not change
    the run. Needs the extra ``live``.

    graph : where the nodes are drawn, if it was made from coordinates.
    rows, models : training rows and name of the model by node, to show beside the values.
    unit : of the loss, for the axes, such as "squared error, kWh²".

    ``FedRelaxRegressor(callbacks=[LiveView(graph)])`` is enough.
    """

    def __init__(
        self,
        graph: Graph | None = None,
        *,
        rows: Mapping[Label, int] | None = None,
        models: Mapping[Label, str] | None = None,
        unit: str = "",
        say: Callable[[str], object] = print,
    ) -> None:
        check_live()
        self._about = (graph, rows, models)
        self._unit, self._say = unit, say
        self._state = LiveState(*self._about)
        self._server: Server | None = None
        self._held, self._rounds = False, 0

    @property
    def url(self) -> str:
        """The address of the page; asking for it starts the server."""
        return self._open().url

    @property
    def stopped(self) -> bool:
        """Whether someone pressed the button."""
        return self._state.stop_asked

    # A run

    def choosing(self, done: int, total: int) -> None:
        """Show how many candidates have been tried."""
        self.tell(f"Choosing alpha, wiring and rounds: trial {done} of {total}.", done, total)

    def begin(self, rounds: int, n_nodes: int) -> None:
        """Show that the nodes train alone."""
        self._state.begin()
        self._rounds = rounds
        self.tell("Each node trains alone.", 0, rounds)

    def wired(self, labels: tuple[Label, ...], edges: SparseMatrix) -> None:
        """Show the graph in use."""
        self._state.wired(labels, edges)

    def after_round(self, record: Record) -> str | None:
        """Show the numbers; stop if the button was pressed."""
        self._state.record(record)
        words = f"Round {record.round} of {self._rounds}."
        more = record.round < self._rounds
        self._state.tell(Progress(words, record.round, self._rounds, stoppable=more))
        return STOPPED if self.stopped else None

    def end(self, outcome: Outcome) -> None:
        """Show why the rounds ended, and close the page unless a ``with`` block holds it."""
        words = f"{counted(outcome.n_rounds, 'round')}: {outcome.reason}."
        if self._held:
            self.tell(words, 1, 1)
        else:
            self.close(f"Finished. {words}")

    # Around it

    def tell(self, words: str, done: int = 0, total: int = 0) -> None:
        """Show in words what is going on, and how much of it is done."""
        self._open()
        self._state.tell(Progress(words, done, total))

    def _open(self) -> Server:
        if self._server is None:
            self._server = Server(self._state, *live_page(self._unit))
            self._say(f"live: {self._server.url}")
        return self._server

    def close(self, words: str) -> None:
        """Tell all pages how it ended, and stop the server."""
        self._state.tell(Progress(words, 1, 1, over=True))
        if self._server is not None:
            self._server.close()
        self._server = None
        self._state = LiveState(*self._about)

    def __enter__(self) -> Self:
        self._held = True
        self._open()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._held = False
        if self._server is not None:
            failed = kind is not None and issubclass(kind, Exception)
            self.close("Finished." if kind is None else FAILED if failed else BROKEN_OFF)

    def __reduce__(self) -> tuple[Any, ...]:
        return (Callback, ())  # nobody is watching in another process


FROM_REPORT = ("colours", "text", "paint", "grid", "legend")
OWN = ("curves", "live")


def live_page(unit: str = "") -> tuple[str, str]:
    """Return the page and its policy: only its own scripts, no styles or pictures from elsewhere, and
    no connection except to where it came from.
    """
    parts = [*(part(f"{name}.js") for name in FROM_REPORT), *(_own(f"{name}.js") for name in OWN)]
    scripts = {"theme": part("theme.js"), "script": palette.script() + "\n".join(parts)}
    values = {"labels": safe_json(axis_labels(unit)), "title": "fedrelax, live"}
    page, rules = assemble(_own("live.html"), part("page.css") + _own("live.css"), scripts, values)
    return page, f"{rules}; connect-src 'self'; frame-ancestors 'none'"


def _own(name: str) -> str:
    return resources.files(__package__).joinpath("static", name).read_text(encoding="utf-8")
