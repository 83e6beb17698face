"""How a result was made: the command, the settings, the versions."""

from __future__ import annotations

import shlex
from typing import Any

from fedrelax.report.data.rounding import alpha_text
from fedrelax.storage import SavedResult


def again(saved: SavedResult) -> str:
    """Say how to reproduce the result."""
    if command(saved):
        return "This command reproduces it; the same seed and versions give the same numbers:"
    return "It was made in Python; these settings were saved with it."


def command(saved: SavedResult) -> str:
    """Return the command line that reproduces the result; empty if Python code made it."""
    config = saved.config
    if "command" in config:
        return str(config["command"])
    if not {"data", "node", "target"} <= set(config):
        return ""
    words = ["fedrelax", "fit", str(config["data"])]
    for name, value in config.items():
        if name != "data":
            words += _flag(name, value)
    return shlex.join([*words, "--out", "result"])


def _flag(name: str, value: Any) -> list[str]:
    if isinstance(value, dict):
        return [word for k, v in value.items() for word in (f"--{name}", f"{k}={v}")]
    if name == "drop-missing":
        return ["--drop-missing"] if value else []
    if isinstance(value, list):
        return [f"--{name}", ",".join(map(str, value))]
    return [f"--{name}", str(value)]


def settings(saved: SavedResult) -> list[tuple[str, str]]:
    """Return the run's settings, given and found, and the versions used."""
    about = saved.about
    kinds = saved.nodes["model"].value_counts(sort=False).to_dict()
    seed = about.get("seed", saved.config.get("seed"))
    classes, alpha = about["classes"], alpha_text(about["alpha"], digits=6)
    found = {
        "task": f"{about['task']} of {about.get('target_column') or 'the target'}",
        "classes": "" if classes is None else _list(classes),
        "features": _list(about["feature_names"]),
        "models": ", ".join(f"{count} x {kind}" for kind, count in kinds.items()),
        "alpha, rounds, wiring": f"{alpha}, {about['rounds']}, {about['wiring']}",
        "public rows": f"{about['public']['rows']} ({about['public']['how']})",
        "seed": "not known" if seed is None else str(seed),
        "versions": ", ".join(f"{name} {number}" for name, number in about["versions"].items()),
    }
    told = {}
    if "data" in saved.config:
        told = {f"--{name}": _text(v) for name, v in saved.config.items() if name != "features"}
    return [(name, text) for name, text in {**found, **told}.items() if text]


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return _list([f"{k}={v}" for k, v in value.items()])
    return _list(value) if isinstance(value, list) else str(value)


def _list(values: list[Any], most: int = 30) -> str:
    more = f", and {len(values) - most} more" if len(values) > most else ""
    return ", ".join(str(value) for value in values[:most]) + more
