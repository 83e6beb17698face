"""Runs notebooks and stores what they show: ``python tools/notebooks.py docs/notebooks/*.ipynb``.

A notebook is a list of cells in JSON, and running one needs no more than Python and matplotlib: a cell
shows what it prints, the value of its last line and the figures that it has drawn, as in Jupyter.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
import sys
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt

Names = dict[str, Any]
Outputs = list[dict[str, Any]]


def read(path: Path) -> dict[str, Any]:
    """Return a notebook."""
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def write(notebook: dict[str, Any], path: Path) -> None:
    """Write a notebook in the form that Jupyter writes."""
    text = json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True)
    path.write_text(text + "\n", encoding="utf-8")


def run(notebook: dict[str, Any]) -> dict[str, Any]:
    """Return the notebook with the outputs of its cells, which are run in order."""
    plt.close("all")  # figures that were open before are not the notebook's
    names: Names = {"__name__": "__main__"}
    cells, count = [], 0
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            count += 1
            outputs = run_cell("".join(cell["source"]), names, count)
            cell = {**cell, "execution_count": count, "outputs": outputs}
        cells.append(cell)
    return {**notebook, "cells": cells}


def run_cell(source: str, names: Names, count: int) -> Outputs:
    """Run one cell and return what it shows."""
    tree, last = ast.parse(source), None
    if tree.body and isinstance(tree.body[-1], ast.Expr) and not source.rstrip().endswith(";"):
        last = ast.Expression(tree.body.pop().value)  # type: ignore[attr-defined]
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, f"cell {count}", "exec"), names)
        if last is not None:
            value = eval(compile(last, f"cell {count}", "eval"), names)
    outputs: Outputs = []
    if printed.getvalue():
        lines = printed.getvalue().splitlines(keepends=True)
        outputs.append({"output_type": "stream", "name": "stdout", "text": lines})
    if value is not None:
        outputs.append(shown(value, count))
    return outputs + figures()


def shown(value: Any, count: int) -> dict[str, Any]:
    """Return the value of a cell's last line: as text, and as HTML if it has any."""
    data = {"text/plain": repr(value).splitlines(keepends=True)}
    html = getattr(value, "_repr_html_", lambda: None)()
    if html is not None:
        data["text/html"] = html.splitlines(keepends=True)
    kind = "execute_result"
    return {"output_type": kind, "execution_count": count, "data": data, "metadata": {}}


def figures() -> Outputs:
    """Return the figures that are open, and close them."""
    found: Outputs = []
    for number in plt.get_fignums():
        picture = io.BytesIO()
        plt.figure(number).savefig(picture, format="png", dpi=72, bbox_inches="tight")
        data = {"image/png": base64.b64encode(picture.getvalue()).decode()}
        found.append({"output_type": "display_data", "data": data, "metadata": {}})
    plt.close("all")
    return found


if __name__ == "__main__":
    for word in sys.argv[1:]:
        write(run(read(Path(word))), Path(word))
