"""The directory of a run that can be stopped: its settings, its files' checksums, its checkpoints."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from fedrelax.cli.config import check_trusted, make_config
from fedrelax.cli.console import Stopped
from fedrelax.cli.fit import FitConfig
from fedrelax.cli.flags import flags_of
from fedrelax.cli.graphs import parse_graph
from fedrelax.cli.interruption import Interruption
from fedrelax.errors import FedRelaxError
from fedrelax.files import TABLE, read_file, read_text, why_unread, write_whole
from fedrelax.public import DRAWS
from fedrelax.storage import Checkpoint
from fedrelax.storage.checking import fingerprint, reading
from fedrelax.storage.checkpoints import Interrupted
from fedrelax.storage.places import NotWritten, advice_for

ENDING, SETTINGS, FORMAT = ".checkpoint", "run.json", 1


class RunDirectory:
    """Where a run of ``fit`` is kept: next to the result, and deleted once that is written.

    It has two checkpoints: of the run that is measured, and of that on all rows.
    """

    def __init__(self, config: FitConfig, where: Path | None = None) -> None:
        every = config.checkpoint_every or 1
        self.config, self.where = config, checkpoint_of(config.out) if where is None else where
        self.training = Checkpoint(self.where / "training", every)
        self.all_rows = Checkpoint(self.where / "all-rows", every)

    @classmethod
    def begin(cls, config: FitConfig) -> RunDirectory:
        """Make the directory of a new run and write down what it depends on."""
        made = cls(config)
        if os.path.lexists(made.where):
            if not config.overwrite or not (made.where / SETTINGS).is_file():
                raise FedRelaxError(
                    f"{made.where} is the checkpoint of a run that was stopped; continue it with fedrelax "
                    f"resume {shlex.quote(str(made.where))}, or delete it"
                )
            made.forget()
        try:
            made.where.mkdir(mode=0o700, parents=True)
            write_whole(made.where / SETTINGS, _settings(config))
        except OSError as error:
            raise FedRelaxError(
                f"{made.where} cannot be written ({error.strerror or error}); "
                f"{advice_for(error, made.where.absolute().parent)}"
            ) from error
        return made

    @contextmanager
    def open(self, interruption: Interruption) -> Iterator[None]:
        """Within, a signal, a full disk or Ctrl-C ends with a sentence that says how to continue."""
        interruption.stopped = self._stopped
        try:
            yield
        except Interrupted:
            raise
        except FedRelaxError as error:
            interruption.ignore()  # a signal is not to cut the sentence off
            go_on = self._how_to_go_on()
            if go_on and isinstance(error, NotWritten):
                words = f"{error}; what was learned is kept; once that is done, {go_on}"
                raise NotWritten(words) from error
            raise
        interruption.ignore()
        self.forget()

    def _stopped(self, code: int) -> Stopped:
        go_on, words = self._how_to_go_on(), "before a round was kept; there is nothing to continue"
        if go_on:
            last, rows = self.all_rows.saved, " on all rows"
            if last is None:
                last, rows = self.training.saved, ""
            done = "finished trials" if last is None else f"round {last}{rows}"
            words = f"; {done} and everything before are kept in {self.where}; {go_on}"
        return Stopped(f"interrupted{' ' * (not go_on)}{words}", code)

    def _how_to_go_on(self) -> str:
        """Return the sentence that says how to continue; if nothing was kept, delete what is left."""
        if not any(self.where.glob("*/*.state")):
            self.forget()
            return ""
        names = dict.fromkeys((self.config.model, *self.config.model_for.values()))
        # what has to be typed to continue if models run code of their own
        trust = [word for name in names if ":" in name for word in ("--trust", name)]
        return f"continue with: {shlex.join(['fedrelax', 'resume', str(self.where), *trust])}"

    def forget(self) -> None:
        """Delete what was kept, and nothing else."""
        self.training.forget()
        self.all_rows.forget()
        (self.where / SETTINGS).unlink(missing_ok=True)
        if self.where.is_dir() and not any(self.where.iterdir()):
            self.where.rmdir()

    # Resuming

    @classmethod
    def find(
        cls, directory: Path, trust: Sequence[str] = (), **typed: str | bool | None
    ) -> RunDirectory:
        """Return a run that was stopped; refuse tables that have changed since.

        ``typed`` holds the settings that its file must not decide.
        """
        where = directory if (directory / SETTINGS).exists() else checkpoint_of(directory)
        if not os.path.lexists(where / SETTINGS):
            raise FedRelaxError(
                f"{directory} holds no run that was stopped; give the directory that fedrelax fit "
                f"--checkpoint-every named, which ends in {ENDING}"
            )
        with reading(f"{where}: {SETTINGS}", "checkpoint", "run fedrelax fit again"):
            about = json.loads(read_text(where / SETTINGS))
            if about["format"] != FORMAT:
                raise FedRelaxError(f"it has the format {about['format']!r}, not {FORMAT}")
            settings, files = dict(about["settings"]), dict(about["files"])
        check_trusted(FitConfig, str(where / SETTINGS), settings, False, trust)
        config = make_config(FitConfig, None, {**settings, **typed})
        for name, checksum in files.items():
            if _checksum(Path(name)) != checksum:
                raise FedRelaxError(
                    f"{name} has changed since the run was stopped, so the run cannot continue; restore "
                    "the file, or run fedrelax fit again"
                )
        return cls(config, where)


def checkpoint_of(out: Path) -> Path:
    """Return where the run with this ``--out`` is kept."""
    out = Path(os.path.abspath(out))
    return out.with_name(out.name + ENDING)


def _settings(config: FitConfig) -> bytes:
    """Return the settings of a run and the checksums of the files that it reads."""
    settings = {**config.absolute(), "live": False, "debug": False}
    drawn = config.public in DRAWS
    files = [settings["data"], settings["schema"], None if drawn else settings["public"]]
    files.append(parse_graph(config.graph).file)
    settings = {k: v for k, v in settings.items() if not flags_of(FitConfig)[k].only_typed}
    about = {
        "format": FORMAT,
        "settings": {name: value for name, value in settings.items() if value is not None},
        "files": {str(Path(f).absolute()): _checksum(Path(f)) for f in files if f is not None},
    }
    return json.dumps(about, indent=2, ensure_ascii=False).encode()


def _checksum(path: Path) -> str:
    try:
        return fingerprint(read_file(path, TABLE))
    except OSError as error:
        raise FedRelaxError(f"{path} cannot be read ({why_unread(error)})") from error
