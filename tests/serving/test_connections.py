"""Clients that open connections and keep them waiting: the service goes on answering the others."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from http.client import HTTPConnection
from urllib.parse import urlsplit

import pytest

pytest.importorskip("uvicorn", reason="needs uvicorn (the extra live)")
pytest.importorskip("starlette", reason="needs starlette (the extra live)")

from fedrelax.web import MOST_CONNECTIONS

from .asking import Client, serving

HALF = "GET /health HTTP/1.1\r\nHost: {place}\r\nX-Slow: "
BODY = "GET /health HTTP/1.1\r\nHost: {place}\r\nContent-Length: 1000000\r\n\r\n"
QUIET = 0.5


@contextmanager
def connections(client: Client, count: int, text: str) -> Iterator[list[socket.socket]]:
    """Open connections that each send the beginning of a request."""
    place = urlsplit(client.address)
    with ExitStack() as stack:
        lines = []
        for _ in range(count):
            line = socket.create_connection((place.hostname, place.port), timeout=30)
            stack.enter_context(line)
            line.sendall(text.format(place=place.netloc).encode())
            lines.append(line)
        yield lines


def is_closed(line: socket.socket) -> bool:
    """Wait for the other side to close a connection; False if it does not."""
    try:
        while line.recv(4096):
            pass
    except ConnectionError:
        pass
    except TimeoutError:
        return False
    return True


def test_half_sent_headers_lock_nobody_out(numbers):
    """The service makes room for newcomers at once, long before its patience ends."""
    with (
        serving(numbers / "result", token=None, patience=600.0) as ask,
        connections(ask, MOST_CONNECTIONS + 14, HALF) as lines,
    ):
        for _ in range(3):
            assert ask("/health")[0] == 200
            assert ask("/predict", {"node": "Oslo", "rows": [{"wind": 1, "sun": 1}]})[0] == 200
        assert is_closed(lines[0])
        lines[-1].sendall(b"no longer\r\n\r\n")
        assert lines[-1].recv(15) == b"HTTP/1.1 200 OK"


@pytest.mark.parametrize("text", ["", HALF, BODY], ids=["nothing", "half a head", "half a body"])
def test_a_client_that_never_ends_its_request_is_cut_off(numbers, text):
    """Even if it sends a byte now and then."""
    with (
        serving(numbers / "result", token=None, patience=QUIET) as ask,
        connections(ask, 2, text) as (silent, slow),
    ):
        end = time.monotonic() + 30
        with pytest.raises(ConnectionError):
            while text and time.monotonic() < end:
                slow.sendall(b"x")
                time.sleep(QUIET / 10)
            raise ConnectionError  # who sent nothing at all has no bytes to go on with
        assert is_closed(silent) and is_closed(slow)
        assert time.monotonic() < end
        assert ask("/health")[0] == 200


def test_a_client_that_does_not_read_its_answer_is_cut_off(kinds):
    """Its answer is larger than what the two machines keep on the way."""
    with serving(kinds / "result", token=None, patience=QUIET) as ask:
        place = urlsplit(ask.address)
        asking = f"GET / HTTP/1.1\r\nHost: {place.netloc}\r\n\r\n".encode()
        with socket.socket() as line:
            line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            line.settimeout(30)
            line.connect((place.hostname, place.port))
            end = time.monotonic() + 30
            with pytest.raises(ConnectionError):
                while time.monotonic() < end:
                    line.sendall(asking)  # pipelined: what is not read piles up
                    time.sleep(QUIET / 10)
        assert time.monotonic() < end
        assert ask("/health")[0] == 200


def test_a_connection_is_used_again(numbers):
    with serving(numbers / "result", token=None) as ask:
        place = urlsplit(ask.address)
        with closing(HTTPConnection(str(place.hostname), place.port, timeout=30)) as connection:
            connection.connect()
            line = connection.sock
            for _ in range(3):
                connection.request("GET", "/health")
                answer = connection.getresponse()
                assert answer.status == 200 and answer.read()
                assert connection.sock is line
