"""The notebooks run, show what they say, and need nothing that fedrelax does not bring."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
pytest.importorskip("matplotlib")


def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("notebooks", ROOT / "tools" / "notebooks.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def printed(notebook: dict[str, Any]) -> list[str]:
    """Return what the cells print, with # for every number."""
    outputs = [output for cell in notebook["cells"] for output in cell.get("outputs", [])]
    text = ["".join(output.get("text", [])) for output in outputs]
    return [re.sub(r"[-+]?\d+(\.\d*)?(e[-+]?\d+)?", "#", each) for each in text]


def kinds(notebook: dict[str, Any]) -> list[list[str]]:
    """Return in which forms each output is kept."""
    outputs = [output for cell in notebook["cells"] for output in cell.get("outputs", [])]
    return [sorted(output.get("data", {})) for output in outputs]


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_shows_what_it_has_stored(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    notebooks = tool()
    stored = notebooks.read(path)
    fresh = notebooks.run(stored)
    assert printed(fresh) == printed(stored)
    assert kinds(fresh) == kinds(stored)
    assert ["image/png"] in kinds(stored)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_has_the_form_that_jupyter_reads(path):
    stored = tool().read(path)
    assert (stored["nbformat"], stored["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in stored["cells"]}) == len(stored["cells"])
    for cell in stored["cells"]:
        needed = {"cell_type", "id", "metadata", "source"}
        if cell["cell_type"] == "code":
            needed |= {"execution_count", "outputs"}
        assert set(cell) == needed


def test_a_cell_that_fails_is_an_error():
    cell = {"cell_type": "code", "id": "a", "metadata": {}, "source": ["1 / 0"]}
    with pytest.raises(ZeroDivisionError):
        tool().run({"cells": [cell]})


def test_figures_that_were_open_before_are_not_shown():
    notebooks = tool()
    notebooks.plt.figure()
    cell = {"cell_type": "code", "id": "a", "metadata": {}, "source": ["x = 1"]}
    assert notebooks.run({"cells": [cell]})["cells"][0]["outputs"] == []
