"""Target values to compare with: read from files, never built in."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from fedrelax.errors import FedRelaxError
from fedrelax.files import TABLE, read_file
from fedrelax.typing import DataFrame

STANDARD_ERRORS = 3.0
"""A mean agrees with its target if they differ by at most this many combined standard errors."""
RATIO = 0.05
"""A tree's ratio to training alone agrees with its target if they differ by at most this."""
ROUNDED = 1e-5
"""Rounding error of the targets."""
LINEAR_KEYS = ["figure", "method", "d", "alpha", "sigma", "p_in", "metric", "iteration"]
TREE_KEYS = ["figure", "d", "sigma", "alpha", "first_exchange", "iteration"]
SETTING = ["figure", "method", "d", "alpha", "sigma", "p_in", "metric", "first_exchange"]
TREE_NAMES = {"initial models": "models"}


def read_targets(paths: Sequence[Path]) -> list[Any]:
    """Return one DataFrame per file, after checking that it has the columns needed.

    A directory stands for the CSV files in it.
    """
    import pandas as pd

    found = []
    for path in _files(paths):
        try:
            frame = pd.read_csv(BytesIO(read_file(path, TABLE)))
        except FileNotFoundError:
            raise FedRelaxError(f"there is no targets file {path}") from None
        except (OSError, ValueError, UnicodeDecodeError) as error:
            raise FedRelaxError(
                f"the targets file {path} cannot be read as a table ({error})"
            ) from error
        linear = {*LINEAR_KEYS, "mean", "sem"} <= set(frame.columns)
        if not linear and not {*TREE_KEYS, "mse_val"} <= set(frame.columns):
            raise FedRelaxError(
                f"the targets file {path} has the columns "
                f"{', '.join(map(str, frame.columns))}; it needs "
                f"{', '.join(LINEAR_KEYS)}, mean and sem, or {', '.join(TREE_KEYS)} and mse_val"
            )
        found.append(frame)
    return found


def _files(paths: Sequence[Path]) -> list[Path]:
    files: list[Path] = []
    for path in paths:
        inside = sorted(path.glob("*.csv")) if path.is_dir() else [path]
        if not inside:
            raise FedRelaxError(f"--targets: there is no CSV file in {path}")
        files += inside
    return files


def against_targets(frame: DataFrame, targets: Sequence[Any]) -> Any:
    """Return a DataFrame of setting, iteration, target, our value, their gap and whether they agree.

    Linear figures: |ours - target| in combined standard errors. Trees: the ratio to alpha = 0.
    """
    import pandas as pd

    parts = [
        _linear(frame, target) if "mean" in target.columns else _trees(frame, target)
        for target in targets
    ]
    kept = [part for part in parts if len(part)]
    return pd.concat(kept, ignore_index=True) if kept else pd.DataFrame()


def _linear(frame: DataFrame, target: Any) -> Any:
    both = frame.merge(_as_numbers(target), on=LINEAR_KEYS, suffixes=("", "_target"))
    gap = np.abs(both["mean"] - both["mean_target"])
    size = np.hypot(both["sem"], both["sem_target"])
    both["allowed"] = STANDARD_ERRORS * size + ROUNDED
    both["holds"] = gap <= both["allowed"]
    both["apart"] = np.where(gap <= ROUNDED, 0.0, gap / size.replace(0.0, np.nan))
    both["measure"] = "mean"
    both["unit"] = "standard errors"
    return both.rename(columns={"mean": "ours", "mean_target": "target"})[
        [*SETTING, "iteration", "measure", "target", "ours", "apart", "unit", "holds"]
    ]


def _trees(frame: DataFrame, target: Any) -> Any:
    """Compare by data, d, sigma and alpha: one setting may be in two panels of a figure."""
    known = _as_numbers(target).assign(
        data=target["figure"].map(_data),
        first_exchange=target["first_exchange"].replace(TREE_NAMES),
    )
    # Training alone exchanges nothing, so both kinds of first exchange share one curve.
    keys = ["data", "d", "sigma", "iteration"]
    alone = known[known["alpha"] == 0][[*keys, "mse_val"]].drop_duplicates(keys)
    known = known.merge(alone, on=keys, suffixes=("", "_alone"))
    known["target"] = known["mse_val"] / known["mse_val_alone"]
    own = frame[(frame["alpha"] > 0) & (frame["iteration"] > 0)]
    own = own[own["figure"].str.contains(" DT ")]
    own = own.assign(data=own["figure"].map(_data)).merge(
        known[[*keys, "alpha", "first_exchange", "target"]], on=[*keys, "alpha", "first_exchange"]
    )
    own["ours"] = own["normalised_by_local"]
    own["apart"] = (own["ours"] - own["target"]).abs()
    own["holds"] = own["apart"] <= RATIO
    own["measure"], own["unit"] = "ratio to alpha = 0", "difference"
    return own[[*SETTING, "iteration", "measure", "target", "ours", "apart", "unit", "holds"]]


def _data(figure: str) -> str:
    """Return "DT clustered" for "2b DT clustered noise"."""
    return " ".join(figure.split()[1:3])


def _as_numbers(target: Any) -> Any:
    """Return the table with settings as floats, so that 0 and 0.0 match."""
    names = [name for name in ("alpha", "sigma", "p_in") if name in target.columns]
    return target.astype(dict.fromkeys(names, float))
