"""Flower's own processes on this machine: a hub (SuperLink) and sites (SuperNodes), started and ended here.

Every process has a folder of its own for Flower's files, a port of its own, and a log beside it.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from fedrelax.errors import FedRelaxError
from fedrelax.extras import need
from fedrelax.federation.files import flower_config

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
