"""Numbers on pages come from somewhere: a command that is named, a test, or code beside them that runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.test_documents import DOCUMENTS, name_of

NUMBER = re.compile(r"(?<![\w.])\d+\.\d+(?![\w.])")
SOURCE = re.compile(
    r"python -m benchmarks|fedrelax (?:fit|compare|reproduce|bench|demo|stress|federate)|make [a-z]+"
    r"|python tools/|tests/[\w/]+\.py|^```python",
    flags=re.MULTILINE,
)
CODE = re.compile(r"```.*?```|`[^`]*`|\]\([^)]*\)", flags=re.DOTALL)
FEW = 3
"""So many numbers with decimals make a section that reports results."""


def sections_of(page: str) -> list[str]:
    """Return the parts of a page, each with the heading that it stands under."""
    return re.split(r"^(?=#+ )", re.sub(r"^#[^#\n ].*$", "", page, flags=re.M), flags=re.M)


def without_source(page: str) -> list[str]:
    """Return the headings of sections that report numbers and say nowhere what makes them.

    >>> without_source("# A\\n\\n0.1, 0.2 and 0.3\\n")
    ['# A']
    >>> without_source("# A\\n\\n`python -m benchmarks.x` gives 0.1, 0.2 and 0.3\\n")
    []
    """
    parts = sections_of(page)
    head = "".join(parts[:2])
    reporting = [part for part in parts if len(NUMBER.findall(CODE.sub("", part))) >= FEW]
    return [
        part.splitlines()[0]
        for part in reporting
        if not SOURCE.search(part) and not SOURCE.search(head)
    ]


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_every_section_of_numbers_says_what_makes_them(path: Path) -> None:
    assert without_source(path.read_text(encoding="utf-8")) == []
