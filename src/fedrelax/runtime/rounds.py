"""The loop over rounds, written once: share -> measure -> update, until told to stop."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from fedrelax.errors import FedRelaxError
from fedrelax.runtime.callbacks import ROUNDS, Callback, Identity, keeper_in
from fedrelax.runtime.history import History, NodeMeasures, Record, columns_of, records_of
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


class Loop:
    """The rounds of a run, until there is a reason to stop; the graph is rewired between them if asked.

    ``identity`` identifies the run to a callback that saves its state; a run that was saved is resumed.
    """

    def __init__(
        self,
        engine: Steps,
        stopping: Stopping,
        callbacks: Sequence[Callback] = (),
        wiring: Wiring | None = None,
        identity: Identity | None = None,
    ) -> None:
        self._engine, self._stopping, self._callbacks = engine, stopping, callbacks
        self._wiring = None if wiring is None else wiring.paced(stopping.rounds)
        self._keeper, self._identity = keeper_in(callbacks), identity or {}
        self._history, self._round = History(engine.labels), 0
        self._best: tuple[float, int, Any] = np.inf, 0, None
        """The lowest validation loss, its round and its models."""
        self._first: int | None = None
        """The first round on the final graph."""

    def run(self) -> Outcome:
        """Run to the end."""
        rounds = self.stepwise()
        while True:
            try:
                next(rounds)
            except StopIteration as end:
                outcome: Outcome = end.value
                return outcome

    def stepwise(self) -> Generator[None, None, Outcome]:
        """Do what ``run`` does, pausing in every round once nodes have shared, before they are measured.

        So several runs can proceed side by side, with their messages carried together.
        """
        engine, wiring = self._engine, self._wiring
        for callback in self._callbacks:
            callback.begin(self._stopping.rounds, len(engine.labels))
        self._tell_wired()
        engine.start()
        reason = self._resume()
        if reason is None:
            reason = yield from self._measured()
        while not reason:
            stage = None if wiring is None else wiring.due(self._round)
            if wiring is not None and stage is not None:
                engine.rewire(wiring.wire(stage, engine))
                self._tell_wired()
                if stage == wiring.stages - 1:
                    engine.settle(self._round)
            self._round += engine.update(self._round)
            reason = yield from self._measured()
        _, best, models = self._best
        if models is not None and best != self._round:
            present, self._round = engine.edges, best
            engine.restore(models)
            if engine.edges is not present:
                self._tell_wired()
        outcome = Outcome(self._history, self._round, reason)
        for callback in self._callbacks:
            callback.end(outcome)
        return outcome

    def _tell_wired(self) -> None:
        for callback in self._callbacks:
            callback.wired(self._engine.labels, self._engine.edges)

    def _measured(self) -> Generator[None, None, str]:
        """Let nodes share, pause, and record the round; return why to stop, or an empty string."""
        engine, round = self._engine, self._round
        engine.share(round)
        yield
        record = Record.of(round, engine.measure())
        self._history.records.append(record)
        if self._stopping.patience is not None and record.validation_loss < self._best[0]:
            self._best = record.validation_loss, round, engine.snapshot()
        reason = self._reason_to_stop([each.after_round(record) for each in self._callbacks])
        if self._keeper is not None:
            self._keeper.keep(ROUNDS, self._identity, self._state, round, bool(reason))
        return reason

    def _reason_to_stop(self, answers: Sequence[bool | str | None]) -> str:
        """Return why to stop, or an empty string; ``answers`` is what callbacks answered to the round."""
        stopping, wiring, round = self._stopping, self._wiring, self._round
        if self._first is None and (wiring is None or wiring.settled(round)):
            self._first = round
        if self._engine.at_rest:
            return "predictions converged"
        wish = next((answer for answer in answers if answer), None)
        if wish and stopping.by_callbacks:
            return wish if isinstance(wish, str) else "stopped by a callback"
        if round >= stopping.rounds:
            return "all rounds done"
        if self._first is None:
            return ""
        if self._engine.may_rest and round > 0 and self._history.records[-1].change <= stopping.tol:
            return "predictions converged"
        since = round - max(self._best[1], self._first)
        if stopping.patience is not None and since >= stopping.patience:
            return "validation loss no longer improving"
        return ""

    # What a stopped run needs to be resumed

    def _state(self) -> dict[str, Any]:
        """Return where the loop stands, and the state of the engine, as plain values."""
        engine: Any = self._engine
        loss, round, models = self._best
        return {
            "round": self._round,
            "records": columns_of(self._history),
            "best": (loss, round, None if models is None else engine.packed(models)),
            "engine": engine.state(),
        }

    def _resume(self) -> str | None:
        """Go to the last round that was saved and return why to stop after it; None for a new run.

        Callbacks are told of all rounds so far again, so that their state is restored too. Whether the last
        saved round was the last of the run follows from its records and is not read from the file.
        """
        engine: Any = self._engine
        state = None if self._keeper is None else self._keeper.recall(ROUNDS, self._identity)
        if self._keeper is None or state is None:
            return None
        given = engine.edges
        with self._keeper.using(ROUNDS):
            records = records_of(state["records"], len(engine.labels))
            self._history, self._round = History(engine.labels, records), state["round"]
            if type(self._round) is not int or records[-1].round != self._round:
                raise FedRelaxError("its rounds are inconsistent")
            engine.resume(state["engine"], self._round)
            loss, when, models = state["best"]
            models = None if models is None else engine.unpacked(models, when)
            self._best = float(loss), int(when), models
            if self._stopping.patience is not None and self._best[:2] != self._history.best():
                raise FedRelaxError("its best round is not the best of its records")
        rounds = [record.round for record in records]
        if self._wiring is not None:
            rounds = list(filter(self._wiring.settled, rounds))
        self._first = next(iter(rounds), None)
        for record in records:
            answers = [callback.after_round(record) for callback in self._callbacks]
        reason = self._reason_to_stop(answers)
        if engine.edges is not given:
            self._tell_wired()
        return reason
