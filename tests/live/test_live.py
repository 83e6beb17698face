"""A real run with ``--live``, watched from a real browser."""

from __future__ import annotations

import http.client
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pandas as pd
import pytest

from fedrelax.storage import read_result
from tests.browser import Page

pytest.importorskip("uvicorn", reason="needs uvicorn (the extra live)")
pytest.importorskip("starlette", reason="needs starlette (the extra live)")

pytestmark = pytest.mark.slow

FIT = ("fit", "sites.csv", "--node", "site", "--target", "load", "--graph", "knn:lat,lon:2")
FOREST = ("--model", "forest", "--alpha", "0.3", "--out", "out", "--live")
"""Four forests: a round takes a good part of a second, and their predictions never rest."""
WORDS = "document.getElementById('words').textContent"
ROUND = "(live.numbers ? live.numbers.round : null)"


@pytest.fixture
def sites(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table of four sites in the current directory."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    names = ["north", "east", "south", "west"]
    x = rng.normal(size=(48, 2)).round(3)
    place = np.repeat(np.arange(4), 12)
    frame = pd.DataFrame(
        {
            "site": np.array(names)[place],
            "lat": 60.0 + place,
            "lon": 10.0,
            "wind": x[:, 0],
            "sun": x[:, 1],
            "load": (x @ [1.0, -1.0] + 0.2 * place + 0.3 * rng.normal(size=48)).round(4),
        }
    )
    frame.to_csv("sites.csv", index=False)
    return tmp_path


class Run:
    """A command that runs; ``url`` is the address that it has printed."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process, self.said = process, ""
        assert process.stderr is not None
        while not self.said.endswith("\n") or "live: " not in self.said:
            line = process.stderr.readline()
            assert line, f"ended without an address: {self.said}"
            self.said += line
        self.url = self.said.rpartition("live: ")[2].strip()

    def ends(self) -> int:
        """Wait for the end and return the exit code; all it said on stderr is in ``said``."""
        out, err = self.process.communicate(timeout=300)
        self.out, self.said = out, self.said + err
        assert "Traceback" not in self.said
        return self.process.returncode


@contextmanager
def fitting(*words: str) -> Iterator[Run]:
    command = [sys.executable, "-m", "fedrelax", *FIT, *FOREST, *words]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield Run(process)
        finally:
            process.kill()


def ask(url: str, method: str = "GET", path: str | None = None, **headers: str) -> int:
    """Return the status of one request."""
    place = urlsplit(url)
    connection = http.client.HTTPConnection(place.hostname, place.port, timeout=60)
    try:
        connection.request(method, path or f"/?{place.query}", headers=headers)
        return connection.getresponse().status
    finally:
        connection.close()


def test_the_page_follows_the_rounds_and_its_button_keeps_the_result(sites, browser):
    with fitting("--rounds", "5000") as run:
        page = Page(browser)
        page.size(1200, 900)
        page.visit(run.url)
        page.wait(f"{ROUND} !== null")
        first = page.js(ROUND)
        for step in (1, 2, 3):
            page.wait(f"{ROUND} >= {first + step}")
            assert page.js("document.querySelectorAll('#curves svg').length") == 3
        assert page.js("document.querySelectorAll('#curves circle').length") == 3
        assert page.js(WORDS).endswith(" of 5000.")
        assert page.js("live.network.nodes.name") == ["north", "east", "south", "west"]
        assert page.js("live.network.nodes.place") == "map"
        assert page.js("byId('edge-count').textContent") == "5 edges in use"
        page.wait("!byId('stop').disabled")
        page.js("byId('stop').click()")
        page.wait("live.numbers.over")
        assert "stopped from the live page" in page.js(WORDS)
        assert str(sites / "out" / "report.html") in page.js(WORDS)
        assert page.complaints == []
        asked = {address for address in page.requests if not address.startswith("data:")}
        home, _, query = run.url.partition("?")
        assert asked == {run.url, f"{home}events?{query}", f"{home}stop"}
        assert run.ends() == 0
    assert "its models are kept" in run.said
    saved = read_result("out")
    assert saved.about["reason"] == "stopped from the live page"
    assert first + 3 <= saved.about["rounds"] == len(saved.history) - 1 < 5000
    assert len(saved.models) == 4


def test_a_page_that_is_closed_leaves_the_run_alone(sites, browser):
    with fitting("--rounds", "4") as run:
        page = Page(browser)
        page.visit(run.url)
        page.wait(f"{ROUND} !== null")
        page.visit("about:blank")
        assert run.ends() == 0
    assert read_result("out").about["reason"] == "all rounds done"


def test_only_the_token_and_this_machines_name_open_the_page(sites):
    with fitting("--rounds", "5000") as run:
        (token,) = parse_qs(urlsplit(run.url).query)["token"]
        port = urlsplit(run.url).port
        assert urlsplit(run.url).hostname == "127.0.0.1"
        assert ask(run.url) == 200
        assert ask(run.url, Host=f"localhost:{port}") == 200
        wrong = ["/", "/events", "/favicon.ico", f"/?token={token[:-1]}", f"/events?token={token}x"]
        for path in wrong:
            for method in ("GET", "POST"):
                assert ask(run.url, method, path) == 401
        assert ask(run.url, "POST", f"/stop?token={token}") == 401
        known = {"Authorization": f"Bearer {token}"}
        for host in ("evil.example", f"evil.example:{port}"):
            assert ask(run.url, Host=host) == 403
            assert ask(run.url, "POST", "/stop", Host=host, **known) == 403
        assert ask(run.url, "GET", "/stop", **known) == 405
        while ask(run.url, "POST", "/stop", **known) == 409:  # before there is a round to keep
            pass
        assert run.ends() == 0
    assert read_result("out").about["reason"] == "stopped from the live page"


def test_nobody_needs_to_look(sites):
    with fitting("--rounds", "1", "--json") as run:
        assert run.ends() == 0
    assert run.out.startswith("{") and "live: " not in run.out
    assert "live" not in Path("out/config.toml").read_text()


def test_the_page_tells_how_alpha_is_chosen(sites, browser):
    words = [*FOREST[:2], "--out", "out", "--live", "--rounds", "2"]
    command = [sys.executable, "-m", "fedrelax", *FIT, *words]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        run = Run(process)
        page = Page(browser)
        page.visit(run.url)
        page.wait(f"/^Choosing alpha, wiring and rounds: trial \\d+ of \\d+[.]$/.test({WORDS})")
        assert page.js("live.network.nodes.name.length") == 4
        assert page.js("byId('stop').disabled")
        page.wait("live.numbers.over")
        assert run.ends() == 0
