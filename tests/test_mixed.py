"""Networks of many kinds of models train in one call."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from benchmarks.tasks import digits_task
from fedrelax import FedRelaxClassifier, FedRelaxRegressor
from fedrelax.datasets import clustered
from fedrelax.evaluation import evaluate

REGRESSORS = [
    Ridge(),
    DecisionTreeRegressor(max_depth=5),
    RandomForestRegressor(20),
    HistGradientBoostingRegressor(max_iter=30, min_samples_leaf=3),
    make_pipeline(StandardScaler(), MLPRegressor(hidden_layer_sizes=(16,), max_iter=300)),
    SVR(),
    KNeighborsRegressor(3),
    GaussianProcessRegressor(alpha=0.1),
]
CLASSIFIERS = [
    LogisticRegression(),
    DecisionTreeClassifier(),
    RandomForestClassifier(20),
    HistGradientBoostingClassifier(max_iter=5, min_samples_leaf=3),
    make_pipeline(StandardScaler(), MLPClassifier(hidden_layer_sizes=(16,), max_iter=100)),
    SVC(),
    KNeighborsClassifier(3),
    GaussianNB(),
]


@pytest.mark.filterwarnings("ignore")
def test_eight_kinds_of_regressors():
    data = clustered(sizes=(8, 8), m=10, d=5, sigma=0.3, p_in=0.9, p_out=0.05, random_state=0)
    nodes = np.repeat(np.arange(16), 10)
    test_nodes = np.repeat(np.arange(16), 100)
    train = (data.X.reshape(-1, 5), data.y.ravel(), nodes)
    test = (data.X_val.reshape(-1, 5), data.y_val.ravel(), test_nodes)
    model = FedRelaxRegressor(lambda i: REGRESSORS[i % 8], data.graph, alpha=0.2, rounds=3)
    model.fit(train[0], train[1], nodes=nodes)
    found = evaluate(model, train, test)
    table, total = found.nodes, found.errors
    print(table.to_string(), total)
    assert table.model.nunique() == 8
    assert np.isfinite(table[["alone", "pooled", "together"]].to_numpy()).all()
    assert total["together"] < total["alone"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_eight_kinds_of_classifiers():
    task = digits_task(0)
    labels = task.graph.labels
    kinds = {label: CLASSIFIERS[i % 8] for i, label in enumerate(labels)}
    model = FedRelaxClassifier(kinds, task.graph, alpha=0.2, rounds=2)
    X, y, nodes = task.train
    found = evaluate(model.fit(X, y, nodes=nodes), task.train, task.test)
    table, total = found.nodes, found.errors
    print(table.to_string(), total)
    assert table.model.nunique() == 8
    assert total["together"] < total["alone"]
