"""``fedrelax fit``: what a user gets from a table."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedrelax import FedRelaxRegressor, LinearModel
from fedrelax.cli.splitting import Splitting
from fedrelax.storage import load_result, read_result

from .runs import FIT, QUICK


def test_fit_says_whether_it_helped_and_saves_a_whole_directory(run, table):
    text = run.made(*FIT, *QUICK)
    assert "RMSE on the test rows of each node" in text
    assert "Oslo" in text and "nodes better together" in text
    assert "the RMSE" in text and "pooled" in text  # the verdict
    assert "fedrelax predict out" in text
    names = {path.name for path in Path("out").iterdir()}
    assert names >= {
        *("models", "models.json", "result.json", "metrics.json", "config.toml"),
        *("nodes.csv", "edges.csv", "history.csv", "history_nodes.csv"),
    }
    assert len(list(Path("out/models").glob("*.skops"))) == 4
    metrics = json.loads(Path("out/metrics.json").read_text())
    assert metrics["errors"].keys() == {"alone", "pooled", "together"}


@pytest.mark.parametrize("kept_out", [True, False])
def test_the_saved_models_are_those_of_the_library(run, table, kept_out):
    run(*FIT, *QUICK, *(["--keep-test-out"] if kept_out else []))
    X, y = table[["wind", "sun"]].to_numpy(), table["power"].to_numpy()
    nodes = table["town"].to_numpy(object)
    train, _ = Splitting(0.2, 0).masks(nodes, print)
    scale = X[train].std(axis=0).tolist()
    same = FedRelaxRegressor(LinearModel(scale=scale), alpha=0.3, rounds=2)
    if not kept_out:
        train[:] = True
    same.fit(X[train], y[train], nodes=nodes[train])
    assert np.array_equal(load_result("out").predict(X, nodes), same.predict(X, nodes))


def test_the_defaults_are_those_of_the_library(run, table):
    run(*FIT, "--test-share", "0", "--out", "out")
    X, y = table[["wind", "sun"]].to_numpy(), table["power"].to_numpy()
    nodes = table["town"].to_numpy(object)
    same = FedRelaxRegressor().fit(X, y, nodes=nodes)
    np.testing.assert_allclose(load_result("out").predict(X, nodes), same.predict(X, nodes))
    assert "Found from the training rows: " + same.choice_.reason in " ".join(run.output.split())


@pytest.mark.slow
def test_predict_in_a_new_process_equals_the_estimator(run, table):
    run.made(*FIT, *QUICK)
    subprocess.run(
        [sys.executable, "-m", "fedrelax", "predict", "out", "towns.csv", "--out", "p.csv"],
        check=True,
        capture_output=True,
    )
    expected = load_result("out").predict(table[["wind", "sun"]].to_numpy(), table["town"])
    got = pd.read_csv("p.csv", dtype=str)
    assert list(got.columns) == [*table.columns, "prediction"]
    assert np.array_equal(got["prediction"].map(float), expected)


@pytest.mark.slow
def test_the_saved_configuration_repeats_the_run_exactly(run, table):
    auto = ("--rounds", "3", "--model", "linear", "--model-for", "Bodø=tree", "--seed", "7")
    run(*FIT, *auto, "--graph", "knn:lat,lon:1", "--out", "out")
    assert run.code == 0
    saved = tomllib.loads(Path("out/config.toml").read_text())
    assert saved["alpha"] == "auto" and saved["model-for"] == {"Bodø": "tree"}
    assert saved["graph"] == "knn:lat,lon:1" and saved["features"] == ["wind", "sun"]
    run("fit", "--config", "out/config.toml", "--out", "again")
    assert run.code == 0
    for name in ("metrics.json", "nodes.csv", "history.csv", "edges.csv", "alphas.csv"):
        assert Path("out", name).read_text() == Path("again", name).read_text()


def test_the_command_line_wins_over_the_file(run, table):
    Path("run.toml").write_text(
        'data = "towns.csv"\nnode = "town"\ntarget = "power"\nalpha = 0.3\nrounds = 9\n'
        'test_share = 0.25\nmodel = "linear"\nmodel-for = ["Oslo=tree", "Bodø=tree"]\nout = "out"\n'
    )
    run("fit", "--config", "run.toml", "--rounds", "1", "--model-for", "Bodø=linear")
    assert run.code == 0
    config = read_result("out").config
    assert config["rounds"] == 1 and config["test-share"] == 0.25
    assert config["model-for"] == {"Oslo": "tree", "Bodø": "linear"}
    assert read_result("out").nodes.set_index("node")["model"].to_dict() == {
        "Oslo": "tree",
        **dict.fromkeys(["Hamar", "Dombås", "Bodø"], "linear"),
    }


def test_json_is_the_only_thing_on_stdout(run, table):
    run(*FIT, *QUICK, "--json")
    answer = json.loads(run.stdout)
    assert answer["task"] == "regression" and answer["rounds"] == 2
    assert len(answer["per_node"]) == 4 and answer["out"] == "out"
    assert answer["errors"]["together"] > 0


def test_classification_is_told_from_text_and_measured_by_error_rate(run, table):
    words = ("--node", "town", "--target", "alarm", "--features", "wind,sun", "--out", "out")
    text = run("fit", "towns.csv", *words, "--alpha", "0.3", "--rounds", "1")
    assert run.code == 0 and "error rate on the test rows" in text
    run("predict", "out", "towns.csv", "--out", "p.csv")
    got = pd.read_csv("p.csv")
    assert {"prediction", "p(high)", "p(low)"} <= set(got.columns)
    assert np.allclose(got["p(high)"] + got["p(low)"], 1)
    assert ((got["p(high)"] > 0.5) == (got["prediction"] == "high")).all()


def test_a_node_with_one_row_trains_and_is_left_out_of_the_errors(run, table):
    pd.concat([table, table.head(1).assign(town="Røst")]).to_csv("towns.csv", index=False)
    text = run(*FIT, *QUICK, "--graph", "knn:lat,lon:2")
    assert run.code == 0
    assert "1 node has too few rows" in text and "'Røst'" in text
    nodes = read_result("out").nodes.set_index("node")
    assert nodes.loc["Røst", "test_rows"] == 0 and np.isnan(nodes.loc["Røst", "together"])


def test_alpha_is_chosen_even_with_two_rows_per_node(run, table):
    table.groupby("town").head(2).to_csv("towns.csv", index=False)
    run(*FIT, "--rounds", "1", "--test-share", "0", "--out", "out")
    assert run.code == 0 and read_result("out").about["choice"]
    table.groupby("town").head(1).to_csv("towns.csv", index=False)
    text = run.refused(*FIT, "--rounds", "1", "--test-share", "0", "--out", "other")
    assert "every node has a single row" in text


def test_test_share_0_trains_on_everything_and_measures_nothing(run, table):
    text = run(*FIT, *QUICK, "--test-share", "0")
    assert run.code == 0 and "no error was measured" in text
    assert "errors" not in read_result("out").metrics
    assert read_result("out").nodes["rows"].sum() == len(table)
    assert run("info", "out") and run.code == 0


def test_edges_from_a_file_with_nodes_that_have_no_rows(run, table):
    Path("road.csv").write_text("from;to\nOslo;Hamar\nHamar;Otta\nHamar;Dombås\n")
    text = run(*FIT, *QUICK, "--graph", "edges:road.csv")
    assert run.code == 0
    assert (
        "road.csv names nodes without rows, predicted by the mean of their neighbours: 'Otta'"
        in text
    )
    assert "no edge for 'Bodø': learning alone" in text
    Path("new.csv").write_text("town,wind,sun\nOtta,1,2\nHamar,1,2\n")
    text = run("predict", "out", "new.csv", "--out", "p.csv")
    assert "No model, so predicted by the mean of the neighbours: 'Otta'" in text
    assert pd.read_csv("p.csv")["prediction"].nunique() == 1  # Hamar is its only neighbour


def test_edges_from_a_file_with_weights(run, table):
    Path("road.csv").write_text("source,target,weight\nOslo,Hamar,2.5\nHamar,Bodø,1e-1\n")
    run(*FIT, *QUICK, "--graph", "edges:road.csv")
    assert run.code == 0
    assert sorted(pd.read_csv("out/edges.csv")["weight"]) == [0.1, 2.5]
    Path("road.csv").write_text("source,target,weight\nOslo,Hamar,2.5\nHamar,Bodø,near\n")
    text = run.refused(*FIT, *QUICK, "--graph", "edges:road.csv", "--out", "other")
    assert "edge ('Hamar', 'Bodø') has the weight 'near'; give a number" in text


def test_coordinates_are_no_features_unless_named(run, table):
    words = ("--node", "town", "--target", "power", *QUICK)
    text = run("fit", "towns.csv", *words, "--graph", "knn:lat,lon:2")
    assert run.code == 0 and "'lat', 'lon': coordinates, not features" in text
    saved = read_result("out")
    assert saved.about["feature_names"] == ["wind", "sun", "alarm"]
    assert saved.graph.geographic and saved.graph.positions is not None


def test_public_rows_from_a_file(run, table):
    table[["sun", "wind"]].head(7).to_csv("public.csv", index=False)
    run(*FIT, *QUICK, "--public", "public.csv")
    assert run.code == 0
    assert read_result("out").about["public"] == {"how": "given", "rows": 7}


def test_overwrite_replaces_a_former_result(run, table):
    run.made(*FIT, *QUICK)
    assert "choose another --out, or replace it with --overwrite" in run.refused(*FIT, *QUICK)
    Path("out/notes.txt").write_text("mine")
    text = run.refused(*FIT, *QUICK, "--overwrite", "--rounds", "1")
    assert "out holds 'notes.txt'" in text and Path("out/notes.txt").read_text() == "mine"
    Path("out/notes.txt").unlink()
    run(*FIT, *QUICK, "--overwrite", "--rounds", "1")
    assert run.code == 0 and read_result("out").about["rounds"] == 1
    assert [p.name for p in Path().iterdir() if p.name.startswith(".")] == []


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 2])
def test_any_number_of_workers_gives_the_same(run, table, jobs):
    run(*FIT, *QUICK, "--jobs", jobs)
    assert run.code == 0
    first = read_result("out").metrics["errors"]
    run(*FIT, *QUICK, "--overwrite")
    assert read_result("out").metrics["errors"] == first


def test_ugly_tables_and_awkward_names_survive(run):
    rng = np.random.default_rng(0)
    names = ["Åbo/Turku", "🌲", "a=b", "C:\\x", "x;y", "東京", "..", "12"]
    frame = pd.DataFrame(rng.normal(size=(48, 2)), columns=["vind (m/s)", " temp °C"])
    frame["Station Namn"] = np.repeat(names, 6)
    frame["effekt kW"] = frame["vind (m/s)"] * 2 + 0.1
    frame.to_csv("ugly.csv", sep=";", decimal=",", index=False)
    words = ("--node", "Station Namn", "--target", "effekt kW", "--model-for", "a=b=tree")
    run("fit", "ugly.csv", *words, *QUICK)
    assert run.code == 0
    saved = read_result("out")
    assert list(saved.graph.labels) == sorted(names)
    assert saved.nodes.set_index("node").loc["a=b", "model"] == "tree"
    run("predict", "out", "ugly.csv", "--out", "p.csv")
    assert run.code == 0 and len(pd.read_csv("p.csv")) == 48


def test_a_class_of_ones_own(run, table):
    Path("mine.py").write_text(
        "from sklearn.linear_model import Ridge\nclass Own(Ridge):\n    pass\n"
    )
    run(*FIT, *QUICK, "--model", "mine:Own")
    assert run.code == 0
    text = run.refused("predict", "out", "towns.csv", "--out", "p.csv")
    assert "not trusted: mine.Own" in text and "--trust mine.Own" in text
    run("predict", "out", "towns.csv", "--out", "p.csv", "--trust", "mine.Own")
    assert run.code == 0
    assert "mine.Own" in run("info", "out")


@pytest.mark.slow
@pytest.mark.parametrize("command", ["fit", "compare"])
@pytest.mark.parametrize("line", ['model = "beside:Own"', 'model-for = ["Oslo=beside:Own"]'])
def test_a_configuration_runs_no_code_that_nobody_has_trusted(run, table, command, line):
    Path("beside.py").write_text(
        "from pathlib import Path\nfrom sklearn.linear_model import Ridge\n"
        "Path('ran').touch()\nclass Own(Ridge):\n    pass\n"
    )
    Path("run.toml").write_text(
        f'{line}\ndata = "towns.csv"\nnode = "town"\ntarget = "power"\nalpha = 0.3\nrounds = 1\n'
        'features = ["wind", "sun"]\nout = "out"\nquick = true\n'
        + "splits = 2\n"
        * (command == "compare")
    )
    text = run.refused(command, "--config", "run.toml")
    assert "names the model 'beside:Own'" in text and "--trust beside:Own" in text
    assert not Path("ran").exists()
    assert "unknown key 'trust'" in run.refused(command, "--config", trusting("run.toml"))
    try:
        run(command, "--config", "run.toml", "--trust", "beside:Own")
    finally:
        sys.modules.pop("beside", None)
        sys.path[:] = [place for place in sys.path if place != str(run.home)]
    assert run.code == 0, run.output
    assert Path("ran").exists()


def trusting(file: str) -> str:
    """Return a copy of a configuration that claims to be trusted."""
    text = Path(file).read_text()
    Path("sly.toml").write_text('trust = ["beside:Own"]\n' + text)
    return "sly.toml"


@pytest.mark.slow
def test_two_runs_with_one_out_both_keep_their_work(run, table):
    words = [sys.executable, "-m", "fedrelax", *FIT, *QUICK]
    started = [
        subprocess.Popen([*words, "--seed", str(seed)], stderr=subprocess.PIPE, text=True)
        for seed in (1, 2)
    ]
    said = [process.communicate(timeout=300)[1] for process in started]
    codes = [process.returncode for process in started]
    assert sorted(codes) == [0, 2]
    won = 1 + codes.index(0)
    assert read_result("out").config["seed"] == won
    late = said[codes.index(2)]
    if "in the meantime" in late:  # else the other had ended before this one began to work
        (kept,) = run.home.glob(".out.*.draft")
        assert read_result(kept).config["seed"] == 3 - won and str(kept) in late
    else:
        assert "out exists" in late


def test_a_full_disk_after_training_costs_nothing(run, table, monkeypatch, tmp_path_factory):
    import errno
    import tempfile

    elsewhere = tmp_path_factory.mktemp("elsewhere")
    monkeypatch.setattr(tempfile, "tempdir", str(elsewhere))
    real = Path.write_bytes

    def full(self, *given, **more):
        if self.name == "metrics.json" and run.home in self.parents:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(self, *given, **more)

    monkeypatch.setattr(Path, "write_bytes", full)
    text = run.refused(*FIT, *QUICK)
    assert "out could not be written (No space left on device)" in text and "make room" in text
    saved = Path(text.partition("was saved in ")[2].partition(" instead")[0])
    assert elsewhere in saved.parents and read_result(saved).about["rounds"] == 2


def test_a_choice_without_time_says_what_it_left_out_and_gives_a_result(run, table):
    text = run(*FIT, "--model", "tree", "--minutes", "0", "--out", "out")
    assert run.code == 0, run.output
    assert "so only 1 of 6 strengths, 1 of 3 folds" in text and "--minutes 10" in text
    assert "were tried" in read_result("out").about["choice"]
    run("predict", "out", "towns.csv", "--out", "predictions.csv")
    assert run.code == 0, run.output


def test_fit_learns_differences_and_predicts_with_their_sums(run, table):
    words = ("--alpha", "0.1", "--model", "tree", "--update", "difference", "--rounds", "2")
    run(*FIT, *words, "--out", "out")
    assert "update difference" in Path("out/report.html").read_text()
    assert 'update = "difference"' in Path("out/config.toml").read_text()
    town = str(table["town"].iloc[0])
    run("unplug", "out", town, "--out", "less")
    assert run.code == 0 and town not in load_result("less").models_, run.output
    assert list(Path("out/models").glob("*.sum.zip")) and Path("out/report.html").is_file()
    X, nodes = table[["wind", "sun"]].to_numpy(), table["town"].to_numpy(object)
    assert np.isfinite(load_result("out").predict(X, nodes)).all()
