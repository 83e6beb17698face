"""Models by the name of a class or function in somebody's module."""

import sys

import pytest

from fedrelax.errors import FedRelaxError
from fedrelax.models.names import model_by_name
from tests.conftest import skip_without_packages

OWN = """
from sklearn.linear_model import Ridge
from torch import nn
from fedrelax import TorchModel

class Net(nn.Module):
    def __init__(self, input_shape, n_outputs):
        super().__init__()
        self.layer = nn.Linear(input_shape[0], n_outputs)

    def forward(self, X):
        return self.layer(X)

class Plain:
    def fit(self, X, y):
        return self

    def predict(self, X):
        return X[:, 0]

def net():
    return TorchModel(Net, steps=3)

def ridge():
    return Ridge(2.0)

def number():
    return 5

constant = 5
"""


@pytest.fixture
def own_models(tmp_path, monkeypatch):
    skip_without_packages("torch-mlp")
    (tmp_path / "own_models.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    yield "own_models:"
    sys.modules.pop("own_models", None)


def test_classes_and_functions_make_models(own_models):
    from fedrelax import TorchModel

    net = model_by_name(own_models + "Net", "regression")
    assert isinstance(net, TorchModel) and net.module.__name__ == "Net"
    assert model_by_name(own_models + "net", "classification").steps == 3
    assert model_by_name(own_models + "ridge", "regression").alpha == 2.0
    assert type(model_by_name(own_models + "Plain", "regression")).__name__ == "Plain"


@pytest.mark.parametrize("name", ["number", "constant"])
def test_what_makes_no_model_is_refused(own_models, name):
    with pytest.raises(FedRelaxError, match="is not a model: name a class with fit and predict"):
        model_by_name(own_models + name, "regression")


def test_the_task_is_checked(own_models):
    with pytest.raises(FedRelaxError, match="predicts numbers, and the target holds classes"):
        model_by_name(own_models + "ridge", "classification")
