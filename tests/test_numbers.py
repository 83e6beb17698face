"""Every measured number on a page has an origin that a reader can follow.

A number in running text or in a table comes from the first of these that holds:

- its section, or the head of its page, names what makes it: a benchmark, a figure of the paper, a tool or
  a test, which must exist;
- it stands in a block of code or of printed text on the page, and those are run and compared;
- its paragraph (or row of a table) links to the page that is its home, and it stands there;
- a comment before the paragraph, ``<!-- numbers: why -->``, says why it needs none; these are listed in
  the summary.

Numbers are decimals, and whole ones with a unit or a percent sign; the rest are counts and settings.
"""

from __future__ import annotations

import importlib.util
import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.main import get_command

from fedrelax.cli.app import app
from tests.test_documents import DOCUMENTS, ROOT, name_of

PAGES = [
    *(path for path in DOCUMENTS if path.name != "cli.md"),  # written from the code, and tested so
    ROOT / "benchmarks" / "RESULTS.md",
    ROOT / "benchmarks" / "league" / "FINDINGS.md",
    ROOT / "CONTRIBUTING.md",
]
NUMBER = re.compile(
    r"(?<![\w.,/:-])(?:\d+\.\d+(?:e[+-]?\d+)?|\d+e-\d+|\d[\d,]*(?:\.\d+)?"
    r"(?= ?(?:%|ms\b|s\b|seconds?\b|minutes?\b|[kMG]B\b|bytes\b|°C|degrees\b|times\b)))(?![\w.]*\w)"
)
MADE_BY = re.compile(
    r"python -m (benchmarks(?:\.\w+)*)|fedrelax (reproduce|bench)\b"
    r"|(?:`|^)make ([a-z-]+)|python (tools/\w+\.py)|(tests/[\w/]+\.py)",
    flags=re.MULTILINE,
)
FENCED = re.compile(r"^```.*?^```\n?", flags=re.DOTALL | re.MULTILINE)
COMMENT = re.compile(r"(?:^|  )# .*$", flags=re.MULTILINE)
"""What code only says is not compared with anything."""
LINK = re.compile(r"\]\((?!https?:)([^)#]+)(?:#[^)]*)?\)")
UNSEEN = re.compile(
    r"<!--.*?-->|`[^`\n]*`|\]\([^)]*\)|https?://\S+"
    r"|arXiv[:\s]\s*[\d.]+|Python [\d.]+ to [\d.]+|CC BY [\d.]+",
    flags=re.DOTALL,
)
MARK = re.compile(r"<!-- numbers: (.*?) -->")


@dataclass(frozen=True)
class Piece:
    """A paragraph, a list, or one row of a table, and the comment before it."""

    text: str
    mark: str | None

    @property
    def numbers(self) -> list[str]:
        """The numbers that a reader may want to trace."""
        return NUMBER.findall(UNSEEN.sub(" ", self.text))


def sections_of(page: str) -> list[str]:
    """Return the parts of a page, each with the heading that it stands under."""
    still = FENCED.sub(lambda block: block.group().replace("\n#", "\n "), page)
    return re.split(r"^(?=#+ )", still, flags=re.MULTILINE)


def pieces_of(section: str) -> list[Piece]:
    """Return the paragraphs and rows of a section, without its blocks of code."""
    found, mark = [], None
    for paragraph in re.split(r"\n\s*\n", FENCED.sub("\n\n", section)):
        said = MARK.search(paragraph)
        mark = said.group(1) if said else mark
        rows = paragraph.splitlines() if paragraph.lstrip().startswith("|") else [paragraph]
        found += [Piece(row, mark) for row in rows]
        if UNSEEN.sub("", paragraph).strip():
            mark = None
    return found


def origin(number: str, piece: Piece, section: str, page: str, folder: Path) -> str | None:
    """Return where a number comes from, or None.

    >>> here = Path("docs")
    >>> origin("0.1", Piece("gives 0.1", None), "`python -m benchmarks.x`\\n\\ngives 0.1", "", here)
    'made by'
    >>> origin("0.1", Piece("gives 0.1", None), "gives 0.1", "gives 0.1\\n\\n```text\\n0.1\\n```\\n", here)
    'a block'
    >>> origin("0.1", Piece("gives 0.1", None), "gives 0.1", "gives 0.1", here)
    """
    own = folder != ROOT  # the README has no numbers of its own
    if own and (MADE_BY.search(section) or MADE_BY.search(head_of(page))):
        return "made by"
    if any(stands_in(number, COMMENT.sub("", block)) for block in FENCED.findall(page)):
        return "a block"
    homes = [folder / target for target in LINK.findall(piece.text)]
    if any(home.suffix == ".md" and stands_in(number, home.read_text("utf-8")) for home in homes):
        return "its home"
    return None


def head_of(page: str) -> str:
    """Return the title and what stands before the first heading below it."""
    return "".join(sections_of(page)[:2])


def stands_in(number: str, text: str) -> bool:
    """Tell whether a number is in a text as a whole.

    >>> stands_in("0.1", "0.12 and 10.1"), stands_in("0.1", "alpha=0.1,")
    (False, True)
    """
    return re.search(rf"(?<![\d.]){re.escape(number)}(?!\d|\.\d)", text) is not None


def without_origin(path: Path) -> list[tuple[list[str], Piece]]:
    """Return the numbers of a page that come from nowhere, each with its paragraph."""
    page = path.read_text(encoding="utf-8")
    found = []
    for section in sections_of(page):
        for piece in pieces_of(section):
            lost = [
                number
                for number in piece.numbers
                if origin(number, piece, section, page, path.parent) is None
            ]
            if lost:
                found.append((lost, piece))
    return found


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_every_number_has_an_origin(path: Path) -> None:
    lost = [(numbers, piece.text) for numbers, piece in without_origin(path) if not piece.mark]
    assert lost == []


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_what_a_page_names_as_an_origin_exists(path: Path) -> None:
    targets = re.findall(
        r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.M
    )
    commands = get_command(app).commands  # type: ignore[attr-defined]
    for match in MADE_BY.finditer(path.read_text(encoding="utf-8")):
        module, command, target, tool, test = match.groups()
        assert module is None or importlib.util.find_spec(module), match.group()
        assert command is None or command in commands, match.group()
        assert target is None or target in targets, match.group()
        assert tool is None or (ROOT / tool).exists(), match.group()
        assert test is None or (ROOT / test).exists(), match.group()


UNTRACED = [
    (path, numbers, piece.mark)
    for path in PAGES
    for numbers, piece in without_origin(path)
    if piece.mark
]


@pytest.mark.parametrize(
    ("path", "numbers", "why"), UNTRACED, ids=[f"{name_of(p)}-{n[0]}" for p, n, _ in UNTRACED]
)
def test_numbers_without_an_origin(path: Path, numbers: list[str], why: str) -> None:
    pytest.skip(f"{name_of(path)}: {', '.join(numbers)}: {why}")
