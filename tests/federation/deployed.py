"""Federations whose sites are processes of Flower on this machine; every process is ended."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import numpy as np

from fedrelax.federation.files import make_certificates, make_site_keys, write_federation
from fedrelax.files import dump_toml
from fedrelax.selection.candidates import Candidate, alphas_for
from fedrelax.selection.search import choose
from fedrelax.solvers import FedRelax
from fedrelax.storage import read_result
from tests.federation.sites import Federation, make, networks, same_models

TWO = FedRelax(rounds=2, tol=0.0)
HOST, LIMIT = "127.0.0.1", 400.0
PROGRAMS = Path(sys.executable).parent
ENVIRONMENT = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.05",
    "OMP_NUM_THREADS": "1",
}


class Deployment:
    """A federation on this machine alone. Leaving its context ends every process that it started."""

    def __init__(self, home: Path) -> None:
        self.home, self.port = home.absolute(), free_port()
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self._commands: dict[str, list[str]] = {}
        self.run_id = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for name in sorted(self.running, key=lambda name: name == "hub"):
            self.running[name].terminate()
        end = time.monotonic() + 20.0
        for name in list(self.running):
            with suppress(subprocess.TimeoutExpired):
                self.running[name].wait(max(end - time.monotonic(), 0.1))
            self.kill(name)

    def start_hub(self) -> None:
        """Start the SuperLink and wait until it answers."""
        ca = self.home / "certificates" / "ca.crt"
        command = ["flower-superlink", "--host", HOST, "--port", str(self.port)]
        command += ["--disable-runtime-dependency-installation", "--ssl-ca-certfile", str(ca)]
        command += ["--ssl-certfile", str(ca.with_name("hub.crt"))]
        command += ["--ssl-keyfile", str(ca.with_name("hub.key")), "--enable-supernode-auth"]
        command += ["--database", str(self._folder("hub") / "superlink.db")]
        (self._folder("client") / "config.toml").write_text(
            f'[superlink]\ndefault = "hub"\n\n[superlink.hub]\naddress = "{HOST}:{self.port}"\n'
            f'root-certificates = "{ca}"\n'
        )
        self._start("hub", command)
        for _ in range(1200):
            self.check_alive()
            with suppress(OSError):
                return socket.create_connection((HOST, self.port), timeout=1.0).close()
            time.sleep(0.1)
        raise AssertionError(f"the hub did not start: {self.tail()}")

    def register(self, name: str) -> None:
        """Register a site's key with the hub."""
        self.flwr("supernode", "register", str(self.home / "sites" / name / "auth.pub"), "hub")

    def start_site(self, name: str, key: Path | None = None, ca: Path | None = None) -> None:
        """Start the SuperNode of a site."""
        folder = self.home / "sites" / name
        command = ["flower-supernode", "--superlink", f"{HOST}:{self.port}"]
        command += ["--root-certificates", str(ca or self.home / "certificates" / "ca.crt")]
        command += ["--auth-supernode-private-key", str(key or folder / "auth.key")]
        command += ["--node-config", f'site="{folder / "site.toml"}"']
        command += ["--host", HOST, "--port", str(free_port())]
        self._start(name, command)

    def flwr(self, *arguments: str) -> Any:
        """Run a Flower command and return its JSON."""
        done = subprocess.run(
            [PROGRAMS / "flwr", *arguments, "--format", "json"],
            env=self._environment("client"),
            capture_output=True,
            text=True,
            check=False,
        )
        said = json.loads(done.stdout) if done.stdout.strip().startswith("{") else {}
        assert done.returncode == 0 and said.get("success", True), done.stdout + done.stderr
        return said

    def submit(self) -> None:
        """Hand the app to the hub."""
        self.run_id = str(self.flwr("run", str(self.home / "app"), "hub")["run-id"])

    def run(self) -> None:
        """Hand the app to the hub, and wait until the run has ended; restart sites that have ended."""
        end = time.monotonic() + LIMIT
        self.submit()
        while time.monotonic() < end:
            self.check_alive()
            for name, process in list(self.running.items()):
                if process.poll() is not None:
                    self.kill(name)
                    self._start(name, self._commands[name])
            state = str(self.flwr("list", "hub", "--run-id", self.run_id)["runs"][0]["status"])
            if state == "finished:completed":
                return
            assert not state.startswith("finished"), f"{state}: {self.log()[-4000:]}"
            time.sleep(3.0)
        raise AssertionError(f"the run did not end within {LIMIT:g} seconds: {self.tail()}")

    def log(self) -> str:
        """Return what the hub has said of the run so far, as Flower shows it."""
        if not self.run_id:
            return ""
        command = [str(PROGRAMS / "flwr"), "log", self.run_id, "hub", "--show"]
        environment = self._environment("client")
        return subprocess.run(command, env=environment, capture_output=True, text=True).stdout

    def kill(self, name: str) -> None:
        """End a process and its children at once, as a power cut would."""
        process = self.running.pop(name)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def tail(self) -> str:
        """Return the last lines that the hub wrote."""
        text = (self._folder("hub") / "log.txt").read_text(encoding="utf-8", errors="replace")
        return "\n".join(text.strip().splitlines()[-20:])

    def check_alive(self) -> None:
        assert self.running["hub"].poll() is None, f"the hub has ended: {self.tail()}"

    def _start(self, name: str, command: list[str]) -> None:
        self._commands[name] = command
        with open(self._folder(name) / "log.txt", "ab") as log:
            self.running[name] = subprocess.Popen(
                [PROGRAMS / command[0], *command[1:]],
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
        path = f"{PROGRAMS}{os.pathsep}{os.environ.get('PATH', '')}"
        return {**os.environ, **ENVIRONMENT, "FLWR_HOME": str(self._folder(name)), "PATH": path}


def free_port() -> int:
    """Return a port that is free now."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def written(home: Path, names: tuple[str, ...], hub: dict[str, Any], **more: Any) -> Federation:
    """Write app, certificates, keys and sites."""
    write_federation(home, names, "y", "regression", ["ridge"], hub)
    make_certificates(home / "certificates", ["127.0.0.1", "localhost"])
    federation = make(home / "sites", names, **more)
    for name in names:
        make_site_keys(home / "sites" / name)
    return federation


def settings(federation: Federation, **values: Any) -> None:
    """Give the hub other settings."""
    home = federation.home.parent
    said = {"sites": list(federation.names), "out": "result", "wait": 200.0}
    (home / "hub" / "hub.toml").write_text(dump_toml({**said, **values}))


def check_equal(federation: Federation, alpha: Any, solver: FedRelax = TWO) -> None:
    """Compare what hub and sites have saved with the same network within this process."""
    network, folds = networks(federation, solver)
    if isinstance(alpha, float):
        result = FedRelax(alpha=alpha, rounds=solver.rounds, tol=solver.tol).solve(network)
    else:
        candidates = [Candidate(strength) for strength in alphas_for(network.graph, alpha)]
        choice = choose(folds, solver, candidates, halving=False)
        result = choice.settings(solver).solve(network).with_alone(choice.alone)
    saved = read_result(federation.home.parent / "hub" / "result")
    for name in ("local_loss", "gtv", "objective", "change"):
        np.testing.assert_allclose(saved.history[name], result.history[name], rtol=0, atol=1e-9)
    same_models(federation, result)


def reach(round: int, machines: Deployment) -> None:
    """Wait until the hub has finished a round."""
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        machines.check_alive()
        if f"round {round} of" in machines.log():
            return
        time.sleep(1.0)
    raise AssertionError(f"round {round} was not reached: {machines.tail()}")
