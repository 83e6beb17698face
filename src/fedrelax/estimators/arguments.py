"""The arguments of ``fit`` and ``predict`` besides the rows: nodes, groups, times."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from fedrelax.errors import FedRelaxError, FedRelaxWarning, did_you_mean
from fedrelax.schema.frames import as_frame, is_frame
from fedrelax.typing import AnyArray


def one_of(groups: Any, times: Any, rows: int) -> dict[str, AnyArray]:
    """Check ``groups`` and ``times`` and return whichever was given under its name, else an empty dict."""
    import pandas as pd

    if groups is not None and times is not None:
        raise FedRelaxError("groups and times are both given; folds can follow only one of them")
    for name, values in (("groups", groups), ("times", times)):
        if values is None:
            continue
        found = np.asarray(values)
        if found.shape != (rows,):
            raise FedRelaxError(f"{name} has shape {found.shape}, but X has {rows} rows")
        missing = pd.isna(found)
        if missing.any():
            raise FedRelaxError(
                f"{name} has a missing value in row {int(np.argmax(missing))}; every row needs one"
            )
        if found.dtype.kind == "O":
            found = found.astype(str)
        return {name: found}
    return {}


def split_off_nodes(X: Any, nodes: Any) -> tuple[Any, Any, str | None]:
    """Return the features, one label per row (or None) and the name of the node column, if any."""
    if is_frame(X):
        X = as_frame(X)
    if not isinstance(nodes, str):
        return X, nodes, None
    if not hasattr(X, "columns"):
        raise FedRelaxError(f"nodes={nodes!r} names a column, but X is not a DataFrame")
    if nodes not in X.columns:
        hint = did_you_mean(nodes, X.columns)
        raise FedRelaxError(f"nodes={nodes!r} is not a column of X{hint}")
    return X.drop(columns=nodes), X[nodes].to_numpy(), nodes


def warn(text: str) -> None:
    """Warn whoever called ``predict`` about the rows."""
    warnings.warn(text, FedRelaxWarning, stacklevel=4)
