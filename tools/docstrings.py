"""Turns docstrings, as they are written in the code, into Markdown for the API pages.

mkdocs.yml names this file as an extension of griffe, which reads the code without running it.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

ENTRY = re.compile(r"[*\w][*\w.]*(, [*\w.]+)* : ")
"""``alpha : how much neighbours count``, the first line of an argument's description."""


def to_markdown(text: str) -> str:
    """Return a docstring as Markdown.

    Headings with a line of dashes become bold, arguments a list, examples and indented blocks code, and
    tables between lines of equals signs Markdown tables.
    """
    lines, found = text.splitlines(), []
    while lines:
        line = lines.pop(0)
        if lines and line and re.fullmatch("-{3,}", lines[0]):
            lines.pop(0)
            found += ["", f"**{line}**", ""]
        elif line.startswith(">>>"):
            found += ["", "```pycon", *_take([line], lines, lambda later: later != ""), "```", ""]
        elif re.fullmatch("=+( +=+)*", line):
            found += ["", *_table(line, _take([], lines, lambda later: not later.startswith("==")))]
            lines.pop(0)
        elif ENTRY.match(line):
            name, _, words = line.partition(" : ")
            item = _take([words], lines, lambda later: later.startswith("    "))
            found += ["", f"- `{name}`: " + " ".join(part.strip() for part in item), ""]
        elif line.startswith("    "):
            block = _take([line], lines, lambda later: later.startswith("    "))
            found += ["", "```text", *(part[4:] for part in block), "```", ""]
        else:
            found.append(line)
    return "\n".join(found)


def _take(first: list[str], lines: list[str], belongs: Any) -> list[str]:
    """Move the lines that belong to a piece from ``lines`` to ``first``, and return that."""
    while lines and belongs(lines[0]):
        first.append(lines.pop(0))
    return first


def _table(rule: str, rows: list[str]) -> list[str]:
    """Return the rows of a table whose columns start where the rule's do."""
    starts = [match.start() for match in re.finditer("=+", rule)]
    ends = [*starts[1:], None]
    cells: list[list[str]] = []
    for row in rows:
        found = [row[start:end].strip() for start, end in zip(starts, ends, strict=True)]
        if found[0]:
            cells.append(found)
        else:  # a continuation of the row above
            cells[-1] = [f"{old} {new}".strip() for old, new in zip(cells[-1], found, strict=True)]
    head = "| " + " | ".join(" " for _ in starts) + " |"
    body = ["| " + " | ".join([f"`{first}`", *others]) + " |" for first, *others in cells]
    return [head, "|" + "---|" * len(starts), *body, ""]


class Docstrings(griffe.Extension):
    """Turns every docstring into Markdown while the code is read."""

    def on_instance(self, *, obj: griffe.Object | griffe.Alias, **_: Any) -> None:
        """Rewrite the docstring of one module, class, function or attribute."""
        if not obj.is_alias and obj.docstring is not None:
            obj.docstring.value = to_markdown(obj.docstring.value)
