"""What the hub tells every site at the beginning of a run, checked again by the site."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import Annotated, Any, Self

import numpy as np
from pydantic import Field, model_validator

from fedrelax.combining import as_combine
from fedrelax.errors import FedRelaxError
from fedrelax.files import Refused
from fedrelax.jsonfiles import Described
from fedrelax.models import Task
from fedrelax.runtime import Distillation
from fedrelax.schema import Preparation
from fedrelax.solvers import FedRelax

MOST_LANES, MOST_ROUNDS = 2000, 100_000
LEFT_OUT = ("wiring", "engine", "n_jobs", "alpha", "order", "continued", "exchange")
"""Settings of the solver that mean nothing at a single site, or that a federation does not support."""

Count = Annotated[int, Field(ge=0)]
Classes = tuple[str, ...] | tuple[bool, ...] | tuple[int, ...] | tuple[float, ...]
"""The classes of a target, all of one type."""


@dataclass(frozen=True)
class LaneSpec:
    """One of the runs that go side by side: its alpha, and its fold; None is all rows."""

    alpha: float
    fold: int | None


class Plan(Described):
    """What a site needs to know of a run, as plain values; properties make of them what the code needs."""

    run: str
    method: dict[str, Any]
    lanes: Annotated[tuple[LaneSpec, ...], Field(min_length=1, max_length=MOST_LANES)]
    folds: int
    validation_share: float
    columns: dict[str, Any]
    kind: str
    classes: Classes | None
    seed: int
    """The site's own seed."""
    nodes: Count
    """How many sites take part."""
    nonces: dict[str, str]
    public: dict[str, Count]
    """How many public rows each neighbour has."""

    @model_validator(mode="after")
    def _checked(self) -> Self:
        try:
            rounds = self.settings.rounds or 0
            if not isinstance(rounds, int) or not 0 <= rounds <= MOST_ROUNDS:
                raise ValueError(f"it has {rounds} rounds; at most {MOST_ROUNDS} are allowed")
            _ = self.ready, self.task
        except TypeError as error:
            raise ValueError(str(error)) from error
        return self

    @cached_property
    def settings(self) -> FedRelax:
        """The settings of the solver."""
        return settings_of(self.method)

    @cached_property
    def ready(self) -> Preparation:
        """What the columns mean, and the form of the rows that sites share."""
        return Preparation.from_dict(self.columns)

    @cached_property
    def task(self) -> Task:
        """What is predicted."""
        return task_of(self.kind, self.classes)


def task_of(kind: str, classes: Sequence[Any] | None) -> Task:
    """Return the task with these classes; numbers have none."""
    if not classes:
        return Task(kind, 1)
    dtype = object if isinstance(classes[0], str) else None
    return Task(kind, len(classes), np.asarray(classes, dtype=dtype))


def plain_settings(settings: FedRelax) -> dict[str, Any]:
    """Return the settings that sites need, as plain values; refuse what a federation does not support."""
    if settings.wiring is not None and settings.wiring.needs_common:
        raise FedRelaxError(
            f"wiring={settings.wiring.name!r} compares predictions of all sites in one place, which a "
            "federation does not do; let every site name all others as neighbours and use 'rewire'"
        )
    for name in ("order", "exchange", "continued"):
        if getattr(settings, name) != getattr(FedRelax(), name):
            raise FedRelaxError(
                f"{name}={getattr(settings, name)!r} is not supported in a federation: all sites work at "
                "once, send predictions as they are, and keep no models between rounds; leave it out"
            )
    combine = as_combine(settings.combine)
    if combine != as_combine(combine.name):
        raise FedRelaxError(
            f"combine={combine!r}: a federation tells its sites only a name, without settings; give "
            f"combine={combine.name!r}"
        )
    values = {f.name: getattr(settings, f.name) for f in fields(settings) if f.name not in LEFT_OUT}
    for name in ("loss", "discrepancy", "combine"):
        values[name] = getattr(values[name], "name", values[name])
    if settings.distillation is not None:
        values["distillation"] = asdict(settings.distillation)
    return values


def settings_of(values: Mapping[str, Any]) -> FedRelax:
    """Return the solver's settings from plain values."""
    known = {f.name for f in fields(FedRelax)} - set(LEFT_OUT)
    strange = [name for name in values if name not in known]
    if strange:
        raise Refused(f"the hub's plan has a setting {strange[0]!r}, which is unknown here")
    given = dict(values)
    if given.get("distillation") is not None:
        given["distillation"] = Distillation(**given["distillation"])
    return FedRelax(**given)
