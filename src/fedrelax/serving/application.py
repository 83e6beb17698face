"""The service's paths. Each answer is JSON, except for the report; each refusal is one sentence."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from fedrelax.errors import FedRelaxError
from fedrelax.serving.served import Served, read_asked
from fedrelax.typing import DataFrame
from fedrelax.web import HEADERS, Refusal, json_answer, refused

HEALTH = "/health"
"""The one path that needs no token."""
MOST_WAITING = 64
"""The most requests being read or waiting for the models; the others are refused at once."""
PATIENCE = 30.0
"""Seconds within which a body must arrive."""
Learn = Callable[[DataFrame], AbstractContextManager[Path]]
"""Takes new rows, a table with the training columns, the target and the node, and gives the directory of
the result that has learned them. If the block fails, these rows are forgotten and the directory is gone."""
NOT_LEARNING = "this service does not learn; start it with --learn TABLE to let it take new rows"
FRAMES = "frame-ancestors 'none'"


@dataclass(eq=False)
class Application:
    """What is served, within which limits, and the one thread in which models work.

    Libraries do not promise that a model may predict in two threads at once, so all predictions are made
    in one; requests wait for it, but ``/health`` never does.
    """

    served: Served
    max_bytes: int
    say: Callable[[str], None]
    learn: Learn | None = None
    _waiting: int = 0
    _worker: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(1, thread_name_prefix="fedrelax-models")
    )

    def close(self) -> None:
        """Release the thread; work that is waiting is cancelled."""
        self._worker.shutdown(wait=False, cancel_futures=True)

    def routes(self) -> Starlette:
        """Return the application for a server."""
        paths: list[tuple[str, str, Callable[[Request], Awaitable[Response]]]] = [
            (HEALTH, "GET", self._health),
            ("/", "GET", self._report),
            ("/nodes", "GET", self._nodes),
            ("/predict", "POST", self._predict),
            ("/rows", "POST", self._rows),
        ]
        known = ", ".join(f"{way} {path}" for path, way, _ in paths)

        async def failed(request: Request, error: Exception) -> Response:
            if isinstance(error, HTTPException):
                asked = f"{request.method} {request.url.path[:80]}"
                words = f"there is no {asked}; this service has {known}"
                return refused(Refusal(error.status_code, words))
            if isinstance(error, FedRelaxError | ClientDisconnect):
                return refused(error)
            kind = type(error).__name__
            self.say(f"{request.url.path}: unexpected {kind}: {str(error)[:300]}")
            words = f"unexpected {kind}; the service's own output says more"
            return refused(Refusal(500, words))

        kinds = (HTTPException, FedRelaxError, ClientDisconnect, Exception)
        return Starlette(
            routes=[Route(path, answer, methods=[way]) for path, way, answer in paths],
            exception_handlers=dict.fromkeys(kinds, failed),
        )

    async def _health(self, request: Request) -> Response:
        return json_answer({"status": "ok", "fedrelax": version("fedrelax")})

    async def _report(self, request: Request) -> Response:
        try:
            page = await asyncio.to_thread(lambda: self.served.report)
        except FedRelaxError as error:  # the request is fine: what draws the page is not installed
            raise Refusal(503, str(error)) from error
        headers = {**HEADERS, "Content-Security-Policy": FRAMES}
        return HTMLResponse(page, headers=headers)

    async def _nodes(self, request: Request) -> Response:
        return json_answer(await asyncio.to_thread(self.served.describe))

    async def _predict(self, request: Request) -> Response:
        return await self._work(request, lambda body: self.served.predict(read_asked(body)))

    async def _rows(self, request: Request) -> Response:
        if self.learn is None:
            raise Refusal(403, NOT_LEARNING)
        return await self._work(request, self._learned)

    def _learned(self, body: bytes) -> dict[str, Any]:
        assert self.learn is not None
        rows = self.served.table(read_asked(body))
        with self.learn(rows) as directory:
            successor = self.served.succeeded_by(directory)
        self.served = successor
        return {"learned": len(rows)}

    async def _work(self, request: Request, work: Callable[[bytes], dict[str, Any]]) -> Response:
        """Read a body and let the models' thread make the answer."""
        if self._waiting >= MOST_WAITING:
            raise Refusal(503, f"{MOST_WAITING} requests are waiting already; try again later")
        self._waiting += 1
        try:
            body = await self._body(request)
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._worker, lambda: json_answer(work(body)))
        finally:
            self._waiting -= 1

    async def _body(self, request: Request) -> bytes:
        """Return a request's body.

        Only JSON is read: pages of other sites cannot send it without a preflight request.
        """
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise Refusal(
                415, f"the content type is {kind[:80] or 'missing'!r}; send application/json"
            )
        parts, size = [], 0
        try:
            async with asyncio.timeout(PATIENCE):
                async for part in request.stream():
                    size += len(part)
                    if size <= self.max_bytes:  # the rest is dropped, so that the sender reads why
                        parts.append(part)
        except TimeoutError:
            raise Refusal(408, f"the body did not arrive within {PATIENCE:.0f} seconds") from None
        if size > self.max_bytes:
            raise Refusal(
                413, f"the body has more than {self.max_bytes} bytes; send fewer rows at a time"
            )
        return b"".join(parts)
