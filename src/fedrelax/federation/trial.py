"""``fedrelax federate try``: the hub and all sites of a federation in one process."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedrelax.datasets import read_table
from fedrelax.errors import FedRelaxError
from fedrelax.federation.files import write_federation, write_keys
from fedrelax.federation.hub import Hub
from fedrelax.federation.letters import Envelope, pack, unpack
from fedrelax.federation.participant import Participant
from fedrelax.federation.protocol import Address
from fedrelax.federation.settings import NAME, read_hub, read_site
from fedrelax.federation.writing import write_federated
from fedrelax.schema.kinds import find_column, kind_of

ROWS, FEATURES, SPREAD, NOISE = 40, 6, 0.2, 1.5
"""Of each made-up site: rows, columns, how far its line is from the common one, and the noise."""

Look = Callable[[Envelope], None]
"""Called with a letter of the hub before the sites answer."""


class WithinProcess:
    """Carries letters, as bytes, to sites of this process."""

    def __init__(self, sites: Mapping[str, Participant], look: Look = lambda letter: None) -> None:
        self.sites, self._look = dict(sites), look
        self.letters = self.bytes = 0
        """Letters and bytes carried, there and back."""

    def addresses(self) -> Collection[Address]:
        """Return the names of the sites."""
        return list(self.sites)

    def send(
        self, letters: Mapping[Address, Envelope], wait: float, late: Collection[Address] = ()
    ) -> dict[Address, Envelope]:
        """Let every site answer in turn."""
        answers: dict[Address, Envelope] = {}
        for name, letter in letters.items():
            self._look(letter)
            there = pack(letter)
            back = pack(self.sites[str(name)].answer(unpack(there)))
            self.letters += 2
            self.bytes += len(there) + len(back)
            answers[name] = unpack(back)
        return answers


def run_here(home: Path, look: Look = lambda letter: None) -> Path:
    """Run the federation in this folder in one process, and return the folder of the hub's result."""
    file = read_hub(home / "hub" / "hub.toml")
    files = {name: home / "sites" / name / "site.toml" for name in file.sites}
    sites = {name: Participant(read_site(path)) for name, path in files.items()}
    hub = Hub(file, WithinProcess(sites, look))
    return write_federated(hub.run(), file)


def made_up(sites: int, seed: int = 0) -> dict[str, Any]:
    """Return tables of sites whose rows follow similar, but not the same, linear models."""
    import pandas as pd

    rng = np.random.default_rng(seed)
    common, tables = rng.normal(size=FEATURES), {}
    for number in range(1, sites + 1):
        X = rng.normal(size=(ROWS, FEATURES))
        own = common + SPREAD * rng.normal(size=FEATURES)
        y = X @ own + NOISE * rng.normal(size=ROWS)
        frame = pd.DataFrame(X, columns=[f"x{k + 1}" for k in range(FEATURES)])
        tables[f"site-{number}"] = frame.assign(y=y)
    return tables


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
    return found


def prepare(
    home: Path,
    tables: Mapping[str, Any],
    target: str,
    *,
    models: Sequence[str],
    hub: Mapping[str, Any],
) -> None:
    """Write all files of a federation, with throw-away keys and each site's own rows."""
    first = next(iter(tables.values()))
    column = find_column(first, target)
    task = "regression" if kind_of(first[column]) == "numbers" else "classification"
    if task == "classification" and list(models) == ["ridge"]:
        models = ["logistic"]
    write_federation(home, list(tables), str(column), task, models, hub)
    for name, frame in tables.items():
        frame.to_csv(home / "sites" / name / "rows.csv", index=False)
    write_keys(home, ["127.0.0.1", "localhost"])
