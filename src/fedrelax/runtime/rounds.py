"""The loop over rounds, written once: share -> measure -> update, until told to stop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from fedrelax.runtime.callbacks import Callback
from fedrelax.runtime.history import History, Record
from fedrelax.typing import FloatArray, Label
from fedrelax.wiring import Wiring


class Engine(Protocol):
    """What the loop needs of whatever holds the nodes."""

    labels: tuple[Label, ...]

    def start(self) -> None:
        """Train the first models."""

    def share(self, round: int) -> None:
        """Let every node send its predictions and hear its neighbours'."""

    def measure(self, round: int) -> Record:
        """Return the numbers of the present models."""

    def update(self, round: int) -> None:
        """Let every node refit."""

    def snapshot(self) -> Any:
        """Return the present models, to go back to."""

    def restore(self, state: Any) -> None:
        """Go back to earlier models."""

    @property
    def given(self) -> Any:
        """The graph as it was given, a CSR matrix."""

    @property
    def edges(self) -> Any:
        """The graph in use, a CSR matrix."""

    def discrepancies(self, edges: Any) -> FloatArray:
        """Return d(i, j) for every stored entry of a CSR matrix."""

    def own_losses(self, edges: Any) -> FloatArray:
        """Return, per stored entry, node i's loss on its own rows with neighbour j's answers."""

    def embedding(self) -> FloatArray:
        """Return one row per node that stands for its predictions on the common public set."""

    def rewire(self, edges: Any) -> None:
        """Go on with another graph."""

    def settle(self, round: int) -> None:
        """Make ready for the rounds on the final graph."""


@dataclass(frozen=True)
class Stopping:
    """When to stop: after ``rounds``, or when predictions rest, or when validation gets worse.

    ``tol`` is the root mean square change of the shared predictions relative to their size.
    With ``patience``, the models of the round with the best validation loss are kept, and that many
    rounds without a better one end the run. They count from the first round on the final graph on.
    """

    rounds: int
    tol: float = 0.0
    patience: int | None = None


@dataclass(frozen=True)
class Outcome:
    """How a run ended; ``n_rounds`` is the round of the models that are kept."""

    history: History
    n_rounds: int
    reason: str


def run(
    engine: Engine,
    stopping: Stopping,
    callbacks: Sequence[Callback] = (),
    wiring: Wiring | None = None,
) -> Outcome:
    """Run rounds until one of the reasons to stop holds; rewire between them if asked for."""
    wiring = None if wiring is None else wiring.paced(stopping.rounds)
    for callback in callbacks:
        callback.begin(stopping.rounds, len(engine.labels))
    _tell_wired(engine, callbacks)
    engine.start()
    history = History(engine.labels)
    best = (np.inf, 0, None)
    kept, round, first = 0, 0, None
    while True:
        engine.share(round)
        record = engine.measure(round)
        history.records.append(record)
        if stopping.patience is not None and record.validation_loss < best[0]:
            best = (record.validation_loss, round, engine.snapshot())
        told = [callback.after_round(record) for callback in callbacks]
        resting = wiring is None or wiring.settled(round)
        first = round if resting and first is None else first
        since = None if first is None else round - max(best[1], first)
        reason = _reason_to_stop(stopping, record, told, since)
        if reason:
            break
        stage = None if wiring is None else wiring.due(round)
        if wiring is not None and stage is not None:
            engine.rewire(wiring.wire(stage, engine))
            _tell_wired(engine, callbacks)
            if stage == wiring.stages - 1:
                engine.settle(round)
        engine.update(round)
        round += 1
    kept = round
    if best[2] is not None and best[1] != round:
        present = engine.edges
        engine.restore(best[2])
        kept = best[1]
        if engine.edges is not present:
            _tell_wired(engine, callbacks)
    outcome = Outcome(history, kept, reason)
    for callback in callbacks:
        callback.end(outcome)
    return outcome


def _tell_wired(engine: Engine, callbacks: Sequence[Callback]) -> None:
    for callback in callbacks:
        callback.wired(engine.labels, engine.edges)


def _reason_to_stop(
    stopping: Stopping, record: Record, told: Sequence[bool | str | None], since: int | None
) -> str:
    """``since``: rounds since the best one on the final graph, or None before there is one."""
    for answer in told:
        if answer:
            return answer if isinstance(answer, str) else "stopped by a callback"
    if record.round >= stopping.rounds:
        return "all rounds done"
    if since is None:
        return ""
    if record.round > 0 and record.change <= stopping.tol:
        return "predictions at rest"
    if stopping.patience is not None and since >= stopping.patience:
        return "validation loss no longer better"
    return ""
