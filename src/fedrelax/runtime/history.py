"""What is known of a run: numbers per round, in total and per node."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedrelax.typing import FloatArray, Label


@dataclass(frozen=True)
class Record:
    """The state after ``round`` updates; round 0 is the models that start.

    ``objective`` is what the updates really minimise: sum_i L_i + alpha GTV for the symmetric
    objective, and sum_i L_i + alpha GTV / 2 for the paper's (exactly so with one common public
    set and a symmetric discrepancy; with unlike public sets no such function exists, and this is
    the nearest). A penalty inside a model is not part of it.
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


TOTALS = ("round", "local_loss", "gtv", "objective", "validation_loss", "change")


@dataclass
class History:
    """All records of a run. ``local_loss`` and ``validation_loss`` are means over the nodes."""

    labels: tuple[Label, ...]
    records: list[Record] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, name: str) -> FloatArray:
        """Return one quantity over the rounds, e.g. ``history["gtv"]``; per node as a 2-D array."""
        return np.array([getattr(record, name) for record in self.records])

    def to_frame(self) -> Any:
        """Return a DataFrame with one line per round."""
        import pandas as pd

        return pd.DataFrame({name: self[name] for name in TOTALS})

    def nodes_to_frame(self) -> Any:
        """Return a DataFrame with one line per round and node."""
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
