"""The loop over rounds, written once: share -> measure -> update, until told to stop."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from fedrelax.errors import FedRelaxError
from fedrelax.runtime.callbacks import ROUNDS, Callback, Identity, Position, keeper_in
from fedrelax.runtime.history import History, NodeMeasures, Record
from fedrelax.typing import Label, SparseMatrix
from fedrelax.wiring import Wiring
from fedrelax.wiring.base import View


class Steps(View, Protocol):
    """What the loop needs from an engine, besides what a wiring may see."""

    labels: tuple[Label, ...]
    at_rest: bool
    """Whether the models are known to be at the fixed point, so that further rounds change nothing."""
    may_rest: bool
    """Whether a round without change means convergence; it does not where messages may be lost or late."""

    def start(self) -> None:
        """Train the first models, where they are not there already."""
        return

    def share(self, round: int) -> None:
        """Let every node send its predictions and hear its neighbours'."""

    def measure(self) -> NodeMeasures:
        """Return the measures of the current models."""

    def update(self, round: int) -> int:
        """Let every node refit; return how many rounds that counts for."""

    def snapshot(self) -> Any:
        """Return the current models, to be restored later."""

    def restore(self, state: Any) -> None:
        """Go back to the models of a snapshot."""

    def rewire(self, edges: SparseMatrix) -> None:
        """Continue on another graph."""

    def settle(self, round: int) -> None:
        """Prepare for the rounds on the final graph, where models do not converge from any start."""
        return


@dataclass(frozen=True)
class Stopping:
    """When to stop: after ``rounds``, or when predictions converge, or when validation no longer improves.

    ``tol`` is the root mean square change of the shared predictions relative to their size.
    With ``patience``, the models of the round with the best validation loss are kept, and the run ends
    after that many rounds without a better one; rounds before the final graph do not count.
    ``by_callbacks`` says whether callbacks may end the run.
    """

    rounds: int
    tol: float = 0.0
    patience: int | None = None
    by_callbacks: bool = True


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
    """Run rounds until there is a reason to stop; rewire between them if asked.

    ``identity`` identifies the run to a callback that saves its state; a run that was saved is resumed.
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
    """Do what ``run`` does, pausing in every round once the nodes have shared, before they are measured.

    So several runs can proceed side by side, with their messages carried together.
    """
    wiring = None if wiring is None else wiring.paced(stopping.rounds)
    for callback in callbacks:
        callback.begin(stopping.rounds, len(engine.labels))
    _tell_wired(engine, callbacks)
    engine.start()
    keeper, known = keeper_in(callbacks), identity or {}
    at = _earlier(engine, stopping, callbacks, wiring, known)
    resumed, at = at is not None, at or Position(History(engine.labels))
    while True:
        if not resumed:
            engine.share(at.round)
            yield
            record = Record.of(at.round, engine.measure())
            at.history.records.append(record)
            if stopping.patience is not None and record.validation_loss < at.best[0]:
                at.best = (record.validation_loss, at.round, engine.snapshot())
            told = [callback.after_round(record) for callback in callbacks]
            at.reason = _reason_to_stop(engine, stopping, told, wiring, at)
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


def _earlier(
    engine: Steps,
    stopping: Stopping,
    callbacks: Sequence[Callback],
    wiring: Wiring | None,
    identity: Identity,
) -> Position | None:
    """Return the position of a saved run, with the engine restored to it; None for a new run.

    Callbacks are told of all rounds so far again, so that their state is restored too. Whether the last
    saved round was the last of the run follows from its records and is not read from the file.
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
        if stopping.patience is not None and at.best[:2] != at.history.best():
            raise FedRelaxError("its best round is not the best of its records")
    if wiring is not None:
        rounds = (record.round for record in at.history.records)
        at.first = next(filter(wiring.settled, rounds), None)
    told: list[bool | str | None] = []
    for record in at.history.records:
        told = [callback.after_round(record) for callback in callbacks]
    at.reason = _reason_to_stop(engine, stopping, told, wiring, at)
    if engine.edges is not given:
        _tell_wired(engine, callbacks)
    return at


def _tell_wired(engine: Steps, callbacks: Sequence[Callback]) -> None:
    for callback in callbacks:
        callback.wired(engine.labels, engine.edges)


def _reason_to_stop(
    engine: Steps,
    stopping: Stopping,
    told: Sequence[bool | str | None],
    wiring: Wiring | None,
    at: Position,
) -> str:
    """Return why to stop, or an empty string to go on; ``told`` is what callbacks answered to the round."""
    if at.first is None and (wiring is None or wiring.settled(at.round)):
        at.first = at.round
    if engine.at_rest:
        return "predictions converged"
    wish = next((answer for answer in told if answer), None)
    if wish and stopping.by_callbacks:
        return wish if isinstance(wish, str) else "stopped by a callback"
    if at.round >= stopping.rounds:
        return "all rounds done"
    if at.first is None:
        return ""
    if engine.may_rest and at.round > 0 and at.history.records[-1].change <= stopping.tol:
        return "predictions converged"
    if stopping.patience is not None and at.round - max(at.best[1], at.first) >= stopping.patience:
        return "validation loss no longer improving"
    return ""
