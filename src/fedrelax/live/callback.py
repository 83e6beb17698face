"""``LiveView``: a callback that shows the run on a page while it runs.

The server is for this machine only, behind a secret in the address. Every stream sends the newest state and
then waits for a newer one, so neither the run nor another page ever waits for a page that reads slowly.
"""

from __future__ import annotations

import asyncio
import secrets
import threading
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from fedrelax.errors import counted
from fedrelax.extras import need_live
from fedrelax.graph import Graph
from fedrelax.live.state import LiveState
from fedrelax.report import palette
from fedrelax.report.data.report_data import axis_labels
from fedrelax.report.page.assembly import assemble, part, safe_json, static
from fedrelax.runtime import Callback, Outcome, Record
from fedrelax.typing import Label, SparseMatrix

if TYPE_CHECKING:
    from fedrelax.web import Server

HOST = "127.0.0.1"
PACE, GRACE = 0.1, 3
"""Seconds between two looks at the state, and to send the last state."""


def application(state: LiveState, page: str, policy: str) -> Any:
    """Return the application that sends the page and its events, and takes the wish to stop."""
    from starlette.applications import Starlette
    from starlette.responses import HTMLResponse, Response, StreamingResponse
    from starlette.routing import Route

    from fedrelax.web import HEADERS

    async def show(request: Any) -> Response:
        return HTMLResponse(page, headers={**HEADERS, "Content-Security-Policy": policy})

    async def events(request: Any) -> Response:
        kind = "text/event-stream"
        return StreamingResponse(events_of(state), media_type=kind, headers=HEADERS)

    async def stop(request: Any) -> Response:
        code = 202 if state.ask_to_stop() else 409
        return Response(status_code=code, headers=HEADERS)

    paths = (("/", show, "GET"), ("/events", events, "GET"), ("/stop", stop, "POST"))
    routes = [Route(path, answer, methods=[way]) for path, answer, way in paths]
    return Starlette(routes=routes)


async def events_of(state: LiveState) -> AsyncIterator[str]:
    """Yield the newest state whenever it is newer than the last one sent, until the run is over."""
    network, figures = -1, -1
    while not (state.over and state.versions == (network, figures)):
        if state.versions[0] != network:
            network, text = await asyncio.to_thread(state.network_text)
            if text:
                yield f"event: network\ndata: {text}\n\n"
        if state.versions[1] != figures:
            figures, text = await asyncio.to_thread(state.numbers_text)
            yield f"event: numbers\ndata: {text}\n\n"
        await asyncio.sleep(PACE)


BROKEN_OFF = "The run ended early; see the terminal."
STOPPED = "stopped from the live page"


class LiveView(Callback):
    """Shows a run on a page that this machine serves: the grid, the curves, and a button to stop.

    ``say`` is called with the address, which contains a secret, when the run begins. The page is served
    until the run ends; in a ``with`` block, until the block ends. Opening or closing it does not change
    the run. Needs the extra ``live``.

    graph : where the nodes are drawn, if it was made from coordinates.
    unit : of the loss, for the axes, such as "squared error, kWh²".

    ``FedRelaxRegressor(callbacks=[LiveView(graph)])`` is enough.
    """

    def __init__(
        self, graph: Graph | None = None, *, unit: str = "", say: Callable[[str], object] = print
    ) -> None:
        need_live()
        self._graph, self._unit, self._say = graph, unit, say
        self._state = LiveState(graph)
        self._server: Server | None = None
        self._thread: threading.Thread | None = None
        self._held, self._rounds = False, 0

    @property
    def url(self) -> str:
        """The address of the page; asking for it starts the server."""
        return self._open().page

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
        self._state.tell(words, record.round, self._rounds, stoppable=more)
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
        self._state.tell(words, done, total)

    def _open(self) -> Server:
        if self._server is None:
            from fedrelax.web import Server, listen

            token = secrets.token_urlsafe(24)
            app = application(self._state, *live_page(self._unit))
            self._server = Server(app, listen(HOST, 0, token), HOST, token, grace=GRACE)
            self._thread = self._server.start("fedrelax-live")
            self._say(f"live: {self._server.page}")
        return self._server

    def close(self, words: str) -> None:
        """Tell all pages how it ended, and stop the server."""
        self._state.tell(words, 1, 1, over=True)
        if self._server is not None and self._thread is not None:
            self._server.stop()
            self._thread.join(2 * GRACE)
        self._server = self._thread = None
        self._state = LiveState(self._graph)

    def __enter__(self) -> Self:
        self._held = True
        self._open()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._held = False
        if self._server is not None:
            self.close("Finished." if kind is None else BROKEN_OFF)

    def __reduce__(self) -> tuple[Any, ...]:
        return (Callback, ())  # nobody is watching in another process


def live_page(unit: str = "") -> tuple[str, str]:
    """Return the page and its policy: only its own scripts, no styles or pictures from elsewhere, and
    no connection except to where it came from.
    """
    common = part("colours.js", "text.js", "paint.js", "grid.js", "legend.js")
    own = partial(static, __package__)
    script = "\n".join([palette.script() + common, own("curves.js", "live.js")])
    scripts = {"theme": part("theme.js"), "script": script}
    values = {"labels": safe_json(axis_labels(unit)), "title": "fedrelax, live"}
    page, rules = assemble(own("live.html"), part("page.css") + own("live.css"), scripts, values)
    return page, f"{rules}; connect-src 'self'; frame-ancestors 'none'"
