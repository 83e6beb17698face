"""A service answers what ``fedrelax predict`` answers, and says what may be asked."""

from __future__ import annotations

import csv
import json
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("uvicorn", reason="needs uvicorn (the extra live)")
pytest.importorskip("starlette", reason="needs starlette (the extra live)")

import numpy as np
import pandas as pd

from fedrelax.datasets import read_table

from .asking import Client, serving
from .conftest import run


def rows_of(table: pd.DataFrame) -> list[dict]:
    """Return the rows as JSON has them."""
    return json.loads(table.to_json(orient="records", double_precision=15))


def predicted(home: Path, table: pd.DataFrame) -> list[dict[str, str]]:
    """Return what the command line writes for rows, each number with all of its digits."""
    table.to_csv(home / "new.csv", index=False)
    run("predict", home / "result", home / "new.csv", "--out", home / "p.csv", "--overwrite")
    with open(home / "p.csv", newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_numbers_equal_those_of_predict(numbers):
    table = read_table(numbers / "rows.csv")
    expected = [float(line["prediction"]) for line in predicted(numbers, table)]
    with serving(numbers / "result") as ask:
        status, said = ask("/predict", {"nodes": table["town"].tolist(), "rows": rows_of(table)})
        assert (status, said) == (200, {"predictions": expected})
        one = {"node": "Oslo", "rows": [{"wind": 0.5, "sun": -1}]}
        assert len(ask("/predict", one)[1]["predictions"]) == 1


def test_classes_come_with_probabilities_and_nodes_without_a_model_are_answered(classes):
    table = read_table(classes / "rows.csv")
    table.loc[3:5, "town"] = "Narvik"
    expected = predicted(classes, table)
    with serving(classes / "result") as ask:
        status, said = ask("/predict", {"nodes": table["town"].tolist(), "rows": rows_of(table)})
        _, about = ask("/nodes")
    assert status == 200 and said["classes"] == ["high", "low"]
    assert said["predictions"] == [line["prediction"] for line in expected]
    shares = [[float(line["p(high)"]), float(line["p(low)"])] for line in expected]
    assert said["probabilities"] == shares
    assert {"node": "Narvik", "model": None} in about["nodes"]


def test_text_dates_gaps_and_columns_that_a_node_lacks(kinds):
    table = read_table(kinds / "rows.csv").head(48)
    table.loc[table.index[0], "kind"] = "never met"
    expected = [float(line["prediction"]) for line in predicted(kinds, table)]
    rows = rows_of(table)
    for row in rows:
        if row["site"] == "s5":
            del row["size"]
    with serving(kinds / "result") as ask:
        status, said = ask("/predict", {"nodes": table["site"].tolist(), "rows": rows})
        _, about = ask("/nodes")
        again = ask("/predict", {"node": rows[1]["site"], "rows": [rows[1]]})[1]
    assert status == 200 and said["predictions"] == expected
    assert "not seen in training" in said["notes"][0]
    assert again["predictions"] == pytest.approx(expected[1:2], rel=1e-12)
    columns = {line["name"]: line["kind"] for line in about["columns"]}
    found = {"size": "number", "kind": "category", "open": "flag", "day": "date"}
    assert columns == found
    assert {"node": "s5", "model": "ridge", "lacks": ["size"]} in about["nodes"]


def test_eight_clients_at_once_get_their_own_answers(numbers):
    table = read_table(numbers / "rows.csv")
    rows, towns = rows_of(table), table["town"].tolist()
    wrong: list[object] = []

    def work(address: str, first: int, expected: list[float]) -> None:
        client = Client(address)
        for k in range(25):
            place = (first + 7 * k) % len(rows)
            status, said = client("/predict", {"node": towns[place], "rows": [rows[place]]})
            if status != 200 or said["predictions"] != pytest.approx([expected[place]], rel=1e-12):
                wrong.append(said)

    with serving(numbers / "result") as ask:
        _, said = ask("/predict", {"nodes": towns, "rows": rows})
        together = [
            threading.Thread(target=work, args=(ask.address, k, said["predictions"]))
            for k in range(8)
        ]
        for thread in together:
            thread.start()
        for thread in together:
            thread.join(120)
        assert wrong == [] and ask.said == []


def test_health_and_the_report(numbers):
    pytest.importorskip("plotly", reason="needs plotly (the extra report)")
    (numbers / "result" / "report.html").write_text("<script>alert('altered')</script>")
    with serving(numbers / "result") as ask:
        assert ask("/health", Authorization=None)[1]["status"] == "ok"
        status, page = ask("/")
        assert status == 200 and ask.headers["content-type"].startswith("text/html")
        assert "altered" not in page and "fedrelax report" in page
        assert ask.headers["x-frame-options"] == "DENY"
        assert ask("/?token=a-token-of-the-tests", Authorization=None)[0] == 200


def test_new_rows_are_refused_unless_something_learns_them(numbers, classes):
    row = {"wind": 0.1, "sun": 0.2, "power": 0.3}
    with serving(numbers / "result") as ask:
        status, text = ask.refused("/rows", {"node": "Oslo", "rows": [row]})
        assert status == 403 and "does not learn; start it with --learn" in text
    taken: list[pd.DataFrame] = []

    @contextmanager
    def learn(rows):
        taken.append(rows)
        yield classes / "result"

    with serving(numbers / "result", learn=learn) as ask:
        assert ask("/rows", {"node": "Oslo", "rows": [row]}) == (200, {"learned": 1})
        assert taken[0].to_dict("records") == [{**row, "town": "Oslo"}]
        assert ask("/nodes")[1]["task"] == "classification"  # it answers by what was learned
        status, text = ask.refused("/rows", {"node": "Oslo", "rows": [{"wind": 1, "sun": 1}]})
        assert status == 422 and "row 0 has no column 'alarm'" in text


def test_a_node_that_nobody_knows_is_answered_by_all_of_them(numbers):
    rows = [{"wind": 0.5, "sun": 1.0}, {"wind": -1.0, "sun": 0.25}]
    asked = {"nodes": ["Olso", 7], "rows": rows}
    with serving(numbers / "result") as ask:
        everybody = [
            ask("/predict", {"node": town, "rows": rows})[1]["predictions"]
            for town in ("Oslo", "Hamar", "Dombås", "Bodø")
        ]
        status, said = ask("/predict", asked)
        assert status == 200
        assert said["predictions"] == pytest.approx(np.mean(everybody, axis=0))
        assert said["notes"] == [
            "nodes 'Olso', '7' were not in training (did you mean 'Oslo'?): 2 rows predicted by the "
            "network's consensus, the mean of 4 nodes."
        ]
    with serving(numbers / "result", unknown="raise") as ask:
        status, text = ask.refused("/predict", asked)
        assert (
            status == 404
            and text == "there is no node 'Olso'; did you mean 'Oslo'?; GET /nodes lists them all"
        )
