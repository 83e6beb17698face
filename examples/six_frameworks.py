"""Six nodes, six kinds of models, one network: PyTorch, Keras, XGBoost, a tree, an SVM, a linear model.

``python examples/six_frameworks.py DIRECTORY`` trains them together, once on numbers and once on
classes, saves both results, loads them in a new process and compares the predictions. It needs
``pip install 'fedrelax[torch,keras,boost]'``.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from fedrelax import FedRelaxClassifier, FedRelaxRegressor, LinearModel, SoftmaxModel
from fedrelax.models.few_rows import SupportVectorClassifier
from fedrelax.storage import load_result, save_result

TASKS = ("regression", "classification")
NODES = ("PyTorch", "Keras", "XGBoost", "tree", "machine", "line")
ROWS = 20


def model_of(node: str, classify: bool) -> Any:
    """Return the model of a node."""
    if node == "PyTorch":
        from fedrelax.models.torch import mlp

        return mlp(classify)
    if node == "Keras":
        from fedrelax.models.keras import mlp as keras_mlp

        return keras_mlp(classify)
    if node == "XGBoost":
        from xgboost import XGBClassifier, XGBRegressor

        return (XGBClassifier if classify else XGBRegressor)(n_estimators=30, max_depth=3)
    if node == "tree":
        return (DecisionTreeClassifier if classify else DecisionTreeRegressor)(max_depth=6)
    if node == "machine":
        return make_pipeline(StandardScaler(), SupportVectorClassifier() if classify else SVR())
    return SoftmaxModel(ridge=0.1) if classify else LinearModel(ridge=0.1)


def data(task: str, nodes: tuple[str, ...], rows: int, seed: int) -> tuple[Any, Any, Any]:
    """Return the rows of all nodes: one smooth rule for everybody, with a number or a class as target."""
    rng = np.random.default_rng(seed)
    X, places = rng.normal(size=(rows * len(nodes), 3)), np.repeat(nodes, rows)
    y = X[:, 0] + np.sin(2 * X[:, 1]) + 0.1 * rng.normal(size=len(X))
    if task == "classification":
        y = np.array(["low", "middle", "high"])[np.digitize(y, [-0.7, 0.7])]
    return X, y, places


def train(task: str, out: Path, nodes: tuple[str, ...] = NODES) -> Any:
    """Train one network of all kinds of models, save it, and return it."""
    classify = task == "classification"
    X, y, places = data(task, nodes, ROWS, seed=0)
    kind = FedRelaxClassifier if classify else FedRelaxRegressor
    models = {node: model_of(node, classify) for node in nodes}
    fitted = kind(models, alpha=0.5, rounds=3, public_rows=100).fit(X, y, nodes=places)
    save_result(out, fitted)
    return fitted


def answers(fitted: Any, task: str) -> Any:
    """Return predictions on new rows, as numbers: class probabilities if there are classes."""
    X, _, places = data(task, tuple(fitted.models_), 50, seed=1)
    return (
        fitted.predict_proba(X, places) if task == "classification" else fitted.predict(X, places)
    )


def difference(fitted: Any, task: str, out: Path) -> float:
    """Load the result in a new process; return the largest difference between its predictions and ours."""
    file = out.with_suffix(".npy")
    subprocess.run([sys.executable, __file__, "--load", task, out, file], check=True)
    return float(np.abs(np.load(file) - answers(fitted, task)).max())


def main(directory: Path) -> None:
    """Train, save, load elsewhere, compare."""
    for task in TASKS:
        out = directory / task
        fitted = train(task, out)
        X, y, places = data(task, NODES, 200, seed=2)
        scores = {
            node: fitted.score(X[places == node], y[places == node], places[places == node])
            for node in NODES
        }
        print(task, {node: round(score, 2) for node, score in scores.items()})
        print(
            f"  loaded in a new process, predictions differ by {difference(fitted, task, out):.1e}"
        )


if __name__ == "__main__":
    if sys.argv[1] == "--load":
        task, out, file = sys.argv[2:]
        np.save(file, answers(load_result(out), task))
    else:
        main(Path(sys.argv[1]))
