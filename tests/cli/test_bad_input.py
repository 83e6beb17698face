"""Each thing a user can get wrong: one sentence, exit code 2, nothing left behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from fedrelax.cli.app import app
from fedrelax.storage import load_result, read_result

from .runs import FIT, QUICK

CASES = {
    "missing node column": (["--node", "twn"], "no column 'twn'", "did you mean 'town'?"),
    "missing target column": (["--target", "powr"], "'powr'", "did you mean 'power'?"),
    "missing feature column": (["--features", "wind,snow"], "no column 'snow'"),
    "text target": (["--target", "alarm", "--task", "regression"], "'alarm' holds text"),
    "unknown task": (["--task", "guess"], "--task is 'guess'", "'regression'"),
    "alpha below 0": (["--alpha", "-1"], "--alpha is '-1'", "at least 0"),
    "alpha nan": (["--alpha", "nan"], "--alpha is 'nan'", "finite number"),
    "alpha inf": (["--alpha", "inf"], "--alpha is 'inf'", "finite number"),
    "alpha a word": (["--alpha", "much"], "--alpha is 'much'", "'auto'"),
    "rounds below 0": (["--rounds", "-1"], "--rounds is -1"),
    "test share 1": (["--test-share", "1"], "--test-share is 1.0", "less than 1"),
    "test share too small": (["--test-share", "0.01"], "leaves no test row"),
    "no workers": (["--jobs", "0"], "--jobs", "-1 for all cores"),
    "a million workers": (["--jobs", "1000000"], "--jobs 1000000", "-1 for all cores"),
    "no public rows": (["--public-rows", "0"], "--public-rows is 0"),
    "seed below 0": (["--seed", "-4"], "--seed is -4"),
    "unknown model": (["--model", "forrest"], "'forrest'", "did you mean 'forest'?"),
    "model for the other task": (["--model", "logistic"], "'logistic' predicts classes", "'ridge'"),
    "no such module": (["--model", "nowhere:Model"], "'nowhere' cannot be imported"),
    "no such class": (["--model", "sklearn.linear_model:Rigde"], "did you mean 'Ridge'?"),
    "not a model": (["--model", "pathlib:Path"], "is not a model"),
    "a function of something else": (["--model", "os:getcwd"], "is not a model"),
    "a classifier": (["--model", "sklearn.svm:SVC"], "predicts classes"),
    "arguments needed": (
        ["--model", "sklearn.feature_selection:RFE"],
        "cannot be made without arguments",
    ),
    "model for nobody": (["--model-for", "Olso=tree"], "'Olso'", "did you mean 'Oslo'?"),
    "model for without =": (["--model-for", "Oslo"], "'Oslo' is not NODE=MODEL"),
    "graph kind": (["--graph", "knm:lat,lon"], "'knm:lat,lon'", "did you mean 'knn'?"),
    "graph count": (["--graph", "knn:lat,lon:many"], "'knn:lat,lon:many' is none of complete"),
    "graph columns": (["--graph", "knn::3"], "is none of complete, knn:lat,lon:5"),
    "graph column unknown": (["--graph", "knn:lat,log:3"], "no column 'log'"),
    "graph column of text": (["--graph", "knn:lat,alarm:3"], "'alarm' holds text"),
    "a node in two places": (["--graph", "knn:lat,wind:3"], "'Oslo' has no single place"),
    "edges without file": (["--graph", "edges"], "edges:FILE"),
    "edges file missing": (["--graph", "edges:no.csv"], "no.csv does not exist"),
    "complete with more": (["--graph", "complete:3"], "is none of complete"),
    "public unknown": (["--public", "gausian"], "'gausian'", "did you mean 'gaussian'?"),
    "public file missing": (["--public", "no.csv"], "no.csv does not exist"),
    "config missing": (["--config", "no.toml"], "no file no.toml"),
}


@pytest.mark.parametrize("case", CASES)
def test_bad_flags(run, table, case):
    flags, *parts = CASES[case]
    text = run.refused(*FIT, *QUICK, *flags)
    for part in parts:
        assert part in text


@pytest.mark.slow
@pytest.mark.parametrize("value", ["", "inf"])
def test_missing_and_infinite_values_are_named_by_line(run, table, value):
    table["wind"] = table["wind"].astype(object)
    table.loc[3, "wind"] = value
    table.to_csv("towns.csv", index=False)
    text = run(*FIT, *QUICK)
    assert run.code == 0 and ("'wind' is infinite in 1 row, first on line 5" in text) == (
        value != ""
    )
    assert read_result("out").metrics["training_rows"] == 24


def test_a_node_without_a_complete_row_is_named(run, table):
    table.loc[len(table)] = {**table.iloc[0], "town": "Vardø", "power": np.nan}
    table.to_csv("towns.csv", index=False)
    text = run(*FIT, *QUICK)
    assert run.code == 0 and "note: No complete row, so no model: 'Vardø'." in text


def test_constant_target(run, table):
    table.assign(power=3.5).to_csv("towns.csv", index=False)
    assert "'power' is 3.5 in every row" in run.refused(*FIT, *QUICK)


def test_a_single_node(run, table):
    table.assign(town="Oslo").to_csv("towns.csv", index=False)
    assert "single node, 'Oslo'" in run.refused(*FIT, *QUICK)


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (b"", "is empty"),
        (b"town,power,wind,sun\n", "no rows"),
        (bytes(range(256)), "not a text file"),
        (b"a,b\n1,2,3\n", "more fields than its header"),
    ],
)
def test_unreadable_tables(run, table, content, part):
    Path("towns.csv").write_bytes(content)
    assert part in run.refused(*FIT, *QUICK)


def test_a_table_that_is_not_there(run):
    assert "towns.csv does not exist" in run.refused(*FIT, *QUICK)


def test_nothing_given(run, table):
    text = run.refused("fit", "towns.csv", "--out", "out")
    assert "fit needs --node" in text and "fit needs --target" in text


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        ("alhpa = 1", ["unknown key 'alhpa'", "did you mean 'alpha'?"]),
        ("alpha = [1", ["not valid TOML"]),
        ("alpha = -2", ["--alpha is -2"]),
        ("rounds = 2.5", ["--rounds is 2.5"]),
        ("test-share = 0.1\ntest_share = 0.2", ["twice"]),
        ("model-for = 3", ["--model-for is 3"]),
    ],
)
def test_bad_files(run, table, content, parts):
    Path("run.toml").write_text(content)
    words = [word for word in (*FIT, "--out", "out")]
    text = run.refused(*words, "--config", "run.toml")
    for part in parts:
        assert part in text


def test_an_existing_directory_is_refused_before_any_work(run, table):
    run.made(*FIT, *QUICK)
    text = run.refused("fit", "not there.csv", "--node", "a", "--target", "b", "--out", "out")
    assert "out exists" in text and "--overwrite" in text


def test_what_is_not_a_result_is_never_replaced(run, table):
    Path("out").mkdir()
    Path("out/thesis.txt").write_text("years of work")
    text = run.refused(*FIT, *QUICK, "--overwrite")
    assert "never replaced" in text and Path("out/thesis.txt").exists()


def test_a_place_where_nothing_can_be_written(run, table):
    text = run.refused(*FIT, *QUICK[:-1], "towns.csv/sub/out")
    assert "towns.csv/sub/out cannot be written" in text


@pytest.mark.skipif(os.geteuid() == 0, reason="the administrator may write anywhere")
def test_no_permission_to_write(run, table):
    Path("closed").mkdir(mode=0o500)
    assert "Permission denied" in run.refused(*FIT, *QUICK[:-1], "closed/out")


@pytest.mark.slow
def test_a_model_whose_fit_raises_names_the_node_and_the_cause(run, table):
    Path("brittle.py").write_text(
        "from sklearn.linear_model import Ridge\n"
        "class Brittle(Ridge):\n"
        "    def fit(self, X, y, sample_weight=None):\n"
        "        raise RuntimeError('it snaps')\n"
    )
    words = [*FIT, *QUICK, "--model-for", "Hamar=brittle:Brittle"]
    done = subprocess.run(
        [sys.executable, "-m", "fedrelax", *words], capture_output=True, text=True
    )
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.splitlines()[-1].startswith("error: node 'Hamar'")
    assert "RuntimeError: it snaps" in done.stderr and "Traceback" not in done.stderr
    assert not Path("out").exists()


def test_debug_shows_the_traceback(run, table):
    result = CliRunner().invoke(app, [*FIT, *QUICK, "--model", "forrest", "--debug"])
    assert result.exit_code == 2 and "Traceback" in result.output and "error:" in result.output


def test_a_model_that_cannot_be_saved_is_refused(run, table):
    Path("secretive.py").write_text(
        "from sklearn.linear_model import Ridge\n"
        "class Secretive(Ridge):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "    def fit(self, X, y, sample_weight=None):\n"
        "        self.rule_ = lambda x: x\n"
        "        return super().fit(X, y, sample_weight)\n"
    )
    text = run.refused(*FIT, *QUICK, "--model-for", "Hamar=secretive:Secretive")
    assert "node 'Hamar'" in text and "cannot be saved without pickle" in text


def test_something_unexpected_is_one_line(run, table, monkeypatch):
    monkeypatch.setattr("fedrelax.cli.running.read_inputs", lambda *_: 1 / 0)
    text = run(*FIT, *QUICK)
    assert run.code == 1 and not Path("out").exists()
    assert "error: unexpected ZeroDivisionError: division by zero" in text and "--debug" in text


def test_ctrl_c_outside_the_rounds_leaves_nothing(run, table, monkeypatch):
    def pressed(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("fedrelax.selection.plan.choose_default", pressed)
    run(*FIT, "--out", "out")
    assert run.code == 130 and not Path("out").exists()


# predict and info


@pytest.fixture
def fitted(run, table):
    run.made(*FIT, *QUICK)
    return table


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        (lambda f: f.drop(columns="sun"), ["no column 'sun'", "one of the features"]),
        (lambda f: f.drop(columns="town"), ["no column 'town'"]),
        (lambda f: f.assign(sun="much"), ["'sun' must hold numbers", "'much' on line 2"]),
        (lambda f: f.assign(sun=f["sun"].where(f.index != 1)), ["'sun' has 1 values", "line 3"]),
        (lambda f: f.assign(town=f["town"].where(f.index != 1)), ["names no node", "line 3"]),
        (lambda f: f.assign(prediction=1), ["already has a column 'prediction'"]),
    ],
)
def test_bad_rows_to_predict(run, fitted, change, parts):
    change(fitted).to_csv("new.csv", index=False)
    text = run.refused("predict", "out", "new.csv", "--out", "p.csv")
    for part in parts:
        assert part in text


def test_nodes_that_training_did_not_have(run, fitted):
    new = fitted.replace({"Oslo": "Olso", "Hamar": "Alta"})
    new.to_csv("new.csv", index=False)
    words = ("predict", "out", "new.csv", "--out", "p.csv")
    text = run.refused(*words, "--unknown-nodes", "refuse")
    assert "16 rows belong to nodes" in text and "'Olso', 'Alta'; did you mean 'Oslo'?" in text
    text = run(*words)
    assert run.code == 0
    assert (
        "note: nodes 'Olso', 'Alta' were not in training (did you mean 'Oslo'?): 16 rows predicted by the "
        "network's consensus, the mean of 4 nodes." in text
    )
    said, model = pd.read_csv("p.csv")["prediction"].to_numpy(), load_result("out")
    rows = new[["wind", "sun"]].to_numpy()
    each = [model.predict(rows, nodes=[i] * len(new)) for i in model.models_]
    strange = new["town"].isin(["Olso", "Alta"]).to_numpy()
    assert said[strange] == pytest.approx(np.mean(each, axis=0)[strange])
    own = model.predict(rows[~strange], nodes=new["town"][~strange])
    assert said[~strange] == pytest.approx(own)


def test_bad_places_for_predictions(run, fitted):
    assert "ending '.xls'" in run.refused("predict", "out", "towns.csv", "--out", "p.xls")
    assert "cannot be written" in run.refused(
        "predict", "out", "towns.csv", "--out", "towns.csv/p.csv"
    )
    Path("p.csv").write_text("precious")
    assert "--overwrite" in run.refused("predict", "out", "towns.csv", "--out", "p.csv")
    assert Path("p.csv").read_text() == "precious"


@pytest.mark.parametrize("command", [("info",), ("predict",)])
def test_directories_that_are_no_results(run, table, command):
    rest = () if command == ("info",) else ("towns.csv", "--out", "p.csv")
    assert "nowhere does not exist" in run.refused(*command, "nowhere", *rest)
    Path("empty").mkdir()
    assert "not a result of fedrelax" in run.refused(*command, "empty", *rest)


def test_a_result_that_was_damaged(run, fitted):
    next(Path("out/models").iterdir()).write_bytes(b"PK nonsense")
    text = run.refused("predict", "out", "towns.csv", "--out", "p.csv")
    assert "this result is damaged: models/" in text and "does not match the checksum" in text
    next(Path("out/models").iterdir()).unlink()
    assert "this result is damaged" in run.refused("predict", "out", "towns.csv", "--out", "p.csv")


def test_numbers_as_node_names_are_found_in_any_dress(run, table):
    table["town"] = table["town"].map({"Oslo": 1, "Hamar": 2, "Dombås": 3, "Bodø": 4})
    table.to_csv("towns.csv", index=False)
    run(*FIT, *QUICK)
    frame = table.assign(town=np.where(table["town"] == 1, " 1", table["town"].astype(str)))
    frame.to_parquet("new.parquet")
    run("predict", "out", "new.parquet", "--out", "p.parquet")
    assert run.code == 0 and len(pd.read_parquet("p.parquet")) == len(table)


def test_live_without_its_extra_is_refused_before_the_table_is_read(run, table, monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    text = run.refused("fit", "no-such-file.csv", *FIT[2:], *QUICK, "--live")
    assert text == "uvicorn is not installed; pip install 'fedrelax[live]' adds it"
