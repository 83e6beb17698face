"""The history of a run: measures per round, in total and per node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Generic, TypeVar

import numpy as np

from fedrelax.errors import FedRelaxError
from fedrelax.typing import DataFrame, FloatArray, Label

T = TypeVar("T")


@dataclass(frozen=True)
class Measures(Generic[T]):
    """What is measured at every node after a round."""

    local_loss: T
    gtv: T
    pull: T
    """The coupling term of the node's own objective: as a site reports it, without alpha."""
    validation_loss: T
    """NaN where a node has no validation rows."""
    validation_rows: Any
    change: T
    """The mean squared change of what the node shares; infinite in round 0."""
    size: T
    """The mean square of what the node shares."""


@dataclass(frozen=True)
class SiteMeasure(Measures[float]):
    """What a node reports of itself after a round: numbers only."""

    discrepancies: dict[Label, float]


@dataclass(frozen=True)
class NodeMeasures(Measures[FloatArray]):
    """What an engine reports after a round: arrays with one number per node.

    The coupling term includes alpha, halved for the paper's objective.
    """

    @classmethod
    def of(cls, sites: Sequence[SiteMeasure], factor: float) -> NodeMeasures:
        """Gather what sites report; ``factor`` multiplies the coupling term."""
        columns = {
            each.name: np.array([getattr(site, each.name) for site in sites], dtype=float)
            for each in fields(cls)
        }
        return cls(**columns | {"pull": factor * columns["pull"]})


@dataclass(frozen=True)
class Record:
    """The state after ``round`` updates; round 0 is the starting models.

    ``objective`` is what the updates really minimise: sum_i L_i + alpha GTV for the symmetric
    objective, and sum_i L_i + alpha GTV / 2 for the paper's (exactly so with one common public
    set and a symmetric discrepancy; with different public sets no such function exists, and this is
    the closest one). A model's own penalty is not part of it.
    """

    round: int
    local_loss: float
    gtv: float
    objective: float
    validation_loss: float
    change: float
    node_local_loss: FloatArray
    node_gtv: FloatArray
    node_validation_loss: FloatArray

    @classmethod
    def of(cls, round: int, nodes: NodeMeasures) -> Record:
        """Aggregate over nodes: GTV and objective are summed, losses averaged.

        ``local_loss`` is the mean over nodes, ``validation_loss`` the mean over all validation rows.
        """
        has, validation = nodes.validation_rows > 0, float("nan")
        if has.any():
            weights = nodes.validation_rows[has]
            validation = float(np.average(nodes.validation_loss[has], weights=weights))
        size = max(float(nodes.size.mean()), np.finfo(float).tiny)
        return cls(
            round=round,
            local_loss=float(nodes.local_loss.mean()),
            gtv=float(nodes.gtv.sum()),
            objective=float(nodes.local_loss.sum() + nodes.pull.sum()),
            validation_loss=validation,
            change=float(np.sqrt(nodes.change.mean() / size)),
            node_local_loss=nodes.local_loss,
            node_gtv=nodes.gtv,
            node_validation_loss=nodes.validation_loss,
        )


TOTALS = ("round", "local_loss", "gtv", "objective", "validation_loss", "change")


@dataclass
class History:
    """All records of a run, in the order of the rounds; ``labels`` is the order of the nodes."""

    labels: tuple[Label, ...]
    records: list[Record] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, name: str) -> FloatArray:
        """Return one quantity over the rounds, e.g. ``history["gtv"]``; per node as a 2-D array."""
        return np.array([getattr(record, name) for record in self.records])

    def best(self) -> tuple[float, int]:
        """Return the lowest validation loss and the first round that has it; infinity if none has any."""
        losses = [(record.validation_loss, record.round) for record in self.records]
        return min((pair for pair in losses if pair[0] < np.inf), default=(np.inf, 0))

    def to_frame(self) -> DataFrame:
        """Return a DataFrame with one row per round."""
        import pandas as pd

        return pd.DataFrame({name: self[name] for name in TOTALS})

    def nodes_to_frame(self) -> DataFrame:
        """Return a DataFrame with one row per round and node."""
        import pandas as pd

        rounds, n = len(self.records), len(self.labels)
        columns = ("local_loss", "gtv", "validation_loss")
        return pd.DataFrame(
            {
                "round": np.repeat(self["round"], n),
                "node": list(self.labels) * rounds,
                **{name: self[f"node_{name}"].ravel() for name in columns},
            }
        )


def columns_of(history: History) -> dict[str, Any]:
    """Return the measures of all rounds, one array per field of a record."""
    return {each.name: history[each.name] for each in fields(Record)}


def records_of(columns: Mapping[str, Any], nodes: int) -> list[Record]:
    """Return the records in these arrays; refuse arrays that do not fit this number of nodes."""
    rounds = columns["round"]
    if rounds.ndim != 1 or rounds.dtype.kind != "i" or not len(rounds) or (rounds < 0).any():
        raise FedRelaxError("it has no rounds")
    values: dict[str, Any] = {}
    for name in (each.name for each in fields(Record)):
        total = name in TOTALS
        shape = (len(rounds),) if total else (len(rounds), nodes)
        if columns[name].shape != shape:
            raise FedRelaxError(f"{name} has the shape {columns[name].shape}, not {shape}")
        values[name] = columns[name].tolist() if total else columns[name].copy()
    return [
        Record(**dict(zip(values, parts, strict=True)))
        for parts in zip(*values.values(), strict=True)
    ]
