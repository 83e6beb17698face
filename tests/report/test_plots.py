"""``model.plot`` and ``result.plot``: what is drawn, with which units, and what is said if it cannot be."""

from __future__ import annotations

import re

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge

from fedrelax import FedRelax, FedRelaxClassifier, FedRelaxError, FedRelaxRegressor, Graph
from fedrelax.evaluation import evaluate

REASON = "needs matplotlib (the extra report)"
pyplot = pytest.importorskip("matplotlib.pyplot", reason=REASON)
shapes = pytest.importorskip("matplotlib.collections", reason=REASON)

N, EACH = 8, 12
LABELS = [f"site {k}" for k in range(N)]


@pytest.fixture(autouse=True)
def _closed():
    pyplot.switch_backend("agg")
    yield
    pyplot.close("all")


def rows(seed: int = 0):
    """Two groups of four nodes with opposite rules."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N * EACH, 2))
    place = np.repeat(np.arange(N), EACH)
    sign = np.where(place < N // 2, 1.0, -1.0)
    return X, sign * (X @ [1.0, -2.0]) + 0.3 * rng.normal(size=len(X)), np.array(LABELS)[place]


def fitted(**settings):
    X, y, nodes = rows()
    graph = settings.pop("graph", Graph.complete(LABELS))
    return FedRelaxRegressor(Ridge(), graph, **settings).fit(X, y, nodes=nodes)


def evaluated(model):
    return evaluate(model, rows(), rows(seed=1))


def dots(ax) -> int:
    return sum(len(c.get_offsets()) for c in ax.collections if isinstance(c, shapes.PathCollection))


def shown(ax) -> np.ndarray:
    """Return the values behind the nodes' colours."""
    return np.asarray(ax.collections[-1].get_array())


def edges(ax) -> list[int]:
    return [len(c.get_segments()) for c in ax.collections if isinstance(c, shapes.LineCollection)]


def bar_label(ax) -> str:
    (other,) = [one for one in ax.figure.axes if one is not ax]
    return other.get_ylabel()


def test_a_graph_has_every_node_every_edge_and_a_colour_bar_with_its_unit():
    model = fitted(alpha=0.1, rounds=2)
    ax = model.plot.graph()
    assert dots(ax) == N and edges(ax) == [N * (N - 1) // 2]
    assert bar_label(ax) == "mean loss on own rows (squared error, target²)"
    assert sorted(text.get_text() for text in ax.texts) == LABELS
    assert not model.plot.graph(names=False).texts


def test_dropped_edges_are_drawn_apart_and_clusters_have_a_legend():
    model = fitted(alpha=1.0, rounds=12, wiring="rewire")
    frame = model.result_.edges_to_frame()
    kept, lost = int((frame["used"] > 0).sum()), int((frame["used"] == 0).sum())
    assert lost > 0
    ax = model.result_.plot.graph()
    assert edges(ax) == [lost, kept] and dots(ax) == N
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    groups = [f"{k} ({len(group)})" for k, group in enumerate(model.result_.clusters, start=1)]
    assert names == ["dropped edges", *groups]
    assert edges(model.plot.graph(dropped=False)) == [kept]


def test_colours_by_an_evaluation():
    model = fitted(alpha=0.1, rounds=2)
    found = evaluated(model)
    ax = model.plot.graph(evaluation=found)
    assert bar_label(ax) == "gain against alone (% of the error alone)"
    assert shown(ax) == pytest.approx(found.nodes["gain"].to_numpy())
    assert bar_label(model.plot.graph("error", evaluation=found)) == (
        "together: error (RMSE, units of target)"
    )
    assert dots(model.plot.graph("model")) == N


def test_a_map_is_in_kilometres():
    places = {label: (60 + k, 20 + (k % 3)) for k, label in enumerate(LABELS)}
    graph = Graph.from_coordinates(places, k=2, metric="haversine")
    ax = fitted(graph=graph, alpha=0.1, rounds=1).plot.graph("disagreement")
    assert ax.get_xlabel() == "km east of the centre"
    assert ax.get_ylabel() == "km north of the centre"
    up = ax.collections[-1].get_offsets()[:, 1]
    assert np.ptp(up) == pytest.approx(7 * 111.2, rel=0.01)  # a degree of latitude
    assert bar_label(ax).startswith("disagreement, weight x discrepancy (squared error")


def test_curves_have_axes_of_their_own_and_say_which_round_was_kept():
    solver = FedRelax(tol=0, patience=2)
    model = fitted(alpha=0.5, rounds=9, validation_share=0.3, solver=solver)
    found = model.plot.curves()
    assert [ax.get_ylabel().replace("\n", " ") for ax in found] == [
        "mean loss on own rows (squared error, target²)",
        "GTV: weight x discrepancy over edges (squared error, target²)",
        "objective, sum over nodes (squared error, target²)",
        "validation loss (squared error, target²)",
    ]
    history, kept = model.history_, model.n_rounds_
    for ax, name in zip(found, ("local_loss", "gtv", "objective", "validation_loss"), strict=True):
        assert ax.lines[0].get_ydata() == pytest.approx(history[name])
        assert ax.get_xlabel() == "round (0: each node alone)"
        assert len(ax.lines) == (2 if kept < len(history) - 1 else 1)


def test_one_curve_goes_on_given_axes():
    model = fitted(alpha=0.1, rounds=2)
    _, ax = pyplot.subplots()
    assert model.plot.curves("gtv", ax=ax) is ax
    assert ax.lines[0].get_ydata() == pytest.approx(model.history_["gtv"])
    _, many = pyplot.subplots(1, 3)
    assert list(model.plot.curves(ax=many)) == list(many)
    with pytest.raises(FedRelaxError, match="there are 3 curves.*ax has 1 axes; pass 3"):
        model.plot.curves(ax=ax)


def test_gains_by_an_evaluation_and_by_validation():
    model = fitted(alpha=0.1, rounds=2, validation_share=0.3)
    ax = model.plot.gains(evaluated(model))
    assert ax.get_xlabel() == "error (RMSE, units of target)"
    assert [len(c.get_offsets()) for c in ax.collections[1:]] == [N, N, N]  # pooled, alone, ours
    assert {text.get_text() for text in ax.get_yticklabels()} == {f"{k} (Ridge)" for k in LABELS}
    ax = model.plot.gains()
    assert ax.get_xlabel() == "validation loss (squared error, target²)"
    first, last = ax.collections[1:]
    records = model.history_.records
    assert sorted(first.get_offsets()[:, 0]) == pytest.approx(
        sorted(records[0].node_validation_loss)
    )
    assert sorted(last.get_offsets()[:, 0]) == pytest.approx(
        sorted(records[-1].node_validation_loss)
    )


def test_nodes_that_stay_alone_are_shown_with_the_model_they_keep():
    model = fitted(
        alpha=0.5, rounds=3, validation_share=0.3, alone=["site 0"], solver=FedRelax(tol=0)
    )
    values = shown(model.plot.graph("validation"))
    records = model.history_.records
    assert values[0] == records[0].node_validation_loss[0]
    assert values[1] == records[-1].node_validation_loss[1]


def test_classes_are_in_percent_and_nats():
    X, y, nodes = rows()
    model = FedRelaxClassifier(graph=Graph.complete(LABELS), rounds=1, alpha=0.1)
    model.fit(X, np.where(y > 0, "up", "down"), nodes=nodes)
    labelled = (X, np.where(y > 0, "up", "down"), nodes)
    ax = model.plot.gains(evaluate(model, labelled, labelled))
    assert ax.get_xlabel() == "error rate (% of test rows)"
    assert ax.collections[2].get_offsets()[:, 0].max() <= 100
    assert "log loss, nats" in bar_label(model.plot.graph("loss"))


SENTENCES = [
    (lambda p: p.gains(), "gains needs errors.*pass what fedrelax.evaluation.evaluate returns"),
    (lambda p: p.graph("gain"), "colour='gain' needs errors.*pass evaluation="),
    (lambda p: p.graph("error"), "colour='error' needs errors on test rows"),
    (lambda p: p.graph("cluster"), "needs a graph that was rewired; fit with wiring='rewire'"),
    (lambda p: p.graph("validation"), "needs rows that were held out"),
    (lambda p: p.graph("clutser"), "must be one of gain.*did you mean 'cluster'"),
    (lambda p: p.graph(evaluation=[1, 2]), "evaluation is a list; pass what fedrelax.evaluation"),
    (lambda p: p.curves("validation_loss"), "no rows were held out"),
    (lambda p: p.curves("gvt"), "must be one of local_loss.*did you mean 'gtv'"),
]


@pytest.mark.parametrize(("call", "words"), SENTENCES)
def test_what_is_missing_is_said_in_a_sentence(call, words):
    with pytest.raises(FedRelaxError, match=words):
        call(fitted(alpha=0.1, rounds=1).plot)


def test_an_estimator_that_is_not_fitted_has_no_pictures():
    model = FedRelaxRegressor(alpha=0.1)
    with pytest.raises(NotFittedError):
        model.plot.graph()
    assert not hasattr(model, "plot")


def test_without_matplotlib_it_says_what_brings_it(monkeypatch):
    model = fitted(alpha=0.1, rounds=1)
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    with pytest.raises(FedRelaxError, match=re.escape("pip install 'fedrelax[report]'")):
        model.plot.graph()
