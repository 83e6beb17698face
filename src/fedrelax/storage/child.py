"""Files of the boosting libraries, tried in a process of their own before they are loaded here.

These libraries follow the indices in a file without looking: a damaged or hostile one can end the
process, or never end. A child with little memory and time loads each file, looks at the trees as the
library understood them, and predicts some rows. Only what it has survived is loaded by its parent.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from typing import Any, BinaryIO

from fedrelax.errors import FedRelaxError
from fedrelax.typing import Label

SECONDS = 10
"""Processor time for one file; a large file gets a second more for each megabyte."""

START_SECONDS = 120
"""Time for the libraries to be imported, on a slow disk."""

MEMORY = 4 * 2**30
"""Bytes of address space; the libraries alone take about one gigabyte."""

ROWS = 64


def try_files(files: Mapping[Label, bytes], features: int, seconds: float = SECONDS) -> None:
    """Refuse files that a child process does not survive; all of them go to one child."""
    if not files:
        return
    answers, ending = _ask(list(files.values()), features, seconds)
    for number, label in enumerate(files):
        if number >= len(answers):
            raise FedRelaxError(
                f"this result is damaged: the model of node {label!r} {ending} the process that "
                "tried it, so it is not loaded; run the fit again, or copy the result again from "
                "where it is whole"
            )
        if answers[number]:
            raise FedRelaxError(f"this result is damaged: node {label!r}: {answers[number]}")


def _ask(files: list[bytes], features: int, seconds: float) -> tuple[list[str], str]:
    """Return what the child says of each file, as far as it came, and how it ended."""
    header = json.dumps({"features": features, "seconds": seconds, "sizes": [*map(len, files)]})
    command = [sys.executable, "-P", "-m", "fedrelax.storage.child"]
    places = os.pathsep.join(place for place in sys.path if place)
    environment = {**os.environ, "PYTHONPATH": places, "OMP_NUM_THREADS": "1"}
    limit = START_SECONDS + 3 * sum(_seconds(data, seconds) for data in files)
    try:
        done = subprocess.run(
            command,
            input=header.encode() + b"\n" + b"".join(files),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            timeout=limit,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        return _lines(error.stdout or b""), "never ended"
    except OSError as error:
        raise FedRelaxError(
            f"boosted models are tried in a process of their own, which cannot be started "
            f"({error.strerror or error})"
        ) from error
    late = {-int(getattr(signal, name)) for name in ("SIGPROF", "SIGXCPU") if hasattr(signal, name)}
    return _lines(done.stdout), "never ended" if done.returncode in late else "ended"


def _seconds(data: bytes, seconds: float) -> float:
    return seconds + len(data) / 2**20


def _lines(output: bytes) -> list[str]:
    """Return the whole lines of an output; a file that is fine has the word "fine"."""
    whole = output.decode(errors="replace").split("\n")[:-1]
    return ["" if line == "fine" else line for line in whole]


# In the child


def main(source: BinaryIO, answer: Any) -> None:
    """Read files, try each, and say a line of each."""
    header = json.loads(source.readline())
    files = [source.read(size) for size in header["sizes"]]
    _limit_memory(sum(header["sizes"]))
    for data in files:
        with _limited(_seconds(data, header["seconds"])):
            verdict = _tried(data, header["features"])
        print(verdict or "fine", file=answer, flush=True)


def _tried(data: bytes, features: int) -> str:
    """Return why a file cannot be used, in one line, or nothing."""
    from fedrelax.models.boost.checking import try_file

    try:
        try_file(data, features, ROWS)
    except MemoryError:
        return "its saved model needs more memory than a file of its size may"
    except FedRelaxError as error:
        return " ".join(str(error).split())
    except Exception as error:  # the libraries raise whatever they like
        text = " ".join(str(error).split())[:300]
        return f"its saved model cannot be loaded ({type(error).__name__}: {text})"
    return ""


def _limit_memory(size: int) -> None:
    with contextlib.suppress(ImportError):  # Windows has no such limits
        import resource

        most = MEMORY + 20 * size
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        if hard != resource.RLIM_INFINITY:
            most = min(most, hard)
        resource.setrlimit(resource.RLIMIT_AS, (most, hard))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


@contextlib.contextmanager
def _limited(seconds: float) -> Any:
    """Within, the process ends after so much processor time, also in the middle of native code."""
    timer = getattr(signal, "ITIMER_PROF", None)
    if timer is not None:
        signal.setitimer(timer, seconds)
    yield
    if timer is not None:
        signal.setitimer(timer, 0)


if __name__ == "__main__":
    # What the libraries print must not be taken for an answer.
    saved = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    main(sys.stdin.buffer, saved)
