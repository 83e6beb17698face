"""Files from elsewhere decide nothing that could send rows away, run code or delete results."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from fedrelax.cli.config import make_config
from fedrelax.cli.fit import FitConfig
from fedrelax.cli.run_directory import RunDirectory

from .runs import FIT, QUICK, Run

SETTINGS = (
    'data = "towns.csv"\nnode = "town"\ntarget = "power"\nfeatures = ["wind", "sun"]\n'
    'model = "tree"\nalpha = 0.3\nrounds = 1\n'
)


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """A machine that waits for somebody to connect."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        yield server


def nobody_came(listener: socket.socket) -> bool:
    try:
        listener.accept()
    except BlockingIOError:
        return True
    return False


def begun(**typed: object) -> RunDirectory:
    """Begin a run that could be stopped and continued."""
    Path("run.toml").write_text(SETTINGS + 'out = "out"\n')
    return RunDirectory.begin(
        make_config(FitConfig, Path("run.toml"), {"checkpoint_every": 1, **typed})
    )


@pytest.fixture
def stopped(run: Run, table: object) -> Path:
    """The settings of a run that was stopped."""
    return begun().where / "run.json"


def with_settings(file: Path, **settings: object) -> None:
    """Write other settings into a run that was stopped, with a checksum that fits."""
    about = json.loads(file.read_text())
    about["settings"] |= settings
    file.write_text(json.dumps(about))


@pytest.mark.parametrize("command", ["fit", "compare"])
@pytest.mark.parametrize("backend", ["dask", "ray"])
def test_a_file_sends_no_rows_to_a_cluster(run, table, listener, command, backend):
    place = f"tcp://127.0.0.1:{listener.getsockname()[1]}"
    out = 'out = "out"\n' if command == "fit" else ""
    Path("run.toml").write_text(f'{SETTINGS}{out}backend = "{backend}"\naddress = "{place}"\n')
    text = run.refused(command, "--config", "run.toml")
    assert f"--config run.toml sets backend = '{backend}', which counts only when typed" in text
    assert "and type --backend if you want it" in text
    assert nobody_came(listener)


def test_resume_sends_no_rows_to_a_cluster_either(run, stopped, listener):
    place = f"tcp://127.0.0.1:{listener.getsockname()[1]}"
    with_settings(stopped, backend="dask", address=place)
    text = run.refused("resume", "out.checkpoint")
    assert "run.json sets backend = 'dask', which counts only when typed" in text
    assert nobody_came(listener)


def test_what_is_typed_counts(run, stopped):
    run("resume", "out.checkpoint", "--backend", "threads")
    assert run.code == 0 and Path("out").is_dir(), run.output


def test_what_was_typed_is_not_kept_with_a_run_that_was_stopped(run, table):
    kept = begun(backend="threads", overwrite=True)
    written = json.loads((kept.where / "run.json").read_text())["settings"]
    assert {"backend", "overwrite", "address"}.isdisjoint(written)


def test_a_file_replaces_no_result(run, table, stopped):
    run(*FIT, *QUICK)
    before = Path("out/result.json").read_bytes()
    Path("run.toml").write_text(f'{SETTINGS}out = "out"\noverwrite = true\n')
    text = run.refused("fit", "--config", "run.toml")
    assert "sets overwrite = True, which counts only when typed" in text
    with_settings(stopped, overwrite=True)
    assert "sets overwrite = True" in run.refused("resume", "out.checkpoint")
    assert Path("out/result.json").read_bytes() == before
