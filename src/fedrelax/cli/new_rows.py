"""Rows for changing a saved result, by commands or by requests: newcomers', new ones, and old ones."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from fedrelax.cli.console import Talk
from fedrelax.cli.graphs import parse_graph
from fedrelax.cli.inputs import node_column, nodes_in
from fedrelax.datasets import read_table
from fedrelax.errors import FedRelaxError, did_you_mean
from fedrelax.schema.kinds import find_column, where
from fedrelax.schema.numbers import MISSING, read_numbers
from fedrelax.storage.labels import by_text, check_labels, find_label
from fedrelax.storage.loading import SavedResult, coded_rows, load_result, read_result
from fedrelax.storage.places import check_directory
from fedrelax.storage.saving import save_grown
from fedrelax.typing import AnyArray, DataFrame, FloatArray, Label

Rows = tuple[FloatArray, AnyArray, AnyArray]
"""Features as the network codes them, targets and nodes of rows, as estimators take them."""
SOURCE = Path("the request")
"""What messages call the table of new rows in a request."""


class Grown:
    """A loaded result that changes, and where the changed one is to be saved."""

    def __init__(
        self,
        talk: Talk,
        directory: Path,
        out: Path,
        table: Path | None = None,
        trust: Sequence[str] | None = None,
        overwrite: bool = False,
    ) -> None:
        talk.activity.doing(f"Loading {directory}")
        self.talk, self.out, self.overwrite = talk, check_directory(out, overwrite), overwrite
        self.saved = read_result(directory)
        self.fitted = load_result(self.saved, trust or [])
        if not self.fitted.can_go_on:
            raise FedRelaxError(
                f"{directory} lacks what is needed to change it (it was saved by a federation, with layers "
                "around the exchange, or with sums of models that cannot be saved untrained); fit it "
                "again, with --update refit if such sums are the reason"
            )
        if table is not None:  # of the rows of its nodes
            frame, saved = self._read(table), self.saved
            frame = frame.dropna(subset=[k for k in frame if k == saved.about["node_column"]])
            nodes = nodes_in(frame, saved, table, refuse=False)
            own = np.array([label in saved.graph for label in nodes], dtype=bool)
            self.fitted.know_rows(*self._checked(frame[own], nodes[own], table)[0])

    def node(self, text: str) -> Label:
        """Return the node that a text names."""
        labels = by_text(self.saved.graph.labels)
        label = find_label(text, labels)
        if label is None:
            raise FedRelaxError(f"node {text!r} is not in the network{did_you_mean(text, labels)}")
        return label

    def new_rows(self, data: Path, sent: DataFrame | None = None) -> Rows:
        """Return the rows of a table, all of nodes of the network; each that was sent needs a target."""
        frame = self._read(data) if sent is None else sent
        nodes = nodes_in(frame, self.saved, data, refuse=True)
        return self._checked(frame, nodes, data, may_miss=sent is None)[0]

    def newcomers(self, data: Path, label: str | None) -> tuple[Rows, DataFrame]:
        """Return the rows of newcomers, or of the one with this label, and their table."""
        frame = self._read(data)
        if label is not None:
            nodes = np.array([self._new_label(label)] * len(frame), dtype=object)
            return self._checked(frame, nodes, data)
        try:
            texts = node_column(frame, self.saved, data).astype(str)
        except FedRelaxError as error:
            raise FedRelaxError(f"{error}; or name the newcomer with --label") from None
        labels = {text: self._new_label(text) for text in texts.unique()}
        nodes = np.array([labels[text] for text in texts], dtype=object)
        return self._checked(frame, nodes, data)

    def save(self) -> None:
        """Write the new result."""
        self.talk.activity.doing(f"Saving in {self.out}")
        save_grown(self.out, self.saved, self.fitted, overwrite=self.overwrite)
        self.talk.plain(f"Saved in {self.out}; {self.saved.directory} stays as it is.")
        out = shlex.quote(str(self.out))
        self.talk.plain(f"Next: fedrelax info {out}, or fedrelax report {out}")

    def _read(self, data: Path) -> DataFrame:
        self.talk.activity.doing(f"Reading {data.name}")
        return read_table(data, as_text=[str(self.saved.about["node_column"])])

    def _new_label(self, text: str) -> Label:
        """Return a newcomer's label, which ``predict`` will find: a number if all labels are numbers."""
        name, labels = text.strip(), self.saved.graph.labels
        if not name:
            raise FedRelaxError(
                f"the newcomer's label is {text!r}; give it a name that is not blank"
            )
        numbers = all(isinstance(label, int) for label in labels)
        label = int(name) if numbers and re.fullmatch("-?[1-9][0-9]{0,17}|0", name) else name
        check_labels([*labels, label] if label not in self.saved.graph else [label])
        return label

    def _checked(
        self, frame: DataFrame, nodes: AnyArray, data: Path, may_miss: bool = True
    ) -> tuple[Rows, DataFrame]:
        """Return rows with a target, and their table; rows without one are left out or refused."""
        target, missing = _target(frame, self.saved, data, may_miss)
        if missing.any():
            self.talk.note(
                f"{int(missing.sum())} of {len(frame)} rows are left out: they have no target in column "
                f"{self.saved.about['target_column']!r}."
            )
            frame, nodes, target = frame[~missing], nodes[~missing], target[~missing]
        X = coded_rows(self.saved, frame, nodes, str(data), self.talk.note)
        if not len(frame):
            raise FedRelaxError(f"{data} has no rows of nodes of this network")
        return (X, target, nodes), frame


def positions_in(frame: DataFrame, saved: SavedResult) -> FloatArray | None:
    """Return a node's coordinates, if its table has the columns that the graph was made from."""
    import pandas as pd

    text = saved.config.get("graph")
    if saved.graph.positions is None or not isinstance(text, str):
        return None
    columns = [name for name in parse_graph(text).columns if name in frame.columns]
    if len(columns) != saved.graph.positions.shape[1]:
        return None
    values = frame[columns].apply(pd.to_numeric, errors="coerce").mean().to_numpy()
    return np.asarray(values) if np.isfinite(values).all() else None


def _target(
    frame: DataFrame, saved: SavedResult, data: Path, may_miss: bool
) -> tuple[AnyArray, AnyArray]:
    """Return the targets, numbers or classes of the network, and the rows to leave out for want of one."""
    name = saved.about["target_column"]
    if name is None:
        raise FedRelaxError(
            "the result does not say which column is the target; fit it from a table"
        )
    try:
        column = frame[find_column(frame, name)]
    except FedRelaxError as error:
        raise FedRelaxError(f"{data}: {error}") from None
    classes = saved.task.classes
    if classes is None:
        values, gaps, what = read_numbers(column, ""), MISSING, "no number"
        wrong = np.isnan(values)
    else:
        labels, gaps, what = by_text(classes.tolist()), frozenset([""]), "no class of this network"
        found = [find_label(value, labels) for value in column.tolist()]
        wrong = np.array([value is None for value in found], dtype=bool)
        values = np.array([classes[0] if v is None else v for v in found], classes.dtype)
    texts = column.astype(object).where(column.notna(), "").astype(str).str.strip()
    missing = wrong & texts.isin(gaps).to_numpy(bool) & may_miss
    wrong &= ~missing
    if wrong.any():
        at = int(np.argmax(wrong))
        raise FedRelaxError(
            f"{data}: column {column.name!r} has {what} in {int(wrong.sum())} rows, the first on "
            f"{where(frame.index, at)}; correct these rows or leave them out"
        )
    return np.asarray(values), missing


class Learner:
    """Learns from new rows; each call writes a new result to DIR.learned/0001, 0002, ...

    The result in DIR stays as it is.
    """

    def __init__(self, directory: Path, table: Path, trust: tuple[str, ...], talk: Talk) -> None:
        self._home = directory.with_name(f"{directory.name}.learned")
        self._number = max([0, *(int(path.name) for path in self._home.glob("[0-9]" * 4))])
        self._grown = Grown(talk, directory, self._next(), table, trust)

    def _next(self) -> Path:
        self._number += 1
        return self._home / f"{self._number:04d}"

    @contextmanager
    def __call__(self, frame: DataFrame) -> Iterator[Path]:
        """Predict rows, learn from them and save; if that or the block fails, take everything back."""
        grown = self._grown
        grown.fitted.update(*grown.new_rows(SOURCE, frame))
        try:
            self._home.mkdir(exist_ok=True)
            out = save_grown(grown.out, grown.saved, grown.fitted)
            try:
                saved = read_result(out)
                yield out
            except BaseException:
                shutil.rmtree(out)
                raise
        except BaseException:
            grown.fitted.living_.undo()
            raise
        grown.saved, grown.out = saved, self._next()
