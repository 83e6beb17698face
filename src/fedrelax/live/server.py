"""The server of a live page: this machine only, behind a secret in the address.

Every stream sends the newest state and then waits for a newer one, so that a page that reads slowly
skips what it missed, and neither the run nor another page ever waits for it.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

from fedrelax.errors import FedRelaxError
from fedrelax.extras import need
from fedrelax.live.state import LiveState
from fedrelax.web import HEADERS, host_of, server_for

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
