"""What an evaluation says, the tables and the picture."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from fedrelax import Graph
from fedrelax.comparison import Comparison
from fedrelax.evaluation import MEASURES, Evaluation
from fedrelax.models import Task
from fedrelax.report import report_data
from fedrelax.report.terminal import (
    evaluation_report,
    fact_table,
    node_table,
    way_table,
)
from fedrelax.runtime import History, Record
from fedrelax.solvers import Result


def evaluation(n: int = 4, measure: str = "RMSE", untested: int = 0) -> Evaluation:
    """Node k has the errors 2 (alone), 3 (pooled) and 1 + k / n (together)."""
    together = 1 + np.arange(n) / n
    nodes = pd.DataFrame(
        {
            "node": [f"node [{k}]" for k in range(n)],
            "model": ["ridge", "tree"] * (n // 2),
            "rows": 5,
            "test_rows": [0] * untested + [2] * (n - untested),
            "alone": 2.0,
            "pooled": 3.0,
            "together": together,
        }
    )
    nodes.loc[nodes["test_rows"] == 0, ["alone", "pooled", "together"]] = np.nan
    errors = {"alone": 2.0, "pooled": 3.0, "together": 1.5}
    return Evaluation.of(MEASURES[measure], nodes, errors)


class Named:
    """A model that has a name and nothing else."""

    def __init__(self, name: str) -> None:
        self.name = name


def data(n: int = 4, untested: int = 0, graph: Graph | None = None):
    """Return what there is to show of a result with these errors."""
    found = evaluation(n, untested=untested)
    labels = found.nodes["node"].tolist()
    kinds = dict(zip(labels, found.nodes["model"], strict=True))
    result = Result(
        local_models={label: Named(kind) for label, kind in kinds.items()},
        alone={},
        task=Task("regression", 1),
        graph=Graph.complete(labels) if graph is None else graph,
        discrepancies={},
        history=history(labels),
        n_rounds=2,
        reason="all rounds done",
    )
    return report_data(result, found)


def text_of(renderable, width: int = 80) -> str:
    console = Console(width=width, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(renderable)
    return console.export_text()


def test_gains_wins_and_losses():
    found = evaluation(4)
    assert found.nodes["gain"].tolist() == [50.0, 37.5, 25.0, 12.5]
    assert found.gain == 25.0
    assert found.against("alone").counts == {"better": 4, "worse": 0, "equal": 0}
    assert found.to_dict()["errors"] == {"alone": 2.0, "pooled": 3.0, "together": 1.5}


@pytest.mark.parametrize(
    ("alone", "pooled", "ours", "words"),
    [
        (4.39, 5.54, 3.07, "lowered the RMSE from 4.39 (alone) to 3.07, by 30 %"),
        (4.0, 2.0, 3.0, "does better still: 2"),
        (15.0, 9.998, 10.001, "to 10, by 33 %; one pooled model has 10."),
        (4.0, 5.0, 3.99, "little difference"),
        (4.0, 5.0, 4.0, "no difference"),
        (4.0, 5.0, 4.5, "did not help here"),
        (0.0, 5.0, 0.1, "did not help here"),
    ],
)
def test_the_verdict(alone, pooled, ours, words):
    found = replace(evaluation(), errors={"alone": alone, "pooled": pooled, "together": ours})
    assert words in found.verdict


def test_few_nodes_are_all_shown_best_first_and_fit_a_narrow_screen():
    text = text_of(node_table(data(4)))
    places = [text.index(f"node [{k}]") for k in range(4)]
    assert places == sorted(places) and "+50 %" in text
    assert max(map(len, text.splitlines())) <= 80


def test_of_many_nodes_the_best_and_the_worst_are_shown():
    text = text_of(node_table(data(60)))
    assert "node [0]" in text and "node [59]" in text and "node [30]" not in text
    assert "40 nodes in between are left out" in text


def test_nodes_without_test_rows_are_shown_with_dashes():
    text = text_of(evaluation_report(data(4, untested=1)))
    assert "node [0]" in text and " - " in text


def test_counts_are_whole_numbers_also_in_a_column_with_gaps():
    shown = data(4)
    nodes = shown.nodes.assign(rows=[5.0, np.nan, 5.0, 1500.0], test_rows=[2.0, 2.0, 2.0, 2.0])
    text = text_of(node_table(replace(shown, nodes=nodes)))
    assert "2.0" not in text and "nan" not in text and "1,500" in text


def test_text_of_a_user_is_never_markup():
    assert "[red]x[/red]" in text_of(fact_table({"note": "[red]x[/red]"}))


def history(labels: list[str], rounds: int = 3) -> History:
    each = np.ones(len(labels))
    return History(
        tuple(labels),
        [Record(r, 1.0 / (r + 1), 2.0, 3.0, np.nan, 0.1, each, each, each) for r in range(rounds)],
    )


@pytest.mark.parametrize("n", [4, 60])
@pytest.mark.parametrize("placed", [False, True])
def test_a_picture_is_drawn_for_any_result(tmp_path, n, placed):
    pytest.importorskip("matplotlib")
    from fedrelax.report.plots import save_result_picture

    labels = evaluation(n).nodes["node"].tolist()
    graph = Graph.complete(labels)
    if placed:
        places = {label: (60 + k / n, 10 - k) for k, label in enumerate(labels)}
        graph = Graph.from_coordinates(places, k=2, metric="haversine")
    save_result_picture(tmp_path / "p.png", data(n, 1, graph))
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")


def test_tables_fit_a_terminal():
    ways, rows = ("alone", "mixed model", "together"), np.array([[8, 2]])
    errors = 3000.0 + np.arange(15.0).reshape(5, 3) ** 2
    found = Comparison(MEASURES["RMSE"], ways, errors, np.ones((5, 3, 1)), [[{}] * 3] * 5, ("a",),
                       rows, {}, 5)  # fmt: skip
    text = text_of(way_table(found), width=80)
    assert "\nmixed model " in text and "…" not in text
    assert max(map(len, text.splitlines())) <= 80
    heads = text_of(node_table(data(4))).splitlines()[1].split()
    assert heads == ["node", "model", "rows", "test", "alone", "pooled", "together", "gain"]


def test_where_most_splits_chose_one_model_the_advice_is_about_that():
    ways, errors = ("alone", "together"), np.array([[2.0, 1.0], [2.1, 1.0], [2.0, 1.1]])
    for chosen, name in (
        ([True, True, False], "One model for all"),
        ([True, False, False], "Learning"),
    ):
        settings = [[{}, {"one_model": one}] for one in chosen]
        found = Comparison(MEASURES["RMSE"], ways, errors, np.ones((3, 2, 1)), settings, ("a",),
                           np.array([[80, 20]]), {}, 3)  # fmt: skip
        assert f"Federate. {name}" in found.advice
