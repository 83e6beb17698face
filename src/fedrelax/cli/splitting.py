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
        if self.values is None:
            untested = [label for label, index in rows.items() if train[index].all()]
            if self.share > 0 and train.all():
                raise FedRelaxError(
                    f"--test-share {self.share:g} leaves no test row at any node, as all have too few "
                    "rows; raise it, or give --test-share 0 to train on everything"
                )
            if self.share > 0 and untested:
                count = "1 node has" if len(untested) == 1 else f"{len(untested)} nodes have"
                note(
                    f"{count} too few rows for --test-share {self.share:g}: all are training rows, and "
                    f"there is no test error for {listing(untested, most=3)}."
                )
            return train, ~train
        if self.start is not None:
            train = np.asarray(self.values < self.start)
            if train.all() or not train.any():
                side = "no row from then on" if train.all() else "no row before it"
                raise FedRelaxError(
                    f"--test-from leaves {side} in column {self.column!r}; give a time within the table"
                )
        test = ~train
        late = [label for label, index in rows.items() if not train[index].any()]
        for label in late:
            test[rows[label]] = False
        if late:
            before = (
                "to train on" if self.start is None else f"before --test-from in {self.column!r}"
            )
            note(f"No row {before}, so not measured: {listing(late, most=3)}.")
        if not test.any() and self.share > 0:
            raise FedRelaxError(
                f"--split-by {self.column} leaves no row to test on: no node has rows on both sides; "
                "name another column, or give --test-share 0 to train on everything"
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
    start: str | None = getattr(
        config, "test_from", None
    )  # compare, which repeats splits, has none
    if asked == NONE and NONE not in frame.columns:
        if start is not None:
            raise FedRelaxError("--test-from and --split-by none contradict each other; give one")
        return Splitting(share, seed)
    if asked is None and start is not None:
        dates = [column for column in frame.columns if kind_of(frame[column]) == "dates"]
        if len(dates) != 1:
            found = "no column holds dates" if not dates else f"{listing(dates)} hold dates"
            raise FedRelaxError(
                f"--test-from {start}: {found}; say which column has the time: --split-by COLUMN"
            )
        asked = dates[0]
    if asked is None:
        return _unasked(config, frame, table, note)
    column = find_column(frame, asked)
    roles = {find_column(frame, config.node): "node", find_column(frame, config.target): "target"}
    if column in roles:
        raise FedRelaxError(
            f"--split-by names the {roles[column]} column {column!r}; name what rows of several nodes "
            "have in common, such as the day"
        )
    values = _values(frame, column, table)
    if len(np.unique(values)) < 2:
        raise FedRelaxError(f"--split-by: column {column!r} has a single value; name another")
    if start is None:
        return Splitting(share, seed, str(column), values)
    return Splitting(share, seed, str(column), values, _moment(start, frame, column))


def _unasked(
    config: LearningConfig, frame: DataFrame, table: Table, note: Callable[[str], None]
) -> Splitting:
    """Split by the dates that nodes have in common, if there are any; say what else is shared."""
    share, seed = config.test_share, config.seed
    names = {find_column(frame, config.node), find_column(frame, config.target)}
    others = [column for column in frame.columns if column not in names]
    dates = [column for column in others if kind_of(frame[column].iloc[table.row_index]) == "dates"]
    for column in dates:
        texts = frame[column].iloc[table.row_index]
        moments = read_dates(texts, order_of(texts)[0])
        if share > 0 and not np.isnan(moments).any() and _is_shared(moments, table.nodes):
            note(
                f"Nodes have rows of the same {column!r}, and what neighbours have seen of a moment "
                f"gives much of it away, so whole moments are held out (--split-by {column}). Rows "
                f"held out at random (--split-by none) would show a smaller error than new moments "
                "will have."
            )
            return Splitting(share, seed, str(column), _values(frame, column, table))
    for column in others:
        values = frame[column].iloc[table.row_index].astype(str).to_numpy()
        if str(column).strip().lower() in TIMES and _is_shared(values, table.nodes):
            note(
                f"Nodes have rows of the same {column!r}; rows are held out at random, so neighbours "
                f"may have seen the {column} of a test row. --split-by {column} holds out whole "
                "values, which shows the error for new ones."
            )
            break
    return Splitting(share, seed)


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
    missing = values.isna().to_numpy()
    if missing.any():
        raise FedRelaxError(
            f"--split-by: column {column!r} has {int(missing.sum())} missing values, the first on "
            f"{where(values.index, int(missing.argmax()))}; fill them in"
        )
    if kind == "numbers":
        return to_numbers(values)
    if kind == "dates":
        moments = read_dates(values, order_of(values)[0])
        bad = np.flatnonzero(np.isnan(moments))
        if len(bad):
            raise FedRelaxError(
                f"--split-by: column {column!r} holds dates except {str(values.iloc[bad[0]])!r} on "
                f"{where(values.index, int(bad[0]))}; correct it"
            )
        return moments
    return np.asarray(values.astype(str).str.strip().to_numpy(dtype=str))


def _moment(text: str, frame: DataFrame, column: Hashable) -> float:
    import pandas as pd

    kind = kind_of(frame[column])
    if kind not in ("numbers", "dates"):
        raise FedRelaxError(
            f"--test-from needs a column of dates or numbers, and {column!r} holds {kind}; name another"
        )
    one = pd.Series([text])
    as_dates = kind == "dates"
    start = float(
        (read_dates(one, "mixed") if as_dates else pd.to_numeric(one, errors="coerce"))[0]
    )
    if np.isnan(start):
        raise FedRelaxError(
            f"--test-from {text!r} does not fit column {column!r}, which holds {kind}; give a value "
            "of that kind"
        )
    return start
