"""Every Python and shell block of the documents runs, in order, document by document.

A page's blocks share one empty directory and one set of names. The README's commands run in a terminal, as
a reader runs them, the others in this process. Where a page speaks of ``my.csv``, it is the table of
``fedrelax example``. Marks are HTML comments on the lines before a block, which no reader sees:
``<!-- needs torch -->`` runs it only where that module is, the commands of ``<!-- stops -->`` must end with
an error, and those of ``<!-- not tested: why -->`` are not run. These, and programs other than fedrelax,
are listed in the summary.
"""

from __future__ import annotations

import importlib.util
import re
import shlex
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import partial
from io import StringIO
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fedrelax.cli.app import app
from fedrelax.datasets.examples import example_table
from fedrelax.models import registry
from tests.terminal import Terminal

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
WEATHER = ROOT.parent / "shared" / "data" / "fmi_hourly.csv"
OTHERS = {"pip": "installs", "make": "needs a checkout", "xdg-open": "opens a browser"}
BLOCK = re.compile(
    r"((?:^<!-- [^\n]* -->\n)*)^```(python|sh|text)\n(.*?)^```", flags=re.DOTALL | re.MULTILINE
)
VISIBLE = re.compile(r"^# needs |# not tested|# stops", flags=re.MULTILINE)
READER = CliRunner(env={"COLUMNS": "200"})


@dataclass(frozen=True)
class Block:
    """The code of one block, and what the comments before it say."""

    kind: str
    text: str
    marks: tuple[str, ...]

    @property
    def needs(self) -> set[str]:
        """The modules without which the block is not run."""
        asked = [mark.removeprefix("needs ") for mark in self.marks if mark.startswith("needs ")]
        return {name for names in asked for name in names.split(", ")}

    @property
    def lacks(self) -> set[str]:
        """Those of them that are not here."""
        return {name for name in self.needs if not is_here(name)}

    @property
    def stops(self) -> bool:
        """Whether its commands must end with an error."""
        return "stops" in self.marks

    @property
    def commands(self) -> list[list[str]]:
        """The words of each command of a shell block."""
        lines = [line.partition("  # ")[0] for line in self.text.replace("\\\n", " ").splitlines()]
        return [shlex.split(line) for line in lines if line.strip() and not line.startswith("#")]

    def not_run(self, words: list[str]) -> str | None:
        """Why a command is not run, or None."""
        for mark in self.marks:
            if mark.startswith("not tested: "):
                return mark.removeprefix("not tested: ")
        return OTHERS.get(words[0])


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT)).removeprefix("docs/")


def blocks_of(path: Path) -> list[Block]:
    found = BLOCK.findall(path.read_text(encoding="utf-8"))
    return [
        Block(kind, text, tuple(re.findall("<!-- (.*) -->", marks))) for marks, kind, text in found
    ]


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=() if path.name == "README.md" else pytest.mark.thorough)
        for path in DOCUMENTS
    ],
    ids=name_of,
)
def test_blocks_run(path, tmp_path, monkeypatch, terminal):
    monkeypatch.chdir(tmp_path)
    command = partial(in_terminal, terminal) if path == ROOT / "README.md" else in_process
    page = path.read_text(encoding="utf-8")
    if "my.csv" in page and "fedrelax example my.csv" not in page:
        example_table().to_csv("my.csv", index=False)
    before = list(registry._adapters)
    names: dict[str, object] = {"WEATHER": WEATHER}
    missing: set[str] = set()
    said: str | None = ""
    try:
        for block in blocks_of(path):
            missing |= block.lacks
            if block.kind == "python" and not missing:
                with redirect_stdout(StringIO()) as spoken:
                    exec(compile(block.text, path.name, "exec"), names)
                said = spoken.getvalue()
            elif block.kind == "sh" and not missing:
                said = "\n".join(run(block, command))
            elif block.kind != "text":
                said = None  # a block that is not run says nothing
            elif said is not None:
                assert_said(block.text, said)
            if path.parent == ROOT / "docs":
                # The next block of a page stands by itself, one of a tutorial does not.
                missing -= block.lacks
    finally:
        registry._adapters[:] = before
    absent = {name for block in blocks_of(path) for name in block.lacks}
    if absent:
        pytest.skip(f"all blocks ran but those that need {', '.join(sorted(absent))}")


def in_process(words: list[str]) -> tuple[int, str]:
    """Run a command here; return its exit code and what it said."""
    answer = READER.invoke(app, words[1:])
    return answer.exit_code, answer.output


def in_terminal(terminal: Terminal, words: list[str]) -> tuple[int, str]:
    """Run a command in a terminal: it breaks no word, and says what it does and for how long."""
    shown = terminal(*words[1:])
    shown.check()
    if words[1] != "example":  # at once
        assert shown.bars and re.search(r"\d:\d\d:\d\d", shown.raw), shown.raw
    return shown.code, "\n".join(shown.screen)


def run(block: Block, command: Callable[[list[str]], tuple[int, str]]) -> list[str]:
    """Run the commands of fedrelax, which must end well unless the block says that they stop."""
    said = []
    for words in block.commands:
        if block.not_run(words) is not None:
            continue
        assert words[0] == "fedrelax", f"{words[0]} cannot run here; say <!-- not tested: why -->"
        code, output = command(words)
        assert code == (2 if block.stops else 0), f"{shlex.join(words)}\n{output}"
        said.append(output)
    return said


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_marks_for_the_tests_are_not_shown_to_readers(path):
    for block in blocks_of(path):
        assert not VISIBLE.search(block.text), f"put the mark into a comment before\n{block.text}"


NUMBER = re.compile(r"[+-]?\d+(?:,\d{3})*(?:\.\d+)?(?:e[+-]?\d+)?")
TOLERANCE = 0.03
"""By how much of itself a number may differ from the one on the page, beside its last digit."""


def assert_said(shown: str, said: str) -> None:
    """Check that a page shows what was said, words and numbers."""
    spoken = words_of(said)
    for line in shown.splitlines():
        for part in line.split("..."):
            if part.strip():
                assert is_in(words_of(part), spoken), f"{line!r} is not in\n{said}"


def is_in(shown: str, spoken: str) -> bool:
    """Tell whether the words are there somewhere, with numbers that are near."""
    texts, numbers = NUMBER.split(shown), NUMBER.findall(shown)
    pattern = f"({NUMBER.pattern})".join(re.escape(text) for text in texts)
    found = re.finditer(f"(?={pattern})", spoken)
    return any(all(map(is_near, numbers, match.groups())) for match in found)


def is_near(shown: str, said: str) -> bool:
    """Tell whether a number on a page is the one that was said.

    >>> is_near("0.038", "0.0382"), is_near("12", "13"), is_near("1.5e-3", "1.6e-3")
    (True, True, False)
    """
    told, real = float(shown.replace(",", "")), float(said.replace(",", ""))
    decimals = len(shown.partition(".")[2]) if "e" not in shown else 99
    return abs(told - real) <= max(TOLERANCE * abs(real), 1.01 * 10.0**-decimals)


def words_of(text: str) -> str:
    """Return a text on one line, without the lines of a table."""
    return re.sub(r"[\s─]+", " ", text).strip()


def is_here(name: str) -> bool:
    return WEATHER.exists() if name == "WEATHER" else importlib.util.find_spec(name) is not None


UNTESTED = [
    (path, words, why)
    for path in DOCUMENTS
    for block in blocks_of(path)
    if block.kind == "sh"
    for words in block.commands
    if (why := block.not_run(words)) is not None
]


@pytest.mark.parametrize(
    ("path", "words", "why"), UNTESTED, ids=[f"{name_of(p)}-{words[0]}" for p, words, _ in UNTESTED]
)
def test_commands_that_are_not_run(path, words, why):
    pytest.skip(f"{name_of(path)}: {shlex.join(words)}: {why}")


TRAVELS = (
    "Only predictions on public rows travel; labels, models and rows stay. By default the public rows are "
    'mixtures of two input rows (`public="blend"`), which neighbours see; to avoid that, bring public rows '
    "of your own."
)
"""What leaves a node, in the one form in which the documents say it."""


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_what_leaves_a_node_is_said_in_one_form(path):
    text = " ".join(path.read_text(encoding="utf-8").split())
    assert not re.search(
        r"[Nn]o (row|label)[^.]* leaves? a node|[Oo]nly predictions (do|leave)", text
    )
    assert text.count("Only predictions on public rows travel") == text.count(TRAVELS)
    if name_of(path) in ("README.md", "index.md", "what-is.md", "how-it-works.md", "security.md"):
        assert TRAVELS in text


def test_links_between_documents_lead_somewhere():
    for path in DOCUMENTS:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", path.read_text(encoding="utf-8")):
            assert (path.parent / target).exists(), f"{path.name} links to {target}"
