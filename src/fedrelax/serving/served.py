"""What is served: the models of a result, loaded once; and the bodies of requests, checked."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Self

import numpy as np
from pydantic import AfterValidator, ConfigDict, Field, model_validator

from fedrelax.errors import FedRelaxWarning, did_you_mean
from fedrelax.files import Refused
from fedrelax.jsonfiles import Described, from_json
from fedrelax.report.page import report_html
from fedrelax.storage import loading
from fedrelax.storage.labels import by_text, find_label
from fedrelax.typing import AnyArray, DataFrame
from fedrelax.web import Refusal

MOST_ROWS = 10_000
WHOLE = 2**63
"""Whole numbers from here on are read as floats, as in tables."""
SHAPE = '{"node": "...", "rows": [{"column": value, ...}, ...]}'


def _plain(value: Any) -> Any:
    if isinstance(value, list | dict) or (isinstance(value, float) and not math.isfinite(value)):
        raise ValueError("which should be text, a finite number, true, false or null")
    if isinstance(value, int) and abs(value) >= WHOLE:
        try:
            return float(value)
        except OverflowError:
            raise ValueError("which is too large") from None
    return value


Value = Annotated[Any, AfterValidator(_plain)]
"""Text, a finite number, true, false or null."""


class Body(Described):
    """What a request may hold: rows, and the node of all or of each of them."""

    model_config = ConfigDict(extra="forbid")

    rows: Annotated[list[dict[str, Value]], Field(min_length=1)]
    node: Value = None
    nodes: list[Value] | None = None

    @model_validator(mode="after")
    def _one_node_each(self) -> Self:
        if self.nodes is not None and self.node is not None:
            raise ValueError("it has both 'node' and 'nodes'")
        if self.nodes is not None and len(self.nodes) != len(self.rows):
            raise ValueError(f"it has {len(self.nodes)} nodes for {len(self.rows)} rows")
        return self


def read_asked(content: bytes) -> Body:
    """Return what a body asks for; every value in it is text, a finite number, true, false or null."""
    try:
        body = from_json(Body, content)
    except Refused as error:
        raise Refusal(400, f"the body {error}; send {SHAPE}") from None
    if len(body.rows) > MOST_ROWS:
        raise Refusal(
            413, f"the request has {len(body.rows)} rows; send at most {MOST_ROWS} at a time"
        )
    return body


SOURCE = "the request"


def _value(row: dict[str, Any], number: int, name: str) -> Any:
    if name not in row:
        raise Refusal(
            422, f"row {number} has no column {name!r}; send null where a value is missing"
        )
    return row[name]


class Served:
    """A result that answers. Not thread-safe, as models and text columns are not."""

    def __init__(
        self, saved: loading.SavedResult, trust: Sequence[str] = (), unknown: str = "consensus"
    ) -> None:
        self.saved, self._trust = saved, trust
        self._fitted = loading.load_result(saved, trust).set_params(unknown=unknown)
        self._ready = saved.ready
        self._known = by_text(saved.graph.labels)

    def succeeded_by(self, directory: Path) -> Served:
        """Return what serves another result, under the same settings."""
        return Served(loading.read_result(directory), self._trust, self._fitted.unknown)

    def predict(self, asked: Body) -> dict[str, Any]:
        """Return the answer to a request: what ``fedrelax predict`` says for the same rows."""
        notes: list[str] = []
        nodes = self._labels(asked, refuse=self._fitted.unknown == "raise")
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", FedRelaxWarning)
            frame = self.frame(asked, nodes)
            coded = loading.coded_rows(self.saved, frame, nodes, SOURCE, notes.append)
            answer = self._fitted.answers(coded, nodes)
        wrong = np.flatnonzero(~np.isfinite(answer).all(axis=1))
        if len(wrong):
            row = int(wrong[0])
            raise Refusal(
                422,
                f"the model of node {nodes[row]!r} has no finite answer to row {row}; send values of "
                "the magnitude that it was trained on",
            )
        notes += dict.fromkeys(f"{warning.message}." for warning in warned)
        task = self.saved.task
        answers: dict[str, Any] = {"predictions": task.decode(answer).tolist()}
        if task.classes is not None:
            answers |= {"classes": task.classes.tolist(), "probabilities": answer.tolist()}
        return {**answers, "notes": notes} if notes else answers

    def table(self, asked: Body) -> DataFrame:
        """Return rows with their targets and nodes, in a table like those that ``fedrelax fit`` reads."""
        target, nodes = self.saved.about["target_column"], self._labels(asked)
        frame = self.frame(asked, nodes)
        frame[target] = [_value(row, k, target) for k, row in enumerate(asked.rows)]
        frame[self.saved.about["node_column"]] = nodes
        return frame

    def frame(self, asked: Body, nodes: AnyArray) -> DataFrame:
        """Return the training columns as a table; a row need not have columns that its node lacks."""
        import pandas as pd

        frame = {}
        for number, column in enumerate(self._ready.schema.columns):
            values = []
            for k, (row, node) in enumerate(zip(asked.rows, nodes, strict=True)):
                lacking = number in self._ready.lacks.get(node, ())
                value = row.get(column.name) if lacking else _value(row, k, column.name)
                if column.kind == "date" and isinstance(value, bool):
                    wrong = f"row {k}, column {column.name!r} holds {json.dumps(value)}"
                    raise Refusal(422, f"{wrong}; send a date as text, such as 2024-01-31")
                values.append(value)
            frame[column.name] = pd.Series(values)
        return pd.DataFrame(frame)

    def _labels(self, asked: Body, refuse: bool = True) -> AnyArray:
        """Return the label of every row's node; ``refuse`` those that are not in the graph."""
        node, values = asked.node, asked.nodes
        if node is None and values is None:
            if len(self.saved.models) > 1:
                words = "the body names no node; send 'node', or 'nodes' with the node of every row"
                raise Refusal(400, words)
            node = self.saved.models[0]["node"]
        values = [node] * len(asked.rows) if values is None else values
        labels = np.empty(len(values), dtype=object)
        for number, value in enumerate(values):
            label = find_label(value, self._known)
            if label is None and refuse:
                hint = did_you_mean(value, self._known)
                raise Refusal(404, f"there is no node {value!r}{hint}; GET /nodes lists them all")
            labels[number] = str(value) if label is None else label
        return labels

    def describe(self) -> dict[str, Any]:
        """Return what can be asked: the nodes, their models, and what the columns mean."""
        about, schema = self.saved.about, self._ready.schema
        columns, nodes = [], []
        for column in schema.columns:
            known = {"categories": column.categories} if column.categories else {}
            columns.append({"name": column.name, "kind": column.kind, "gaps": column.gaps, **known})
        kinds = dict(zip(self.saved.nodes["node"], self.saved.nodes["model"], strict=True))
        for label in self.saved.graph.labels:
            lacks = [schema.column_names[k] for k in self._ready.lacks.get(label, ())]
            more = {"lacks": lacks} if lacks else {}
            nodes.append({"node": label, "model": kinds.get(label), **more})
        named = {"task": about["task"], "target": about["target_column"]}
        return {**named, "classes": about["classes"], "columns": columns, "nodes": nodes}

    @cached_property
    def report(self) -> str:
        """The report's page, made from the checked files of the result.

        A file ``report.html`` in the result is not sent: nothing vouches for what is in it.
        """
        return report_html(self.saved)
