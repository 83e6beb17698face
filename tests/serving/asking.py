"""A service in a thread of this process, and clients that ask it."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

TOKEN = "a-token-of-the-tests"


class Client:
    """Asks one service; ``said`` is what the service has told whoever runs it."""

    def __init__(self, address: str, token: str | None = TOKEN) -> None:
        self.address, self.said = address, list[str]()
        self._place = urlsplit(address)
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}

    def __call__(
        self, path: str, body: Any = None, method: str | None = None, **headers: str | None
    ) -> tuple[int, Any]:
        """Return status and JSON of an answer; a header of None is left out, bytes are sent as they are."""
        sent = dict(self._headers)
        if body is not None:
            sent["Content-Type"] = "application/json"
            body = body if isinstance(body, bytes) else json.dumps(body).encode()
        for name, value in headers.items():
            sent.pop(name.replace("_", "-"), None)
            if value is not None:
                sent[name.replace("_", "-")] = value
        method = method or ("GET" if body is None else "POST")
        place = (str(self._place.hostname), self._place.port)
        with closing(http.client.HTTPConnection(*place, timeout=60)) as connection:
            connection.request(method, path, body=body, headers=sent)
            answer = connection.getresponse()
            text = answer.read()
        self.headers = dict(answer.getheaders())
        if self.headers["content-type"].startswith("application/json"):
            return answer.status, json.loads(text)
        return answer.status, text.decode()

    def refused(self, path: str, body: Any = None, **more: Any) -> tuple[int, str]:
        """Return status and sentence of a refusal, which is all that its body holds."""
        status, said = self(path, body, **more)
        assert status >= 400 and list(said) == ["error"], (status, said)
        assert "Traceback" not in said["error"] and "\n" not in said["error"]
        return status, said["error"]


@contextmanager
def serving(
    directory: Path,
    token: str | None = TOKEN,
    max_bytes: int = 1_000_000,
    learn: Any = None,
    unknown: str = "consensus",
    patience: float = 10.0,
) -> Iterator[Client]:
    """Serve a result on a free port until the block ends."""
    from fedrelax.serving import Application, Served
    from fedrelax.serving.application import HEALTH
    from fedrelax.storage import read_result
    from fedrelax.web import Server, listen

    said: list[str] = []
    with listen("127.0.0.1", 0, token) as listening:
        served = Served(read_result(directory), unknown=unknown)
        app = Application(served, max_bytes, said.append, learn)
        server = Server(app.routes(), listening, "127.0.0.1", token, [HEALTH], patience=patience)
        thread = server.start("fedrelax-serving")
        client = Client(server.address, token)
        client.said = said
        try:
            yield client
        finally:
            server.stop()
            thread.join(30)
            app.close()
            assert not thread.is_alive()
