"""The errors that a user may see: one sentence that says where, what was found and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable


class FedRelaxError(ValueError):
    """Bad input. The message names the node or argument, what was found and what to do."""


class NodeFitError(FedRelaxError):
    """The model of one node failed to fit or to predict; ``__cause__`` holds the original error."""


class FedRelaxWarning(UserWarning):
    """Something that a user should know, but that does not stop the run."""


def did_you_mean(name: object, known: Iterable[object]) -> str:
    """Return ``"; did you mean 'x'?"`` for the nearest known name, else an empty string.

    >>> did_you_mean("forrest", ["tree", "forest"])
    "; did you mean 'forest'?"
    >>> did_you_mean("zzz", ["tree", "forest"])
    ''
    """
    near = difflib.get_close_matches(str(name), [str(k) for k in known], n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def listing(items: Iterable[object], most: int = 5) -> str:
    """Return the first few items for a message.

    >>> listing(["a", "b", "c"], most=2)
    "'a', 'b' and 1 more"
    """
    shown = list(items)
    text = ", ".join(repr(item) for item in shown[:most])
    return text if len(shown) <= most else f"{text} and {len(shown) - most} more"


PLURALS = {"is": "are", "has": "have", "takes": "take"}


def named(what: str, items: Collection[object], verb: str = "", most: int = 5) -> str:
    """Return the first few items with their noun before and, if given, their verb behind.

    >>> named("node", ["a"], "is"), named("node", ["a", "b"], "is"), named("class", [1, 2])
    ("node 'a' is", "nodes 'a', 'b' are", 'classes 1, 2')
    """
    if len(items) != 1:
        what, verb = what + ("es" if what.endswith("s") else "s"), PLURALS.get(verb, verb)
    return f"{what} {listing(items, most)} {verb}".rstrip()


def counted(number: int, what: str) -> str:
    """Return a number with its noun.

    >>> counted(1, "round"), counted(2000, "node")
    ('1 round', '2,000 nodes')
    """
    return f"{number:,} {what}{'s' * (number != 1)}"
