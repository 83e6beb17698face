"""What the hub tells every site at the beginning of a run, checked again by the site."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from fedrelax.combining import as_combine
from fedrelax.errors import FedRelaxError
from fedrelax.federation.codec import Envelope, Refused
from fedrelax.models import Task
from fedrelax.runtime import Distillation
from fedrelax.schema import Preparation
from fedrelax.solvers import FedRelax

MOST_LANES, MOST_ROUNDS = 2000, 100_000
LEFT_OUT = ("wiring", "engine", "n_jobs", "alpha", "order", "continued", "exchange")
"""Settings of the solver that mean nothing at a single site, or that a federation does not support."""


@dataclass(frozen=True)
class LaneSpec:
    """One of the runs that go side by side: its alpha, and its fold; None is all rows."""

    alpha: float
    fold: int | None


@dataclass(frozen=True)
class Plan:
    """What a site needs to know of a run."""

    run: str
    settings: FedRelax
    lanes: tuple[LaneSpec, ...]
    folds: int
    validation_share: float
    ready: Preparation
    """What the columns mean, and the form of the rows that sites share."""
    task: Task
    seed: int
    """The site's own seed."""
    nonces: Mapping[str, str]
    public: Mapping[str, int]
    """How many public rows each neighbour has."""

    def letter(self, kind: str = "begin") -> Envelope:
        """Return the plan as a letter."""
        classes = None if self.task.classes is None else self.task.classes.tolist()
        return Envelope(
            kind,
            {
                "run": self.run,
                "settings": plain_settings(self.settings),
                "lanes": [[lane.alpha, lane.fold] for lane in self.lanes],
                "folds": self.folds,
                "validation_share": self.validation_share,
                "columns": self.ready.to_dict(),
                "task": [self.task.kind, self.task.n_outputs, classes],
                "seed": self.seed,
                "nonces": dict(self.nonces),
                "public": dict(self.public),
            },
        )

    @classmethod
    def of(cls, letter: Envelope) -> Plan:
        """Return the plan in a letter, or refuse it."""
        try:
            lanes = tuple(
                LaneSpec(float(alpha), None if fold is None else int(fold))
                for alpha, fold in letter.value("lanes", list)
            )
            kind, outputs, classes = letter.value("task", list)
            dtype = object if classes and isinstance(classes[0], str) else None
            known = None if classes is None else np.asarray(classes, dtype=dtype)
            task = Task(str(kind), int(outputs), known)
            settings = settings_of(letter.value("settings", dict))
            ready = Preparation.from_dict(letter.value("columns", dict))
            public = {str(k): int(v) for k, v in letter.value("public", dict).items()}
        except (TypeError, ValueError) as error:
            raise Refused(f"the hub's plan is malformed ({error})") from error
        if not 0 < len(lanes) <= MOST_LANES or not 0 <= (settings.rounds or 0) <= MOST_ROUNDS:
            raise Refused(
                f"the hub's plan has {len(lanes)} lanes and {settings.rounds} rounds; at most "
                f"{MOST_LANES} and {MOST_ROUNDS} are allowed"
            )
        return cls(
            run=letter.value("run", str),
            settings=settings,
            lanes=lanes,
            folds=letter.value("folds", int),
            validation_share=float(letter.value("validation_share", (int, float))),
            ready=ready,
            task=task,
            seed=letter.value("seed", int),
            nonces={str(k): str(v) for k, v in letter.value("nonces", dict).items()},
            public=public,
        )


def plain_settings(settings: FedRelax) -> dict[str, Any]:
    """Return the settings that sites need, as plain values; refuse what a federation does not support."""
    if settings.wiring is not None and settings.wiring.needs_common:
        raise FedRelaxError(
            f"wiring={settings.wiring.name!r} compares predictions of all sites in one place, which a "
            "federation does not do; let every site name all others as neighbours and use 'rewire'"
        )
    if settings.order != "simultaneous":
        raise FedRelaxError(
            f"order={settings.order!r} is not supported in a federation: all sites work at once"
        )
    if settings.exchange is not None:
        raise FedRelaxError(
            "exchange: noise, faults and attacks are not supported in a federation yet, whose sites send "
            "predictions as they are; leave exchange=None"
        )
    combine = as_combine(settings.combine)
    if combine != as_combine(combine.name):
        raise FedRelaxError(
            f"combine={combine!r}: a federation tells its sites only a name, without settings; give "
            f"combine={combine.name!r}"
        )
    if settings.continued:
        raise FedRelaxError(
            "continued=True is not supported in a federation: sites keep no models between rounds"
        )
    values = {f.name: getattr(settings, f.name) for f in fields(settings) if f.name not in LEFT_OUT}
    values["combine"] = combine.name
    for name in ("loss", "discrepancy"):
        if values[name] is not None and not isinstance(values[name], str):
            values[name] = values[name].name
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
