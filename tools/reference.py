"""Writes the command-line reference from the commands themselves: ``tools/reference.py docs/cli.md``.

The page holds only what the commands say with ``--help``; nothing is written by hand.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_type_hints

import typer.main

from fedrelax.cli.app import app

HEAD = """# Command line

<!-- made by tools/reference.py: change the help of the commands, not this page -->

Every command and every flag, as `--help` shows them. Flags of `fit` and `compare` can also
be given in a file ([your own CSV](tutorials/own-csv.md)); the command line wins.
"""


def page() -> str:
    """Return the reference as Markdown."""
    parts = [HEAD, *sections(typer.main.get_command(app), "fedrelax")]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def sections(command: Any, name: str) -> Iterator[str]:
    """Yield the parts of a command's section, and of those of the commands below it."""
    below = getattr(command, "commands", {})
    if name != "fedrelax":
        yield "#" * (name.count(" ") + 1) + f" {name}"
    if not below:
        words = [word_of(each) for each in command.params if is_argument(each)]
        yield f"`{' '.join([name, *words, '[OPTIONS]'])}`"
    yield prose(command.help or "")
    if command.params:
        yield from tables(command)
    for word, other in below.items():
        yield from sections(other, f"{name} {word}")


def tables(command: Any) -> Iterator[str]:
    """Yield a table for every panel of a command's help."""
    panels: dict[str, list[str]] = {}
    said = get_type_hints(inspect.unwrap(command.callback), include_extras=True)
    for each in command.params:
        first = f"`{word_of(each)}`" if is_argument(each) else flags_of(each)
        title = each.rich_help_panel or ("Arguments" if is_argument(each) else "Options")
        help_ = said[each.name].__metadata__[0].help or ""
        panels.setdefault(title, []).append(f"| {first} | {described(each, help_)} |")
    for title, lines in panels.items():
        yield "\n".join([f"| {title} | |", "|---|---|", *lines])


def is_argument(parameter: Any) -> bool:
    """Tell an argument from an option."""
    return bool(parameter.param_type_name == "argument")


def word_of(argument: Any) -> str:
    """Return how an argument is written in a call: in brackets if it may be left out."""
    word = (argument.metavar or argument.name.upper()).strip("[]") + "..." * (argument.nargs == -1)
    return word if argument.required else f"[{word}]"


def flags_of(option: Any) -> str:
    """Return the names of an option, with the value that follows."""
    value = "" if option.is_flag else " " + (option.metavar or option.type.name.split()[0].upper())
    return ", ".join(f"`{name}{value}`" for name in [*option.opts, *option.secondary_opts])


def described(parameter: Any, help_: str) -> str:
    """Return the help of a parameter, with its default where the help does not have it."""
    text = " ".join(prose(help_).split()).replace("|", "\\|")
    if is_argument(parameter) or "Default" in text or parameter.is_flag:
        return text
    if parameter.required:
        return f"{text} Required."
    known = parameter.default not in (None, "", (), []) and not callable(parameter.default)
    return f"{text} Default: {parameter.default}." if known else text


def prose(text: str) -> str:
    """Return help as Markdown: commands become code, and whatever else is bold stays bold."""
    text = re.sub(r"\[bold\](fedrelax .*?)\[/bold\]", r"`\1`", text, flags=re.DOTALL)
    text = re.sub(
        r"\[bold\]Example:\[/bold\] (fedrelax.*?)(?=\n\n|\Z)", _example, text, flags=re.DOTALL
    )
    return re.sub(r"\[/?bold\]", "**", text)


def _example(found: re.Match[str]) -> str:
    return f"Example: `{' '.join(found[1].split())}`"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
