"""Shorter names, fewer digits and fewer rounds, where a page or a picture cannot show more."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedrelax.errors import visible
from fedrelax.pooling.network import ONE_MODEL


def short(name: object, longest: int = 40) -> str:
    """Return a name on one line, cut to ``longest`` letters.

    >>> short("a  name\\n"), short("a longer name", longest=8), short("")
    ('a name', 'a longe…', '(no name)')
    """
    text = visible(" ".join(str(name).split())) or "(no name)"
    return text if len(text) <= longest else text[: longest - 1] + "…"


def coupling_text(alpha: float) -> str:
    """Return how strongly nodes are coupled, in words.

    >>> coupling_text(0.25), coupling_text(0.0), coupling_text(1e9)
    ('alpha 0.25', 'alpha 0: each node alone', 'one common model')
    """
    if alpha >= ONE_MODEL:
        return "one common model"
    return f"alpha {alpha:.3g}{': each node alone' * (alpha == 0)}"


def shared_text(strength: float) -> str:
    """Return how many percent of a coefficient come from the consensus, not from the node's own rows.

    >>> shared_text(3.0)
    '75'
    """
    return f"{100 * strength / (1 + strength):.0f}"


def edges_text(before: int, after: int) -> str:
    """Return what a wiring made of the edges.

    >>> edges_text(10, 4), edges_text(0, 1200)
    ('4 of 10 edges kept', '1,200 edges found')
    """
    return f"{after:,} of {before:,} edges kept" if before >= after else f"{after:,} edges found"


def numbers(values: Any) -> list[float | int | None]:
    """Return plain numbers of five digits; what is not finite becomes None.

    >>> numbers([1 / 3, 2.0, float("nan")])
    [0.33333, 2, None]
    """
    found: list[float | int | None] = []
    for value in np.asarray(values, dtype=float).tolist():
        rounded = float(f"{value:.5g}")
        if not np.isfinite(rounded):
            found.append(None)
        else:
            found.append(int(rounded) if rounded.is_integer() and abs(rounded) < 1e15 else rounded)
    return found


def thinned(count: int, most: int) -> Any:
    """Return which of ``count`` rounds to show: all, or ``most`` with both ends, denser at the beginning.

    >>> thinned(4, 10).tolist(), thinned(1000, 5).tolist()
    ([0, 1, 2, 3], [0, 62, 250, 562, 999])
    """
    if count <= most:
        return np.arange(count)
    spaced = (count - 1) * np.linspace(0.0, 1.0, most) ** 2
    return np.unique(np.round(spaced).astype(np.int64))
