"""Cells that a spreadsheet would run as formulas, in files that people open in one."""

from __future__ import annotations

from typing import Any

from fedrelax.errors import named

FIRST = ("=", "+", "-", "@", "\t", "\r")


def formula_note(frame: Any, file: str) -> str | None:
    """Return a note that names the columns with such cells; None if there are none.

    Cells are written as they are: a quote before them would change names and keep results from being read
    back. Text that is a number, such as -1, is none.

    >>> import pandas as pd
    >>> note = formula_note(pd.DataFrame({"site": ["=1+1", "b"], "shift": ["-1", "+2"]}), "out.csv")
    >>> note.partition(" that")[0]
    "column 'site' of out.csv has cells"
    """
    cells = {}
    for name, column in frame.items():
        if column.dtype.kind not in "biufcmM":
            texts = [value for value in column.unique() if isinstance(value, str)]
            bad = [text for text in texts if text.startswith(FIRST) and not _is_number(text)]
            if bad:
                cells[name] = bad[0]
    if not cells:
        return None
    which, first = named("column", list(cells)), next(iter(cells.values()))
    has, it = ("has", "it") if len(cells) == 1 else ("have", "them")
    return (
        f"{which} of {file} {has} cells that a spreadsheet would run as formulas, such as "
        f"{first[:40]!r}; import {it} as text."
    )


def _is_number(text: str) -> bool:
    try:
        float(text.replace(",", "."))
    except ValueError:
        return False
    return True
