"""Other people's models: by registration, by entry point, without touching ours."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from fedrelax import FedRelax, FedRelaxError, register_adapter
from fedrelax.models import LocalModel, Task, adapt, registry
from tests.conftest import regression_network


class Thermometer:
    """Not a scikit-learn estimator at all."""

    level = 0.0


class ThermometerModel(LocalModel):
    def __init__(self, thermometer, task):
        self.task, self._thermometer = task, thermometer

    @property
    def estimator(self):
        return self._thermometer

    def fit(self, terms, *, seed, continued=False):
        fitted = copy.copy(self._thermometer)
        total = sum(term.weight.sum() for term in terms)
        fitted.level = sum(term.weight @ term.target[:, 0] for term in terms) / total
        return ThermometerModel(fitted, self.task)

    def predict(self, X):
        return np.full((len(X), 1), self._thermometer.level)


@pytest.fixture
def adapters():
    before = list(registry._adapters)
    yield
    registry._adapters[:] = before


def test_a_registered_adapter_takes_part(adapters):
    register_adapter(lambda model: isinstance(model, Thermometer), ThermometerModel)
    network = regression_network(np.random.default_rng(0), Thermometer())
    result = FedRelax(alpha=50.0, rounds=200, tol=1e-12).solve(network)
    levels = [model.level for model in result.models.values()]
    assert np.ptp(levels) < 0.1
    assert all(isinstance(model, Thermometer) for model in result.models.values())


def test_an_entry_point_takes_part(monkeypatch):
    class Point:
        def load(self):
            return (lambda model: isinstance(model, Thermometer)), ThermometerModel

    monkeypatch.setattr(
        registry, "entry_points", lambda group: [Point()] if "fedrelax" in group else []
    )
    registry._installed_adapters.cache_clear()
    try:
        assert isinstance(adapt(Thermometer(), Task("regression", 1)), ThermometerModel)
    finally:
        registry._installed_adapters.cache_clear()


def test_what_is_no_model_is_refused_with_the_node():
    network = regression_network(
        np.random.default_rng(0), lambda i: object() if i == 3 else Thermometer()
    )
    with pytest.raises(FedRelaxError, match="node 0: the model .* has no fit and predict"):
        FedRelax().solve(network)


def test_a_class_instead_of_an_instance():
    from sklearn.linear_model import Ridge

    with pytest.raises(FedRelaxError, match=r"pass an instance: Ridge\(\)"):
        adapt(Ridge, Task("regression", 1))
