"""``LiveView`` in Python: what it tells, to whom, and that it never holds up a run."""

from __future__ import annotations

import json
import pickle
import re
import socket
import threading
from contextlib import suppress
from functools import partial
from urllib.parse import urlsplit
from urllib.request import urlopen

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import Ridge

from fedrelax import FedRelax, FedRelaxError, FedRelaxRegressor, Graph
from fedrelax.live.callback import live_page
from fedrelax.live.state import MOST_NODES, LiveState, edges_in
from fedrelax.runtime import Callback, Record

pytest.importorskip("uvicorn", reason="needs uvicorn (the extra live)")
pytest.importorskip("starlette", reason="needs starlette (the extra live)")

from fedrelax.live import LiveView

HOSTILE = "</script><img src=x onerror=alert(1)>"


def rows(n: int = 6, each: int = 8):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n * each, 2))
    return X, X @ [1.0, -1.0] + 0.3 * rng.normal(size=len(X)), np.repeat(np.arange(n), each)


def live_threads() -> list[str]:
    return [t.name for t in threading.enumerate() if t.name == "fedrelax-live"]


def events(url: str) -> list[tuple[str, dict]]:
    """Read a stream to its end."""
    with urlopen(url.replace("/?", "/events?"), timeout=60) as stream:
        text = stream.read().decode()
    found = re.findall(r"event: (\w+)\ndata: (.*)\n\n", text)
    return [(name, json.loads(data)) for name, data in found]


class Reader(Callback):
    """Opens the page's stream while the run runs, and reads it to the end."""

    def __init__(self, said: list[str]) -> None:
        self._said, self.events = said, []

    def begin(self, rounds, n_nodes):
        url = self._said[0].removeprefix("live: ")
        self.thread = threading.Thread(target=lambda: self.events.extend(events(url)))
        self.thread.start()


def test_a_run_in_python_is_shown_to_its_end_and_leaves_no_thread():
    said: list[str] = []
    X, y, nodes = rows()
    view = LiveView(say=said.append, unit="squared error, m²")
    with view:
        reader = Reader(said)
        model = FedRelaxRegressor(
            Ridge(), rounds=3, solver=FedRelax(tol=0), callbacks=[view, reader], alpha=0.1
        )
        model.fit(X, y, nodes=nodes)
    reader.thread.join(60)
    assert len(said) == 1 and live_threads() == []
    names = [name for name, _ in reader.events]
    assert "network" in names and names[-1] == "numbers"
    network = next(data for name, data in reader.events if name == "network")
    assert network["nodes"]["name"] == [str(k) for k in range(6)]
    assert len(network["edges"]["used"]) == 15
    last = reader.events[-1][1]
    assert last["over"] and last["words"] == "Finished."
    assert last["curves"]["round"] == [0, 1, 2, 3]
    assert last["curves"]["gtv"] == pytest.approx(model.history_["gtv"], rel=1e-4)
    now = model.history_.records[-1].node_local_loss
    assert last["values"]["loss"]["now"] == pytest.approx(now, rel=1e-4)


def test_without_a_with_block_the_page_ends_with_the_run():
    X, y, nodes = rows()
    view = LiveView(say=lambda text: None)
    model = FedRelaxRegressor(Ridge(), rounds=2, callbacks=[view], alpha=0.1).fit(X, y, nodes=nodes)
    assert live_threads() == []
    model.fit(X, y, nodes=nodes)  # and it can be used again
    assert live_threads() == [] and model.result_.reason != "stopped by a callback"


def test_an_error_ends_the_page_too():
    said: list[str] = []
    with pytest.raises(FedRelaxError), LiveView(say=said.append) as view:
        FedRelaxRegressor(Ridge(), alpha=-1, callbacks=[view]).fit(*rows()[:2], nodes=rows()[2])
    assert live_threads() == []


def test_the_choice_is_shown_before_the_run():
    told: list[str] = []
    X, y, nodes = rows()
    view = LiveView(say=lambda text: None)
    before = view.tell
    view.tell = lambda words, *more: (told.append(words), before(words, *more))[0]
    model = FedRelaxRegressor(Ridge(), alpha="auto", rounds=2, callbacks=[view])
    model.fit(X, y, nodes=nodes)
    trials = len(model.choice_.alphas) * 3
    assert told == [
        *(
            f"Choosing alpha, wiring and rounds: trial {k} of {trials}."
            for k in range(1, trials + 1)
        ),
        "Each node trains alone.",
    ]
    copy = pickle.loads(pickle.dumps(clone(model)))
    assert type(copy.callbacks[0]) is Callback
    assert live_threads() == []


def test_a_client_that_never_reads_holds_up_nothing():
    labels = tuple(range(3000))
    graph = Graph.from_edges([(k, k + 1) for k in labels[:-1]], labels=labels)
    with LiveView(say=lambda text: None) as view:
        place = urlsplit(view.url)
        deaf = socket.create_connection((place.hostname, place.port))
        head = f"GET /events?{place.query} HTTP/1.1\r\nHost: {place.netloc}\r\n\r\n"
        deaf.sendall(head.encode())
        assert deaf.recv(12) == b"HTTP/1.1 200"
        view.wired(labels, graph.adjacency)
        for k in range(300):
            view.after_round(record(k, np.full(3000, 1.0 / (k + 1))))
        other = urlopen(view.url.replace("/?", "/events?"), timeout=60)
        assert other.readline() == b"event: network\n"  # at once, the newest
        other.close()
    deaf.close()
    assert live_threads() == []


def test_half_a_request_is_cut_off_and_a_quiet_stream_is_not(monkeypatch):
    from fedrelax.web import Server

    monkeypatch.setattr("fedrelax.web.Server", partial(Server, patience=0.5))
    with LiveView(say=lambda text: None) as view:
        place = urlsplit(view.url)
        with (
            urlopen(view.url.replace("/?", "/events?"), timeout=60) as stream,
            socket.create_connection((place.hostname, place.port), timeout=60) as half,
        ):
            assert stream.readline() == b"event: numbers\n"
            half.sendall(b"GET / HTTP/1.1\r\nHost: ")
            with suppress(ConnectionError):
                assert half.recv(1) == b""  # by then the stream is older, and was quiet
            view.tell("Still here.")
            assert any(b"Still here." in line for line in stream)


def record(round: int, values: np.ndarray) -> Record:
    nothing = np.full(len(values), np.nan)
    return Record(round, 1.0, 2.0, 3.0, np.nan, 0.1, values, values, nothing)


def test_only_the_newest_state_is_sent():
    state = LiveState()
    state.wired(("a", "b"), Graph.from_edges([("a", "b")]).adjacency)
    for k in range(5):
        state.record(record(k, np.array([1.0, 2.0 / (k + 1)])))
        state.tell(f"Round {k}.", stoppable=True)
    version, text = state.numbers_text()
    found = json.loads(text)
    assert (version, found["words"], found["round"]) == (state.versions[1], "Round 4.", 4)
    assert found["values"]["loss"]["fall"] == [0, 80]
    assert "validation" not in found["values"]
    assert found["curves"]["validation_loss"] == [None] * 5


def test_stopping_needs_a_round_to_keep():
    state = LiveState()
    state.tell("Choosing.")
    assert not state.ask_to_stop() and not state.stop_asked
    state.tell("Round 1.", stoppable=True)
    assert state.ask_to_stop() and state.stop_asked
    state.begin()
    assert not state.stop_asked


def test_dropped_edges_stay_with_no_weight_and_found_ones_join():
    names = ("a", "b", "c")
    given = Graph.from_edges([("a", "b"), ("b", "c")], labels=names).adjacency
    now = Graph.from_edges([("a", "b", 0.5), ("a", "c", 2.0)], labels=names).adjacency
    edges = edges_in(given, now)
    assert edges.ends.tolist() == [[0, 1], [0, 2], [1, 2]]
    assert edges.used.tolist() == [0.5, 2.0, 0.0]


def test_of_too_many_nodes_only_the_number_is_sent():
    state = LiveState()
    n = MOST_NODES + 1
    state.wired(tuple(range(n)), Graph.from_edges([], labels=range(n)).adjacency)
    assert json.loads(state.network_text()[1]) == {"many": n}


def test_names_are_data_and_the_policy_allows_the_page_alone():
    state = LiveState()
    state.wired((HOSTILE, "b"), Graph.from_edges([("a", "b")]).adjacency)
    assert "<" not in state.network_text()[1]
    page, policy = live_page(unit=HOSTILE)
    assert "<img" not in page
    assert "default-src 'none'" in policy and "connect-src 'self'" in policy
    assert "'unsafe-inline'" not in policy.partition("script-src")[2].partition(";")[0]


def test_without_the_extra_it_says_what_brings_it(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "uvicorn", None)
    with pytest.raises(FedRelaxError, match=re.escape("pip install 'fedrelax[live]'")):
        LiveView()
