"""Reading and writing results does not import frameworks that no model of theirs needs."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec

import pytest

CODE = """
import sys
from sklearn.linear_model import Ridge
from fedrelax.storage.trust import from_bytes, to_bytes
model = from_bytes(to_bytes(Ridge(alpha=2.0)), [])
assert model.alpha == 2.0
assert "torch" not in sys.modules
import torch
assert torch.ones(2).sum() == 2
"""


@pytest.mark.slow
@pytest.mark.skipif(find_spec("torch") is None, reason="pip install torch")
def test_models_of_scikit_learn_are_stored_without_pytorch_which_is_found_later() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
