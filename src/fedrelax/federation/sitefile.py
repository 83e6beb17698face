"""A site's own settings, in a TOML file that never leaves it: name, data, model, neighbours, keys."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from fedrelax.errors import FedRelaxError, did_you_mean
from fedrelax.federation.sealing import check_public_key
from fedrelax.files import read_text, why_unread
from fedrelax.public import DRAWS

NAME = re.compile(r"[\w][\w .@+-]{0,99}")
"""What a site may be called: the name becomes part of messages and paths."""


@dataclass(frozen=True)
class SiteFile:
    """A site's settings.

    name : what the others call it.
    data : the table with its rows, relative to the file.
    target, features : columns; without features, all columns but the target.
    task : "regression" or "classification".
    model : a name of ``fedrelax.models.names``, or ``package.module:Class``.
    neighbours : the sites that it hears, each with a weight; both ends must give the same.
    keys : the public keys of these sites, pinned: nobody else can speak in their name.
    key : the file with the site's own private key, relative to the file.
    open : whether the hub may read what the site shares; the hub must have the same setting.
    public : how public rows are drawn from the site's own rows (see ``fedrelax.public``), or a file of
        public rows that is the same at all sites.
    public_rows : how many are drawn.
    test_share : the share of the rows that is held out for testing.
    folder : where the site keeps the state of a run and, in ``model``, its own model.
    """

    name: str
    data: str
    target: str
    task: str = "regression"
    model: str = "ridge"
    features: tuple[str, ...] | None = None
    neighbours: Mapping[str, float] = field(default_factory=dict)
    keys: Mapping[str, str] = field(default_factory=dict)
    key: str | None = None
    open: bool = False
    public: str = "blend"
    public_rows: int = 100
    test_share: float = 0.2
    folder: str = "state"
    home: Path = Path()
    """The directory of the file, to which paths are relative."""

    def path(self, name: str) -> Path:
        """Return the full path of something that the file names."""
        return self.home / name

    @property
    def state(self) -> Path:
        """Where the state of a run is kept."""
        return self.path(self.folder)

    @property
    def drawn(self) -> bool:
        """Whether public rows are drawn rather than read from a file."""
        return self.public in DRAWS


def read_site(path: str | Path) -> SiteFile:
    """Return the settings in a site's file, checked."""
    path = Path(path).absolute()
    return site_of(read_values(path), path.parent, str(path))


def read_values(path: Path) -> dict[str, Any]:
    """Return the values in a site's file, not checked."""
    try:
        return tomllib.loads(read_text(path))
    except (OSError, ValueError, RecursionError) as error:
        raise FedRelaxError(
            f"the site's file {path} cannot be read ({why_unread(error)}); fedrelax federate init "
            "writes one"
        ) from error


def site_of(said: Mapping[str, Any], home: Path, source: str) -> SiteFile:
    """Return a site's settings from plain values; ``source`` says where they come from."""
    known = {f.name: f for f in fields(SiteFile) if f.name != "home"}
    for name in said:
        if name not in known:
            raise FedRelaxError(
                f"{source}: {name!r} is not a setting of a site{did_you_mean(name, known)}"
            )
    for name in ("name", "data", "target"):
        if not isinstance(said.get(name), str) or not said[name]:
            raise FedRelaxError(f"{source}: {name} is missing; give it as text")
    for name, kind, what in KINDS:
        if name in said and (not isinstance(said[name], kind) or isinstance(said[name], bool)):
            raise FedRelaxError(f"{source}: {name} = {said[name]!r} must be {what}")
    if not isinstance(said.get("open", False), bool):
        raise FedRelaxError(f"{source}: open = {said['open']!r} must be true or false")
    features = said.get("features")
    made = SiteFile(
        **{**said, "features": None if features is None else tuple(map(str, features))}, home=home
    )
    _check(made, source)
    return made


KINDS: tuple[tuple[str, type | tuple[type, ...], str], ...] = (
    *((name, str, "text") for name in ("task", "model", "key", "public", "folder")),
    ("features", list, "a list of columns"),
    ("neighbours", dict, "a table of sites and weights"),
    ("keys", dict, "a table of sites and public keys"),
    ("public_rows", int, "a whole number"),
    ("test_share", (int, float), "a number"),
)
"""The types of settings, and what messages call them."""


def check_name(name: str, source: str) -> None:
    """Refuse a name that cannot be part of messages and paths."""
    if not NAME.fullmatch(name):
        raise FedRelaxError(
            f"{source}: name = {name!r} must be up to 100 letters, digits, spaces and . @ + - _"
        )


def is_weight(value: Any) -> bool:
    """Tell whether this can be the weight of an edge, in a file or in a letter."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and 0 < value < 1e12


def _check(site: SiteFile, source: str) -> None:
    check_name(site.name, source)
    if site.task not in ("regression", "classification"):
        raise FedRelaxError(
            f"{source}: task = {site.task!r} must be 'regression' or 'classification'"
        )
    if site.public_rows < 1:
        raise FedRelaxError(f"{source}: public_rows = {site.public_rows} must be at least 1")
    if not 0 <= site.test_share < 1:
        raise FedRelaxError(f"{source}: test_share = {site.test_share} must be from 0 to below 1")
    for name, weight in site.neighbours.items():
        if not is_weight(weight):
            raise FedRelaxError(
                f"{source}: the weight {weight!r} of {name!r} must be above 0 and below 1e12"
            )
    if site.name in site.neighbours:
        raise FedRelaxError(f"{source}: site {site.name!r} is named as its own neighbour")
    for name, key in site.keys.items():
        check_public_key(key, f"of site {name!r} in {source}")
    if site.open:
        return
    if site.key is None:
        raise FedRelaxError(
            f"{source}: key is missing; fedrelax federate keys makes one, or set open = true to let the "
            "hub read what is shared"
        )
    missing = [name for name in site.neighbours if name not in site.keys]
    if missing:
        raise FedRelaxError(
            f"{source}: no key of neighbour {missing[0]!r} is pinned; add its public key under [keys]"
        )
