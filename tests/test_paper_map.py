"""docs/paper-map.md names code, pages and tests that exist, and leaves nothing of the paper out."""

from __future__ import annotations

import ast
import importlib
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from fedrelax import Graph
from fedrelax.losses import LOSSES
from fedrelax.paper.catalog import FIGURES
from fedrelax.paper.statements import _CHECKS, Runs

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "paper-map.md"
TEXT = PAGE.read_text(encoding="utf-8")
PAPER = ROOT.parent / "shared" / "paper" / "paper.tex"
EQUATIONS = 25
"""The numbered equations of the paper."""


def rows() -> list[list[str]]:
    """Return the lines of all tables: piece, code, page, test."""
    lines = [line for line in TEXT.splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    return [line for line in cells if line[1:] != ["code", "page", "test"]]


def named_in(column: int, pattern: str) -> list[str]:
    """Return what a column names, each once; every line of the map must name something there."""
    found: dict[str, None] = {}
    for line in rows():
        names = re.findall(pattern, line[column])
        assert names, f"{line[0]!r} names nothing in column {column + 1}"
        found |= dict.fromkeys(names)
    return list(found)


def resolve(name: str) -> Any:
    """Return the module, or the attribute of a module or class, that a dotted name stands for."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        for part in parts[end:]:
            fields = getattr(found, "__dataclass_fields__", {})
            found = fields[part] if part in fields else getattr(found, part)
        return found
    raise AssertionError(f"there is no {name}")


@cache
def functions_in(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("name", named_in(1, r"`(fedrelax\.[\w.]+)`"))
def test_code_exists(name: str) -> None:
    try:
        found = resolve(name)
    except ModuleNotFoundError as error:  # of a framework: those of fedrelax end as AttributeError
        pytest.skip(f"needs {error.name}")
    assert found is not None


@pytest.mark.parametrize("target", named_in(2, r"\]\(([^)]+)\)"))
def test_page_and_section_exist(target: str) -> None:
    file, _, anchor = target.partition("#")
    text = (PAGE.parent / file).read_text(encoding="utf-8")
    headings = [
        re.sub(r"[^\w\s-]", "", line).strip() for line in re.findall("^#+ (.*)", text, re.M)
    ]
    known = {re.sub(r"\s+", "-", heading).lower() for heading in headings}
    assert not anchor or anchor in known


@pytest.mark.parametrize("name", named_in(3, r"`(\w[\w/]*\.py(?:::\w+)?)`"))
def test_test_exists(name: str) -> None:
    file, _, test = name.partition("::")
    assert (ROOT / "tests" / file).exists()
    assert not test or test in functions_in(ROOT / "tests" / file)


def test_every_equation_is_there() -> None:
    named = {int(number) for line in rows() for number in re.findall(r"\((\d+)\)", line[0])}
    assert named >= set(range(1, EQUATIONS + 1))


def test_the_paper_has_as_many_equations() -> None:
    if not PAPER.exists():
        pytest.skip("needs the source of the paper")
    text = re.sub(r"(?<!\\)%.*", "", PAPER.read_text(encoding="utf-8"))
    shown = re.findall(r"\\begin\{(equation|align|multline)\}(.*?)\\end\{\1\}", text, re.DOTALL)
    numbered = [body for _, body in shown if r"\label{" in body or r"\nonumber" not in body]
    assert len(numbered) == EQUATIONS


def test_every_figure_and_statement_is_there() -> None:
    pieces = {line[0].partition(":")[0]: line[0] for line in rows()}
    for figure in FIGURES:
        for statement in _CHECKS[figure](Runs([])):
            assert statement in pieces[figure]


def test_every_loss_and_every_way_to_make_a_graph_is_there() -> None:
    code = " ".join(line[1] for line in rows())
    for loss in LOSSES.values():
        assert f"`fedrelax.losses.{loss.__name__}`" in code
    for name, member in vars(Graph).items():
        if isinstance(member, classmethod) and not name.startswith("_"):
            assert f"`fedrelax.Graph.{name}`" in code, name
