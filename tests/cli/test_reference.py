"""The command-line reference is what the commands say of themselves."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import typer.main

from fedrelax.cli.app import app

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "cli.md"


def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("reference", ROOT / "tools" / "reference.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_up_to_date():
    assert PAGE.read_text(encoding="utf-8") == tool().page(), (
        "run python tools/reference.py docs/cli.md"
    )


def test_every_flag_of_every_command_is_there():
    text = PAGE.read_text(encoding="utf-8")
    commands = [("fedrelax", typer.main.get_command(app))]
    for name, command in commands:
        below = getattr(command, "commands", {})
        commands += [(f"{name} {word}", other) for word, other in below.items()]
        section = text.partition(f"# {name}\n")[2].partition("\n#")[0] or text
        for option in command.params:
            if option.param_type_name == "option":
                assert all(f"`{flag}" in section for flag in option.opts), f"{name} {option.opts}"
