"""Every Python block of the documents runs, in order, document by document."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from fedrelax.models import registry

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_python_blocks_run(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = list(registry._adapters)
    names: dict[str, object] = {}
    missing: set[str] = set()
    try:
        for block in re.findall(r"```python\n(.*?)```", path.read_text(), flags=re.DOTALL):
            lacking = {name for name in needs(block) if importlib.util.find_spec(name) is None}
            missing |= lacking
            if not lacking:
                exec(compile(block, path.name, "exec"), names)
    finally:
        registry._adapters[:] = before
    if missing:
        pytest.skip(f"all blocks ran but those that need {', '.join(sorted(missing))}")


def needs(block: str) -> list[str]:
    """Return the modules that a block's first line asks for, as in ``# needs torch``."""
    first = block.partition("\n")[0]
    return first.removeprefix("# needs ").split(", ") if first.startswith("# needs ") else []


def test_links_between_documents_lead_somewhere():
    for path in DOCUMENTS:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", path.read_text()):
            assert (path.parent / target).exists(), f"{path.name} links to {target}"
