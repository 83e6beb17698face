from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.tree import DecisionTreeRegressor

from fedrelax import FedRelax, FedRelaxClassifier, FedRelaxRegressor, Graph, Network
from fedrelax.baselines import Pooled
from fedrelax.errors import FedRelaxError, FedRelaxWarning
from fedrelax.evaluation import evaluate
from fedrelax.runtime import Distillation
from fedrelax.storage import load_result, save_result

from .tables import NOISE, mixed, shops

CHOOSES = make_pipeline(
    make_column_transformer((OneHotEncoder(handle_unknown="ignore"), ["kind"]), remainder="drop"),
    Ridge(),
)


def held_out(frame, share=4):
    days = frame["date"].unique()
    test = frame["date"].isin(days[::share]).to_numpy()
    return test & frame["shop"].isin(frame["shop"][~test]).to_numpy()


@pytest.mark.slow
def test_shops_as_they_stand_come_near_the_noise():
    """The mean of three tables; a gap in the price costs what its effect varies."""
    ratios = []
    for seed in (10, 11, 12):
        frame = shops(seed)
        sales, test = frame.pop("sales").to_numpy(), held_out(frame)
        model = FedRelaxRegressor().fit(
            frame[~test], sales[~test], nodes="shop", groups=frame["date"][~test]
        )
        left = model.predict(frame[test]) - sales[test]
        ratios.append(np.sqrt(np.mean(left**2)) / NOISE)
    assert np.mean(ratios) < 1.15


def test_wiring_finds_the_types_of_shops_that_nobody_names():
    frame = shops(0, apart=True).drop(columns="type")
    sales = frame.pop("sales")
    model = FedRelaxRegressor(wiring="auto").fit(frame, sales, nodes="shop", groups=frame["date"])
    groups = [{int(label[-2:]) % 3 for label in group} for group in model.result_.clusters]
    assert all(len(kinds) == 1 for kinds in groups) and len(groups) >= 3


MODELS = {
    "auto": ("auto", {}),
    "ridge": (Ridge(), {"alpha": 0.1}),
    "tree": (DecisionTreeRegressor(max_depth=3), {"alpha": 0.1, "rounds": 2}),
    "boosting": (HistGradientBoostingRegressor(max_iter=5), {"alpha": 0.1, "rounds": 2}),
    "pipeline": (CHOOSES, {"alpha": 0.1, "rounds": 2}),
    "each its own": (
        {
            f"s{k}": [Ridge(), CHOOSES, HistGradientBoostingRegressor(max_iter=5)][k % 3]
            for k in range(6)
        },
        {"alpha": 0.1, "rounds": 2},
    ),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("lacks", [False, True])
def test_fit_save_load_and_predict_agree(tmp_path, name, lacks):
    frame, y = mixed()
    if lacks:
        frame.loc[frame["site"] == "s1", "size"] = np.nan
    model, more = MODELS[name]
    fitted = FedRelaxRegressor(model, **more).fit(frame, y, nodes="site")
    answers = fitted.predict(frame)
    assert np.isfinite(answers).all()
    shuffled = frame[list(frame.columns[::-1])]
    np.testing.assert_allclose(fitted.predict(shuffled), answers)
    own = frame[frame["site"] == "s1"]
    seen = own.drop(columns=["site", *(["size"] if lacks else [])])
    np.testing.assert_allclose(fitted.models_["s1"].predict(seen), answers[own.index])
    save_result(tmp_path / "result", fitted, node_column="site")
    loaded = load_result(tmp_path / "result")
    np.testing.assert_allclose(loaded.predict(frame), answers, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("library", ["xgboost", "lightgbm"])
def test_boosting_libraries_take_gaps_and_categories_as_they_are(tmp_path, library):
    module = pytest.importorskip(library)
    kind = module.XGBRegressor if library == "xgboost" else module.LGBMRegressor
    quiet = {"verbosity": 0} if library == "xgboost" else {"verbose": -1}
    frame, y = mixed()
    model = (
        kind(n_estimators=5, min_child_samples=2, **quiet)
        if library == "lightgbm"
        else kind(n_estimators=5, **quiet)
    )
    fitted = FedRelaxRegressor(model, alpha=0.1, rounds=1).fit(frame, y, nodes="site")
    assert fitted.models_["s0"][-1].n_features_in_ == 4
    save_result(tmp_path / "result", fitted, node_column="site")
    np.testing.assert_allclose(
        load_result(tmp_path / "result").predict(frame), fitted.predict(frame), rtol=1e-6
    )


def test_a_node_without_the_best_column_learns_from_those_that_have_it():
    rng = np.random.default_rng(0)
    nodes = np.repeat(np.arange(12), 30)
    X = rng.normal(size=(360, 1)) + 0.7 * rng.normal(size=(360, 3))
    y = X @ [2.0, 1.0, -1.0] + rng.normal(size=360)
    frame = pd.DataFrame(X, columns=list("abc"))
    train = np.tile(np.arange(30) < 6, 12)
    lacking = nodes % 3 == 0
    less = frame.copy()
    less.loc[lacking, "a"] = np.nan

    def error(table, model):
        model.fit(table[train], y[train], nodes[train])
        return np.sqrt(np.mean((model.predict(table[~train], nodes[~train]) - y[~train]) ** 2))

    assert error(less, FedRelaxRegressor()) < 0.9 * error(frame[["b", "c"]], FedRelaxRegressor())
    own = FedRelaxRegressor(Ridge(), alpha=0.05, rounds=10)
    error(less, own)
    assert list(own.models_[0].feature_names_in_) == ["b", "c"]
    assert own.models_[0][-1].n_features_in_ == 2 and own.models_[1][-1].n_features_in_ == 3


def test_alone_and_pooled_see_the_same_columns():
    frame, y = mixed()
    nodes = frame.pop("site").to_numpy()
    fitted = FedRelaxRegressor().fit(frame, y, nodes)
    errors = evaluate(fitted, (frame, y, nodes), (frame, y, nodes)).errors
    assert max(errors.values()) < 0.7 * y.std()


def test_distillation_and_wiring_go_along_with_mixed_tables():
    frame, y = mixed()
    for solver in (FedRelax(distillation=Distillation(20, "marginals")), FedRelax()):
        model = FedRelaxRegressor(
            HistGradientBoostingRegressor(max_iter=3), alpha=0.1, rounds=3, solver=solver,
            wiring="fixed" if solver.distillation else "rewire",
        )  # fmt: skip
        assert np.isfinite(model.fit(frame, y, nodes="site").predict(frame)).all()


def test_arrays_with_gaps_are_learned_from_too():
    rng = np.random.default_rng(0)
    X, nodes = rng.normal(size=(90, 2)), np.repeat(np.arange(6), 15)
    y = X.sum(axis=1)
    X[::7, 0] = np.nan
    for alpha in ("auto", 0.1):
        fitted = FedRelaxRegressor(alpha=alpha).fit(X, y, nodes)
        assert np.isfinite(fitted.predict(X, nodes)).all()
    whole = FedRelaxRegressor(alpha=0.1).fit(np.nan_to_num(X), y, nodes)
    with pytest.raises(FedRelaxError, match="missing value .* in row 0"):
        whole.predict(X, nodes)


def test_frames_of_polars(monkeypatch):
    polars = pytest.importorskip("polars")
    frame, y = mixed()
    columns = {k: [None if pd.isna(v) else v for v in frame[k]] for k in frame.columns}
    theirs = polars.DataFrame(columns)
    ours = FedRelaxRegressor(alpha=0.1).fit(frame, y, nodes="site").predict(frame)
    np.testing.assert_allclose(
        FedRelaxRegressor(alpha=0.1).fit(theirs, y, nodes="site").predict(theirs), ours
    )


def test_set_output_and_feature_names():
    frame, y = mixed()
    fitted = FedRelaxRegressor(Ridge(), alpha=0.1).fit(frame, y, nodes="site")
    first = fitted.models_["s0"][0].set_output(transform="pandas")
    seen = first.transform(frame.drop(columns="site"))
    assert list(seen.columns) == list(first.get_feature_names_out())
    assert "kind is b" in seen and "size is missing" in seen
    assert clone(fitted).get_params()["schema"] is None


def test_a_mistyped_value_is_named_once():
    frame, y = mixed()
    frame["size"] = frame["size"].astype(object)
    frame.loc[3, "size"] = "12,5x"
    with pytest.warns(
        FedRelaxWarning, match="'size' holds numbers except in 1 row, such as '12,5x'"
    ):
        FedRelaxRegressor(alpha=0.1).fit(frame, y, nodes="site")


# Networks that are brought node by node


def test_a_network_of_nodes_with_different_columns():
    rng = np.random.default_rng(0)
    public = pd.DataFrame(rng.normal(size=(50, 3)), columns=list("abc"))
    network = Network(Graph.complete(["x", "y", "z"]), public=public)
    weights = pd.Series({"a": 1.0, "b": 2.0, "c": 0.0})
    for label, columns in {"x": "abc", "y": "ab", "z": "ba"}.items():
        own = pd.DataFrame(rng.normal(size=(8, len(columns))), columns=list(columns))
        network.add(label, own, own @ weights[own.columns], LinearRegression())
    result = FedRelax(alpha=1.0, rounds=5).solve(network)
    rows = np.array([[1.0, 1.0, 7.0]])
    for label in "xyz":
        np.testing.assert_allclose(result.local_models[label].predict(rows), 3.0, atol=1e-6)
    assert result.models["z"].n_features_in_ == 2
    other = FedRelax(alpha=1.0, rounds=5).solve(network.with_models(Ridge(1e-9)))
    for label in "xyz":  # other models see the columns that their node has
        np.testing.assert_allclose(other.local_models[label].predict(rows), 3.0, atol=1e-6)
    for label in "xy":
        pooled = Pooled().run(network).models[label].predict(rows)
        np.testing.assert_allclose(pooled, 3.0, atol=1e-6)


def test_columns_of_arrays_are_named():
    rng = np.random.default_rng(0)
    network = Network(Graph.complete([0, 1]), public=rng.normal(size=(9, 2)), columns=["a", "b"])
    network.add(0, rng.normal(size=(5, 1)), rng.normal(size=5), Ridge(), columns=["b"])
    assert np.isnan(network.nodes[0].X[:, 0]).all()
    with pytest.raises(FedRelaxError, match="node 1 has a column 'c', which the public rows"):
        network.add(1, rng.normal(size=(5, 1)), rng.normal(size=5), Ridge(), columns=["c"])
    with pytest.raises(FedRelaxError, match="2 columns are named"):
        network.add(1, rng.normal(size=(5, 1)), rng.normal(size=5), Ridge())


# Generated tables

COLUMNS = {
    "numbers": st.floats(-1e6, 1e6) | st.none(),
    "whole": st.integers(-50, 50),
    "flags": st.booleans() | st.none(),
    "words": st.sampled_from(["red", "green", "blue", "NA", "007"]) | st.none(),
    "days": st.dates(pd.Timestamp("2020-01-01").date(), pd.Timestamp("2024-01-01").date()).map(str)
    | st.none(),
    "texts": st.text("abc def", max_size=12),
}


@st.composite
def generated(draw):
    kinds = draw(st.lists(st.sampled_from(sorted(COLUMNS)), min_size=1, max_size=4, unique=True))
    rows = draw(st.integers(12, 24))
    columns = {kind: draw(st.lists(COLUMNS[kind], min_size=rows, max_size=rows)) for kind in kinds}
    frame = pd.DataFrame({k: pd.Series(v, dtype=object) for k, v in columns.items()})
    return frame, np.resize(["a", "b", "c"], rows), draw(st.integers(0, 99))


@pytest.mark.filterwarnings("ignore")
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(generated(), st.sampled_from(["auto", "ridge", "boosting"]), st.booleans())
def test_generated_tables_are_learned_or_refused_in_a_sentence(
    tmp_path_factory, table, name, classes
):
    frame, nodes, seed = table
    rng = np.random.default_rng(seed)
    y = rng.normal(size=len(frame))
    kind, model = FedRelaxRegressor, {"ridge": Ridge(), "boosting": MODELS["boosting"][0]}.get(name)
    if classes:
        kind, y, model = FedRelaxClassifier, np.resize([0, 1], len(frame)), None
    more = {"alpha": 0.1, "rounds": 1} if model is not None else {"quick": True}
    try:
        fitted = kind("auto" if model is None else model, **more).fit(frame, y, nodes)
    except FedRelaxError as error:
        assert "no column is left" in str(error)
        return
    answers = fitted.predict(frame, nodes)
    out = tmp_path_factory.mktemp("generated") / "result"
    save_result(out, fitted)
    np.testing.assert_array_equal(load_result(out).predict(frame, nodes), answers)
