"""The loop over rounds, written once: share -> measure -> update, until told to stop."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from fedrelax.runtime.callbacks import Callback
from fedrelax.runtime.history import History, NodeMeasures, Record
from fedrelax.typing import Label
from fedrelax.wiring import Wiring
from fedrelax.wiring.base import View


class Steps(View, Protocol):
    """What the loop needs of whatever holds the nodes, beside what a wiring may see."""

    labels: tuple[Label, ...]
    at_rest: bool
    """Whether the models are known to be at the fixed point, so that further rounds do nothing."""
    may_rest: bool
    """Whether a round without change means rest; not where messages may be lost or late."""

    def start(self) -> None:
        """Train the first models."""

    def share(self, round: int) -> None:
        """Let every node send its predictions and hear its neighbours'."""

    def measure(self) -> NodeMeasures:
        """Return the numbers of the present models."""

    def update(self, round: int) -> int:
        """Let every node refit; return how many rounds that was."""

    def snapshot(self) -> Any:
        """Return the present models, to go back to."""

    def restore(self, state: Any) -> None:
        """Go back to earlier models."""

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
    engine: Steps,
    stopping: Stopping,
    callbacks: Sequence[Callback] = (),
    wiring: Wiring | None = None,
) -> Outcome:
    """Run rounds until one of the reasons to stop holds; rewire between them if asked for."""
    rounds = stepwise(engine, stopping, callbacks, wiring)
    while True:
        try:
            next(rounds)
        except StopIteration as end:
            outcome: Outcome = end.value
            return outcome


def stepwise(
    engine: Steps,
    stopping: Stopping,
    callbacks: Sequence[Callback] = (),
    wiring: Wiring | None = None,
) -> Generator[None, None, Outcome]:
    """Do what ``run`` does, pausing whenever the nodes have shared and before they are measured.

    Several runs can so go side by side, and what they share be carried together.
    """
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
        yield
        record = Record.of(round, engine.measure())
        history.records.append(record)
        if stopping.patience is not None and record.validation_loss < best[0]:
            best = (record.validation_loss, round, engine.snapshot())
        told = [callback.after_round(record) for callback in callbacks]
        resting = wiring is None or wiring.settled(round)
        first = round if resting and first is None else first
        since = None if first is None else round - max(best[1], first)
        reason = _reason_to_stop(stopping, record, told, engine, since)
        if reason:
            break
        stage = None if wiring is None else wiring.due(round)
        if wiring is not None and stage is not None:
            engine.rewire(wiring.wire(stage, engine))
            _tell_wired(engine, callbacks)
            if stage == wiring.stages - 1:
                engine.settle(round)
        round += engine.update(round)
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


def _tell_wired(engine: Steps, callbacks: Sequence[Callback]) -> None:
    for callback in callbacks:
        callback.wired(engine.labels, engine.edges)


def _reason_to_stop(
    stopping: Stopping,
    record: Record,
    told: Sequence[bool | str | None],
    engine: Steps,
    since: int | None,
) -> str:
    """``since``: rounds since the best one on the final graph, or None before there is one."""
    if engine.at_rest:
        return "predictions at rest"
    for answer in told:
        if answer:
            return answer if isinstance(answer, str) else "stopped by a callback"
    if record.round >= stopping.rounds:
        return "all rounds done"
    if since is None:
        return ""
    if engine.may_rest and record.round > 0 and record.change <= stopping.tol:
        return "predictions at rest"
    if stopping.patience is not None and since >= stopping.patience:
        return "validation loss no longer better"
    return ""
