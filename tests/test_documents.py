"""Every Python and shell block of the documents runs, in order, document by document.

A page's blocks share one empty directory and one set of names. Where a page speaks of ``my.csv``, the
reader's own table, there is one. A shell line that says ``# stops`` must end with an error; one that says
``# not tested: why``, and programs other than fedrelax, are not run, and the summary lists them.
"""

from __future__ import annotations

import importlib.util
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from fedrelax.cli.app import app
from fedrelax.models import registry

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
WEATHER = ROOT.parent / "shared" / "data" / "fmi_hourly.csv"
OTHERS = {"pip": "installs", "make": "needs a checkout", "xdg-open": "opens a browser"}
BLOCK = re.compile(r"^```(python|sh|text)\n(.*?)^```", flags=re.DOTALL | re.MULTILINE)
READER = CliRunner(env={"COLUMNS": "200"})


@dataclass(frozen=True)
class Line:
    """One command of a shell block."""

    words: list[str]
    comment: str

    @property
    def not_run(self) -> str | None:
        """Why the command is not run, or None."""
        if self.comment.startswith("not tested: "):
            return self.comment.removeprefix("not tested: ")
        return OTHERS.get(self.words[0])


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT)).removeprefix("docs/")


def blocks_of(path: Path) -> list[tuple[str, str]]:
    return BLOCK.findall(path.read_text(encoding="utf-8"))


def lines_of(block: str) -> list[Line]:
    found = []
    for line in block.replace("\\\n", " ").splitlines():
        command, _, comment = line.partition("  # ")
        if command.strip() and not command.startswith("#"):
            found.append(Line(shlex.split(command), comment.strip()))
    return found


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_blocks_run(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if "my.csv" in path.read_text(encoding="utf-8"):
        own_table().to_csv("my.csv", index=False)
    before = list(registry._adapters)
    names: dict[str, object] = {"WEATHER": WEATHER}
    missing: set[str] = set()
    said = ""
    try:
        for kind, block in blocks_of(path):
            lacking = {name for name in needs(block) if not is_here(name)}
            missing |= lacking
            if kind == "python" and not missing:
                exec(compile(block, path.name, "exec"), names)
            elif kind == "sh" and not missing:
                said = "\n".join(run(line) for line in lines_of(block) if line.not_run is None)
            elif kind == "text" and not missing:
                assert_said(block, said)
            if path.parent == ROOT / "docs":
                missing -= (
                    lacking  # the next block of a page stands by itself, one of a tutorial does not
                )
    finally:
        registry._adapters[:] = before
    absent = {name for _, block in blocks_of(path) for name in needs(block) if not is_here(name)}
    if absent:
        pytest.skip(f"all blocks ran but those that need {', '.join(sorted(absent))}")


def run(line: Line) -> str:
    """Run a command of fedrelax, which must end well unless the line says that it stops."""
    assert line.words[0] == "fedrelax", (
        f"{line.words[0]} cannot run here; mark it # not tested: why"
    )
    answer = READER.invoke(app, line.words[1:])
    expected = 2 if line.comment.startswith("stops") else 0
    assert answer.exit_code == expected, f"{shlex.join(line.words)}\n{answer.output}"
    return answer.output


def assert_said(shown: str, said: str) -> None:
    """Check that a page shows what a command says, whatever the numbers are."""
    spoken = plain(said)
    for line in shown.splitlines():
        for part in line.split("..."):
            assert plain(part) in spoken, f"{line!r} is not in\n{said}"


def plain(text: str) -> str:
    """Return the words of a text, with # for every number and for lines of a table."""
    text = re.sub(r"[+-]?\d+(,\d{3})*(\.\d+)?(e[+-]?\d+)?", "#", text)
    return re.sub(r"[\s─]+", " ", text).strip()


def needs(block: str) -> list[str]:
    """Return the modules that a block's first line asks for, as in ``# needs torch``."""
    first = block.partition("\n")[0]
    return first.removeprefix("# needs ").split(", ") if first.startswith("# needs ") else []


def is_here(name: str) -> bool:
    return WEATHER.exists() if name == "WEATHER" else importlib.util.find_spec(name) is not None


def own_table() -> pd.DataFrame:
    """A table such as a reader may have: 16 sites on a map, 8 rows each."""
    rng = np.random.default_rng(0)
    places = pd.DataFrame({"lat": rng.uniform(60, 62, 16), "lon": rng.uniform(22, 26, 16)})
    table = places.loc[np.repeat(places.index, 8)].assign(
        temp=rng.normal(5, 8, 128).round(1), wind=rng.gamma(2, 2, 128).round(1)
    )
    slope, noise = 2 + 2 * (table["lat"] - 60), rng.normal(0, 20, 128)
    table["load"] = (300 - slope * table["temp"] + 4 * table["wind"] + noise).round(1)
    return table.assign(site=[f"site {i}" for i in table.index])


UNTESTED = [
    (path, line)
    for path in DOCUMENTS
    for kind, block in blocks_of(path)
    if kind == "sh"
    for line in lines_of(block)
    if line.not_run is not None
]


@pytest.mark.parametrize(
    ("path", "line"), UNTESTED, ids=lambda it: name_of(it) if isinstance(it, Path) else it.words[0]
)
def test_commands_that_are_not_run(path, line):
    pytest.skip(f"{name_of(path)}: {shlex.join(line.words)}: {line.not_run}")


def test_links_between_documents_lead_somewhere():
    for path in DOCUMENTS:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", path.read_text(encoding="utf-8")):
            assert (path.parent / target).exists(), f"{path.name} links to {target}"
