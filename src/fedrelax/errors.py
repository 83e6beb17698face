"""The errors that a user may see: one sentence that says where, what was found and what to do."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable


class FedRelaxError(ValueError):
    """Bad input. The message names the node or argument, what was found and what to do."""


class NodeFitError(FedRelaxError):
    """The model of one node failed to fit or to predict; ``__cause__`` holds the original error."""


class FedRelaxWarning(UserWarning):
    """Something that a user should know, but that does not stop the run."""


def in_one_line(error: BaseException, kind: bool = True) -> str:
    """Return the text of an error in one line, after the name of its ``kind``.

    >>> in_one_line(KeyError("a"))
    "KeyError: 'a'"
    """
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if kind else text


def did_you_mean(name: object, known: Iterable[object]) -> str:
    """Return ``"; did you mean 'x'?"`` for the nearest known name, else an empty string.

    Capitals, separators and leading zeros do not count.

    >>> did_you_mean("forrest", ["tree", "forest"]), did_you_mean("zzz", ["tree", "forest"])
    ("; did you mean 'forest'?", '')
    >>> did_you_mean("site 3", ["site 23", "site_03"]), did_you_mean("temp", ["time", "temperature"])
    ("; did you mean 'site_03'?", "; did you mean 'temperature'?")
    >>> did_you_mean("0", [0, 1])
    '; did you mean 0 (a number, not text)?'
    """
    options = {str(option): option for option in known}
    same = options.get(str(name))
    if same is not None and type(same) is not type(name):
        return f"; did you mean {same!r} ({_kind(same)}, not {_kind(name)})?"
    text, bare = _bare(name), {_bare(option): option for option in options}
    if len(str(name)) > LONGEST_NAME or len(bare) > MOST_NAMES:
        return ""
    begun = sorted((other for other in bare if len(text) >= 3 and other.startswith(text)), key=len)
    near = difflib.get_close_matches(text, bare, n=1) or begun[:1]
    return f"; did you mean {options[bare[near[0]]]!r}?" if near else ""


LONGEST_NAME, MOST_NAMES = 100, 1000
"""The longest name, in letters, for which a similar one is looked for, and among how many at most: a
stranger who may send any name must not keep the processor busy."""


def _bare(name: object) -> str:
    """Return the words and numbers of a name, without capitals and leading zeros.

    >>> _bare("Site_007 (North)"), _bare("🌲")
    ('site 7 north', '🌲')
    """
    text = str(name).casefold()
    parts = re.findall(r"\d+|[^\W\d_]+", text)
    return " ".join(part.lstrip("0") or "0" for part in parts) or text


def _kind(value: object) -> str:
    if isinstance(value, str | bool):
        return "text" if isinstance(value, str) else "true or false"
    return "a number" if isinstance(value, int | float) else f"a {type(value).__name__}"


STEERING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""Characters that steer a terminal or turn the direction of text; only tabs and line ends are left."""


def visible(text: str) -> str:
    """Return text with such characters written out, so that a name cannot colour, hide or move anything.

    >>> print(visible("site\\x1b[31m 3"))
    site\\x1b[31m 3
    """
    return STEERING.sub(lambda found: repr(found[0])[1:-1], text)


def listing(items: Iterable[object], most: int = 5) -> str:
    """Return the first few items for a message.

    >>> listing(["a", "b", "c"], most=2)
    "'a', 'b' and 1 more"
    """
    shown = list(items)
    text = ", ".join(repr(item) for item in shown[:most])
    return text if len(shown) <= most else f"{text} and {len(shown) - most} more"


PLURALS = {"is": "are", "was": "were", "has": "have", "takes": "take"}


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
