"""A trained net comes back from its bytes, and no code runs that nobody trusts."""

from __future__ import annotations

import functools
import json

import numpy as np
import pytest

pytest.importorskip("torch", reason="nets need torch: pip install 'fedrelax[torch]'")
pytest.importorskip("safetensors", reason="saving nets needs safetensors")

import torch
from safetensors.torch import load, save
from torch import nn

from fedrelax import FedRelax, FedRelaxError, TorchModel
from fedrelax.models.torch import MLP, linear, mlp
from fedrelax.models.torch.files import from_bytes, to_bytes
from tests.conftest import classification_network, regression_network

from . import torch_modules

MODULE = torch_modules.__name__
NET = f"{MODULE}:Net"
X = np.random.default_rng(3).normal(size=(6, 3))


def trained(model, classes=False):
    make = classification_network if classes else regression_network
    network = make(np.random.default_rng(0), model)
    result = FedRelax(rounds=1).solve(network)
    return result.models[network.graph.labels[0]]


WITHOUT_TRUST = {
    "mlp": mlp(False),
    "linear": linear(False),
    "layers": TorchModel(nn.Sequential(nn.Linear(3, 4, bias=False), nn.ELU(), nn.Linear(4, 1))),
    "inner chain": TorchModel(nn.Sequential(nn.Sequential(nn.Linear(3, 4)), nn.Linear(4, 1))),
    "statistics": TorchModel(
        nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.1), nn.Linear(4, 1))
    ),
    "an optimiser's class": TorchModel(MLP((3,)), torch.optim.NAdam),
    "double precision": TorchModel(MLP((3, 2)), dtype="float64", clip=2.0, scale=True),
}


@pytest.mark.parametrize("model", WITHOUT_TRUST.values(), ids=WITHOUT_TRUST)
def test_nets_of_known_parts_come_back_without_trust(model):
    before = trained(model)
    after = from_bytes(to_bytes(before), trust=())
    assert np.array_equal(after.predict(X), before.predict(X))
    for name, value in before.get_params(deep=False).items():
        if name != "module":
            assert getattr(after, name) == value
    again = trained(after)  # The settings are whole: it can be trained anew.
    assert np.isfinite(again.predict(X)).all()


@pytest.mark.parametrize("model", [mlp(True), linear(True)], ids=["mlp", "linear"])
def test_classes_come_back(model):
    before = trained(model, classes=True)
    after = from_bytes(to_bytes(before), trust=())
    assert after.classes_.tolist() == ["ash", "birch", "cedar"]
    assert after.classes_.dtype == before.classes_.dtype
    assert np.array_equal(after.predict_proba(X), before.predict_proba(X))
    assert np.array_equal(after.predict(X), before.predict(X))


@pytest.mark.parametrize(
    ("name", "module"),
    [
        (NET, torch_modules.Net),
        (NET, torch_modules.Net()),
        (NET, functools.partial(torch_modules.Net, hidden=7)),
        (f"{MODULE}:make", torch_modules.make),
    ],
    ids=["class", "instance", "partial", "function"],
)
def test_code_of_others_needs_trust_by_name(name, module):
    before = trained(TorchModel(module))
    data = to_bytes(before)
    with pytest.raises(FedRelaxError) as caught:
        from_bytes(data, trust=[f"{MODULE}:Other"])
    assert caught.match("not trusted")
    assert caught.match(rf"trust=\['{name}'\]$")
    assert np.array_equal(from_bytes(data, trust=[name]).predict(X), before.predict(X))


def test_a_name_that_is_not_trusted_is_not_even_imported(tmp_path, monkeypatch):
    (tmp_path / "sly.py").write_text("raise SystemExit('it ran')")
    monkeypatch.syspath_prepend(tmp_path)
    data = renamed(to_bytes(trained(TorchModel(torch_modules.Net))), NET, "sly:Net")
    with pytest.raises(FedRelaxError, match=r"trust=\['sly:Net'\]"):
        from_bytes(data, trust=())


def renamed(data, old, new):
    """The same file with another text in its description."""
    length = int.from_bytes(data[:8], "little")
    about = json.loads(data[8 : 8 + length])["__metadata__"]["fedrelax"]
    assert old in about
    return save(load(data), metadata={"fedrelax": about.replace(old, new)})


@pytest.mark.parametrize(
    "module",
    [
        lambda i, o: nn.Linear(i[0], o),
        torch_modules.Net(hidden=9),
        nn.Sequential(nn.Linear(3, 3), torch_modules.Net()),
    ],
    ids=["lambda", "instance with arguments", "chain with a module of one's own"],
)
def test_what_cannot_be_made_again_is_refused_when_saved(module):
    with pytest.raises(FedRelaxError, match="cannot be (saved|rebuilt)"):
        to_bytes(trained(TorchModel(module)))


@pytest.mark.parametrize("cut", [0, 5, 40, -3])
def test_a_damaged_file_is_one_sentence(cut):
    data = to_bytes(trained(mlp(False)))
    with pytest.raises(FedRelaxError, match="cannot be read"):
        from_bytes(data[:cut], trust=())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"hidden": [32]', '"hidden": [320000000]'),
        ('"hidden": [32]', '"hidden": "many"'),
        ('"version": 3', '"version": 99'),
        ('"kind": "mlp"', '"kind": "layers"'),
        ('"optimizer": "adamw"', '"optimizer": "adamwest"'),
    ],
)
def test_a_description_that_is_not_true_is_one_sentence(old, new):
    data = to_bytes(trained(mlp(False)))
    with pytest.raises(FedRelaxError):
        from_bytes(renamed(data, old, new), trust=())


def test_what_is_not_trained_cannot_be_saved():
    with pytest.raises(FedRelaxError, match="not trained"):
        to_bytes(mlp(False))
