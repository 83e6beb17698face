"""From a user's table to rows, targets and nodes; whatever is in doubt is said in one sentence."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from fedrelax.errors import FedRelaxError, counted, listing
from fedrelax.schema import Schema
from fedrelax.schema.inferring import coded_table, notes_on_numbers, numbers_in
from fedrelax.schema.kinds import find_column, kind_of, to_numbers, where
from fedrelax.schema.numbers import read_texts, texts_of
from fedrelax.schema.reading import UNNAMED
from fedrelax.typing import AnyArray, DataFrame, FloatArray, IntArray, Series


@dataclass(frozen=True, eq=False)
class Table:
    """The rows of all nodes, ready to be learned from."""

    X: FloatArray
    """One number per row and column of the schema, (rows, columns); NaN where a value is missing."""
    y: AnyArray
    """Targets, (rows,): floats for regression, class labels for classification."""
    nodes: AnyArray
    """The node of each row as a plain Python value, (rows,)."""
    schema: Schema
    """What the columns of ``X`` mean."""
    task: Task
    """``"regression"`` or ``"classification"``."""
    classes: AnyArray | None
    """The sorted class labels, or None for regression."""
    notes: tuple[str, ...]
    """What was decided or left out on the way, one sentence each."""
    row_index: IntArray
    """The position of each row in the frame that was given, for ``frame.iloc``."""

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The columns of ``X``."""
        return tuple(self.schema.column_names)


def prepare_table(
    frame: DataFrame,
    node: Hashable,
    target: Hashable,
    features: Sequence[Hashable] | None = None,
    task: Literal["auto"] | Task = "auto",
    exclude: Sequence[Hashable] = (),
    schema: Schema | None = None,
) -> Table:
    """Take the node, the target and the features of every row from a table.

    Without ``features``, all columns are used except the node, the target and those in ``exclude``;
    ``notes`` say what is left out, and why. Rows without a target are left out; rows with gaps in
    features are kept.
    A ``schema`` says which columns there are and what they mean. With ``task="auto"``, text and
    true/false are classes, decimal numbers are not, and whole numbers are classes where they look
    like codes: at most 20 different ones, none of them rare, none negative (two values may be).

    >>> import pandas as pd
    >>> frame = pd.DataFrame({"site": ["a", "a", "b"], "wind": [1, 2, 4], "power": [0.1, 0.2, 0.5]})
    >>> table = prepare_table(frame, node="site", target="power")
    >>> table.feature_names, table.task, table.nodes.tolist()
    (('wind',), 'regression', ['a', 'a', 'b'])
    """
    repeated = frame.columns[frame.columns.duplicated()].unique().tolist()
    if repeated:
        raise FedRelaxError(
            f"the table has more than one column named {listing(repeated)}; "
            f"give every column a name of its own"
        )
    if frame.empty:
        raise FedRelaxError("the table has no rows; give at least two nodes with rows")
    notes: list[str] = []
    node, target = find_column(frame, node), find_column(frame, target)
    if node == target:
        raise FedRelaxError(
            f"column {node!r} is given both as node and as target; name two different columns"
        )
    if schema is not None:
        chosen = [find_column(frame, name) for name in schema.column_names]
    elif features is None:
        taken = {node, target, *(find_column(frame, name) for name in exclude)}
        chosen = []
        for column in frame.columns:
            if column not in taken and str(column).startswith(UNNAMED):
                notes.append(
                    f"Column {column!r} is left out: it has no name, like a saved row number."
                )
            elif column not in taken:
                chosen.append(column)
    else:
        chosen = _explicit(frame, node, target, features)

    if task != "classification" and kind_of(frame[target]) == "text":
        frame = frame.copy(deep=False)
        frame[target] = as_quantities(frame[target], notes)
    complete = _complete(frame, node, target, notes)
    rows = frame if len(complete) == len(frame) else frame.iloc[complete]
    nodes = _node_labels(rows[node])
    if len(set(nodes)) < 2:
        raise FedRelaxError(
            f"column {node!r} names a single node, {nodes[0]!r}, which has no neighbours to learn "
            f"from; give a table with at least two nodes, or name another column as node"
        )
    y, task, classes = prepare_target(rows[target], task, len(rows) < len(frame), notes)
    if schema is None:
        if features is None:
            chosen = _other_names(rows, chosen, nodes, notes)
        schema, coded, decided = coded_table(rows, chosen, named=features is not None)
        schema = schema.measured(coded)
        notes += decided
    else:
        coded = schema.code(rows)
    return Table(coded, y, nodes, schema, task, classes, tuple(notes), complete)


def _explicit(
    frame: DataFrame, node: Hashable, target: Hashable, features: Sequence[Hashable]
) -> list[Hashable]:
    """The named columns, each once, and neither node nor target."""
    names = [features] if isinstance(features, str) else features
    chosen = list(dict.fromkeys(find_column(frame, name) for name in names))
    if not chosen:
        raise FedRelaxError("features is empty; name at least one column, or leave features out")
    for column, role in ((node, "node"), (target, "target")):
        if column in chosen:
            raise FedRelaxError(
                f"column {column!r} is the {role} and cannot be a feature too; leave it out"
            )
    return chosen


def _other_names(
    frame: DataFrame, columns: list[Hashable], nodes: AnyArray, notes: list[str]
) -> list[Hashable]:
    """Leave out text columns that are only another name of the node: one value per node, all different."""
    import pandas as pd

    names = set()
    for column in columns:
        if kind_of(frame[column]) == "text":
            texts = pd.Series(texts_of(frame[column]), dtype=object)
            per_node = texts.groupby(nodes).nunique()
            if len(per_node) > 2 and (per_node <= 1).all() and texts.nunique() == len(per_node):
                notes.append(f"Column {column!r} is left out: it is only another name of the node.")
                names.add(column)
    return [column for column in columns if column not in names]


def _complete(frame: DataFrame, node: Hashable, target: Hashable, notes: list[str]) -> IntArray:
    """The positions of the rows with a target; every row needs a node."""
    nameless, without = missing(frame[node]), missing(frame[target])
    if nameless.any():
        raise FedRelaxError(
            f"node column {node!r} has {counted(int(nameless.sum()), 'missing or infinite value')}, "
            f"the first on {where(frame.index, int(nameless.argmax()))}; fill them in, or leave these "
            "rows out"
        )
    if without.all():
        raise FedRelaxError(
            f"target column {target!r} is missing or infinite in every row; name another as target"
        )
    if without.any():
        notes.append(
            f"{int(without.sum())} of {len(frame)} rows are left out: {target!r} is missing or infinite."
        )
    return np.flatnonzero(~without)


def missing(column: Series) -> npt.NDArray[np.bool_]:
    """Tell in which rows a column has no value: a gap, an empty text or an infinite number."""
    if kind_of(column) == "numbers":
        return np.asarray(~np.isfinite(to_numbers(column)))
    return np.array([text is None for text in texts_of(column)])


def _node_labels(column: Series) -> AnyArray:
    """Plain Python labels of one type: numbers, else text without spaces around it."""
    labels: list[Any] = column.tolist()
    if all(isinstance(label, int | float) for label in labels):
        whole = all(float(label).is_integer() for label in labels)
        labels = [int(label) for label in labels] if whole else labels
    else:
        labels = [str(label).strip() for label in labels]
    return np.array(labels, dtype=object)


Task = Literal["regression", "classification"]
MOST_CODES = 20
"""With more different whole numbers than this, ``task="auto"`` takes them as quantities."""


def prepare_target(
    column: Series, task: Literal["auto"] | Task, gaps: bool, notes: list[str]
) -> tuple[AnyArray, Task, AnyArray | None]:
    """Return the targets, the task and the classes (None for regression).

    ``column`` is complete; ``gaps`` says whether rows were dropped to make it so.
    Whole numbers in a column with gaps arrive as floats, and are taken as whole again.
    """
    if task not in ("auto", "regression", "classification"):
        raise FedRelaxError(
            f"task is {task!r}; give 'auto', 'regression' or 'classification' instead"
        )
    if task == "auto":
        task = _guess(column, gaps, notes)
    if task == "regression":
        numbers = quantities(column)
        if np.ptp(numbers) == 0:
            raise FedRelaxError(
                f"target column {column.name!r} is {numbers[0]:g} in every row, so there is nothing to "
                f"learn; name another column as target"
            )
        return numbers, task, None
    y = class_labels(column)
    classes, counts = np.unique(y, return_counts=True)
    if len(classes) == 1:
        raise FedRelaxError(
            f"target column {column.name!r} holds the single class {classes.tolist()[0]!r}, so "
            f"there is nothing to learn; give rows of at least two classes"
        )
    if counts.max() == 1:
        raise FedRelaxError(
            f"target column {column.name!r} has a different class in each of its {len(y)} rows, so "
            f"there is nothing to learn; name another column as target"
        )
    return y, task, classes


def as_quantities(column: Series, notes: list[str]) -> Series:
    """Return a column of text as numbers if nearly all of it is, however written; any other as it is.

    What is no number becomes missing, and ``notes`` say so.
    """
    import pandas as pd

    text = kind_of(column) == "text" and not isinstance(column.dtype, pd.CategoricalDtype)
    reading = numbers_in(column) if text else None
    if reading is None:
        return column
    notes += notes_on_numbers(column, reading)
    return pd.Series(reading.values, column.index, name=column.name)


def _guess(column: Series, gaps: bool, notes: list[str]) -> Task:
    """Choose the task, and say so where a user could have meant the other one."""
    from pandas.api import types

    kind = kind_of(column)
    if kind == "dates":
        raise FedRelaxError(
            f"target column {column.name!r} holds dates such as {str(column.iloc[0])!r}; turn them "
            f"into numbers, or name another column as target"
        )
    if kind == "text":
        unread = np.flatnonzero(np.isnan(read_texts(column).values))
        if 0 < len(unread) < len(column) / 2:
            raise FedRelaxError(
                f"target column {column.name!r} holds numbers except in {counted(len(unread), 'row')}, "
                f"such as {column.iloc[unread[0]]!r} on {where(column.index, int(unread[0]))}; correct "
                "these rows, or give task='classification' if they are classes"
            )
        return "classification"
    inferred = types.infer_dtype(column, skipna=True)
    if inferred == "boolean":
        return "classification"
    numbers = to_numbers(column)
    if inferred != "integer" and not (gaps and _integral(numbers)):
        return "regression"
    values, counts = np.unique(numbers, return_counts=True)
    codes = len(values) <= MOST_CODES and counts.min() >= 2
    classes = codes and (values[0] >= 0 or len(values) == 2)
    taken = "classes; give task='regression' if they are quantities"
    if not classes:
        taken = "quantities; give task='classification' if they are classes"
    notes.append(
        f"Target column {column.name!r} holds {len(values)} different whole numbers, taken as {taken}."
    )
    return "classification" if classes else "regression"


def quantities(column: Series) -> AnyArray:
    """Return the numbers of a target column without gaps; refuse text and dates."""
    if kind_of(column) != "numbers":
        raise FedRelaxError(
            f"target column {column.name!r} holds {kind_of(column)} such as {str(column.iloc[0])!r}, which "
            f"regression cannot predict; correct it, or give task='classification'"
        )
    return to_numbers(column)


def class_labels(column: Series) -> AnyArray:
    """Class labels of one type: true/false, whole numbers, or text without spaces around it."""
    from pandas.api import types

    if types.infer_dtype(column, skipna=True) == "boolean":
        return np.asarray(column.tolist(), dtype=bool)
    if kind_of(column) == "numbers":
        numbers = to_numbers(column)
        if not _integral(numbers):
            decimal = numbers[numbers != np.floor(numbers)][0]
            raise FedRelaxError(
                f"target column {column.name!r} holds decimal numbers such as {decimal:g}, which "
                f"are not classes; give task='regression', or whole numbers"
            )
        return numbers.astype(np.int64)
    if all(isinstance(label, (int, np.integer)) for label in column.tolist()):
        return np.asarray(column.tolist(), dtype=np.int64)
    return np.array([str(label).strip() for label in column.tolist()], dtype=np.str_)


def _integral(numbers: AnyArray) -> bool:
    return bool(np.all(numbers == np.floor(numbers)))
