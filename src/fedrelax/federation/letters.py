"""Letters between hub and sites, and what they must hold; nothing is used before it is checked."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any, Self, TypeVar

import numpy as np
from pydantic import Field, model_validator

from fedrelax.federation.settings import Count, Weight, method_from
from fedrelax.files import Refused
from fedrelax.jsonfiles import Described, from_plain
from fedrelax.models import Task
from fedrelax.runtime import SiteMeasure
from fedrelax.schema import Preparation
from fedrelax.selection.search import TRIES
from fedrelax.solvers import FedRelax
from fedrelax.storage.states import from_bytes, to_bytes
from fedrelax.typing import Label

KINDS = ("hello", "begin", "start", "relax", "settle", "finish")
"""The letters from the hub."""
PUBLIC = -1
"""The round of a box of public rows."""
MOST_LANES, MOST_ROUNDS = 2000, 100_000

Content = TypeVar("Content")
NotNegative = Annotated[float, Field(ge=0)]
Classes = tuple[str, ...] | tuple[bool, ...] | tuple[int, ...] | tuple[float, ...]
"""The classes of a target, all of one type."""


def again(round: int) -> int:
    """Return the number of a round whose predictions are shared anew, so that no address repeats."""
    return -2 - round


@dataclass(frozen=True)
class Envelope:
    """One letter: its kind, a head of plain values, and named parts of bytes."""

    kind: str
    head: dict[str, Any] = field(default_factory=dict)
    parts: dict[str, bytes] = field(default_factory=dict)

    def read(self, kind: type[Content]) -> Content:
        """Return the head as a value of this kind, or refuse the letter."""
        return from_plain(kind, self.head, f"a letter {self.kind!r}")


def pack(letter: Envelope) -> bytes:
    """Return a letter as bytes.

    >>> unpack(pack(Envelope("hello", {"n": 1}, {"box": b"abc"}))).parts
    {'box': b'abc'}
    """
    return to_bytes([letter.kind, letter.head, letter.parts])


def unpack(data: bytes) -> Envelope:
    """Return the letter in these bytes, or refuse them."""
    try:
        content = from_bytes(data)
    except Refused as error:
        raise Refused(f"a letter {error}") from error
    match content:
        case [str(kind), dict(head), dict(parts)] if {*map(type, parts.values())} <= {bytes}:
            return Envelope(kind, head, parts)
    raise Refused("a letter has no kind or head, or parts that are not bytes")


# What the hub says


class Asked(Described):
    """Which run a letter belongs to."""

    run: str


@dataclass(frozen=True)
class LaneSpec:
    """One of the runs that go side by side: its alpha, and its fold; None is all rows."""

    alpha: NotNegative
    fold: int | None


class Plan(Asked):
    """What a site needs to know of a run, as plain values; properties make of them what the code needs."""

    method: dict[str, Any]
    lanes: Annotated[tuple[LaneSpec, ...], Field(min_length=1, max_length=MOST_LANES)]
    folds: int
    columns: dict[str, Any]
    kind: str
    classes: Classes | None
    seed: int
    """The site's own seed."""
    nodes: Count
    """How many sites take part."""
    nonces: dict[str, str]
    public: dict[str, Count]
    """How many public rows the site and each of its neighbours have."""
    rows: dict[str, Count] = Field(default_factory=dict)
    """How many rows each site has, where all learn by partial pooling; else empty."""
    level: float = 0.0
    size: Annotated[float, Field(gt=0)] = 1.0
    """Mean and spread of the target over all sites there, if it is a number."""
    edges: list[tuple[str, str, Weight]] = Field(default_factory=list)
    """The whole graph there, if not all edges weigh the same."""
    boosting: Annotated[int, Field(ge=0, le=TRIES)] = 0
    """On how many folds the sites then try boosted differences."""

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
        return method_from(self.method)

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


class Round(Asked):
    """What sites are asked to do in a round: measure, and refit if asked to.

    look : whether to report how well neighbours' predictions fit the site's own rows.
    anew : whether the predictions were shared anew on the final graph.
    heeded : by lane, the neighbours that count on the rewired graph, with their weights.
    """

    round: Count
    lanes: list[Count]
    heeded: dict[str, dict[str, Weight]] | None = None
    refit: bool = False
    look: bool = False
    anew: bool = False


class Finish(Asked):
    """Which lane and round is kept."""

    lane: Count
    alpha: NotNegative
    round: Count
    alone: bool
    reason: str


# What sites say


class LaneReport(Described):
    """A site's numbers of one lane in one round; None where there is no finite number yet."""

    lane: Count
    local_loss: NotNegative
    gtv: NotNegative
    pull: NotNegative
    validation_loss: NotNegative | None
    validation_rows: Count
    change: NotNegative | None
    size: NotNegative
    discrepancies: dict[str, NotNegative]
    looks: dict[str, NotNegative] | None = None

    @property
    def measure(self) -> SiteMeasure:
        """The numbers as the loop takes them."""
        numbers = self.model_dump(exclude={"lane", "looks"})
        for name, unknown in (("validation_loss", math.nan), ("change", math.inf)):
            numbers[name] = unknown if numbers[name] is None else numbers[name]
        return SiteMeasure(**numbers)


def report_of(
    lane: int, measure: SiteMeasure, looks: Mapping[Label, float] | None
) -> dict[str, Any]:
    """Return what a site reports of a lane, as plain values.

    ``looks`` is, by neighbour, the loss on the site's own rows if the neighbour predicted them.
    """
    numbers = dict(vars(measure))
    for name in ("validation_loss", "change"):
        numbers[name] = numbers[name] if math.isfinite(numbers[name]) else None
    numbers["discrepancies"] = {n: d for n, d in measure.discrepancies.items() if d == d}
    if looks is not None:
        looks = {name: fit for name, fit in looks.items() if math.isfinite(fit)}
    return {"lane": lane, **numbers, "looks": looks}


class Relaxed(Described):
    """A site's report of a round, and why it refused what came from some neighbours."""

    reports: list[LaneReport]
    refused: dict[str, str]
    alpha: NotNegative | None = None
    """The strength of coupling that was learned, where all learn by partial pooling."""
    words: str = ""
    """What was chosen there."""


class Finished(Described):
    """Sums of a site's errors over its test rows; None if it has no such rows."""

    test_rows: Count
    alone: NotNegative | None
    together: NotNegative | None

    @model_validator(mode="after")
    def _measured(self) -> Self:
        if self.test_rows and None in (self.alone, self.together):
            raise ValueError("it has test rows, but no errors on them")
        return self
