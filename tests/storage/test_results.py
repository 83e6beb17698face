"""Saving and loading: the same predictions, the same labels, and no pickle."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LinearRegression, Ridge

from fedrelax import FedRelaxClassifier, FedRelaxError, FedRelaxRegressor, Graph
from fedrelax.files import dump_toml
from fedrelax.models.names import NAMES, model_by_name
from fedrelax.storage import load_result, read_result, save_result
from fedrelax.storage.places import whole_directory, whole_file
from tests.conftest import skip_without_packages

from .hostile import resign


def rows(labels=("a", "b", "c"), each=9):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(len(labels) * each, 3))
    nodes = np.empty(len(X), dtype=object)
    nodes[:] = [label for label in labels for _ in range(each)]
    return X, X @ [1.0, 2.0, -1.0] + 0.1 * rng.normal(size=len(X)), nodes


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("task", ["regression", "classification"])
def test_every_named_model_comes_back_without_trust(tmp_path, name, task):
    if (name, task) == ("logistic", "regression"):
        pytest.skip("no such model")
    skip_without_packages(name)
    X, y, nodes = rows()
    kind, target = FedRelaxRegressor, y
    if task == "classification":
        kind, target = FedRelaxClassifier, np.where(y > 0, "up", "down")
    fitted = kind(model_by_name(name, task), alpha=0.2, rounds=1, public_rows=20)
    fitted.fit(X, target, nodes=nodes)
    save_result(tmp_path / "out", fitted)
    loaded = load_result(tmp_path / "out")
    assert np.array_equal(loaded.predict(X, nodes), fitted.predict(X, nodes))
    assert read_result(tmp_path / "out").about["types_to_trust"] == []


@pytest.mark.parametrize("name", NAMES)
def test_named_models_stand_a_node_with_one_row(name):
    skip_without_packages(name)
    X, y, nodes = rows()
    keep = np.r_[0, 9:27]
    task = "classification" if name == "logistic" else "regression"
    kind = FedRelaxRegressor if task == "regression" else FedRelaxClassifier
    target = y if task == "regression" else (y > 0).astype(int)
    fitted = kind(model_by_name(name, task), alpha=0.2, rounds=1, public_rows=20)
    fitted.fit(X[keep], target[keep], nodes=nodes[keep])
    assert np.isfinite(fitted.predict(X[:3], nodes[:3])).all()


LABELS = [
    ["a", "NA", "nan", ""],
    [1, 2, 30],
    [0.5, 1.0, 1e300],
    [True, False],
    ["Åbo/Turku", "..", "🌲", 'quote " comma , line\nbreak', "with\ttab"],
    ["1", 2, "3"],
]


@pytest.mark.parametrize("labels", LABELS)
def test_labels_come_back_as_they_were(tmp_path, labels):
    X, y, nodes = rows(labels)
    fitted = FedRelaxRegressor(Ridge(), alpha=0.2, rounds=1).fit(X, y, nodes=nodes)
    save_result(tmp_path / "out", fitted)
    loaded = load_result(tmp_path / "out")
    assert [(type(k), k) for k in loaded.models_] == [(type(k), k) for k in fitted.models_]
    assert {(type(k), k) for k in loaded.models_} == {(type(k), k) for k in labels}
    assert loaded.graph_ == fitted.graph_
    assert loaded.result_.discrepancies == fitted.result_.discrepancies
    assert np.array_equal(loaded.predict(X, nodes), fitted.predict(X, nodes))
    assert loaded.history_.to_frame().equals(fitted.history_.to_frame())


@pytest.mark.parametrize(
    ("labels", "part"),
    [
        ([("a", 1), "b"], "of type tuple"),
        ([1, "1"], "are the same as text"),
        ([1.5, float("inf")], "inf"),
    ],
)
def test_labels_that_cannot_be_saved_are_refused(tmp_path, labels, part):
    X, y, nodes = rows(labels)
    fitted = FedRelaxRegressor(Ridge(), alpha=0.2, rounds=1).fit(X, y, nodes=nodes)
    with pytest.raises(FedRelaxError, match=part):
        save_result(tmp_path / "out", fitted)
    assert list(tmp_path.iterdir()) == []


def test_nodes_without_rows_get_the_mean_of_their_neighbours_after_loading(tmp_path):
    X, y, nodes = rows()
    graph = Graph.from_edges([("a", "b"), ("b", "c"), ("a", "x", 3.0), ("b", "x")])
    fitted = FedRelaxRegressor(Ridge(), graph=graph, alpha=0.2, rounds=1).fit(X, y, nodes=nodes)
    save_result(tmp_path / "out", fitted)
    loaded = load_result(tmp_path / "out")
    at_x = loaded.predict(X[:4], ["x"] * 4)
    mean = 0.75 * loaded.models_["a"].predict(X[:4]) + 0.25 * loaded.models_["b"].predict(X[:4])
    assert np.allclose(at_x, mean)


def test_an_estimator_of_a_frame_keeps_its_column_names(tmp_path):
    X, y, nodes = rows()
    frame = pd.DataFrame(X, columns=["u", "v", "w"]).assign(town=nodes)
    fitted = FedRelaxRegressor(Ridge(), alpha=0.2, rounds=1).fit(frame, y, nodes="town")
    save_result(tmp_path / "out", fitted)
    loaded = load_result(tmp_path / "out")
    assert np.array_equal(loaded.predict(frame), fitted.predict(frame))
    assert read_result(tmp_path / "out").about["node_column"] == "town"


@pytest.mark.parametrize("classes", [["x", "y"], [3, 7], [False, True]])
def test_classes_come_back_with_their_type(tmp_path, classes):
    X, y, nodes = rows()
    target = np.array(classes)[(y > 0).astype(int)]
    fitted = FedRelaxClassifier(alpha=0.2, rounds=1).fit(X, target, nodes=nodes)
    save_result(tmp_path / "out", fitted)
    loaded = load_result(tmp_path / "out")
    assert loaded.classes_.dtype == fitted.classes_.dtype
    assert np.array_equal(loaded.predict_proba(X, nodes), fitted.predict_proba(X, nodes))


class Foreign(LinearRegression):
    """A model of somebody else."""


def test_foreign_types_need_trust_by_name(tmp_path):
    X, y, nodes = rows()
    fitted = FedRelaxRegressor(Foreign(), alpha=0.2, rounds=1).fit(X, y, nodes=nodes)
    save_result(tmp_path / "out", fitted)
    name = f"{Foreign.__module__}.Foreign"
    assert read_result(tmp_path / "out").about["types_to_trust"] == [name]
    with pytest.raises(FedRelaxError, match=rf"not trusted: {name}.*trust=\['{name}'\]"):
        load_result(tmp_path / "out")
    with pytest.raises(FedRelaxError, match="not trusted"):
        load_result(tmp_path / "out", trust=[name[:-1]])
    loaded = load_result(tmp_path / "out", trust=[name])
    assert np.array_equal(loaded.predict(X, nodes), fitted.predict(X, nodes))


@pytest.mark.parametrize(
    "kind", [("builtins", "eval"), ("os", "system"), ("sklearn.datasets._base", "Path"),
             ("sklearn.utils._testing", "TempMemmap"), ("fedrelax.models.names", "importlib")]
)  # fmt: skip
def test_a_file_that_names_something_dangerous_is_refused(tmp_path, kind):
    import io
    import zipfile

    from skops.io import dumps

    X, y, nodes = rows()
    save_result(tmp_path / "out", FedRelaxRegressor(Ridge(), alpha=0, rounds=0).fit(X, y, nodes))
    data = dumps({"model": print})
    with zipfile.ZipFile(io.BytesIO(data)) as old:
        schema = json.loads(old.read("schema.json"))
    module, name = kind
    schema["content"]["model"].update(__module__=module, __class__=name)
    file = next((tmp_path / "out" / "models").iterdir())
    with zipfile.ZipFile(file, "w") as new:
        new.writestr("schema.json", json.dumps(schema))
    resign(tmp_path / "out")
    with pytest.raises(FedRelaxError, match="not trusted"):
        load_result(tmp_path / "out")


def test_another_format_is_refused(tmp_path):
    X, y, nodes = rows()
    save_result(tmp_path / "out", FedRelaxRegressor(Ridge(), alpha=0, rounds=0).fit(X, y, nodes))
    about = json.loads((tmp_path / "out/result.json").read_text())
    (tmp_path / "out/result.json").write_text(json.dumps({**about, "format": 99}))
    with pytest.raises(FedRelaxError, match="format 99"):
        read_result(tmp_path / "out")


# Whole or not at all


def test_a_failure_while_writing_leaves_nothing(tmp_path):
    with pytest.raises(RuntimeError), whole_directory(tmp_path / "deep" / "out") as draft:
        (draft / "half").write_text("")
        raise RuntimeError
    assert list((tmp_path / "deep").iterdir()) == []


def test_a_failure_while_replacing_brings_the_former_result_back(tmp_path, monkeypatch):
    X, y, nodes = rows()
    fitted = FedRelaxRegressor(Ridge(), alpha=0, rounds=0).fit(X, y, nodes)
    save_result(tmp_path / "out", fitted)
    (tmp_path / "out" / "metrics.json").write_text("former")
    import os

    real = os.rename

    def fails(old, new):
        if Path(old).name.endswith(".draft"):
            raise OSError("the disk is gone")
        real(old, new)

    monkeypatch.setattr(os, "rename", fails)
    with pytest.raises(FedRelaxError, match="disk is gone"):
        save_result(tmp_path / "out", fitted, overwrite=True)
    assert (tmp_path / "out" / "metrics.json").read_text() == "former"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_file_is_replaced_only_when_it_is_whole(tmp_path):
    (tmp_path / "p.csv").write_text("old")
    with pytest.raises(RuntimeError), whole_file(tmp_path / "p.csv", overwrite=True) as draft:
        draft.write_text("half")
        raise RuntimeError
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("p.csv", "old")]


def test_directories_have_the_usual_permissions(tmp_path):
    (tmp_path / "plain").mkdir()
    with whole_directory(tmp_path / "out"):
        pass
    assert (tmp_path / "out").stat().st_mode == (tmp_path / "plain").stat().st_mode


# Text

texts = st.text(st.characters(codec="utf-8"))
values = st.one_of(texts, st.integers(-(2**63), 2**63 - 1), st.booleans(),
                   st.floats(allow_nan=False), st.lists(texts))  # fmt: skip


@given(st.dictionaries(texts, st.one_of(values, st.dictionaries(texts, values, min_size=1))))
def test_toml_reads_back_as_it_was_written(settings):
    read = tomllib.loads(dump_toml(settings, comment="two\nlines"))
    assert read == settings
    assert {k: type(v) for k, v in read.items()} == {k: type(v) for k, v in settings.items()}


def test_nodes_may_be_called_what_tables_take_for_missing(tmp_path):
    names = ["NA", "nan", "null"]
    X, nodes = np.random.default_rng(0).normal(size=(30, 2)), np.repeat(names, 10)
    fitted = FedRelaxRegressor(Ridge(), alpha=0.2, rounds=1).fit(X, X[:, 0], nodes=nodes)
    lines = pd.DataFrame({"node": names, "model": ["ridge", "NA", "ridge"], "missed": [""] * 3})
    save_result(tmp_path / "out", fitted, nodes=lines)
    saved = read_result(tmp_path / "out")
    assert saved.nodes.to_dict("list") == lines.to_dict("list")
    assert np.array_equal(load_result(saved).predict(X, nodes), fitted.predict(X, nodes))
