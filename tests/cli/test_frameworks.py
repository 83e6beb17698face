"""Models of other frameworks by name: fit, save and predict from a table."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from tests.conftest import skip_without_packages

MODELS = {"Oslo": "xgboost", "Hamar": "lightgbm", "Dombås": "tree", "Bodø": "keras-mlp"}
ASK = [word for town, name in MODELS.items() for word in ("--model-for", f"{town}={name}")]


@pytest.mark.slow
@pytest.mark.parametrize("target", ["power", "alarm"])
def test_one_network_of_many_frameworks(run, table, target):
    for name in MODELS.values():
        skip_without_packages(name)
    words = ["fit", "towns.csv", "--node", "town", "--target", target, "--features", "wind,sun"]
    text = run(*words, *ASK, "--alpha", "0.3", "--rounds", "1", "--out", "out")
    assert run.code == 0, text
    assert all(name in text for name in MODELS.values())
    lines = json.loads(Path("out/models.json").read_text())
    assert {line["node"]: line["format"] for line in lines} == {
        "Oslo": "xgboost", "Hamar": "lightgbm", "Dombås": "skops", "Bodø": "keras"
    }  # fmt: skip
    run("predict", "out", "towns.csv", "--out", "p.csv")
    assert run.code == 0
    assert pd.read_csv("p.csv")["prediction"].notna().all()
