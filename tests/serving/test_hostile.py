"""What a service refuses: each time with the right status and one sentence, and it goes on answering."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("uvicorn", reason="needs uvicorn (the extra live)")
pytest.importorskip("starlette", reason="needs starlette (the extra live)")

from fedrelax.serving import application
from fedrelax.serving.served import MOST_ROWS, read_asked
from fedrelax.web import LONGEST, Refusal

from .asking import TOKEN, Client, serving
from .test_connections import is_closed

GOOD = {"wind": 0.5, "sun": 1.0}
FULL = {"size": 1.5, "kind": "a", "open": True, "day": "2024-01-05", "note": "corner shop"}


@pytest.fixture(scope="module")
def ask(numbers) -> Iterator[Client]:
    """A service of numbers that has nothing to tell of when all tests have asked."""
    with serving(numbers / "result", max_bytes=200_000) as client:
        yield client
        assert client("/predict", {"node": "Oslo", "rows": [GOOD]})[0] == 200
        assert client.said == []


@pytest.fixture(scope="module")
def ask_kinds(kinds) -> Iterator[Client]:
    with serving(kinds / "result") as client:
        yield client
        assert client("/predict", {"node": "s0", "rows": [FULL]})[0] == 200
        assert client.said == []


@pytest.mark.parametrize(
    "header",
    [None, "", "Bearer", "Bearer ", "Bearer wrong", f"Basic {TOKEN}", TOKEN, f"Bearer {TOKEN}x",
     f"Bearer {TOKEN[:-1]}", "Bearer \xff\xfe"],
)  # fmt: skip
def test_no_path_but_health_is_open_without_the_token(ask, header):
    for path in ("/", "/nodes", "/elsewhere"):
        status, text = ask.refused(path, Authorization=header)
        assert status == 401 and "the token is missing or wrong" in text
        assert ask.headers["www-authenticate"] == "Bearer"
    body = {"node": "Oslo", "rows": [GOOD]}
    assert ask.refused("/predict", body, Authorization=header)[0] == 401
    assert ask.refused(f"/predict?token={TOKEN}", body, Authorization=header)[0] == 401
    assert ask("/health", Authorization=header)[0] == 200


@pytest.mark.parametrize("query", ["token=", "token=x", f"token={TOKEN}&token=x", "token=%ff"])
def test_a_token_in_the_address_must_be_the_one(ask, query):
    assert ask.refused(f"/nodes?{query}", Authorization=None)[0] == 401


@pytest.mark.parametrize(
    "host",
    ["evil.example", "127.0.0.1.evil.example:8000", "localhost.evil.example", "", "[", "a b",
     "127.0.0.1@evil.example", "localhost, evil.example"],
)  # fmt: skip
def test_a_foreign_name_gets_nothing_not_even_health(ask, host):
    for path in ("/health", "/", "/nodes"):
        status, text = ask.refused(path, Host=host)
        assert status == 403 and "Host is not this server" in text


def test_names_of_this_machine_are_known(ask):
    for host in ("127.0.0.1", "LOCALHOST:9000", "[::1]:80"):
        assert ask("/nodes", Host=host)[0] == 200


def test_other_paths_and_methods(ask):
    status, text = ask.refused("/elsewhere")
    assert status == 404 and "GET /health, GET /, GET /nodes, POST /predict, POST /rows" in text
    status, text = ask.refused("/predict")
    assert status == 405 and "there is no GET /predict" in text
    assert ask.refused("/nodes", {}, method="DELETE")[0] == 405
    assert ask.refused("/predict", method="OPTIONS", Origin="http://evil.example")[0] == 405
    assert not any(name.startswith("access-control") for name in ask.headers)


@pytest.mark.parametrize("kind", [None, "text/plain", "application/x-www-form-urlencoded", "json"])
def test_only_json_is_read(ask, kind):
    body = {"node": "Oslo", "rows": [GOOD]}
    status, text = ask.refused("/predict", body, Content_Type=kind)
    assert status == 415 and "send application/json" in text
    assert ask("/predict", body, Content_Type="application/json; charset=utf-8")[0] == 200


def test_sizes(ask):
    status, text = ask.refused("/predict", b" " * 200_001)
    assert status == 413 and "more than 200000 bytes" in text
    assert ask.refused("/predict", b"[" * 3_000_000)[0] == 413
    rows = b'{"node": "Oslo", "rows": [' + b"{}," * MOST_ROWS + b"{}]}"
    status, text = ask.refused("/predict", rows)
    assert status == 413 and f"send at most {MOST_ROWS}" in text


def test_a_body_in_pieces_without_a_length_is_counted_too(ask):
    place = urlsplit(ask.address)
    with socket.create_connection((place.hostname, place.port), timeout=60) as line:
        head = (
            f"POST /predict HTTP/1.1\r\nHost: {place.netloc}\r\nAuthorization: Bearer {TOKEN}\r\n"
        )
        head += "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        line.sendall(head.encode())
        for _ in range(3):
            line.sendall(b"%x\r\n" % 100_000 + b" " * 100_000 + b"\r\n")
        line.sendall(b"0\r\n\r\n")
        assert line.recv(12) == b"HTTP/1.1 413"


BODIES = {
    b"": (400, "the body cannot be read"),
    b"{": (400, "the body cannot be read"),
    b"\xff\xfe": (400, "the body cannot be read"),
    b"[]": (400, "the body has [] under 'its outermost level', which should be an object"),
    b"null": (400, "the body has None under 'its outermost level'"),
    b"{}": (400, "the body has no 'rows'"),
    b'{"node": "Oslo", "rows": []}': (400, "the body has [] under 'rows'"),
    b'{"node": "Oslo", "rows": {"wind": 1}}': (400, "'rows', which should be a valid"),
    b'{"node": "Oslo", "rows": [1]}': (400, "the body has 1 under 'rows.0'"),
    b'{"node": "Oslo", "rows": [{}], "more": 1}': (400, "the body has 'more', which is not known"),
    b'{"rows": [{"wind": 1, "sun": 1}]}': (400, "names no node"),
    b'{"node": "Oslo", "nodes": ["Oslo"], "rows": [{}]}': (400, "both 'node' and 'nodes'"),
    b'{"nodes": ["Oslo"], "rows": [{}, {}]}': (400, "1 nodes for 2 rows"),
    b'{"nodes": "Oslo", "rows": [{}]}': (400, "the body has 'Oslo' under 'nodes'"),
    b'{"node": null, "rows": [{}]}': (400, "names no node"),
    b'{"node": ["Oslo"], "rows": [{}]}': (400, "the body has ['Oslo'] under 'node'"),
    b'{"node": "\\ud800", "rows": [{}]}': (400, "the body cannot be read"),
    b'{"node": "Oslo", "rows": [{"wind": 1}]}': (422, "row 0 has no column 'sun'"),
    b'{"node": "Oslo", "rows": [{"wind": 1, "sun": 1}, {"sun": 1}]}': (422, "row 1 has no column"),
    b'{"node": "Oslo", "rows": [{"wind": null, "sun": 1}]}': (422, "'wind' has 1 values that are"),
    b'{"node": "Oslo", "rows": [{"wind": "x", "sun": 1}]}': (422, "'wind' must hold numbers"),
    b'{"node": "Oslo", "rows": [{"wind": [1], "sun": 1}]}': (400, "[1] under 'rows.0.wind'"),
    b'{"node": "Oslo", "rows": [{"wind": {"a": 1}, "sun": 1}]}': (400, "under 'rows.0.wind'"),
    b'{"node": "Oslo", "rows": [{"wind": NaN, "sun": 1}]}': (400, "nan under 'rows.0.wind'"),
    b'{"node": "Oslo", "rows": [{"wind": -Infinity, "sun": 1}]}': (400, "-inf under 'rows.0.wind'"),
    b'{"node": "Oslo", "rows": [{"wind": 1e999, "sun": 1}]}': (400, "a finite number"),
    b'{"node": "Oslo", "rows": [{"wind": ' + b"9" * 400 + b', "sun": 1}]}': (400, "too large"),
    b'{"node": "Oslo", "rows": [{"wind": ' + b"9" * 5000 + b', "sun": 1}]}': (400, "the body "),
    b'{"node": "Oslo", "rows": [{"wind": 1e308, "sun": -1e308}]}': (
        422,
        "too large to be summed",
    ),
    b'{"node": "Oslo", "rows": [{"wind": "1e999", "sun": 1}]}': (422, "'wind' must hold numbers"),
    b"[" * 100_000: (400, "the body cannot be read"),
    b'{"a":' * 30_000: (400, "the body cannot be read"),
    b'{"node": "Oslo", "rows": ' + b"[" * 50 + b"]" * 50 + b"}": (400, "under 'rows.0'"),
}


@pytest.mark.parametrize("body", BODIES, ids=lambda body: body[:70].decode("latin-1"))
def test_bad_bodies(ask, body):
    status, part = BODIES[body]
    found, text = ask.refused("/predict", body)
    assert found == status and part in text
    assert len(text) <= LONGEST + 3


VALUES = {
    "a number as text": ({"size": "many"}, "column 'size' must hold numbers"),
    "a date of another kind": ({"day": "yesterday"}, "column 'day' must hold dates"),
    "true as a date": ({"day": True}, "column 'day' holds true; send a date as text"),
    "a number of flags": ({"open": 7}, "column 'open' must hold flags"),
}


@pytest.mark.parametrize("name", VALUES)
def test_values_of_another_kind(ask_kinds, name):
    change, part = VALUES[name]
    status, text = ask_kinds.refused("/predict", {"node": "s0", "rows": [{**FULL, **change}]})
    assert status == 422 and part in text


plain = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()


@given(st.fixed_dictionaries({name: plain for name in FULL}))
def test_any_plain_values_are_answered_or_refused(ask_kinds, row):
    status, said = ask_kinds("/predict", {"node": "s0", "rows": [row]})
    assert status in (200, 400, 422), said


@given(
    st.binary(max_size=200) | st.text(alphabet='[]{}":,\\ntrue0.e-', max_size=60).map(str.encode)
)
def test_any_bytes_are_read_or_refused(body):
    try:
        read_asked(body)
    except Refusal as refusal:
        assert 400 <= refusal.status < 500


def test_a_body_that_never_comes_ends(numbers, monkeypatch):
    monkeypatch.setattr(application, "PATIENCE", 0.2)
    with serving(numbers / "result", patience=0.2) as ask:
        place = urlsplit(ask.address)
        with socket.create_connection((place.hostname, place.port), timeout=60) as line:
            head = (
                f"POST /predict HTTP/1.1\r\nHost: {place.netloc}\r\nAuthorization: Bearer {TOKEN}"
            )
            head += "\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
            line.sendall(head.encode())
            assert line.recv(12) == b"HTTP/1.1 408"
            assert is_closed(line)
        assert ask("/predict", {"node": "Oslo", "rows": [GOOD]})[0] == 200


def test_too_many_at_once_are_told_to_come_back(numbers, monkeypatch):
    monkeypatch.setattr(application, "MOST_WAITING", 1)
    with serving(numbers / "result") as ask:
        place = urlsplit(ask.address)
        with socket.create_connection((place.hostname, place.port), timeout=60) as line:
            body = json.dumps({"node": "Oslo", "rows": [GOOD]}).encode()
            head = (
                f"POST /predict HTTP/1.1\r\nHost: {place.netloc}\r\nAuthorization: Bearer {TOKEN}"
            )
            head += f"\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
            line.sendall(head.encode())
            answers = [ask("/predict", {"node": "Oslo", "rows": [GOOD]}) for _ in range(20)]
            status, said = answers[-1]
            assert status == 503 and "1 requests are waiting already" in said["error"]
            assert ask("/health")[0] == 200
            line.sendall(body)
            assert line.recv(12) == b"HTTP/1.1 200"


def test_without_a_token_other_sites_still_get_nothing(numbers):
    with serving(numbers / "result", token=None) as ask:
        body = {"node": "Oslo", "rows": [GOOD]}
        assert ask("/predict", body)[0] == 200
        assert ask.refused("/predict", body, Host="evil.example")[0] == 403
        assert ask.refused("/predict", body, Content_Type="text/plain")[0] == 415
