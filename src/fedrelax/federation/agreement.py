"""The handshake: who takes part, and whether all agree on columns, task and neighbours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from fedrelax.errors import FedRelaxError, listing
from fedrelax.federation.letters import Classes, Envelope, task_of
from fedrelax.federation.settings import Count, SharedSettings
from fedrelax.files import Refused
from fedrelax.graph import Graph
from fedrelax.models import Task
from fedrelax.schema import Preparation, Schema
from fedrelax.schema.agreeing import ColumnSummary, agreed
from fedrelax.schema.preparation import ENCODED

MOST_NAMES = 100_000
"""The most columns, or classes, that a site may name."""


class SiteManifest(SharedSettings):
    """What a site says about itself before a run: names, counts and summaries of columns, but no row.

    ``rows`` is the number of rows that it trains on.
    ``columns`` summarises its columns, and is empty where the hub provides a schema; ``named`` tells
    whether its file lists them. ``aim`` is the mean and spread of a target of numbers, to six digits; None
    for classes, and where there are few rows.
    ``form`` is how its model takes rows of a table: numbers only, or with gaps and categories.
    """

    features: Annotated[tuple[str, ...], Field(min_length=1, max_length=MOST_NAMES)]
    classes: Annotated[Classes, Field(min_length=1, max_length=MOST_NAMES)] | None
    rows: Count
    nonce: str
    form: Literal["encoded", "coded", "frame"]
    columns: tuple[ColumnSummary, ...]
    aim: tuple[float, float] | None = None
    named: bool

    @model_validator(mode="after")
    def _named(self) -> Self:
        if self.columns and tuple(told.name for told in self.columns) != self.features:
            raise ValueError("it describes other columns than its features")
        return self

    def letter(self) -> Envelope:
        """Return the greeting as a letter."""
        return Envelope("hello", self.model_dump(mode="json"))

    @classmethod
    def of(cls, letter: Envelope) -> SiteManifest:
        """Return the greeting in a letter, or refuse it."""
        if letter.kind != "hello":
            raise Refused(f"a greeting was answered with a letter {letter.kind!r}")
        return letter.read(cls)


@dataclass(frozen=True)
class Agreement:
    """What all sites of a run have agreed on."""

    hellos: Mapping[str, SiteManifest]
    graph: Graph
    ready: Preparation
    """What the columns mean, and the form of the rows that sites share."""
    task: Task
    notes: tuple[str, ...] = ()
    """What was decided about columns, in sentences."""


def agree(
    hellos: Mapping[str, SiteManifest],
    sites: Sequence[str],
    schema: Schema | None = None,
) -> Agreement:
    """Return what all sites agree on, or raise an error that names a site and what does not fit.

    Without a ``schema``, one is made from what the sites say about their columns.
    """
    ordered = {name: hellos[name] for name in sites}
    first = ordered[sites[0]]
    for hello in ordered.values():
        _check_columns(hello, first)
    notes: list[str] = []
    if schema is None:
        told = {name: hello.columns for name, hello in ordered.items()}
        schema, notes = agreed(told, named=any(hello.named for hello in ordered.values()))
    # Rows are shared as numbers, unless a model takes gaps and categories.
    numbers = schema.is_plain or all(hello.form == ENCODED for hello in ordered.values())
    classes = sorted({label for hello in ordered.values() for label in hello.classes or ()})
    if first.task == "classification" and len(classes) < 2:
        raise FedRelaxError(
            "all sites together have fewer than two classes; nothing can be learned"
        )
    ready, task = Preparation(schema, encoded=numbers), task_of(first.task, classes)
    return Agreement(ordered, _graph(ordered), ready, task, tuple(notes))


def _check_columns(hello: SiteManifest, first: SiteManifest) -> None:
    who = f"site {hello.name!r}"
    if hello.task != first.task:
        raise FedRelaxError(
            f"{who} uses column {hello.target!r} for {hello.task} and site {first.name!r} "
            f"for {first.task}; give both the same task"
        )
    for other, own in ((first, hello), (hello, first)):
        for name in other.features:
            if name not in own.features:
                raise FedRelaxError(
                    f"site {own.name!r} has no column {name!r}, which site {other.name!r} has; give all "
                    "sites the same columns"
                )
    labels = (*(hello.classes or ()), *(first.classes or ()))
    if len({isinstance(label, str) for label in labels}) > 1:
        raise FedRelaxError(
            f"{who} has another kind of classes in column {hello.target!r} than site {first.name!r}: "
            "one has text, the other numbers"
        )


def _graph(hellos: Mapping[str, SiteManifest]) -> Graph:
    edges = []
    for name, hello in hellos.items():
        for other, weight in hello.neighbours.items():
            if other not in hellos:
                raise FedRelaxError(
                    f"site {name!r} names the neighbour {other!r}, which is not in this federation "
                    f"({listing(hellos)})"
                )
            back = hellos[other].neighbours.get(name)
            if back != weight:
                said = "does not name it" if back is None else f"gives {back:g}"
                raise FedRelaxError(
                    f"site {name!r} hears {other!r} with weight {weight:g}, but {other!r} {said}; "
                    "both ends of an edge must give the same weight"
                )
            if name < other:
                edges.append((name, other, weight))
    return Graph.from_edges(edges, labels=list(hellos))
