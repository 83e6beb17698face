"""Files of the boosting libraries are tried in a child, so none of them ends or stops this process."""

from __future__ import annotations

import io
import json
import zipfile

import numpy as np
import pytest

from fedrelax import FedRelaxError, FedRelaxRegressor
from fedrelax.models.boost import from_bytes
from fedrelax.models.names import model_by_name
from fedrelax.storage import load_result, save_result
from fedrelax.storage.child import _ask, try_files
from tests.conftest import skip_without_packages

from .hostile import resign

NAMES = ("xgboost", "lightgbm")


def fitted_file(name, tmp_path):
    """Return the file of a small model, and the rows that it was fitted to."""
    skip_without_packages(name)
    rng = np.random.default_rng(1)
    X, nodes = rng.normal(size=(60, 3)), np.repeat(["a", "b"], 30)
    model = model_by_name(name, "regression").set_params(n_estimators=3)
    fitted = FedRelaxRegressor(model, alpha=0.0, rounds=0).fit(X, X[:, 0], nodes=nodes)
    save_result(tmp_path / "out", fitted)
    return sorted((tmp_path / "out/models").iterdir())[0], fitted, X, nodes


def with_model(data, content):
    """Return a file with another model of the library in it."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(buffer, "w") as new:
        new.writestr("about.json", old.read("about.json"))
        new.writestr("model", content)
    return buffer.getvalue()


def model_in(data):
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        return file.read("model")


@pytest.mark.slow
def test_a_child_says_which_file_ended_it(tmp_path):
    """XGBoost follows a child that is not there."""
    file, *_ = fitted_file("xgboost", tmp_path)
    good = file.read_bytes()
    model = json.loads(bytes(from_bytes(good, ()).get_booster().save_raw("json")))
    trees = model["learner"]["gradient_booster"]["model"]["trees"]
    trees[0]["left_children"][0] = 2**31 - 5
    bad = with_model(good, json.dumps(model).encode())
    try_files([("a", good, 3)])
    with pytest.raises(FedRelaxError, match="this result is damaged: .*node 'b'"):
        try_files([("a", good, 3), ("b", bad, 3), ("c", good, 3)])
    file.write_bytes(bad)
    resign(tmp_path / "out")
    with pytest.raises(FedRelaxError, match="this result is damaged: .*node 'a'"):
        load_result(tmp_path / "out")


@pytest.mark.parametrize("name", NAMES)
def test_a_model_of_other_features_is_refused(tmp_path, name):
    file, *_ = fitted_file(name, tmp_path)
    with pytest.raises(FedRelaxError, match="takes 3 features, and the result has 2"):
        try_files([("a", file.read_bytes(), 2)])


def test_a_walk_that_never_ends_is_ended(tmp_path):
    """A tree of LightGBM whose root is its own child."""
    file, *_ = fitted_file("lightgbm", tmp_path)
    text = model_in(file.read_bytes()).decode().split("\n")
    at = next(k for k, line in enumerate(text) if line.startswith("left_child="))
    for side in (at, at + 1):
        key, _, values = text[side].partition("=")
        text[side] = f"{key}={' '.join('0' for _ in values.split())}"
    bad = with_model(file.read_bytes(), "\n".join(text).encode())
    with pytest.raises(FedRelaxError, match="this result is damaged: .*node 'a'"):
        try_files([("a", bad, 3)], seconds=8)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_mutated_files_are_refused_or_predict(tmp_path, name):
    """Of 120 files with changed bytes each is refused in a sentence, or loads and predicts here."""
    file, _, X, _ = fitted_file(name, tmp_path)
    good, rng = file.read_bytes(), np.random.default_rng(0)
    model = np.frombuffer(model_in(good), dtype=np.uint8)
    mutated = []
    for _ in range(120):
        changed = model.copy()
        at = rng.integers(0, len(model), size=rng.integers(1, 6))
        changed[at] = rng.integers(0, 256, size=len(at))
        mutated.append(with_model(good, changed.tobytes()))
    answers: list[str] = []
    while len(answers) < len(mutated):  # a file that ends the child is the last of its answers
        answers += _ask([(data, 3) for data in mutated[len(answers) :]], 6.0)
    for data, answer in zip(mutated, answers, strict=True):
        if answer:
            assert "\n" not in answer
        else:
            assert np.isfinite(from_bytes(data, ()).predict(X)).all()
    assert 0 < answers.count("") < len(mutated)


def test_a_form_of_an_earlier_version_is_refused(tmp_path):
    file, *_ = fitted_file("xgboost", tmp_path)
    members = {}
    with zipfile.ZipFile(file) as old:
        members = {name: old.read(name) for name in old.namelist()}
    about = {**json.loads(members["about.json"]), "form": "soft"}
    with zipfile.ZipFile(file, "w") as new:
        new.writestr("about.json", json.dumps(about))
        new.writestr("model", members["model"])
    with pytest.raises(
        FedRelaxError, match=r"by an earlier version of fedrelax.*run the fit again"
    ):
        from_bytes(file.read_bytes(), ())
