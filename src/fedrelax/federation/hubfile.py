"""The hub's settings, in a TOML file: the sites, the method, and how long to wait."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from fedrelax.errors import FedRelaxError, did_you_mean
from fedrelax.federation.hub_settings import HubSettings
from fedrelax.federation.plan import LEFT_OUT, settings_of
from fedrelax.federation.sitefile import check_name
from fedrelax.files import read_text, why_unread
from fedrelax.schema import Schema
from fedrelax.solvers import FedRelax
from fedrelax.solvers.checks import check_count, check_number
from fedrelax.wiring import as_wiring

HUB = ("alpha", "folds", "validation_share", "open", "wait", "join", "staleness")
METHOD = tuple(f.name for f in fields(FedRelax) if f.name not in (*LEFT_OUT, "distillation"))
"""Settings of the solver that the file may contain."""


@dataclass(frozen=True)
class HubFile:
    """What a hub's file says."""

    settings: HubSettings
    folder: Path
    """Where the hub keeps the state of a run."""
    out: Path
    """Where the result is written: numbers, history, edges and the report, but no model."""
    target: str = "the target"
    live: bool = False
    """Whether the hub's machine serves a live page of the run."""


def read_hub(path: str | Path) -> HubFile:
    """Return the settings in a hub's file, checked."""
    path = Path(path).absolute()
    try:
        said = tomllib.loads(read_text(path))
    except (OSError, ValueError, RecursionError) as error:
        raise FedRelaxError(
            f"the hub's file {path} cannot be read ({why_unread(error)}); fedrelax federate init writes one"
        ) from error
    return hub_of(said, path.parent, str(path))


def hub_of(said: Mapping[str, Any], home: Path, source: str) -> HubFile:
    """Return a hub's settings from plain values; ``source`` says where they come from."""
    known = ("sites", "folder", "out", "target", "live", "schema", "wiring", *HUB, *METHOD)
    for name in said:
        if name not in known:
            hint = did_you_mean(name, known)
            raise FedRelaxError(f"{source}: {name!r} is not a setting of a hub{hint}")
    sites = said.get("sites")
    if not isinstance(sites, list) or not all(isinstance(name, str) for name in sites) or not sites:
        raise FedRelaxError(f"{source}: sites must be a list of names")
    for name in sites:
        check_name(name, source)
    for name in ("open", "live"):
        if not isinstance(said.get(name, False), bool):
            raise FedRelaxError(f"{source}: {name} = {said[name]!r} must be true or false")
    given = {name: said[name] for name in HUB if name in said}
    if isinstance(given.get("alpha"), list):
        given["alpha"] = tuple(given["alpha"])
    try:
        settings = settings_of({name: said[name] for name in METHOD if name in said})
        settings = replace(settings, wiring=as_wiring(said.get("wiring")))
        if "schema" in said:
            given["schema"] = Schema.read(home / str(said["schema"]))
        made = HubSettings(tuple(sites), settings=settings, **given)
        _check(made)
        made.check()
    except FedRelaxError as error:
        raise FedRelaxError(f"{source}: {error}") from None
    return HubFile(
        made,
        home / str(said.get("folder", "state")),
        home / str(said.get("out", "result")),
        str(said.get("target", "the target")),
        bool(said.get("live", False)),
    )


def _check(hub: HubSettings) -> None:
    check_count("rounds", hub.rounds, least=0)
    check_count("folds", hub.folds, least=2)
    check_count("staleness", hub.staleness, least=0)
    check_number("wait", hub.wait, least=0.1)
    check_number("join", hub.join, least=0.1)
    check_number("validation_share", hub.validation_share, least=0.0, below=1.0)
