"""From the fields of a settings class to the flags of a command, and flags that commands share."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from inspect import Parameter
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer

ARGUMENTS = "Arguments"
DATA, MODELS, LEARNING, OUTPUT = "Data", "Models", "Learning together", "Running and output"
PANELS = (ARGUMENTS, DATA, MODELS, LEARNING, OUTPUT)

# What several commands without a settings class have in common
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
Replace = Annotated[bool, typer.Option("--overwrite", help="Replace the file.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show tracebacks.")]


@dataclass(frozen=True)
class Flag:
    """How a field of the settings appears on the command line."""

    panel: str
    """The group in ``--help``; what is in ARGUMENTS is given without a flag."""
    help: str
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

    def option(self, field: str) -> Any:
        """Return the typer option or argument."""
        shown: dict[str, Any] = {"help": self.help, "metavar": self.metavar, "show_default": False}
        if self.panel == ARGUMENTS:
            return typer.Argument(**shown)
        return typer.Option(self.named(field), rich_help_panel=self.panel, **shown)


def flag(panel: str, help: str, *, default: Any = None, **more: Any) -> Any:
    """Declare a field of the settings, without a default if it is ``needed``. See ``Flag``."""
    declared = Flag(panel, help, **more)
    if declared.needed:
        return field(metadata={"flag": declared})
    kind = "default_factory" if default is dict else "default"
    return field(metadata={"flag": declared}, **{kind: default})


def flags_of(kind: type) -> dict[str, Flag]:
    """Return the flag of every field."""
    return {each.name: each.metadata["flag"] for each in fields(kind)}


def keyword(name: str, annotation: Any) -> Parameter:
    """Return a parameter of a command as typer reads it, with the default None."""
    return Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def flag_parameters(kind: type) -> list[Parameter]:
    """Return the flags of a settings class as parameters of a command, panel by panel."""
    flags, types = flags_of(kind), get_type_hints(kind)
    order = sorted(flags, key=lambda name: PANELS.index(flags[name].panel))
    parameters = []
    for name in order:
        parts = set(get_args(types[name]) or (types[name],)) - {NoneType}
        typed: Any = parts.pop() if len(parts) == 1 else str
        if get_origin(types[name]) is dict:
            typed = list[str]
        elif typed not in (Path, int, float, bool):  # what is checked later is read as text
            typed = str
        parameters.append(keyword(name, Annotated[typed | None, flags[name].option(name)]))
    return parameters
