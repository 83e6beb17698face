"""Messages with the flags of the command line in place of Python's arguments.

The layers below the command line name Python's arguments, ``overwrite=True``; someone who typed a
command knows the flag, ``--overwrite``.
"""

from __future__ import annotations

import ast
import re
import shlex

from fedrelax.cli.options import flags_of
from fedrelax.cli.settings import LearningConfig

FLAGS = {
    "drop_missing": "--drop-missing",
    "overwrite": "--overwrite",
    "public": "--public",
    "task": "--task",
    "trust": "--trust",
    "unknown": "--unknown-nodes",
    **{
        flag.argument: flag.named(name)
        for name, flag in flags_of(LearningConfig).items()
        if flag.argument
    },
}
"""The flag for each argument that a message may name."""

ARGUMENT = re.compile(
    rf"(?<![\w.(])({'|'.join(FLAGS)})="
    r"(True|'[^']*'|\"[^\"]*\"|\[[^\]]*\]|[\w+-]+(?:\.\d+)?)(?![\w(])"
)
PLACE = re.compile(r"\b(?:choose|give) another (?:directory|file|place)\b")


def in_flags(text: str) -> str:
    """Return a message with flags in place of Python's arguments.

    >>> in_flags("x exists; choose another directory, or replace it with overwrite=True")
    'x exists; choose another --out, or replace it with --overwrite'
    >>> in_flags("give task='regression' or n_jobs=2, as with Ridge(alpha=1.0)")
    'give --task regression or --jobs 2, as with Ridge(alpha=1.0)'
    >>> in_flags("say so with trust=['a.B', 'c.D']")
    'say so with --trust a.B --trust c.D'
    """
    return PLACE.sub("choose another --out", ARGUMENT.sub(_flag, text))


def _flag(found: re.Match[str]) -> str:
    flag, given = FLAGS[found[1]], found[2]
    if given == "True":
        return flag
    if given[0] not in "'\"[":
        return f"{flag} {given}"
    try:
        value = ast.literal_eval(given)
    except (SyntaxError, ValueError):
        return found[0]
    values = value if isinstance(value, list) else [value]
    return " ".join(f"{flag} {shlex.quote(str(each))}" for each in values)
