"""Which rows are test rows: a share of every node's, whole days (patients, batches), or the future."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedrelax.cli.settings import LearningConfig
from fedrelax.datasets import Table
from fedrelax.errors import FedRelaxError, listing
from fedrelax.schema.dates import order_of, read_dates
from fedrelax.schema.kinds import find_column, kind_of, to_numbers, where
from fedrelax.splits import TEST_STREAM, group_rows, training_mask
from fedrelax.typing import AnyArray, DataFrame

NONE = "none"
"""The value of --split-by that splits rows at random, whatever the table holds."""
TIMES = ("date", "day", "days", "time", "timestamp", "datetime", "hour", "week", "month", "quarter",
         "year", "yr", "period", "wave", "season")  # fmt: skip
"""Columns with these names are checked for moments that nodes have in common, whatever they hold."""
SHARED = 0.5
"""Nodes have a column's values in common if more than this share of rows has one of another node's."""


@dataclass(frozen=True, eq=False)
class Splitting:
    """The rule by which rows are held out, for testing and where something is chosen.

    ``values`` has one value per row of the table: rows of equal value are held out together or, with
    ``start``, those from that time on. Without a column, rows are held out at random.
    """

    share: float
    seed: int
    column: str | None = None
    values: AnyArray | None = None
    start: float | None = None

    def masks(self, nodes: AnyArray, note: Callable[[str], None]) -> tuple[AnyArray, AnyArray]:
        """Return the masks of the training rows and of the test rows."""
        rows = group_rows(nodes, len(nodes))
        rng = np.random.default_rng([self.seed, TEST_STREAM])
        train = training_mask(rows, self.share, rng, self.values)
        flag, before = f"--split-by {self.column}", "to train on"
        why, otherwise = "test row at any node", "give --test-share 0 to train on everything"
        if self.values is None:
            flag, why = f"--test-share {self.share:g}", f"{why}, as all have too few rows"
        elif self.start is not None:
            train = np.asarray(self.values < self.start)
            flag, before = "--test-from", f"before --test-from in {self.column!r}"
            why = f"row {'from then on' if train.all() else 'before it'} in column {self.column!r}"
            otherwise = "give a time within the table"
        test, measured = ~train, self.share > 0 or self.start is not None
        late = [label for label, index in rows.items() if not train[index].any()]
        for label in late:
            test[rows[label]] = False
        if measured and not test.any():
            raise FedRelaxError(f"{flag} leaves no {why}; name another value, or {otherwise}")
        if late:
            note(f"No row {before}, so not measured: {listing(late, most=3)}.")
        untested = [label for label, index in rows.items() if train[index].all()]
        if self.values is None and self.share > 0 and untested:
            count = "1 node has" if len(untested) == 1 else f"{len(untested)} nodes have"
            note(
                f"{count} too few rows for {flag}: all are training rows, and there is no test error "
                f"for {listing(untested, most=3)}."
            )
        return train, test

    def folds(self, rows: AnyArray) -> dict[str, Any]:
        """Return the arguments of ``fit`` for these rows that make its folds follow the same rule."""
        if self.values is None:
            return {}
        return {"groups" if self.start is None else "times": self.values[rows]}


def splitting_of(
    config: LearningConfig, frame: DataFrame, table: Table, note: Callable[[str], None]
) -> Splitting:
    """Return the rule for a table: as it was asked for, or as suits what the table holds."""
    share, seed = config.test_share, config.seed
    asked: Hashable | None = config.split_by
    start: str | None = getattr(config, "test_from", None)  # only fit has it
    if asked == NONE and NONE not in frame.columns:
        if start is not None:
            raise FedRelaxError("--test-from and --split-by none contradict each other; give one")
        return Splitting(share, seed)
    roles = {find_column(frame, config.node): "node", find_column(frame, config.target): "target"}
    if asked is None and start is not None:
        dates = [column for column in frame.columns if kind_of(frame[column]) == "dates"]
        if len(dates) != 1:
            found = "no column holds dates" if not dates else f"{listing(dates)} hold dates"
            raise FedRelaxError(
                f"--test-from {start}: {found}; say which column has the time: --split-by COLUMN"
            )
        asked = dates[0]
    if asked is None:
        others = [column for column in frame.columns if column not in roles]
        asked = _shared_dates(frame[others].iloc[table.row_index], table.nodes, share, note)
        if asked is None:
            return Splitting(share, seed)
    column = find_column(frame, asked)
    if column in roles:
        raise FedRelaxError(
            f"--split-by names the {roles[column]} column {column!r}; name what rows of several nodes "
            "have in common, such as the day"
        )
    values = _values(frame, column, table)
    if len(np.unique(values)) < 2:
        raise FedRelaxError(f"--split-by: column {column!r} has a single value; name another")
    moment = None if start is None else _moment(start, frame, column)
    return Splitting(share, seed, str(column), values, moment)


def _shared_dates(
    frame: DataFrame, nodes: AnyArray, share: float, note: Callable[[str], None]
) -> Hashable | None:
    """Return a column of dates that nodes have in common, if there is one; say what else they share."""
    column: Hashable
    for column in (column for column in frame.columns if kind_of(frame[column]) == "dates"):
        moments = read_dates(frame[column], order_of(frame[column])[0])
        if share > 0 and not np.isnan(moments).any() and _is_shared(moments, nodes):
            note(
                f"Nodes have rows of the same {column!r}, and what neighbours have seen of a moment "
                f"gives much of it away, so whole moments are held out (--split-by {column}). Rows "
                f"held out at random (--split-by none) would show a smaller error than new moments "
                "will have."
            )
            return column
    for column in (column for column in frame.columns if str(column).strip().lower() in TIMES):
        if _is_shared(frame[column].astype(str).to_numpy(), nodes):
            note(
                f"Nodes have rows of the same {column!r}; rows are held out at random, so neighbours "
                f"may have seen the {column} of a test row. --split-by {column} holds out whole "
                "values, which shows the error for new ones."
            )
            break
    return None


def _is_shared(values: AnyArray, nodes: AnyArray) -> bool:
    """Tell whether most rows have a value that another node has, too, and nodes have several values."""
    import pandas as pd

    frame = pd.DataFrame({"value": values, "node": nodes})
    holders = frame.groupby("value")["node"].transform("nunique")
    several = frame.groupby("node")["value"].nunique().median() > 1
    return bool((holders > 1).mean() > SHARED and several)


def _values(frame: DataFrame, column: Hashable, table: Table) -> AnyArray:
    """Return the column's value in each row: dates as dates, numbers as numbers, else text."""
    values, kind = frame[column].iloc[table.row_index], kind_of(frame[column])
    found, wrong = values.astype(str).str.strip().to_numpy(dtype=str), values.isna().to_numpy()
    if kind == "numbers":
        found = to_numbers(values)
    elif kind == "dates":
        found = read_dates(values, order_of(values)[0])
        wrong = np.isnan(found)
    if wrong.any():
        first = int(wrong.argmax())
        raise FedRelaxError(
            f"--split-by: column {column!r} has {int(wrong.sum())} values that are missing or no "
            f"{kind}, the first, {str(values.iloc[first])!r}, on {where(values.index, first)}; correct them"
        )
    return np.asarray(found)


def _moment(text: str, frame: DataFrame, column: Hashable) -> float:
    import pandas as pd

    kind, one, start = kind_of(frame[column]), pd.Series([text]), float("nan")
    if kind == "numbers":
        start = float(pd.to_numeric(one, errors="coerce")[0])
    elif kind == "dates":
        start = float(read_dates(one, "mixed")[0])
    if np.isnan(start):
        raise FedRelaxError(
            f"--test-from {text!r} does not fit column {column!r}, which holds {kind}; name a column of "
            "dates or numbers, and a value of that kind"
        )
    return start
