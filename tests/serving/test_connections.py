"""Connections that serve several requests."""

from __future__ import annotations

from contextlib import closing
from http.client import HTTPConnection
from urllib.parse import urlsplit

import pytest

pytest.importorskip("uvicorn", reason="needs uvicorn (the extra live)")
pytest.importorskip("starlette", reason="needs starlette (the extra live)")

from .asking import serving


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
