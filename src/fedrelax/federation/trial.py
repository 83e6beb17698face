"""``fedrelax federate try``: a whole federation of Flower's processes on one machine."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import numpy as np

from fedrelax.datasets import read_table
from fedrelax.errors import FedRelaxError
from fedrelax.extras import need
from fedrelax.federation.files import flower_config, write_federation, write_keys
from fedrelax.federation.settings import NAME, read_hub
from fedrelax.federation.state import Status, read_status
from fedrelax.schema.kinds import find_column, kind_of
from fedrelax.typing import Label

HOST = "127.0.0.1"
ENVIRONMENT = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.05",
    "OMP_NUM_THREADS": "1",
}
"""No telemetry and no update checks, frequent polling for tasks, and one thread per process."""
ENDING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
"""Signals that end a federation as Ctrl-C does."""
STARTING, ENDING_ITSELF = 120.0, 20.0
"""Seconds that the hub gets to start, and that a process gets to end by itself."""


class Deployment:
    """A federation on this machine alone. Leaving its context ends every process that it started."""

    def __init__(self, home: Path) -> None:
        need("flwr", "flower")
        self.home = home.absolute()
        self.port = free_port()
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self._commands: dict[str, list[str]] = {}
        self._handlers: dict[int, Any] = {}

    def __enter__(self) -> Self:
        # Processes in sessions of their own outlive a closed terminal unless they are ended here.
        if threading.current_thread() is threading.main_thread():
            for number in ENDING:
                self._handlers[number] = signal.signal(number, signal.default_int_handler)
        return self

    def __exit__(self, *error: object) -> None:
        for number in self._handlers:
            signal.signal(number, signal.SIG_IGN)
        try:
            self.stop()
        finally:
            for number, handler in self._handlers.items():
                signal.signal(number, handler or signal.SIG_DFL)

    # The hub

    def start_hub(self, simulation: bool = False) -> None:
        """Start the SuperLink and wait until it answers."""
        certificates, folder = self.home / "certificates", self._folder("hub")
        command = ["flower-superlink", "--host", HOST, "--port", str(self.port)]
        command += ["--disable-runtime-dependency-installation"]
        if simulation:
            command += ["--simulation", "--insecure"]
        else:
            command += ["--ssl-ca-certfile", str(certificates / "ca.crt")]
            command += ["--ssl-certfile", str(certificates / "hub.crt")]
            command += ["--ssl-keyfile", str(certificates / "hub.key")]
            command += ["--enable-supernode-auth", "--database", str(folder / "superlink.db")]
        ca = None if simulation else certificates / "ca.crt"
        client = self._folder("client") / "config.toml"
        client.write_text(flower_config(f"{HOST}:{self.port}", ca))
        self._start("hub", command)
        end = time.monotonic() + STARTING
        while time.monotonic() < end:
            self.check_alive()
            with suppress(OSError):
                return socket.create_connection((HOST, self.port), timeout=1.0).close()
            time.sleep(0.1)
        raise FedRelaxError(
            f"the hub did not start within {STARTING:g} seconds: {self.tail('hub')}"
        )

    def register(self, name: str) -> None:
        """Register a site's key with the hub."""
        self.flwr("supernode", "register", str(self.home / "sites" / name / "auth.pub"), "hub")

    def submit(self, *more: str) -> str:
        """Hand the app to the hub and return the run's id."""
        said = self.flwr("run", str(self.home / "app"), "hub", *more)
        return str(said["run-id"])

    def status(self, run: str) -> str:
        """Return what Flower says about a run: "running", "finished:completed", "finished:failed", ..."""
        said = self.flwr("list", "hub", "--run-id", run)
        return str(said["runs"][0]["status"])

    def flwr(self, *arguments: str) -> Any:
        """Run a Flower command and return its JSON, as its exit code does not tell all failures."""
        done = subprocess.run(
            [_program("flwr"), *arguments, "--format", "json"],
            env=self._environment("client"),
            capture_output=True,
            text=True,
            check=False,
        )
        try:
            said = json.loads(done.stdout)
        except ValueError:
            said = {"success": False, "error-message": done.stdout + done.stderr}
        if done.returncode or not said.get("success", True):
            reason = " ".join(str(said.get("error-message", said)).split())
            raise FedRelaxError(f"flwr {' '.join(arguments[:2])} failed: {reason[:400]}")
        return said

    # Sites

    def start_site(self, name: str, key: Path | None = None, ca: Path | None = None) -> None:
        """Start the SuperNode of a site."""
        folder = self.home / "sites" / name
        command = ["flower-supernode", "--superlink", f"{HOST}:{self.port}"]
        command += ["--root-certificates", str(ca or self.home / "certificates" / "ca.crt")]
        command += ["--auth-supernode-private-key", str(key or folder / "auth.key")]
        command += ["--node-config", f'site="{folder / "site.toml"}"']
        command += ["--host", HOST, "--port", str(free_port())]
        self._start(name, command)

    def revive(self) -> None:
        """Restart sites that have ended by themselves, as a service manager would.

        A site that comes back too soon after a power cut is refused until Flower counts it as gone.
        """
        for name, process in list(self.running.items()):
            if name != "hub" and process.poll() is not None:
                _signal(process, signal.SIGKILL)  # its children may still be running
                self._start(name, self._commands[name])

    def kill(self, name: str) -> None:
        """End a process and its children at once, as a power cut would."""
        process = self.running.pop(name)
        _signal(process, signal.SIGKILL)
        process.wait()

    # Processes

    def stop(self) -> None:
        """End everything: sites first, then the hub."""
        order = sorted(self.running, key=lambda name: name == "hub")
        for name in order:
            self.running[name].terminate()
        end = time.monotonic() + ENDING_ITSELF
        for name in order:
            process = self.running.pop(name)
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(end - time.monotonic(), 0.1))
            _signal(process, signal.SIGKILL)
            process.wait()

    def tail(self, name: str, lines: int = 3) -> str:
        """Return the last lines that a process wrote."""
        path = self._folder(name) / "log.txt"
        text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
        return " / ".join(text.strip().splitlines()[-lines:])

    def check_alive(self) -> None:
        """Refuse to go on if the hub has ended."""
        if self.running["hub"].poll() is not None:
            raise FedRelaxError(f"the process of 'hub' has ended: {self.tail('hub')}")

    def _start(self, name: str, command: list[str]) -> None:
        folder = self._folder(name)
        self._commands[name] = command
        with open(folder / "log.txt", "ab") as log:
            self.running[name] = subprocess.Popen(
                [_program(command[0]), *command[1:]],
                env=self._environment(name),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _folder(self, name: str) -> Path:
        folder = self.home / "flower" / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def _environment(self, name: str) -> dict[str, str]:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
        own = {"FLWR_HOME": str(self._folder(name)), "PATH": path}
        return {**os.environ, **ENVIRONMENT, **own}


def free_port() -> int:
    """Return a port that is free now."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def _program(name: str) -> str:
    return str(Path(sys.executable).parent / name)


def _signal(process: subprocess.Popen[bytes], number: int) -> None:
    """Send a signal to a process and all of its session."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)


ROWS, FEATURES, SPREAD, NOISE = 40, 6, 0.2, 1.5
"""Of each made-up site: rows, columns, how far its line is from the common one, and the noise."""
LOOK = 0.5
"""Seconds between two looks at the hub's status."""
ASK = 15.0
"""Seconds between two questions to Flower, which cost more."""

Look = Callable[[Status], None]
"""Called with the status of the hub."""


def made_up(sites: int, seed: int = 0) -> dict[str, Any]:
    """Return tables of sites whose rows follow similar, but not the same, linear models."""
    import pandas as pd

    rng = np.random.default_rng(seed)
    common, found = rng.normal(size=FEATURES), {}
    for number in range(1, sites + 1):
        X = rng.normal(size=(ROWS, FEATURES))
        own = common + SPREAD * rng.normal(size=FEATURES)
        y = X @ own + NOISE * rng.normal(size=ROWS)
        frame = pd.DataFrame(X, columns=[f"x{k + 1}" for k in range(FEATURES)])
        found[f"site-{number}"] = frame.assign(y=y)
    return found


def parted(path: Path, node: str | None, sites: int, seed: int = 0) -> dict[str, Any]:
    """Return one table per site: of the nodes with most rows, or of rows dealt at random."""
    frame = read_table(path)
    if node is None:
        place = np.random.default_rng(seed).permutation(np.arange(len(frame)) % sites)
        return {f"site-{k + 1}": frame[place == k] for k in range(sites)}
    column = find_column(frame, node)
    counts = frame[column].value_counts()
    found = {}
    for label in list(counts.index)[:sites]:
        name = "".join(c if NAME.fullmatch(f"a{c}") else "-" for c in str(label)).strip(" -.@+")
        if not name or name in found:
            raise FedRelaxError(f"{path}: node {label!r} cannot be the name of a site; rename it")
        found[name] = frame[frame[column] == label].drop(columns=column)
    if len(found) < 2:
        raise FedRelaxError(f"{path}: column {node!r} names fewer than two nodes")
    return found


def prepare(
    home: Path,
    tables: Mapping[str, Any],
    target: str,
    *,
    models: Sequence[str],
    hub: Mapping[str, Any],
    open_: bool = False,
) -> None:
    """Write all files of a federation, with throw-away keys and each site's own rows."""
    first = next(iter(tables.values()))
    column = find_column(first, target)
    task = "regression" if kind_of(first[column]) == "numbers" else "classification"
    names = list(tables)
    if task == "classification" and list(models) == ["ridge"]:
        models = ["logistic"]
    write_federation(
        home,
        names,
        site={"target": str(column), "task": task},
        models={name: models[k % len(models)] for k, name in enumerate(names)},
        hub={"target": str(column), **hub},
        open_=open_,
    )
    for name, frame in tables.items():
        frame.to_csv(home / "sites" / name / "rows.csv", index=False)
    write_keys(home, [HOST, "localhost"])


def run_deployed(
    home: Path,
    names: Sequence[Label],
    tell: Callable[[str], None],
    limit: float = 3600.0,
    look: Look = lambda status: None,
) -> Path:
    """Start hub and sites, run once, end every process, and return the folder of the hub's result.

    ``look`` sees the hub's status again and again.
    """
    file = read_hub(home / "hub" / "hub.toml")
    with Deployment(home) as machines:
        tell(f"starting the hub on {HOST}:{machines.port}, with TLS")
        machines.start_hub()
        for name in map(str, names):
            machines.register(name)
            machines.start_site(name)
            tell(f"site {name} is starting; its key is registered")
        since = time.time()
        follow(machines, machines.submit(), file.folder, tell, since, limit, look)
    return file.out


def follow(
    machines: Deployment,
    run: str,
    folder: Path,
    tell: Callable[[str], None],
    since: float,
    limit: float,
    look: Look = lambda status: None,
) -> None:
    """Pass on what the hub says until the run ends; a run that fails is an error.

    What the hub said before ``since`` belongs to another run.
    """
    told: set[str] = set()
    end, asked = time.monotonic() + limit, time.monotonic()
    while time.monotonic() < end:
        machines.check_alive()
        status, finished = read_status(folder), False
        if status is not None and status.time >= since:
            look(status)
            finished = status.state == "finished"
            for text in (*status.notes, status.live, str(status)):
                if text and text not in told:
                    tell(text)
                    told.add(text)
        if finished or time.monotonic() - asked > ASK:
            asked = time.monotonic()
            machines.revive()
            state = machines.status(run)
            if state == "finished:completed":
                return
            if state.startswith("finished"):
                raise FedRelaxError(f"the run failed ({state}): {machines.tail('hub', 8)}")
        time.sleep(LOOK)
    raise FedRelaxError(f"the run did not end within {limit:g} seconds: {machines.tail('hub')}")
