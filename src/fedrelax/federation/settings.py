"""The TOML files of a site, which never leaves it, and of the hub: who takes part, and the method."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, ConfigDict, Field, InstanceOf, PrivateAttr, model_validator

from fedrelax.errors import FedRelaxError
from fedrelax.federation.boxes import key_bytes
from fedrelax.files import Refused, read_text, why_unread
from fedrelax.jsonfiles import Described, from_plain
from fedrelax.public import DRAWS
from fedrelax.schema import Schema
from fedrelax.selection import FOLDS
from fedrelax.selection.candidates import Alphas, update_for
from fedrelax.solvers import FedRelax
from fedrelax.solvers.base import USUAL_TOL
from fedrelax.validation import check_count
from fedrelax.wiring import Wiring, as_wiring

NAME = re.compile(r"[\w][\w .@+-]{0,99}")
"""What a site may be called: the name becomes part of messages and paths."""
USUAL_ROUNDS = 20
"""The most rounds if none are given."""


def _name(value: str) -> str:
    if not NAME.fullmatch(value):
        raise ValueError("which should be up to 100 letters, digits, spaces and . @ + - _")
    return value


Count = Annotated[int, Field(ge=0)]
Name = Annotated[str, AfterValidator(_name)]
Text = Annotated[str, Field(min_length=1)]
Weight = Annotated[float, Field(gt=0, lt=1e12)]
"""The weight of an edge, in a file or in a letter."""
Seconds = Annotated[float, Field(ge=0.1)]


class SharedSettings(Described):
    """What a site's settings say that the hub learns, too.

    name : what the others call it.
    target : the column to predict.
    task : "regression" or "classification".
    model : a name of ``fedrelax.models.names``, or ``package.module:Class``.
    neighbours : the sites that it hears, each with a weight; both ends must give the same.
    public : how public rows are drawn from the site's own rows; see ``fedrelax.public``.
    public_rows : how many are drawn; as many as the run needs, unless given.
    """

    name: Name
    target: Text
    task: Literal["regression", "classification"] = "regression"
    model: str = "ridge"
    neighbours: dict[str, Weight] = Field(default_factory=dict)
    public: str = "blend"
    public_rows: Annotated[int, Field(ge=1)] | None = None


class SiteFile(SharedSettings):
    """A site's settings; all of them are in its file.

    data : the table with its rows, relative to the file.
    features : the columns to learn from; all but the target, unless given.
    keys : the public keys of its neighbours, pinned: nobody else can speak in their name.
    key : the file with the site's own private key, relative to the file.
    test_share : the share of the rows that is held out for testing.
    folder : where the site keeps the state of a run and, in ``model``, its own model.
    """

    model_config = ConfigDict(extra="forbid")

    data: Text
    features: tuple[str, ...] | None = None
    keys: dict[str, str] = Field(default_factory=dict)
    key: str = "site.key"
    test_share: Annotated[float, Field(ge=0, lt=1)] = 0.2
    folder: str = "state"
    _home: Path = PrivateAttr(default=Path())

    @model_validator(mode="after")
    def _checked(self) -> Self:
        if self.name in self.neighbours:
            raise ValueError(f"site {self.name!r} is named as its own neighbour")
        for name, key in self.keys.items():
            key_bytes(key, f"of site {name!r}")
        if self.public not in DRAWS:
            raise ValueError(f"public = {self.public!r} should be one of {', '.join(DRAWS)}")
        return self

    def at(self, home: Path) -> Self:
        """Return the settings of a file in this directory."""
        self._home = home
        return self

    def path(self, name: str) -> Path:
        """Return the full path of something that the file names, relative to its directory."""
        return self._home / name

    @property
    def state(self) -> Path:
        """Where the state of a run is kept."""
        return self.path(self.folder)


def read_site(path: str | Path) -> SiteFile:
    """Return the settings in a site's file, checked; the keys of all its neighbours must be pinned."""
    path = Path(path).absolute()
    site = site_of(read_values(path, "site"), path.parent, str(path))
    missing = [name for name in site.neighbours if name not in site.keys]
    if missing:
        raise FedRelaxError(
            f"{path}: no key of neighbour {missing[0]!r} is pinned; add its public key under [keys]"
        )
    return site


def read_values(path: Path, whose: str) -> dict[str, Any]:
    """Return the values in the file of a site or of the hub, not checked."""
    try:
        return tomllib.loads(read_text(path))
    except (OSError, ValueError, RecursionError) as error:
        raise FedRelaxError(
            f"the {whose}'s file {path} cannot be read ({why_unread(error)}); fedrelax federate init "
            "writes one"
        ) from error


def site_of(values: Mapping[str, Any], home: Path, source: str) -> SiteFile:
    """Return a site's settings from plain values; ``source`` says where they come from."""
    return from_plain(SiteFile, values, source).at(home)


# The hub


@dataclass(frozen=True)
class HubSettings:
    """The hub's settings.

    sites : the names of all sites; they are put into the order in which ``fit`` takes nodes, by name.
    alpha : a number, several to choose among, or "auto".
    method : all other settings of ``FedRelax``; its alpha is ignored. A hub's file that leaves alpha to be
        chosen means ``update="difference"``, unless it says otherwise.
    folds : how many folds sites split their rows into where alpha is chosen.
    wait : seconds to wait for the answers of a round; later ones are left out of it.
    join : seconds to wait for all sites to join.
    schema : what the columns mean; if None, made from what the sites say about theirs.
    folder : where the hub keeps the state of a run, so that it can be started again.
    out : where the result is written: numbers, history, edges and the report, but no model.
    live : whether the hub's machine serves a live page of the run.
    """

    __pydantic_config__ = ConfigDict(strict=True, allow_inf_nan=False, extra="forbid")

    sites: Annotated[tuple[Name, ...], Field(min_length=1)]
    alpha: Alphas = "auto"
    method: InstanceOf[FedRelax] = field(default_factory=FedRelax)
    folds: Annotated[int, Field(ge=2)] = FOLDS
    wait: Seconds = 600.0
    join: Seconds = 600.0
    schema: InstanceOf[Schema] | None = None
    folder: Path = Path("state")
    out: Path = Path("result")
    target: str = "the target"
    live: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "sites", tuple(sorted(self.sites)))

    @property
    def rounds(self) -> int:
        """The most rounds."""
        return USUAL_ROUNDS if self.method.rounds is None else self.method.rounds

    @property
    def wiring(self) -> Wiring | None:
        """How the graph changes between rounds, if it does."""
        wiring = self.method.wiring
        return None if wiring is None else wiring.paced(self.rounds)

    @property
    def tol(self) -> float:
        """The change below which a run has converged."""
        return USUAL_TOL if self.method.tol is None else self.method.tol

    @property
    def asked(self) -> str:
        """What a run depends on, as text: one that was stopped goes on only if this is still the same."""
        method, wiring = plain_method(self.method), self.method.wiring
        return repr((self.sites, self.alpha, method, wiring, self.folds, self.schema))

    def check(self) -> None:
        """Refuse settings that make no sense, before any letter is sent."""
        if len(set(self.sites)) != len(self.sites) or not self.sites:
            raise FedRelaxError(f"sites={self.sites!r} must name every site once")
        check_count("rounds", self.rounds, least=0)
        plain_method(self.method)


def read_hub(path: str | Path) -> HubSettings:
    """Return the settings in a hub's file, checked."""
    path = Path(path).absolute()
    return hub_of(read_values(path, "hub"), path.parent, str(path))


def hub_of(values: Mapping[str, Any], home: Path, source: str) -> HubSettings:
    """Return a hub's settings from plain values; ``source`` says where they come from."""
    given = {name: value for name, value in values.items() if name in METHOD}
    own = {name: value for name, value in values.items() if name not in METHOD}
    wiring, schema = own.pop("wiring", None), own.pop("schema", None)
    made = from_plain(HubSettings, own, source)
    try:
        method = method_from({"update": update_for(made.alpha)} | given)
        settings = replace(
            made,
            method=replace(method, wiring=as_wiring(wiring)),
            schema=None if schema is None else Schema.read(home / str(schema)),
            folder=home / made.folder,
            out=home / made.out,
        )
        settings.check()
    except FedRelaxError as error:
        raise FedRelaxError(f"{source}: {error}") from None
    return settings


# The method as plain values, for a file or a letter

UNSUPPORTED = ("order", "exchange", "continued", "distillation", "patience")
"""Settings of the solver that a federation does not support."""
METHOD = {f.name for f in fields(FedRelax)} - {"wiring", "engine", "n_jobs", "alpha", *UNSUPPORTED}


def plain_method(method: FedRelax) -> dict[str, Any]:
    """Return the settings that sites need, as plain values; refuse what a federation does not support."""
    if method.wiring is not None and method.wiring.needs_common:
        raise FedRelaxError(
            f"wiring={method.wiring.name!r} compares predictions of all sites in one place, which a "
            "federation does not do; let every site name all others as neighbours and use 'rewire'"
        )
    for name in UNSUPPORTED:
        if getattr(method, name) != getattr(FedRelax(), name):
            raise FedRelaxError(
                f"{name}={getattr(method, name)!r} is not supported in a federation: all sites work at "
                "once, send predictions as they are, and keep no models between rounds; leave it out"
            )
    return {name: value for name, value in method.to_plain().items() if name in METHOD}


def method_from(values: Mapping[str, Any]) -> FedRelax:
    """Return the solver's settings from plain values."""
    strange = [name for name in values if name not in METHOD]
    if strange:
        raise Refused(f"the hub's plan has a setting {strange[0]!r}, which is unknown here")
    return FedRelax.from_plain(values)
