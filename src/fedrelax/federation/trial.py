"""``fedrelax federate try``: a whole federation on one machine, from a table or from made-up rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedrelax.datasets import read_table
from fedrelax.errors import FedRelaxError
from fedrelax.federation.files import write_federation, write_keys
from fedrelax.federation.processes import HOST, Deployment
from fedrelax.federation.settings import NAME, read_hub
from fedrelax.federation.state import Status, read_status
from fedrelax.schema.kinds import find_column, kind_of
from fedrelax.typing import Label

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
