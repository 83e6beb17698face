"""Networks that mix frameworks train, are saved, and predict the same in a new process."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import skip_without_packages

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
HEAVY = {"torch", "keras", "xgboost", "lightgbm", "safetensors"}


def example(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
@pytest.mark.parametrize("task", ["regression", "classification"])
def test_unlike_frameworks_train_together_and_predict_the_same_elsewhere(tmp_path, task):
    """To 1e-6: PyTorch, Keras and XGBoost compute with single precision."""
    for name in ("keras-mlp", "xgboost", "torch-mlp"):
        skip_without_packages(name)
    six = example("six_frameworks")
    fitted = six.train(task, tmp_path / task)
    formats = {
        line["node"]: line["format"]
        for line in json.loads((tmp_path / task / "models.json").read_text())
    }
    assert formats["Keras"] == "keras" and formats["XGBoost"] == "xgboost"
    assert formats["tree"] == formats["machine"] == formats["line"] == "skops"
    assert formats["PyTorch"] == "torch"
    X, y, places = six.data(task, six.NODES, 100, seed=2)
    own = six.data(task, six.NODES, six.ROWS, seed=0)
    for node in six.NODES:
        here, mine = places == node, own[2] == node
        least = 0.5
        if node == "line":  # which cannot follow the rule's curve
            alone = six.model_of(node, task == "classification").fit(own[0][mine], own[1][mine])
            least = alone.score(X[here], y[here])
        assert fitted.score(X[here], y[here], places[here]) > least, node
    assert six.difference(fitted, task, tmp_path / task) <= 1e-6


def test_a_convolutional_net_per_writer_learns_from_the_others():
    skip_without_packages("torch-mlp")
    writers = example("cnn_per_writer")
    alone = writers.errors(writers.train(alpha=0.0, rounds=1, steps=50))
    together = writers.errors(writers.train(alpha=1 / 13, rounds=15, steps=5))
    assert len(together) == 14
    assert sum(together.values()) < 0.5 * sum(alone.values())


def test_the_library_imports_no_framework():
    code = (
        "from fedrelax import FedRelaxRegressor, FedRelaxClassifier, FedRelax, Network; "
        "from fedrelax.storage import load_result, save_result; "
        "from fedrelax.models.names import model_by_name; model_by_name('ridge', 'regression')"
    )
    told = subprocess.run(
        [sys.executable, "-c", f"import sys; {code}; print(*sys.modules)"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert HEAVY.isdisjoint(told.stdout.split())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "package", "extra"),
    [
        ("torch-mlp", "torch", "torch"),
        ("keras-mlp", "keras", "keras"),
        ("xgboost", "xgboost", "boost"),
        ("lightgbm", "lightgbm", "boost"),
    ],
)
def test_a_missing_extra_is_named_before_any_work(name, package, extra):
    """The table does not even exist: the model is looked at first."""
    code = f"""
import sys
class Missing:
    def find_spec(self, name, *_):
        if name.partition(".")[0] == {package!r}:
            raise ModuleNotFoundError(name, name=name)
sys.meta_path.insert(0, Missing())
sys.argv = "fedrelax fit no.csv --node n --target t --model {name} --out never".split()
from fedrelax.cli import main
main()
"""
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert told.returncode == 2
    assert told.stdout == ""
    assert told.stderr.splitlines()[
        -1
    ] == (  # where the imports take long, lines about that come first
        f"error: {package} is not installed; pip install 'fedrelax[{extra}]' adds it"
    )
