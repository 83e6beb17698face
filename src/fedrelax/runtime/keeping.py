"""What a run needs to resume after it was stopped: its position, and a callback that saves it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from fedrelax.errors import FedRelaxError
from fedrelax.runtime.callbacks import Callback
from fedrelax.runtime.history import TOTALS, History, Record

ROUNDS = "rounds"
"""The name under which the state of a run's rounds is saved."""

Identity = Mapping[str, str]
"""What identifies a run: checksums of rows, graph and public rows; models and settings in words."""


class Keeper(Callback):
    """A callback that also saves what a run needs to resume: see ``fedrelax.storage.Checkpoint``.

    States are plain values: numbers, strings, lists, tuples, dicts, arrays, sparse matrices and messages.
    """

    @abstractmethod
    def recall(self, what: str, identity: Identity) -> Any | None:
        """Return the state saved under a name, or None; refuse the state of another run."""

    @abstractmethod
    def keep(
        self, what: str, identity: Identity, state: Callable[[], Any], round: int, ends: bool
    ) -> None:
        """Save a state if one is due; ``ends`` says that no round follows this one."""

    @abstractmethod
    def using(self, what: str) -> AbstractContextManager[None]:
        """Return a context in which a state is used: errors inside are reported as faults of its file."""


def keeper_in(callbacks: Sequence[Any]) -> Keeper | None:
    """Return the callback that saves states, if there is one."""
    found = [callback for callback in callbacks if isinstance(callback, Keeper)]
    if len(found) > 1:
        raise FedRelaxError(f"callbacks holds {len(found)} checkpoints; a run can have only one")
    return found[0] if found else None


@dataclass
class Position:
    """Where the loop stands once a round has been measured.

    ``best`` holds the lowest validation loss, its round and its models; ``first`` is the first round on
    the final graph; ``reason`` says why no round follows, if none does.
    """

    history: History
    round: int = 0
    best: tuple[float, int, Any] = (np.inf, 0, None)
    first: int | None = None
    reason: str = ""

    def state(self, engine: Any) -> dict[str, Any]:
        """Return the position as plain values, with the engine's state."""
        loss, round, models = self.best
        return {
            "round": self.round,
            "records": columns_of(self.history),
            "best": (loss, round, None if models is None else engine.packed(models)),
            "engine": engine.state(),
        }

    @classmethod
    def of(cls, state: Any, engine: Any) -> Position:
        """Restore the engine and return the position of the loop."""
        history = History(engine.labels, records_of(state["records"], len(engine.labels)))
        round = state["round"]
        if type(round) is not int or history.records[-1].round != round:
            raise FedRelaxError("its rounds are inconsistent")
        engine.resume(state["engine"], round)
        loss, when, models = state["best"]
        best = (float(loss), int(when), None if models is None else engine.unpacked(models, when))
        return cls(history, round, best, history.records[0].round)


def columns_of(history: History) -> dict[str, Any]:
    """Return the measures of all rounds, one array per field of a record."""
    return {field.name: history[field.name] for field in fields(Record)}


def records_of(columns: Mapping[str, Any], nodes: int) -> list[Record]:
    """Return the records in these arrays; refuse arrays that do not fit this number of nodes."""
    names = [field.name for field in fields(Record)]
    rounds = columns["round"]
    if rounds.ndim != 1 or rounds.dtype.kind != "i" or not len(rounds) or (rounds < 0).any():
        raise FedRelaxError("it has no rounds")
    for name in names:
        shape = (len(rounds),) if name in TOTALS else (len(rounds), nodes)
        if columns[name].shape != shape:
            raise FedRelaxError(f"{name} has the shape {columns[name].shape}, not {shape}")
    return [
        Record(**{name: columns[name][k].item() if name in TOTALS else columns[name][k].copy()
                  for name in names})
        for k in range(len(rounds))
    ]  # fmt: skip
