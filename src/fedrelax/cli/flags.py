"""How flags are declared: by the fields and the docstring of a settings class, or of a function.

A docstring has a line ``name : help`` for each flag; that of a module those that its commands share.
"""

from __future__ import annotations

import inspect
import re
import sys
from copy import copy
from dataclasses import dataclass, field, fields
from inspect import Parameter
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer
from typer.models import OptionInfo

ARGUMENTS = "Arguments"
DATA, MODELS, LEARNING, OUTPUT = "Data", "Models", "Learning together", "Running and output"
PANELS = (ARGUMENTS, DATA, MODELS, LEARNING, OUTPUT)
HELP = re.compile(r"^(\w+) : (.+(?:\n +.+)*)\n?", re.MULTILINE)

# What several commands without a settings class have in common
Dir = Annotated[Path, typer.Argument(metavar="DIR")]
SavedDir = Annotated[
    Path, typer.Argument(metavar="DIR", help="Result directory, as fedrelax fit writes it.")
]
Trust = Annotated[
    list[str] | None,
    typer.Option(
        metavar="package.module.Class",
        help="Type of another package that may be loaded; can be repeated.",
    ),
]
TrustModel = Annotated[
    list[str] | None,
    typer.Option(
        metavar="package.module:name",
        help="Model that a settings file or a stopped run may use, whose code then runs; can be "
        "repeated.",
        rich_help_panel=OUTPUT,
    ),
]
SettingsFile = Annotated[
    Path | None,
    typer.Option(
        help="TOML file with any of these flags but --overwrite, --backend and --address; the command "
        "line wins. Every result has a config.toml.",
        rich_help_panel=OUTPUT,
    ),
]


def split_help(docstring: str | None) -> tuple[str, dict[str, str]]:
    """Return what a docstring says before its flags, and the help of each.

    >>> split_help("Bake bread.\\n\\nheat : Degrees of the\\n    oven.")
    ('Bake bread.', {'heat': 'Degrees of the oven.'})
    """
    text = inspect.cleandoc(docstring or "")
    helps = {name: " ".join(words.split()) for name, words in HELP.findall(text)}
    return HELP.sub("", text).strip(), helps


@dataclass(frozen=True)
class Flag:
    """How a field of the settings appears on the command line."""

    panel: str
    """The group in ``--help``; what is in ARGUMENTS is given without a flag."""
    metavar: str | None = None
    argument: str = ""
    """The estimator's argument that takes the value unchanged."""
    needed: str = ""
    """What to give, for the message if it is missing."""
    saved: bool = True
    """Whether ``config.toml`` holds it: everything that changes what is computed."""
    only_typed: bool = False
    """Whether it counts only on the command line, as a file from elsewhere must not decide it."""

    def named(self, field: str) -> str:
        """Return the flag as it is typed, or the name of the argument."""
        return field.upper() if self.panel == ARGUMENTS else f"--{field.replace('_', '-')}"


def flag(panel: str, *, default: Any = None, **more: Any) -> Any:
    """Declare a field of the settings, without a default if it is ``needed``. See ``Flag``."""
    declared = Flag(panel, **more)
    if declared.needed:
        return field(metadata={"flag": declared})
    kind = "default_factory" if default is dict else "default"
    return field(metadata={"flag": declared}, **{kind: default})


def flags_of(kind: type) -> dict[str, Flag]:
    """Return the flag of every field."""
    return {each.name: each.metadata["flag"] for each in fields(kind)}


def option_of(kind: type, name: str) -> Any:
    """Return the typer option or argument of a field."""
    declared = flags_of(kind)[name]
    docstrings = (split_help(base.__doc__)[1] for base in kind.__mro__)
    help_ = next(helps[name] for helps in docstrings if name in helps)
    shown: dict[str, Any] = {"help": help_, "metavar": declared.metavar, "show_default": False}
    if declared.panel == ARGUMENTS:
        return typer.Argument(**shown)
    return typer.Option(declared.named(name), rich_help_panel=declared.panel, **shown)


def keyword(name: str, annotation: Any, default: Any = None) -> Parameter:
    """Return a parameter of a command as typer reads it."""
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def flags_of_settings(kind: type) -> list[Parameter]:
    """Return the flags of a settings class as parameters of a command, panel by panel."""
    flags, types = flags_of(kind), get_type_hints(kind)
    parameters = []
    for name in sorted(flags, key=lambda name: PANELS.index(flags[name].panel)):
        parts = set(get_args(types[name]) or (types[name],)) - {NoneType}
        typed: Any = parts.pop() if len(parts) == 1 else str
        if get_origin(types[name]) is dict:
            typed = list[str]
        elif typed not in (Path, int, float, bool):  # what is checked later is read as text
            typed = str
        parameters.append(keyword(name, Annotated[typed | None, option_of(kind, name)]))
    return parameters


def flags_of_function(run: Any) -> list[Parameter]:
    """Return the parameters of a command: those that have to be named are flags, others arguments."""
    types = get_type_hints(run, include_extras=True)
    helps = split_help(sys.modules[run.__module__].__doc__)[1] | split_help(run.__doc__)[1]
    parameters = []
    for each in list(inspect.signature(run).parameters.values())[1:]:
        named = each.kind is Parameter.KEYWORD_ONLY
        kind, *declared = [types[each.name]]
        if get_origin(kind) is Annotated:
            kind, *declared = get_args(kind)
        shown = copy(declared[0]) if declared else typer.Option() if named else typer.Argument()
        shown.help = helps.get(each.name, shown.help)
        if isinstance(shown, OptionInfo):  # which typer would give a switch --no-{name}, too
            shown.default, shown.param_decls = ..., (f"--{each.name.replace('_', '-')}",)
        parameters.append(keyword(each.name, Annotated[kind, shown], each.default))
    return parameters
