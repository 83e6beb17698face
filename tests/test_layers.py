"""Data flows one way: what stands lower never imports what stands higher."""

from __future__ import annotations

import ast
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import fedrelax

ROOT = Path(fedrelax.__file__).parent
STRATA = {
    "foundation": {
        "errors",
        "typing",
        "views",
        "files",
        "jsonfiles",
        "extras",
        "members",
        "threads",
        "splits",
        "validation",
        "web",
    },
    "parts": {
        "graph",
        "losses",
        "wiring",
        "models",
        "combining",
        "public",
        "schema",
        "datasets",
        "linear",
        "theory",
        "network",
    },
    "machinery": {"runtime", "engines", "solvers", "pooling", "privacy", "faults", "attacks"},
    "learning": {"selection", "living", "estimators", "baselines", "learned"},
    "judging": {"evaluation", "comparison", "storage"},
    "showing": {"report", "live", "paper", "federation", "serving", "cli", "__main__"},
}
"""From the bottom to the top; CONTRIBUTING.md has the picture."""
HEIGHT = {name: height for height, names in enumerate(STRATA.values()) for name in names}


def imports_of(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module != "__future__":
            found.add(node.module)
        elif isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
    return {name.split(".")[1] for name in found if name.startswith("fedrelax.")}


def needs() -> dict[str, set[str]]:
    """Return what every part of the package imports of the others."""
    found: dict[str, set[str]] = {}
    for path in ROOT.rglob("*.py"):
        part = path.relative_to(ROOT).parts[0].removesuffix(".py")
        if part != "__init__":
            found.setdefault(part, set()).update(imports_of(path) - {part})
    return found


def test_every_part_has_a_stratum_and_imports_nothing_above_it() -> None:
    found = needs()
    assert set(found) == set(HEIGHT)
    wrong = [
        f"{part} imports {other}"
        for part, others in found.items()
        for other in others
        if HEIGHT[other] > HEIGHT[part]
    ]
    assert wrong == []


def test_no_part_imports_one_that_needs_it() -> None:
    TopologicalSorter(needs()).prepare()  # raises CycleError


def test_the_picture_has_the_same_strata() -> None:
    text = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text()
    for name, parts in STRATA.items():
        line = next(line for line in text.splitlines() if line.startswith(f"| {name} |"))
        assert {part.strip(" `") for part in line.split("|")[2].split(",")} == parts


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
        "statsmodels",
        "distributed",
        "ray",
    }
    assert heavy.isdisjoint(loaded.stdout.split())


def test_help_does_not_wait_for_scikit_learn() -> None:
    code = "import sys, fedrelax.cli; print(*sorted(m for m in sys.modules if '.' not in m))"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert {"sklearn", "scipy", "pandas"}.isdisjoint(loaded.stdout.split())
