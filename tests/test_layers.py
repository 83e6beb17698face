"""Data flows one way: a lower layer never imports a higher one."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import fedrelax

ROOT = Path(fedrelax.__file__).parent
LAYERS = [
    {"errors", "typing", "views"},
    {"extras", "graph", "losses", "splits", "threads"},
    {"theory", "wiring"},
    {"models", "public", "datasets"},
    {"network"},
    {"runtime"},
    {"engines"},
    {"solvers"},
    {"selection"},
    {"estimators"},
    {"baselines", "cv", "learned"},
    {"evaluation"},
    {"comparison"},
    {"storage"},
    {"report"},
    {"live"},
    {"paper", "bench"},
    {"cli"},
    {"__main__"},
]
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}


def imports_of(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module != "__future__":
            found.add(node.module)
        elif isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
    return {name.split(".")[1] for name in found if name.startswith("fedrelax.")}


def test_every_module_has_a_layer_and_imports_only_lower_ones() -> None:
    wrong = []
    for path in ROOT.rglob("*.py"):
        layer = path.relative_to(ROOT).parts[0].removesuffix(".py")
        if layer == "__init__":
            continue
        assert layer in RANK, f"{layer} has no place in LAYERS"
        for other in imports_of(path):
            if other != layer and RANK[other] >= RANK[layer]:
                wrong.append(f"{path.relative_to(ROOT)} imports {other}")
    assert wrong == []


def test_import_is_light() -> None:
    code = "import sys, fedrelax; print(*sorted(m for m in sys.modules if '.' not in m))"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    heavy = {
        "torch",
        "keras",
        "xgboost",
        "lightgbm",
        "flwr",
        "matplotlib",
        "plotly",
        "networkx",
        "uvicorn",
    }
    assert heavy.isdisjoint(loaded.stdout.split())
