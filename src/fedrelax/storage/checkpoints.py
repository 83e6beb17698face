"""Checkpoints: a run that was stopped resumes from its last saved round, to the same last digit."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Self

from fedrelax.errors import FedRelaxError, FedRelaxWarning
from fedrelax.files import Refused, write_whole
from fedrelax.runtime import Keeper
from fedrelax.runtime.callbacks import ROUNDS, Identity
from fedrelax.storage.checking import reading
from fedrelax.storage.places import advice_for
from fedrelax.storage.states import read_state, write_state
from fedrelax.validation import check_count

ENDING = ".state"


class Interrupted(FedRelaxError):  # noqa: N818 - what happened
    """A stop was requested, and the state of the run is on the disk unless a warning says otherwise."""


class Checkpoint(Keeper):
    """Saves the state of a run in a directory, so that the same call resumes where it was stopped.

        FedRelaxRegressor(model, alpha=0.5, callbacks=[Checkpoint("run", every=5)]).fit(X, y, nodes)

    path : the directory; created if it does not exist. The last state stays until the new one is complete.
    every : save after this many rounds. The last round, and every finished trial of a search for alpha,
        are saved in any case.

    A directory belongs to one run: the same rows, graph, models and settings. Any other run is refused.
    A finished run is not repeated: its models are rebuilt and returned.

    The directory holds predictions and losses of nodes, and the state of privacy noise: protect it as you
    protect the rows. Only their owner can read the files.
    """

    def __init__(self, path: str | Path, every: int = 1) -> None:
        check_count("every", every, least=1)
        self.path, self.every = Path(path), int(every)
        self.stopping: str = ""
        """Why to stop after this round; the command line sets it when a signal comes."""
        self.saved: int | None = None
        """The round of the last state on the disk."""
        self._failed = False

    def __repr__(self) -> str:
        return f"Checkpoint({str(self.path)!r}, every={self.every})"

    def ready(self) -> Self:
        """Create the directory and test writing to it; an error, before any work is done, says why not."""
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_whole(self.path / f"{ROUNDS}{ENDING}.try", b"")
            (self.path / f"{ROUNDS}{ENDING}.try").unlink()
        except OSError as error:
            raise FedRelaxError(
                f"no checkpoint can be written in {self.path} ({error.strerror or error}); "
                f"{advice_for(error, self.path)}"
            ) from error
        return self

    # Reading

    def recall(self, what: str, identity: Identity) -> Any | None:
        """Return the state under a name, or None; refuse a damaged one, or that of another run."""
        self.ready()
        file = f"{what}{ENDING}"
        if not os.path.lexists(self.path / file):
            return None
        with self.using(what):
            content = read_state(self.path / file)
            state, then = content["state"], content["identity"]
            if not isinstance(state, dict) or not isinstance(then, dict):
                raise Refused("holds no state")
        for part, value in identity.items():
            if then.get(part) != value:
                raise FedRelaxError(
                    f"{self.path / file} is the checkpoint of another run: {part} differ; give the same "
                    "as then, or another directory"
                )
        if what == ROUNDS:
            self.saved = state.get("round")
        return state

    def using(self, what: str) -> AbstractContextManager[None]:
        """Report any error inside the ``with`` block as damage of the file of this name."""
        again = "delete that file to start again, or copy it again from an intact one"
        return reading(str(self.path / f"{what}{ENDING}"), "checkpoint", again)

    # Writing

    def keep(
        self, what: str, identity: Identity, state: Callable[[], Any], round: int, ends: bool
    ) -> None:
        """Save a state if one is due; if the disk refuses, warn and let the run go on."""
        if not (ends or self.stopping or round % self.every == 0):
            return
        try:
            content = {"identity": dict(identity), "state": state()}
            write_state(self.path / f"{what}{ENDING}", content)
        except OSError as error:
            if self.stopping or not self._failed:  # once: the work so far is in memory
                then = "stops" if self.stopping else "goes on and tries again"
                last = "none" if self.saved is None else f"that of round {self.saved}"
                warnings.warn(
                    f"no checkpoint of round {round} could be written in {self.path} "
                    f"({error.strerror or error}); the last is {last}, and the run {then}: "
                    f"{advice_for(error, self.path)}",
                    FedRelaxWarning,
                    stacklevel=2,
                )
            self._failed = True
        else:
            self._failed = False
            if what == ROUNDS:
                self.saved = round
        if self.stopping:
            raise Interrupted(self.stopping)

    def forget(self) -> None:
        """Delete the states, and the directory if nothing else is in it."""
        if not self.path.is_dir():
            return
        for name in (ROUNDS, "trial-*"):
            for path in self.path.glob(f"{name}{ENDING}*"):
                path.unlink(missing_ok=True)
        if not any(self.path.iterdir()):
            self.path.rmdir()
