"""``fedrelax serve`` as a process of its own: its beginning, its end, and its report in a browser."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pandas as pd
import pytest
from typer.testing import CliRunner

from fedrelax.cli.app import app
from fedrelax.storage import load_result
from tests.browser import Page

from ..cli.runs import towns
from .asking import Client
from .conftest import fit

pytest.importorskip("uvicorn", reason="needs uvicorn (the extra live)")
pytest.importorskip("starlette", reason="needs starlette (the extra live)")

pytestmark = pytest.mark.slow

GOOD = {"wind": 0.5, "sun": 1.0}
SLOW = """
import os, time
from sklearn.linear_model import Ridge
class Slow(Ridge):
    def predict(self, X):
        if os.environ.get("SLOW"):
            open("begun", "w").close()
            while not os.path.exists("go on"):
                time.sleep(0.01)
        return super().predict(X)
"""


class Command:
    """A service that runs; ``page`` is the address that it has printed."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        assert process.stderr is not None
        lines = []
        for line in process.stderr:  # a slow start says now and then what it is doing
            lines.append(line)
            if line.startswith("serving: "):
                break
        self.said = "".join(lines)
        assert lines and line.startswith("serving: "), self.said
        self.page = line.split()[1]
        place = urlsplit(self.page)
        token = parse_qs(place.query).get("token", [None])[0]
        self.ask = Client(f"http://{place.netloc}/", token)

    def ends(self, how: signal.Signals) -> str:
        """Send a signal and return what was said in all; the command must end well."""
        self.process.send_signal(how)
        _, rest = self.process.communicate(timeout=60)
        assert self.process.returncode == 0, rest
        assert "Traceback" not in rest
        return self.said + rest


@contextmanager
def command(directory: Path, *words: str, **more: str) -> Iterator[Command]:
    process = subprocess.Popen(
        [sys.executable, "-m", "fedrelax", "serve", str(directory), "--port", "0", *words],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        env={**os.environ, **more},
    )
    with process:
        try:
            yield Command(process)
        finally:
            process.kill()


def refused(*words: object) -> str:
    """Return the sentence with which a command stops before it has begun."""
    done = CliRunner(env={"COLUMNS": "200"}).invoke(app, ["serve", *map(str, words)])
    assert done.exit_code == 2 and "Traceback" not in done.output, done.output
    return " ".join(done.output.split()).partition("error: ")[2]


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM], ids=lambda how: how.name)
def test_a_drawn_token_is_shown_and_signals_end_it_well(numbers, how):
    with command(numbers / "result") as service:
        assert len(parse_qs(urlsplit(service.page).query)["token"][0]) == 32
        assert service.ask("/predict", {"node": "Oslo", "rows": [GOOD]})[0] == 200
        assert service.ends(how).endswith("stopped\n")


def test_a_given_token_is_not_shown(numbers):
    with command(numbers / "result", FEDRELAX_TOKEN="of-the-environment") as service:
        assert service.ask.refused("/nodes")[0] == 401
        assert service.ask("/nodes", Authorization="Bearer of-the-environment")[0] == 200
        assert "of-the-environment" not in service.ends(signal.SIGTERM)


def test_what_cannot_be_served_is_said_before_it_begins(numbers, tmp_path):
    result = numbers / "result"
    assert "does not exist" in refused(tmp_path / "nothing")
    assert "needs at least 16 letters" in refused(result, "--token", "short")
    assert "contradict each other" in refused(result, "--token", "x" * 16, "--no-token")
    text = refused(result, "--host", "0.0.0.0", "--port", "0", "--no-token")
    assert "--no-token is for this machine only" in text
    for host in ("192.0.2.1", "no such name"):
        assert "for --host an address of this machine" in refused(
            result, "--host", host, "--port", "0"
        )
    assert "does not exist" in refused(result, "--port", "0", "--learn", tmp_path / "rows.csv")
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        text = refused(result, "--port", port)
        assert f"127.0.0.1:{port} cannot be served" in text and "choose another --port" in text


def test_a_service_for_other_machines_takes_addresses_and_no_foreign_names(numbers):
    with command(numbers / "result", "--host", "0.0.0.0") as service:
        port = urlsplit(service.page).port
        token = parse_qs(urlsplit(service.page).query)["token"][0]
        ask = Client(f"http://127.0.0.1:{port}/", token)
        assert ask("/nodes", Host=f"192.168.0.7:{port}")[0] == 200
        assert ask("/nodes", Host=socket.gethostname())[0] == 200
        assert ask.refused("/nodes", Host="evil.example")[0] == 403


@pytest.fixture
def slow(tmp_path, monkeypatch) -> Path:
    """A result whose models wait when they are asked in a process that has SLOW."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "slow_model.py").write_text(SLOW)
    words = ("--node", "town", "--target", "power", "--features", "wind,sun")
    fit(tmp_path, towns(), *words, "--model", "slow_model:Slow")
    return tmp_path


def test_health_never_waits_for_a_model_and_an_end_waits_for_answers(slow):
    assert "--trust slow_model.Slow" in refused(slow / "result", "--port", "0")
    (slow / "go on").touch()  # a model is asked for one row when it is loaded
    with command(slow / "result", "--trust", "slow_model.Slow", SLOW="1") as service:
        for name in ("go on", "begun"):
            (slow / name).unlink(missing_ok=True)
        found: list[int] = []
        body = {"node": "Oslo", "rows": [GOOD]}
        asked = threading.Thread(target=lambda: found.append(service.ask("/predict", body)[0]))
        asked.start()
        end = time.monotonic() + 60
        while not (slow / "begun").exists() and time.monotonic() < end:
            time.sleep(0.01)
        assert service.ask("/health")[0] == 200 and service.ask("/nodes")[0] == 200
        assert found == []
        service.process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        (slow / "go on").touch()
        asked.join(60)
        assert found == [200]
        service.ends(signal.SIGTERM)


@pytest.mark.slow
def test_a_browser_opens_the_report(numbers, browser, tmp_path):
    pytest.importorskip("plotly", reason="needs plotly (the extra report)")
    with command(numbers / "result") as service:
        page = Page(browser)
        page.size(1200, 900)
        page.visit(service.page)
        assert "fedrelax report" in page.js("document.title")
        assert page.js("document.querySelectorAll('#nodes tbody tr').length") == 4
        assert page.complaints == []
        page.screenshot(tmp_path / "report.png")
        assert (tmp_path / "report.png").stat().st_size > 20_000
        asked = {a for a in page.requests if not a.startswith("data:")}
        assert asked == {service.page}


def test_new_rows_are_learned_and_the_first_result_stays(tmp_path):
    words = ("--node", "town", "--target", "power", "--features", "wind,sun", "--model", "linear")
    result = fit(tmp_path, towns(), *words) / "result"
    files = {path: path.read_bytes() for path in result.rglob("*") if path.is_file()}
    row = {"wind": 0.5, "sun": 1.0}
    asked = {"node": "Oslo", "rows": [row]}
    with command(result, "--learn", str(tmp_path / "rows.csv")) as service:
        before = service.ask("/predict", asked)[1]["predictions"][0]
        for count in (1, 2):
            told = {"node": "Oslo", "rows": [{**row, "power": before + 40.0}] * 20}
            assert service.ask("/rows", told) == (200, {"learned": 20})
            assert (tmp_path / "result.learned" / f"{count:04d}" / "result.json").is_file()
        after = service.ask("/predict", asked)[1]["predictions"][0]
        assert after > before + 1.0
        service.ends(signal.SIGTERM)
    assert {path: path.read_bytes() for path in result.rglob("*") if path.is_file()} == files
    last = load_result(tmp_path / "result.learned" / "0002")
    assert last.predict(pd.DataFrame([row]), nodes=["Oslo"])[0] == pytest.approx(after, abs=1e-9)
