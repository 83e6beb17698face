"""``fedrelax compare``: federate, pool or stay alone, from a table."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from fedrelax import FedRelaxRegressor
from fedrelax.baselines import Alone, Pooled
from fedrelax.cli.app import app
from fedrelax.comparison import compare_ways
from fedrelax.models import LinearModel

from .runs import FIT, QUICK

COMPARE = ("compare", *FIT[1:])
FAST = ("--model", "linear", "--rounds", "3", "--splits", "2", "--ways", "pooled")


def rows_of(table: pd.DataFrame) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return table[["wind", "sun"]].to_numpy(), table["power"].to_numpy(), table["town"].to_numpy()


def test_the_table_the_intervals_and_the_advice(run, table):
    text = run(*COMPARE, *FAST)
    assert run.code == 0
    assert "RMSE on test rows: mean of 2 splits, 95 % intervals" in text
    for part in ("alone", "pooled", "together", "against"):
        assert part in text
    assert any(head in text for head in ("Federate.", "Pool, if", "Stay alone."))
    assert [path.name for path in Path().iterdir()] == ["towns.csv"]


def test_all_ways_that_the_models_allow(run, table):
    words = ("--rounds", "2", "--splits", "2", "--alpha", "0.3")
    text = run(*COMPARE, *words, "--model-for", "Oslo=tree")
    assert run.code == 0
    assert (
        "Not compared: FedAvg, FedProx, Ditto, IFCA, network Lasso: node 'Oslo': "
        "DecisionTreeRegressor" in text
    )
    for way in ("FedMD", "pooled+node"):
        assert way in text.partition("Not compared")[0]


def test_a_mixed_model(run, table):
    pytest.importorskip("statsmodels", reason="needs statsmodels (the extra mixed)")
    text = run(*COMPARE, *FAST, "--ways", "mixed-model")
    assert run.code == 0 and "mixed model" in text and "not compared" not in text.lower()


def test_it_is_the_comparison_of_the_library(run, table):
    run(*COMPARE, *FAST, "--json", "--seed", "5")
    answer = json.loads(run.stdout)
    X, y, nodes = rows_of(table)

    def estimator(train):
        scale = X[train].std(axis=0).tolist()
        return FedRelaxRegressor(LinearModel(scale=scale), rounds=3, alpha=0.1)

    same = compare_ways(estimator, X, y, nodes, ways=[Alone(), Pooled()], splits=2, seed=5)
    for line in answer["ways"]:
        assert line["error"] == same.error(line["way"]).mean
    assert answer["advice"] == same.advice


def test_json_is_the_only_thing_on_stdout(run, table):
    done = CliRunner().invoke(app, [*COMPARE, *FAST, "--json"])
    answer = json.loads(done.stdout)
    assert answer["splits"] == 2 and answer["out"] is None
    assert {line["way"] for line in answer["ways"]} == {"alone", "pooled", "together"}
    assert len(answer["per_split"]) == 6 and len(answer["per_node"]) == 4
    assert answer["notes"] and answer["not_compared"] == {}


def test_out_is_a_whole_directory(run, table):
    run(*COMPARE, *FAST, "--out", "out")
    assert run.code == 0
    names = {path.name for path in Path("out").iterdir()}
    assert names == {"comparison.csv", "nodes.csv", "comparison.json", "config.toml"}
    frame = pd.read_csv("out/comparison.csv")
    assert list(frame.columns) == ["split", "way", "error", "settings"] and len(frame) == 6
    nodes = pd.read_csv("out/nodes.csv")
    assert nodes["node"].tolist() == ["Oslo", "Hamar", "Dombås", "Bodø"]
    means = frame.groupby("way")["error"].mean()
    for line in json.loads(Path("out/comparison.json").read_text())["ways"]:
        assert line["error"] == pytest.approx(means[line["way"]])


def test_the_saved_configuration_repeats_the_run_exactly(run, table):
    more = ("--graph", "knn:lat,lon:2", "--model-for", "Bodø=tree", "--seed", "7", "--out", "out")
    run(*COMPARE, *FAST, *more)
    saved = tomllib.loads(Path("out/config.toml").read_text())
    assert saved["splits"] == 2 and saved["ways"] == ["pooled"]
    run("compare", "--config", "out/config.toml", "--out", "again")
    assert run.code == 0
    for name in ("comparison.csv", "nodes.csv", "comparison.json", "config.toml"):
        assert Path("out", name).read_text() == Path("again", name).read_text()


def test_the_settings_of_fit_serve_compare(run, table):
    run(*FIT, *QUICK)
    run("compare", "--config", "out/config.toml", "--splits", "2", "--ways", "pooled")
    assert run.code == 0 and "mean of 2 splits" in run.output


def test_only_a_comparison_is_replaced(run, table):
    run(*COMPARE, *FAST, "--out", "out")
    assert "out exists" in run.refused(*COMPARE, *FAST, "--out", "out")
    Path("out/old.txt").write_text("my own notes")
    assert "old.txt" in run.refused(*COMPARE, *FAST, "--out", "out", "--overwrite")
    Path("out/old.txt").unlink()
    run(*COMPARE, *FAST, "--out", "out", "--overwrite")
    assert run.code == 0
    run(*FIT, *QUICK[:-1], "models")
    text = run.refused(*COMPARE, *FAST, "--out", "models", "--overwrite")
    assert "not a comparison of fedrelax, so it is never replaced" in text
    text = run.refused(*FIT, *QUICK[:-1], "out", "--overwrite")
    assert "not a result of fedrelax, so it is never replaced" in text


@pytest.mark.parametrize(
    ("flags", "parts"),
    [
        (["--splits", "1"], ["--splits is 1", "greater than or equal to 2"]),
        (["--ways", "fedav"], ["'fedav' is not known", "did you mean 'fedavg'?"]),
        (["--ways", "bananas"], ["'bananas' is not known", "known: alone, pooled"]),
        (["--test-share", "0"], ["--test-share is 0.0", "greater than 0"]),
        (["--test-share", "0.01"], ["--test-share 0.01 leaves no test row"]),
        (["--alpha", "much"], ["--alpha is 'much'", "'auto'"]),
        (["--model", "forrest"], ["did you mean 'forest'?"]),
        (["--graph", "edges:no.csv"], ["no.csv does not exist"]),
        (["--out", "towns.csv"], ["towns.csv exists", "never replaced"]),
    ],
)
def test_bad_flags(run, table, flags, parts):
    text = run.refused(*COMPARE, *FAST, *flags)
    for part in parts:
        assert part in text


def test_what_is_needed_is_named(run, table):
    text = run.refused("compare", "towns.csv")
    assert "compare needs --node" in text and "compare needs --target" in text
    assert "--out" not in text


def test_nodes_with_one_row_each(run, table):
    table.groupby("town").head(1).to_csv("towns.csv", index=False)
    assert "leaves no test row at any node" in run.refused(*COMPARE, *FAST)
    table.groupby("town").head(2).to_csv("towns.csv", index=False)
    text = run.refused(*COMPARE, *FAST, "--test-share", "0.5")
    assert "every node has a single training row" in text


def test_an_ugly_table(run):
    """Text classes, a node with a single row, missing values, awkward names."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(rng.normal(size=(43, 2)), columns=["vind (m/s)", " temp °C"])
    frame["färg, klass"] = np.where(frame.sum(axis=1) > 0, "röd ", "grün")
    frame["Station  Namn"] = np.repeat(["Åbo/Turku", "a=b", "東京", ".."], [14, 14, 14, 1])
    frame.iloc[3, 0] = frame.iloc[20, 1] = np.nan
    frame.to_csv("ugly.csv", sep=";", decimal=",", index=False)
    words = ("compare", "ugly.csv", "--node", "Station  Namn", "--target", "färg, klass")
    text = run(*words, *FAST, "--model-for", "a=b=tree", "--out", "out")
    assert run.code == 0
    assert "error rate on test rows" in text and "1 node has too few rows" in text
    nodes = pd.read_csv("out/nodes.csv").set_index("node")
    assert nodes.loc["..", "test_rows"] == 0 and np.isnan(nodes.loc["..", "together"])


@pytest.mark.parametrize("whole", [1, 2])
def test_ctrl_c(run, table, monkeypatch, whole):
    """Pressed in a later split: two whole ones still give a table."""
    done = []

    def pressed(self, network, *, seed=0, n_jobs=None):
        if len(done) == whole:
            raise KeyboardInterrupt
        done.append(seed)
        return Alone().run(network)

    monkeypatch.setattr(Pooled, "run", pressed)
    text = run(*COMPARE, *FAST, "--splits", "4", "--out", "out")
    if whole == 1:
        assert run.code == 130 and not Path("out").exists()
        assert "stopped with 1 of 4 splits complete; a table needs two" in text
    else:
        assert run.code == 0 and "Only 2 of 4 splits were measured" in text
        assert json.loads(Path("out/comparison.json").read_text())["splits_asked_for"] == 4


def test_help_has_an_example_and_the_groups_of_fit(run):
    text = run("compare", "--help")
    assert run.code == 0 and "Example:" in text
    for group in ("Data", "Models", "Learning together", "Running and output"):
        assert group in text


@pytest.mark.parametrize(("model", "rounds"), [("tree", 20), ("ridge", 200)])
def test_fedrelax_has_the_rounds_and_wirings_of_the_tables_own_models_and_graph(model, rounds):
    """Not those of some default estimator."""
    from sklearn.base import clone

    from fedrelax import FedRelaxRegressor, Graph, Network
    from fedrelax.cli.compare import CompareConfig, ways_of
    from fedrelax.models.names import model_by_name
    from fedrelax.selection import candidates_for

    config = CompareConfig(data="towns.csv", node="town", target="power", wiring="auto")
    kind, graph = model_by_name(model, "regression"), Graph.from_edges([(0, 1), (1, 2)])
    network = Network(graph, public=np.zeros((3, 1)))
    for i in range(3):
        network.add(i, np.ones((3, 1)), np.ones(3), clone(kind))
    estimator = FedRelaxRegressor(kind, graph, wiring=config.wiring, alpha=0.1)
    together = next(way for way in ways_of(config, estimator) if way.name == "together")
    assert together.solver.rounds_for(network) == rounds
    tried = candidates_for(network, together.solver, together.alpha, together.wiring)
    assert {one.wiring and one.wiring.name for one in tried} == {None, "rewire"}
