"""How a report is made: from the saved files alone, the same each time, and honest in its counts."""

from __future__ import annotations

import dataclasses
import io
import json
import re
import shutil
import tomllib
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from rich.console import Console
from scipy import stats

from fedrelax import FedRelax, FedRelaxError, FedRelaxRegressor, Graph
from fedrelax.evaluation import MEASURES, Evaluation, student_interval
from fedrelax.report import palette, report_data, report_html, write_report
from fedrelax.report.data.columns import NODES, Column
from fedrelax.report.data.layout import EdgeTable, places, project, spread
from fedrelax.report.data.sharing import sharing_of
from fedrelax.report.page.texts import did_it_help, settings_text, sharing_details, what_left, where
from fedrelax.report.terminal import node_table
from fedrelax.runtime import LocalExchange
from fedrelax.storage import read_result, save_result

from .conftest import HOSTILE, ring, save_network


def data_of(page: str) -> dict:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def test_the_same_files_give_the_same_page_and_no_model_is_read(small, tmp_path):
    pytest.importorskip("plotly")
    first = write_report(small).read_bytes()
    copy = tmp_path / "elsewhere"
    shutil.copytree(small, copy)
    shutil.rmtree(copy / "models")
    (copy / "report.html").unlink()
    assert write_report(copy).read_bytes() == first
    assert write_report(copy, tmp_path / "sent.html").read_bytes() == first


def test_the_page_holds_the_numbers_of_the_files(small):
    pytest.importorskip("plotly")
    saved = read_result(small)
    data = data_of(report_html(saved))
    assert data["nodes"]["name"] == [str(label) for label in saved.graph.labels]
    table = saved.nodes.set_index("node").loc[list(saved.graph.labels)]
    assert data["nodes"]["together"] == pytest.approx(table["together"].tolist(), rel=1e-4)
    assert data["edges"]["used"] == pytest.approx(saved.edges["used"].tolist(), rel=1e-4)
    assert data["rounds"]["gtv"] == pytest.approx(saved.history["gtv"].tolist(), rel=1e-4)
    own = saved.history_nodes
    third = own[own["node"] == saved.graph.labels[2]]
    assert data["curves"]["local_loss"][2] == pytest.approx(third["local_loss"].tolist(), rel=1e-4)


def test_hostile_names_never_become_tags(hostile):
    pytest.importorskip("plotly")
    page = report_html(read_result(hostile))
    assert data_of(page)["nodes"]["name"] == list(HOSTILE)
    tags: list[str] = []
    reader = HTMLParser()
    reader.handle_starttag = lambda tag, attributes: tags.append(tag)  # type: ignore[method-assign]
    reader.feed(page)
    assert not {"img", "svg", "b"} & set(tags)
    assert tags.count("script") == 5


def test_without_plotly_it_says_what_brings_it(small, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "plotly.offline", None)
    with pytest.raises(FedRelaxError, match=re.escape("pip install 'fedrelax[report]'")):
        report_html(read_result(small))


def test_a_result_without_test_rows_has_a_page_too(tmp_path):
    pytest.importorskip("plotly")
    X = np.random.default_rng(0).normal(size=(12, 2))
    fitted = FedRelaxRegressor(alpha=0.1, rounds=1).fit(X, X[:, 0], nodes=np.repeat(["a", "b"], 6))
    saved = read_result(save_result(tmp_path / "out", fitted))
    assert "Not measured" in report_html(saved)
    assert settings_text(saved) == ""


def test_a_new_column_needs_one_line(small, monkeypatch):
    """It is then on the page and in the terminal's table."""
    pytest.importorskip("plotly")
    share = Column(
        "share", "share that tests", "count", lambda data: data.column("test_rows"), "share"
    )
    monkeypatch.setattr("fedrelax.report.data.columns.NODES", (*NODES, share))
    saved = read_result(small)
    data = data_of(report_html(saved))
    assert data["table"][-1] == ["share", "share that tests", "count"]
    assert data["nodes"]["share"] == data["nodes"]["test"]
    console = Console(width=120, file=io.StringIO())
    console.print(node_table(report_data(saved)))
    _, heads, _, first, *_ = console.file.getvalue().splitlines()
    assert heads.split()[-1] == "share" and first.split()[-1] == "6"


def test_colours_are_defined_once():
    """Whatever draws takes them from the palette."""
    package = Path(palette.__file__).parent
    files = [*package.rglob("*.*"), *(package.parent / "live").rglob("*.*")]
    texts = {f: f.read_text() for f in files if f.suffix in {".py", ".js", ".css", ".html"}}
    found = {f.name for f, text in texts.items() if re.search(r"#[0-9a-fA-F]{6}\b", text)}
    assert len(texts) > 30 and found == {"palette.py"}


# Where nodes stand


def test_distances_from_the_middle_are_those_on_the_globe():
    degrees = np.array([[60.2, 24.9], [69.9, 27.0], [62.2, 25.7], [65.0, 25.5]])
    mean = degrees.mean(axis=0)
    flat = project(np.vstack([degrees, 2 * mean - degrees]))  # so that the middle is near the mean
    latitude, longitude = np.radians(degrees).T
    a, b = np.radians(mean)
    haversine = (
        np.sin((latitude - a) / 2) ** 2
        + np.cos(latitude) * np.cos(a) * np.sin((longitude - b) / 2) ** 2
    )
    true = 2 * 6371.0 * np.arcsin(np.sqrt(haversine))
    centre = flat.mean(axis=0)
    assert np.hypot(*(flat[:4] - centre).T) == pytest.approx(true, rel=0.03)


def test_layouts_are_the_same_each_time_and_groups_stand_apart():
    graph, blocks = Graph.stochastic_block((12, 12), 0.9, 0.0, random_state=0)
    ends = np.array([(u, v) for u, v, _ in graph.edges()])
    one, other = (spread(24, ends, np.ones(len(ends))) for _ in range(2))
    assert np.array_equal(one, other)
    middles = np.stack([one[blocks == k].mean(axis=0) for k in (0, 1)])
    radius = max(np.hypot(*(one[blocks == k] - middles[k]).T).max() for k in (0, 1))
    assert np.hypot(*(middles[0] - middles[1])) > 2 * radius


@pytest.mark.parametrize("n", [1, 2, 5])
def test_any_network_has_places(n):
    none = np.empty((0, 2), dtype=np.int64)
    for positions in (None, np.zeros((n, 2)), np.full((n, 2), np.nan)):
        found = places(positions, False, none, np.empty(0), n)
        assert found.points.shape == (n, 2) and np.isfinite(found.points).all()
        assert np.abs(found.points).max() <= 1


def test_a_node_without_a_place_stands_between_its_neighbours():
    positions = np.array([[0.0, 0.0], [2.0, 0.0], [np.nan, np.nan]])
    found = places(positions, False, np.array([[2, 0], [1, 2]]), np.ones(2), 3)
    assert found.points[2] == pytest.approx((found.points[0] + found.points[1]) / 2)


def test_of_too_many_edges_each_node_keeps_its_strongest():
    ends = np.array([(i, j) for i in range(30) for j in range(i)])
    used = np.random.default_rng(0).uniform(size=len(ends))
    none = np.zeros(len(ends))
    found = EdgeTable.strongest(ends, used, used, none, none, nodes=30, most=60)
    kept = [int(np.flatnonzero((ends == pair).all(axis=1))[0]) for pair in found.ends]
    assert len(kept) <= 60 and found.total == len(ends)
    for node in range(30):
        own = np.flatnonzero((ends == node).any(axis=1))
        assert own[np.argmax(used[own])] in kept


# What left


def test_the_account_of_what_left_is_what_was_delivered(tmp_path, monkeypatch):
    delivered = dict.fromkeys((f"n{k}" for k in range(5)), 0)
    collect = LocalExchange.collect

    def counted(self, receiver, senders):
        messages = collect(self, receiver, senders)
        for message in messages:
            delivered[message.sender] += message.predictions.size
        return messages

    monkeypatch.setattr(LocalExchange, "collect", counted)
    graph = ring(list(delivered), near=1)
    directory = save_network(
        tmp_path / "out", graph, solver=FedRelax(engine="sites"), public_rows=17, rounds=3
    )
    shared = sharing_of(read_result(directory))
    assert shared.exchanges == 4
    assert {
        label: shared.per_neighbour * shared.neighbours[label] for label in graph.labels
    } == delivered


def test_the_words_say_what_is_not_private(small):
    saved = read_result(small)
    text = " ".join(what_left(sharing_of(saved)))
    assert "not a privacy guarantee" in text and "No noise was added" in text
    assert "points between two input rows" in text
    assert "contain training rows" in dict(sharing_details(saved))["This page"]


# The verdict


def test_the_interval_is_the_paired_one_over_nodes(small):
    evaluation = report_data(read_result(small)).evaluation
    found = evaluation.against("alone").interval
    expected = stats.ttest_rel(evaluation.nodes["alone"], evaluation.nodes["together"])
    low, high = expected.confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((low, high))


def test_equal_shares_of_few_rows_are_not_certain():
    assert student_interval(np.full(4, 0.25)).low == 0.25
    assert student_interval(np.full(4, 0.25), least_variance=0.01).low < 0.25


@pytest.mark.parametrize(
    ("together", "words"),
    [([1, 1.1, 0.9], "helped"), ([3, 3.1, 2.9], "hurt"), ([1, 3, 2], "No clear difference")],
)
def test_the_headline_follows_the_interval(together, words):
    nodes = pd.DataFrame({"node": list("abc"), "model": "m", "rows": 5, "test_rows": 5})
    nodes["alone"], nodes["pooled"], nodes["together"] = 2.0, 2.5, np.array(together, dtype=float)
    errors = {"alone": 2.0, "pooled": 2.5, "together": together[0]}
    found = Evaluation.of(MEASURES["RMSE"], nodes, errors)
    assert words in found.headline
    assert "Against each node alone" in did_it_help(found)[1]


def shares(alone, pooled, together, way="together") -> Evaluation:
    """Errors of nodes with 20 test rows each, as shares."""
    nodes = pd.DataFrame({"node": [f"n{k}" for k in range(len(alone))], "model": "m", "rows": 5})
    nodes["test_rows"] = 20
    errors = {}
    for name, values in (("alone", alone), ("pooled", pooled), ("together", together)):
        nodes[name] = np.array(values, dtype=float)
        errors[name] = float(nodes[name].mean())
    return Evaluation.of(MEASURES["error rate"], nodes, errors, way)


def test_a_node_whose_error_grew_from_nothing_is_named_among_the_losses():
    found = shares([0.0, 0.1, 0.2], [0.1, 0.1, 0.1], [0.05, 0.1, 0.1])
    text = " ".join([*did_it_help(found), *where(found, [])])
    assert "better at 1, worse at 1, equal at 1 of 3 nodes" in text
    assert "1 node has a larger error than alone. It is n0 (from 0.0 % to 5.0 %)." in text
    assert found.ranked()["node"].tolist() == ["n2", "n1", "n0"]


def test_equal_errors_are_called_the_same():
    found = shares([0.1, 0.2], [0.2, 0.1], [0.1, 0.2])
    text = did_it_help(found)
    assert text[1] == "Against each node alone: the same error at all 2 nodes with test rows."
    assert "the error is about the same (95 % interval" in text[2]
    assert "0.0 points lower" not in " ".join(text)


def test_a_small_difference_of_shares_keeps_a_digit():
    measure = MEASURES["error rate"]
    assert measure.between(0.0001, 0.0004, sign="") == "0.01 to 0.04 points"


def test_one_model_for_all_is_not_called_learning_together():
    alone, common = [0.3, 0.32, 0.29, 0.31], [0.1, 0.11, 0.1, 0.12]
    found = shares(alone, common, common, way="pooled")
    assert found.headline == "One model for all won"
    assert found.verdict.startswith("One model for all won: it lowered the error rate from 30.5 %")
    assert "earning together" not in " ".join(did_it_help(found))
    assert found.to_dict()["way"] == "pooled"
    worse = shares(common, alone, alone, way="pooled")
    assert worse.headline == "One model for all lost" and "did not help here" in worse.verdict


def test_nodes_that_stayed_alone_are_said_to():
    alone, common = [0.1, 0.2, 0.1], [0.3, 0.3, 0.4]
    found = shares(alone, common, alone, way="alone")
    assert found.headline == "Each node stayed alone" and found.sign == 0
    assert found.verdict == (
        "Each node stayed alone: the error rate is 13.3 %; one pooled model has 33.3 %."
    )


def test_where_names_the_winners_and_the_losers(small):
    evaluation = report_data(read_result(small)).evaluation
    text = " ".join(where(evaluation, [7, 5]))
    assert "2 groups (7, 5 nodes)" in text
    best = evaluation.nodes.sort_values("gain").iloc[-1]
    assert f"{best['node']} (+{best['gain']:.0f} %)" in text


def test_the_settings_on_the_page_make_the_run_again(small):
    config = {"data": "/d/my table.csv", "quick": False, "model-for": {"no 1": "tree"}}
    saved = dataclasses.replace(read_result(small), config=config)
    assert tomllib.loads(settings_text(saved)) == config
    page = report_html(saved)
    assert "fedrelax fit --config FILE" in page and "/d/my table.csv" in page
