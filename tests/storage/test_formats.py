"""Every framework's models come back from disk the same, and nothing in a file is run."""

from __future__ import annotations

import io
import json
import zipfile

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fedrelax import FedRelaxClassifier, FedRelaxError, FedRelaxRegressor
from fedrelax.models.names import model_by_name
from fedrelax.storage import load_result, read_result, save_result
from fedrelax.storage.formats import check_savable, format_named, pack
from tests.conftest import PACKAGES, skip_without_packages

from .hostile import resign

FORMS = {
    "ridge": "skops",
    "torch-mlp": "torch",
    "torch-linear": "torch",
    "keras-mlp": "keras",
    "xgboost": "xgboost",
    "lightgbm": "lightgbm",
}


def trained(model, task="regression"):
    rng = np.random.default_rng(1)
    X, nodes = rng.normal(size=(24, 3)), np.repeat(["a", "b"], 12)
    y = X @ [1.0, 2.0, -1.0]
    kind = FedRelaxRegressor
    if task == "classification":
        kind, y = FedRelaxClassifier, np.array(["low", "mid", "top"])[np.digitize(y, [-1, 1])]
    return kind(model, alpha=0.2, rounds=1, public_rows=10).fit(X, y, nodes=nodes), X, nodes


@pytest.mark.slow
@pytest.mark.parametrize("task", ["regression", "classification"])
@pytest.mark.parametrize("name", FORMS)
def test_a_model_says_its_format_and_comes_back(tmp_path, name, task):
    skip_without_packages(name)
    fitted, X, nodes = trained(model_by_name(name, task), task)
    save_result(tmp_path / "out", fitted)
    lines = json.loads((tmp_path / "out/models.json").read_text())
    assert {line["format"] for line in lines} == {FORMS[name]}
    ending = format_named(FORMS[name]).ending
    assert all((tmp_path / "out" / line["file"]).name.endswith(ending) for line in lines)
    package = PACKAGES.get(name, ("numpy",))[0]
    assert package in read_result(tmp_path / "out").about["versions"]
    loaded = load_result(tmp_path / "out")
    assert np.array_equal(loaded.predict(X, nodes), fitted.predict(X, nodes))
    if task == "classification":
        assert np.array_equal(loaded.predict_proba(X, nodes), fitted.predict_proba(X, nodes))
        assert loaded.classes_.tolist() == ["low", "mid", "top"]
    save_result(tmp_path / "again", loaded)
    again = load_result(tmp_path / "again")
    assert np.array_equal(again.predict(X, nodes), fitted.predict(X, nodes))


def test_a_format_of_the_future_is_refused(tmp_path):
    fitted, _, _ = trained(Ridge())
    save_result(tmp_path / "out", fitted)
    text = (tmp_path / "out/models.json").read_text().replace('"skops"', '"crystal"')
    (tmp_path / "out/models.json").write_text(text)
    resign(tmp_path / "out")
    with pytest.raises(FedRelaxError, match="format 'crystal' of a model is unknown"):
        load_result(tmp_path / "out")


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in FORMS if name != "ridge"])
def test_a_damaged_file_is_one_sentence(tmp_path, name):
    skip_without_packages(name)
    fitted, _, _ = trained(model_by_name(name, "regression"))
    save_result(tmp_path / "out", fitted)
    for file in (tmp_path / "out/models").iterdir():
        file.write_bytes(file.read_bytes()[:40])
    with pytest.raises(
        FedRelaxError, match="this result is damaged: models/0001.* does not match the"
    ):
        load_result(tmp_path / "out")
    resign(tmp_path / "out")
    with pytest.raises(FedRelaxError, match="node 'a': .*"):
        load_result(tmp_path / "out")


# What a file may not do


def edited(data, member, change):
    """Return a zip file with one member changed."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(buffer, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            new.writestr(name, change(content.decode()) if name == member else content)
    return buffer.getvalue()


ATTACKS = {
    "another module": {"module": "os", "class_name": "system"},
    "a downloader of Keras": {"module": "keras.utils", "class_name": "get_file"},
    "the switch for unsafe loading": {
        "module": "keras.config", "class_name": "enable_unsafe_deserialization"},
    "a lambda": {"module": "builtins", "class_name": "__lambda__"},
    "a layer with code in it": {"module": "keras.layers", "class_name": "Lambda"},
    "a layer with a pickle in it": {"module": "keras.layers", "class_name": "TorchModuleWrapper"},
    "a layer that reads files": {"module": "keras.layers", "class_name": "StringLookup"},
    "a function": {"module": "os", "class_name": "function", "config": "system"},
}  # fmt: skip


@pytest.mark.parametrize("what", ATTACKS)
def test_a_keras_file_makes_nothing_but_safe_parts_of_keras(tmp_path, what):
    skip_without_packages("keras-mlp")
    fitted, _, _ = trained(model_by_name("keras-mlp", "regression").set_params(epochs=1))
    save_result(tmp_path / "out", fitted)

    def change(text):
        config = json.loads(text)
        config["config"]["layers"][1] = {"config": {}, "registered_name": None, **ATTACKS[what]}
        return json.dumps(config)

    file = sorted((tmp_path / "out/models").iterdir())[0]
    file.write_bytes(edited(file.read_bytes(), "config.json", change))
    resign(tmp_path / "out")
    with pytest.raises(FedRelaxError, match="types that are not trusted"):
        load_result(tmp_path / "out")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["xgboost", "lightgbm"])
def test_a_boosted_file_makes_nothing_but_boosted_models(tmp_path, name):
    skip_without_packages(name)
    fitted, _, _ = trained(model_by_name(name, "regression"))
    save_result(tmp_path / "out", fitted)
    file = sorted((tmp_path / "out/models").iterdir())[0]

    def change(text):
        return json.dumps({**json.loads(text), "library": "os", "class": "system"})

    file.write_bytes(edited(file.read_bytes(), "about.json", change))
    resign(tmp_path / "out")
    with pytest.raises(FedRelaxError, match=r"node 'a': .*names os.system"):
        load_result(tmp_path / "out")


# Trust


def test_a_layer_of_ones_own_needs_trust_by_name(tmp_path, monkeypatch):
    skip_without_packages("keras-mlp")
    from fedrelax.models.keras import KerasModel

    (tmp_path / "my_layers.py").write_text(
        "import keras\n"
        "class Twice(keras.layers.Layer):\n"
        "    def call(self, x):\n"
        "        return 2 * x\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    from fedrelax.models.keras.estimator import load_keras

    keras = load_keras()
    import my_layers

    network = keras.Sequential([keras.layers.Input((3,)), my_layers.Twice(), keras.layers.Dense(1)])
    network.compile("sgd", "mse")
    fitted, X, nodes = trained(KerasModel(network, epochs=1))
    save_result(tmp_path / "out", fitted)
    assert read_result(tmp_path / "out").about["types_to_trust"] == ["my_layers.Twice"]
    with pytest.raises(FedRelaxError, match=r"trust=\['my_layers.Twice'\]"):
        load_result(tmp_path / "out")
    loaded = load_result(tmp_path / "out", trust=["my_layers.Twice"])
    assert np.array_equal(loaded.predict(X, nodes), fitted.predict(X, nodes))


def test_a_pipeline_around_xgboost_is_a_skops_file_that_needs_trust(tmp_path):
    xgboost = pytest.importorskip("xgboost", reason="needs the extra boost (xgboost)")
    model = make_pipeline(StandardScaler(), xgboost.XGBRegressor(n_estimators=3))
    fitted, X, nodes = trained(model)
    save_result(tmp_path / "out", fitted)
    needed = read_result(tmp_path / "out").about["types_to_trust"]
    assert "xgboost.sklearn.XGBRegressor" in needed
    with pytest.raises(FedRelaxError, match=r"trust=\['xgboost.core.Booster'"):
        load_result(tmp_path / "out")
    loaded = load_result(tmp_path / "out", trust=needed)
    assert np.array_equal(loaded.predict(X, nodes), fitted.predict(X, nodes))


# What cannot be saved


def test_a_setting_that_is_a_function_is_said_before_training():
    xgboost = pytest.importorskip("xgboost", reason="needs the extra boost (xgboost)")
    with pytest.raises(FedRelaxError, match="node 'a': its model XGBRegressor has objective="):
        check_savable("a", xgboost.XGBRegressor(objective=lambda y, p: (p - y, np.ones(len(y)))))


def test_what_skops_cannot_write_is_said_with_the_node():
    model = Ridge()
    model.helper = lambda x: x
    with pytest.raises(FedRelaxError, match="node 'a': its model Ridge cannot be saved"):
        pack("a", model)


def test_a_net_of_ones_own_needs_trust_by_name_and_optimizers_of_pytorch_do_not(
    tmp_path, monkeypatch
):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    pytest.importorskip("safetensors", reason="safetensors is not installed")
    from fedrelax.models.torch import TorchModel

    (tmp_path / "ownnets.py").write_text(
        "from torch import nn\n"
        "def net(shape, outputs):\n"
        "    return nn.Sequential(nn.Linear(*shape, 4), nn.Tanh(), nn.Linear(4, outputs))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    from ownnets import net

    fitted, X, nodes = trained(TorchModel(net, steps=5, optimizer=torch.optim.SGD, lr=0.01))
    save_result(tmp_path / "out", fitted)
    with pytest.raises(
        FedRelaxError, match=r"not trusted: ownnets:net; .* trust=\['ownnets:net'\]"
    ):
        load_result(tmp_path / "out")
    loaded = load_result(tmp_path / "out", trust=["ownnets:net"])
    assert np.array_equal(loaded.predict(X, nodes), fitted.predict(X, nodes))


@pytest.mark.parametrize("name", ["ridge", "tree", "forest", "boosting", "mlp", "svm", "knn"])
def test_models_that_are_not_fitted_yet_can_be_saved(name):
    check_savable("a", model_by_name(name, "regression"))
