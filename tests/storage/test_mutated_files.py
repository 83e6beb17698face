"""120 changed files of each kind: a clear sentence or a model that predicts, and nothing else."""

from __future__ import annotations

import io
import warnings
import zipfile

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import Ridge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.svm import SVR

from fedrelax import FedRelaxError, FedRelaxRegressor
from fedrelax.models import adapt
from fedrelax.models.names import model_by_name
from fedrelax.storage.formats import Packed, pack, unpack
from tests.conftest import skip_without_packages

NUMBER = 120
MODELS = {
    "ridge": Ridge(),
    "forest": RandomForestRegressor(n_estimators=3, max_depth=4),
    "histogram": HistGradientBoostingRegressor(max_iter=3, min_samples_leaf=3),
    "neighbours": KNeighborsRegressor(leaf_size=4, algorithm="kd_tree"),
    "support vectors": SVR(),
    "torch-mlp": None,
}


def changed(content, rng):
    """Return bytes of which some are others."""
    array = np.frombuffer(content, dtype=np.uint8).copy()
    at = rng.integers(0, len(array), size=rng.integers(1, 5))
    array[at] = rng.integers(0, 256, size=len(at))
    return array.tobytes()


def mutated(data, rng):
    """Change a file; of a zip file a part, so that its own checksums fit."""
    if not data.startswith(b"PK"):
        return changed(data, rng)
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        members = {name: file.read(name) for name in file.namelist()}
    arrays = [name for name in members if name.endswith(".npy")]
    name = str(rng.choice(arrays)) if arrays and rng.random() < 0.7 else "schema.json"
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for key, content in members.items():
            file.writestr(key, changed(content, rng) if key == name else content)
    return buffer.getvalue()


@pytest.mark.parametrize("name", MODELS)
def test_a_changed_file_is_refused_or_predicts(name):
    skip_without_packages(name)
    given = MODELS[name]
    model = model_by_name(name, "regression") if given is None else given
    rng = np.random.default_rng(0)
    X, nodes = rng.normal(size=(80, 3)), np.repeat(["a", "b"], 40)
    fitted = FedRelaxRegressor(model, alpha=0.0, rounds=0).fit(X, X[:, 0], nodes=nodes)
    file, task = pack("a", fitted.models_["a"]), fitted.result_.task
    refused, fine = 0, 0
    for _ in range(NUMBER):
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            try:
                loaded = unpack("a", Packed(file.format, mutated(file.data, rng)))
            except FedRelaxError as error:
                assert "node 'a'" in str(error)
                refused += 1
                continue
            try:
                adapt(loaded, task).predict(X)
                fine += 1
            except Exception:  # loading a whole result asks a row, and says it in a sentence
                refused += 1
    assert refused + fine == NUMBER and refused > 0
