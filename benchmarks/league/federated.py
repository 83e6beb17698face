"""What a federation gives beside ``fit`` on the same rows: the real exchange, all sites in one process.

Each table of the league becomes a federation of up to ten sites of up to thirty rows, two fifths of them
for testing, with everything at its default. Run: ``python -m benchmarks.league.federated [sets]``.
"""

from __future__ import annotations

import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.league.tables import TABLES, Data
from fedrelax import FedRelaxRegressor
from fedrelax.federation.hub import Hub
from fedrelax.federation.participant import Participant
from fedrelax.federation.settings import read_hub, read_site
from fedrelax.federation.table import parts_of, read_site_table
from fedrelax.federation.trial import WithinProcess, prepare

SITES, ROWS, TEST = 10, 30, 0.4


def tables_of(data: Data) -> dict[str, Any]:
    """Return the rows of each site."""
    columns = [f"x{k}" for k in range(data.X.shape[1])]
    tables = {}
    for k, group in enumerate(np.unique(data.groups)[:SITES]):
        own = data.groups == group
        frame = pd.DataFrame(data.X[own], columns=columns).assign(y=data.y[own])
        tables[f"site-{k}"] = frame.sample(frac=1.0, random_state=0).head(ROWS)
    return tables


def compare(data: Data, home: Path) -> tuple[dict[str, float], str]:
    """Return the errors on all sites' test rows, and what the federation did."""
    tables = tables_of(data)
    prepare(home, tables, "y", models=["ridge"], hub={"alpha": "auto"})
    files = {name: home / "sites" / name / "site.toml" for name in tables}
    for path in files.values():
        path.write_text(f"test_share = {TEST}\n{path.read_text()}")
    sites = {name: read_site(path) for name, path in files.items()}
    transport = WithinProcess({name: Participant(site) for name, site in sites.items()})
    start = time.perf_counter()
    run = Hub(read_hub(home / "hub" / "hub.toml"), transport).run()
    seconds = time.perf_counter() - start
    reports = run.reports.values()
    count = sum(report.test_rows for report in reports)
    errors = {
        way: float(np.sqrt(sum(getattr(report, way) for report in reports) / count))
        for way in ("alone", "together")
    }
    train, test = list[Any](), list[Any]()
    for name, site in sites.items():
        table = read_site_table(site)
        whole = table.features.assign(y=table.y, site=name)
        for part, rows in zip((train, test), parts_of(site, len(table)), strict=True):
            part.append(whole.iloc[rows])
    known, new = pd.concat(train), pd.concat(test)
    fitted = FedRelaxRegressor().fit(
        known.drop(columns=["y", "site"]), known["y"], nodes=known["site"]
    )
    predicted = fitted.predict(new.drop(columns=["y", "site"]), nodes=new["site"])
    errors["fit"] = float(np.sqrt(np.mean(np.square(predicted - new["y"]))))
    sent = transport.bytes / len(sites) / max(run.outcome.n_rounds, 1) / 1e6
    words = f"{run.outcome.n_rounds} rounds, {sent:.2f} MB per site and round, {seconds:.0f} s"
    return errors, f"{words}: {run.outcome.reason}"


def main() -> None:
    """Print a line per table, and the mean of each set."""
    warnings.simplefilter("ignore")
    sets = sys.argv[1:] or ["development", "fresh", "newer", "last", "final"]
    ratios: dict[str, list[float]] = {}
    for table in TABLES:
        if table.kind != "regression" or table.league not in sets:
            continue
        with tempfile.TemporaryDirectory() as home:
            errors, words = compare(table.load(), Path(home) / "federation")
        ratio = errors["together"] / errors["fit"]
        ratios.setdefault(table.league, []).append(ratio)
        line = ", ".join(f"{way} {error:.4g}" for way, error in errors.items())
        print(f"{table.name}: {line}; {ratio:.3f} of fit ({words})", flush=True)
    for name, values in ratios.items():
        mean, worst = np.exp(np.mean(np.log(values))), max(values)
        print(f"{name}: {mean:.3f} of fit in the geometric mean, worst {worst:.3f}")


if __name__ == "__main__":
    main()
