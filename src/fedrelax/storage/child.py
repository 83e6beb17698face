"""Files of the boosting libraries, tried in a separate process before they are loaded here.

These libraries follow the indices in a file blindly: a damaged or hostile one can crash the process, or
make it hang. One child process with limited memory and time is started for all files of a result. It loads
each file, checks the trees as the library understood them, and predicts some rows. Only files that this
survives are loaded here.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from typing import BinaryIO, TextIO

from fedrelax.errors import FedRelaxError, in_one_line
from fedrelax.models.boost import try_file
from fedrelax.storage.checking import Damaged
from fedrelax.typing import Label

SECONDS = 30
"""CPU time for one file, and for the import of its library; each megabyte adds a second."""
MEMORY = 4 * 2**30
"""Bytes of address space; the libraries alone take about one gigabyte."""
ROWS = 64
LONGEST = 1000
FINE = "fine"
ENDED = (
    "its saved model crashed the process that tried it, or never ended there, so it is not loaded"
)


def try_files(files: Sequence[tuple[Label, bytes, int]], seconds: float = SECONDS) -> None:
    """Refuse files of models, for so many features, that fail in the child process."""
    answers = _ask([(data, features) for _, data, features in files], seconds) if files else []
    for (label, _, _), answer in zip(files, answers, strict=False):
        if answer:
            raise Damaged(f"node {label!r}:", answer)


def _ask(files: list[tuple[bytes, int]], seconds: float) -> list[str]:
    """Return what is wrong with each file, or an empty string, up to one that ended the child."""
    times = [seconds + len(data) / 2**20 for data, _ in files]
    header = [
        (len(data), features, time) for (data, features), time in zip(files, times, strict=True)
    ]
    places = os.pathsep.join(place for place in sys.path if place)
    try:
        output = subprocess.run(
            [sys.executable, "-P", "-m", "fedrelax.storage.child"],
            input=b"\n".join([json.dumps(header).encode(), b"".join(data for data, _ in files)]),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": places, "OMP_NUM_THREADS": "1"},
            timeout=4 * sum(times),
            check=False,
        ).stdout
    except subprocess.TimeoutExpired as error:
        output = error.stdout or b""
    lines = output.decode(errors="replace").split("\n")[:-1]
    answers = ["" if line == FINE else line for line in lines]
    return answers if len(answers) == len(files) else [*answers, ENDED]


# In the child


def main(source: BinaryIO, answer: TextIO) -> None:
    """Read files, try each, and print one line for each."""
    for size, features, seconds in json.loads(source.readline()):
        data = source.read(size)
        if os.name == "posix":
            _limit(MEMORY + 20 * size, seconds)
        wrong = ""
        try:
            try_file(data, features, ROWS)
        except FedRelaxError as error:
            wrong = in_one_line(error, kind=False)
        except Exception as error:  # the libraries raise whatever they like
            wrong = f"its saved model cannot be loaded ({in_one_line(error)[:200]})"
        print(wrong[:LONGEST] or FINE, file=answer, flush=True)


def _limit(memory: int, seconds: float) -> None:
    """Limit memory and time; the timer ends this process even in the middle of native code."""
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    memory = memory if hard == resource.RLIM_INFINITY else min(memory, hard)
    resource.setrlimit(resource.RLIMIT_AS, (memory, hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_PROF, seconds)


if __name__ == "__main__":
    # What the libraries print must not be taken for an answer.
    saved = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    main(sys.stdin.buffer, saved)
