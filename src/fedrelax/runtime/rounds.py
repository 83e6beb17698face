"""The loop over rounds, written once: share -> measure -> update, until told to stop."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from fedrelax.runtime.callbacks import Callback
from fedrelax.runtime.history import History, NodeMeasures, Record
from fedrelax.runtime.keeping import ROUNDS, Identity, Position, keeper_in
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
    identity: Identity | None = None,
) -> Outcome:
    """Run rounds until one of the reasons to stop holds; rewire between them if asked for.

    ``identity`` is what the run is known by to a callback that keeps its state; one that was kept goes on.
    """
    rounds = stepwise(engine, stopping, callbacks, wiring, identity)
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
    identity: Identity | None = None,
) -> Generator[None, None, Outcome]:
    """Do what ``run`` does, pausing whenever the nodes have shared and before they are measured.

    Several runs can so go side by side, and what they share be carried together.
    """
    wiring = None if wiring is None else wiring.paced(stopping.rounds)
    for callback in callbacks:
        callback.begin(stopping.rounds, len(engine.labels))
    _tell_wired(engine, callbacks)
    engine.start()
    keeper, known = keeper_in(callbacks), identity or {}
    at = _earlier(engine, callbacks, known)
    resumed, at = at is not None, at or Position(History(engine.labels))
    while True:
        if not resumed:
            engine.share(at.round)
            yield
            _look(engine, stopping, callbacks, wiring, at)
            if keeper is not None:
                keeper.keep(ROUNDS, known, partial(at.state, engine), at.round, bool(at.reason))
        resumed = False
        if at.reason:
            break
        stage = None if wiring is None else wiring.due(at.round)
        if wiring is not None and stage is not None:
            engine.rewire(wiring.wire(stage, engine))
            _tell_wired(engine, callbacks)
            if stage == wiring.stages - 1:
                engine.settle(at.round)
        at.round += engine.update(at.round)
    kept, (_, when, models) = at.round, at.best
    if models is not None and when != at.round:
        present = engine.edges
        engine.restore(models)
        kept = when
        if engine.edges is not present:
            _tell_wired(engine, callbacks)
    outcome = Outcome(at.history, kept, at.reason)
    for callback in callbacks:
        callback.end(outcome)
    return outcome


def _look(
    engine: Steps,
    stopping: Stopping,
    callbacks: Sequence[Callback],
    wiring: Wiring | None,
    at: Position,
) -> None:
    """Measure a round, remember the best models so far, and find out whether it was the last."""
    record = Record.of(at.round, engine.measure())
    at.history.records.append(record)
    if stopping.patience is not None and record.validation_loss < at.best[0]:
        at.best = (record.validation_loss, at.round, engine.snapshot())
    told = [callback.after_round(record) for callback in callbacks]
    resting = wiring is None or wiring.settled(at.round)
    at.first = at.round if resting and at.first is None else at.first
    since = None if at.first is None else at.round - max(at.best[1], at.first)
    at.reason = _reason_to_stop(stopping, record, told, engine, since)


def _earlier(engine: Steps, callbacks: Sequence[Callback], identity: Identity) -> Position | None:
    """Return where a run stood that was kept, the engine being put back there; None for a new one.

    Callbacks hear of all rounds so far again, so that they, too, are where they were.
    """
    keeper = keeper_in(callbacks)
    if keeper is None:
        return None
    state = keeper.recall(ROUNDS, identity)
    if state is None:
        return None
    given = engine.edges
    with keeper.using(ROUNDS):
        at = Position.of(state, engine)
    for record in at.history.records:
        for callback in callbacks:
            callback.after_round(record)
    if engine.edges is not given:
        _tell_wired(engine, callbacks)
    return at


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
