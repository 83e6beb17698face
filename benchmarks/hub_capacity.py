"""What one hub can relay: messages and megabytes per second, and for how many sites that is enough.

    python -m benchmarks.hub_capacity

A real SuperLink with TLS and a database on disk, messages sent as our own hub sends them (a ServerApp with
``OverFlower``), and light clients: threads that speak Flower's protocol as a SuperNode does, but start no
process and fit nothing. Each message carries ten sealed boxes, and so does its reply. Since everything
shares this machine, rates by the clock are low; so the processor time of SuperLink and ServerApp is
measured too, and the capacity of one hub is computed from it: one core, sites that poll every 3 seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from fedrelax.federation.boxes import (
    Address,
    SealedChannel,
    box_bytes,
    new_key,
    public_of,
)
from fedrelax.federation.files import make_certificates

HOST = "127.0.0.1"
ENVIRONMENT = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}
ENVIRONMENT |= {"FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.05", "OMP_NUM_THREADS": "1"}
CONFIG = """\
[superlink]
default = "hub"
[superlink.hub]
address = "{address}"
root-certificates = "{ca}"
"""
NEIGHBOURS, ROWS, ROUND, ASKS = 10, 200, 60.0, 20
"""The federation to compute for: a round per minute, in which a SuperNode polls 20 times."""
TICKS = os.sysconf("SC_CLK_TCK")
PYPROJECT = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "hub-capacity"
version = "1.0.0"
license = "Apache-2.0"
dependencies = []
[tool.hatch.build.targets.wheel]
packages = ["."]
[tool.flwr.app]
publisher = "fedrelax"
[tool.flwr.app.components]
serverapp = "capacity_app.server_app:app"
clientapp = "capacity_app.client_app:app"
[tool.flwr.app.config]
folder = "{folder}"
"""
CLIENT = "from flwr.clientapp import ClientApp\n\napp = ClientApp()\n"
SERVER = """\
import json, os, time
from pathlib import Path
from flwr.serverapp import ServerApp
from fedrelax.federation.letters import Envelope
from fedrelax.federation.flower import OverFlower

app = ServerApp()

@app.main()
def main(grid, context):
    folder = Path(context.run_config["folder"])
    plan = json.loads((folder / "plan.json").read_text())
    flower = OverFlower(grid)
    while len(flower.addresses()) < plan["clients"]:
        time.sleep(0.2)
    found = []
    for size in plan["sizes"]:
        boxes = {str(k): os.urandom(size) for k in range(plan["neighbours"])}
        for number in range(plan["rounds"]):
            cpu, begun, wall = time.process_time(), time.monotonic(), time.time()
            letters = {node: Envelope("relax", {"round": number}, boxes) for node in flower.addresses()}
            answers = flower.send(letters, wait=120.0)
            found.append({
                "size": size, "seconds": time.monotonic() - begun, "begun": wall, "ended": time.time(),
                "cpu": time.process_time() - cpu,
                "answers": sum(answer.kind == "relax" for answer in answers.values()),
            })
    (folder / "found.part").write_text(json.dumps(found))
    (folder / "found.part").rename(folder / "found.json")
"""


class LightClient(threading.Thread):
    """A site that answers every message with one of the same size, in a thread."""

    stopping = threading.Event()
    polls = 0
    pause = 0.2

    def __init__(self, address: str, ca: Path) -> None:
        super().__init__(daemon=True)
        self._address, self._ca = address, ca

    def run(self) -> None:
        """Poll for messages until told to stop."""
        from flwr.supernode.fleet_http_connection import http_request_response

        with http_request_response(self._address, False, self._ca.read_bytes()) as connection:
            _, receive, send, _, _, pull, push, confirm = connection
            while not self.stopping.is_set():
                LightClient.polls += 1
                found = receive()
                if found is None:
                    self.stopping.wait(self.pause)
                else:
                    message, tree = found
                    _answer(message, tree, send, pull, push, confirm)


def _answer(message: Any, tree: Any, send: Any, pull: Any, push: Any, confirm: Any) -> None:
    """Receive a message as a SuperNode does, and send its content back."""
    from flwr.app import Message
    from flwr.supercore.inflatable.inflatable_object import (
        get_all_nested_objects,
        get_object_tree,
        iterate_object_tree,
        no_object_id_recompute,
    )
    from flwr.supercore.inflatable.inflatable_utils import (
        inflate_object_from_contents,
        pull_objects,
    )

    run = message.metadata.run_id
    parts = [part.object_id for part in iterate_object_tree(tree)]
    contents = pull_objects(parts, pull_object_fn=lambda name: pull(run, name))
    confirm(run, message.metadata.message_id)
    whole = inflate_object_from_contents(message.metadata.message_id, contents)
    reply = Message(whole.content, reply_to=message)
    with no_object_id_recompute():
        reply.metadata.__dict__["_message_id"] = reply.object_id
        wanted, session = send(reply, get_object_tree(reply), 0.0)
        for name, part in get_all_nested_objects(reply).items():
            if name in wanted:
                push(run, session, name, part.deflate())


def _environment(folder: Path) -> dict[str, str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    return {**os.environ, **ENVIRONMENT, "FLWR_HOME": str(folder), "PATH": path}


@contextmanager
def superlink(home: Path, in_memory: bool) -> Iterator[tuple[int, int]]:
    """Start a SuperLink with TLS; yield its process id and port, and stop it at the end."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port = int(probe.getsockname()[1])
    certificates = home / "certificates"
    make_certificates(certificates, [HOST])
    client = home / "client"
    client.mkdir()
    (home / "hub").mkdir()
    config = CONFIG.format(address=f"{HOST}:{port}", ca=certificates / "ca.crt")
    (client / "config.toml").write_text(config)
    program = Path(sys.executable).parent / "flower-superlink"
    words = ["--host", HOST, "--port", port, "--disable-runtime-dependency-installation"]
    words += ["--ssl-ca-certfile", certificates / "ca.crt"]
    words += [] if in_memory else ["--database", home / "superlink.db"]
    words += ["--ssl-certfile", certificates / "hub.crt", "--ssl-keyfile", certificates / "hub.key"]
    with (
        open(home / "superlink.log", "wb") as log,
        subprocess.Popen(
            [program, *map(str, words)],
            env=_environment(home / "hub"),
            stdout=log,
            stderr=log,
            start_new_session=True,
        ) as process,
    ):
        try:
            yield process.pid, port
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)


def processor_seconds(pid: int) -> float:
    """Return the processor time of one process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def measure(
    clients: int, rounds: int, sizes: list[int], idle: float, in_memory: bool
) -> dict[str, Any]:
    """Return the cost of the rounds, and of polling when there are no messages."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        with superlink(home, in_memory) as (pid, port):
            app = home / "app" / "capacity_app"
            app.mkdir(parents=True)
            (app / "__init__.py").write_text("")
            (app / "server_app.py").write_text(SERVER)
            (app / "client_app.py").write_text(CLIENT)
            (home / "app" / "pyproject.toml").write_text(PYPROJECT.format(folder=home))
            plan = {"clients": clients, "rounds": rounds, "sizes": sizes, "neighbours": NEIGHBOURS}
            (home / "plan.json").write_text(json.dumps(plan))
            _wait_for(port, home)
            threads = [
                LightClient(f"{HOST}:{port}", home / "certificates" / "ca.crt")
                for _ in range(clients)
            ]
            try:
                time.sleep(3)
                rest = _rest(pid, idle)
                for thread in threads:
                    thread.start()
                time.sleep(3)
                asking = _asking(pid, idle, rest)
                _submit(home)
                samples: list[tuple[float, float, int]] = []
                while not (home / "found.json").exists():
                    samples.append((time.time(), processor_seconds(pid), LightClient.polls))
                    time.sleep(0.02)
                found = json.loads((home / "found.json").read_text())
                samples.append((time.time(), processor_seconds(pid), LightClient.polls))
            finally:
                LightClient.stopping.set()
                for thread in threads:
                    thread.join(20)
        times, cpu, polls = (np.array(column) for column in zip(*samples, strict=True))
        for each in found:
            ends = [each["begun"], each["ended"]]
            used = float(np.diff(np.interp(ends, times, cpu))[0])
            each["superlink"] = used - rest * each["seconds"]
            each["polls"] = float(np.diff(np.interp(ends, times, polls))[0])
        return {"rounds": found, "asking": asking, "rest": rest}


def _rest(pid: int, seconds: float) -> float:
    """Return the share of a core that the SuperLink takes without any clients."""
    before = processor_seconds(pid)
    time.sleep(seconds)
    return (processor_seconds(pid) - before) / seconds


def _asking(pid: int, seconds: float, rest: float) -> float:
    """Return the SuperLink's processor time for one poll that finds no message."""
    before, polls = processor_seconds(pid), LightClient.polls
    time.sleep(seconds)
    used = processor_seconds(pid) - before - rest * seconds
    return max(used, 0.0) / max(LightClient.polls - polls, 1)


def _wait_for(port: int, home: Path) -> None:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            socket.create_connection((HOST, port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.2)
    text = (home / "superlink.log").read_text(errors="replace")[-600:]
    raise SystemExit(f"the SuperLink did not start within a minute: {text}")


def _submit(home: Path) -> None:
    program = Path(sys.executable).parent / "flwr"
    environment = _environment(home / "client")
    words = ["run", str(home / "app"), "hub", "--format", "json"]
    said = subprocess.run([program, *words], env=environment, capture_output=True, text=True)
    if '"success": true' not in said.stdout:
        raise SystemExit(f"flwr run failed: {said.stdout} {said.stderr}")


def sealing() -> float:
    """Return the seconds a site takes to seal one box."""
    keys = {name: new_key() for name in "ab"}
    public = {name: public_of(key) for name, key in keys.items()}
    boxes = SealedChannel(keys["a"], public, {name: secrets.token_hex(16) for name in "ab"})
    content, begun = os.urandom(box_bytes(1, ROWS, 1)), time.perf_counter()
    for number in range(200):
        boxes.close(content, Address("run", "a", "b", number))
    return (time.perf_counter() - begun) / 200


def show(found: dict[str, Any], sizes: list[int]) -> None:
    """Print rates, processor time, and what follows for one hub."""
    asking, rest = found["asking"], found["rest"]
    print(f"a SuperLink without clients takes {100 * rest:.0f} % of a core")
    print(f"a poll that finds nothing: {1000 * asking:.2f} ms of the SuperLink's processor time")
    print(
        f"{'box':>8}{'messages/s':>12}{'MB/s':>8}{'SuperLink ms':>14}{'ServerApp ms':>14}   per message"
    )
    costs = []
    for size in sizes:
        rounds = [each for each in found["rounds"] if each["size"] == size][1:]
        answers = sum(each["answers"] for each in rounds)
        messages, seconds = 2 * answers, sum(each["seconds"] for each in rounds)
        moved = messages * NEIGHBOURS * size / 1e6
        link = sum(
            each["superlink"] - asking * max(each["polls"] - each["answers"], 0) for each in rounds
        )
        app = sum(each["cpu"] for each in rounds)
        costs.append((link + app) / answers)
        print(
            f"{size:8,}{messages / seconds:12.0f}{moved / seconds:8.2f}"
            f"{1000 * link / messages:14.2f}{1000 * app / messages:14.2f}"
        )
    slope, fixed = np.polyfit([2 * NEIGHBOURS * size for size in sizes], costs, 1)
    slope = max(float(slope), 0.0)
    print(
        f"a site's round: {1000 * fixed:.1f} ms, and {1e9 * slope:.1f} ms per megabyte; "
        f"{ASKS} polls: {1000 * ASKS * asking:.1f} ms"
    )
    print(
        f"\nsites that one hub (one core) can serve at {NEIGHBOURS} neighbours and a round per minute:"
    )
    for name, size in [
        (f"{ROWS} public rows", box_bytes(1, ROWS, 1)),
        (f"{ROWS} rows in half precision", box_bytes(1, ROWS, 1) - 6 * ROWS),
        (f"{ROWS // 4} public rows", box_bytes(1, ROWS // 4, 1)),
        (f'{ROWS} rows, alpha="auto" (32 times)', box_bytes(32, ROWS, 1)),
    ]:
        moved = 2 * NEIGHBOURS * size
        sites = ROUND * (1 - rest) / (fixed + slope * moved + ASKS * asking)
        print(f"  {name:34}{sites:8,.0f}   {sites * moved / 1e6 / ROUND:6.2f} MB/s")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--in-memory", action="store_true", help="no database on disk")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the SuperLink is stopped, too
    sizes = [box_bytes(1, 50, 1), box_bytes(1, ROWS, 1), box_bytes(32, ROWS, 1)]
    print(f"{given.clients} light clients, {given.rounds} rounds for each size of box")
    print(f"sealing a box takes a site {1e6 * sealing():.0f} microseconds")
    show(measure(given.clients, given.rounds, sizes, 5.0, given.in_memory), sizes)


if __name__ == "__main__":
    main()
