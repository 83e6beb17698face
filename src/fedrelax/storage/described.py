"""What the JSON and CSV files of a result must hold, checked before any of it is used."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from io import BytesIO
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from fedrelax.evaluation import WAYS
from fedrelax.files import Refused
from fedrelax.jsonfiles import Described, from_json
from fedrelax.runtime.exchange import Promise
from fedrelax.runtime.history import TOTALS
from fedrelax.storage.checking import Damaged, reading
from fedrelax.storage.labels import check_labels
from fedrelax.typing import DataFrame, Series

LABEL_COLUMNS = ("node", "source", "target")
TEXTS = (*LABEL_COLUMNS, "model", "wiring", "missed")
COLUMNS: dict[str, tuple[str, ...]] = {
    "nodes.csv": ("node", "model"),
    "edges.csv": ("source", "target", "weight", "discrepancy", "discrepancy_back", "used"),
    "history.csv": TOTALS,
    "history_nodes.csv": ("round", "node", "local_loss", "gtv", "validation_loss"),
    "alphas.csv": ("wiring", "level", "alpha", "round", "validation_loss"),
    "positions.csv": ("node",),
}
"""The columns that each table must have."""

MEASURED = ("rows", "test_rows", *WAYS, "gain")
"""What ``nodes.csv`` has besides if errors were measured."""

COUNT_COLUMNS = ("rows", "train_rows", "test_rows", "round")
MOST_COUNTED, MOST_OUTPUTS = 10**15, 10**6

LIVING, PUBLIC, ANSWERS = "living.json", "public.npy", "answers.npy"
"""What the network needs to go on, its public rows, and all answers on them (nodes, rows, outputs)."""

Label = Annotated[str | int | float | bool, Field(union_mode="left_to_right")]
Count = Annotated[int, Field(ge=0, le=MOST_COUNTED)]


class Public(Described):
    """How the public rows were made, and how many there are."""

    rows: Count
    how: str


class About(Described):
    """What ``result.json`` says."""

    made: str
    versions: dict[str, str]
    task: Literal["regression", "classification"]
    outputs: Annotated[int, Field(ge=1, le=MOST_OUTPUTS)]
    classes: list[Label] | None
    classes_are_objects: bool
    feature_names: Annotated[list[str], Field(min_length=1)]
    features_by_name: bool
    graph_nodes: Annotated[list[Label], Field(min_length=1)]
    geographic: bool
    alpha: Annotated[float, Field(ge=0)]
    wiring: str
    rounds: Count
    exchanges: Count
    reason: str
    public: Public
    node_column: str | int | None
    target_column: str | None
    types_to_trust: list[str]
    files: dict[str, str]
    losses: tuple[str, str] | None
    engine: str
    public_for_each_node: bool
    objective: str
    seed: int | None
    choice: str | None
    better: str | None
    level: float | None
    update: Literal["refit", "difference"] | None
    promises: list[Promise]
    by_default: bool
    pooled_numbers: Count

    @model_validator(mode="after")
    def _told_apart(self) -> Self:
        """Labels can be told apart, and classes match the outputs."""
        check_labels(self.graph_nodes)
        classes = [str(label) for label in self.classes or []]
        fits = len(classes) == len(set(classes)) == self.outputs
        if not (self.classes is None if self.task == "regression" else fits):
            raise ValueError("it does not have one class for each output, each named once")
        return self


class ModelLine(Described):
    """An entry of ``models.json``."""

    node: Label
    file: Annotated[str, Field(pattern=r"^models/\d+\.[a-z.]+$")]
    format: str
    sha256: str
    rows: Literal["encoded", "coded", "frame"]
    answers: bool


class Errors(Described):
    """The error over all test rows, by way."""

    alone: float | None
    pooled: float | None
    together: float | None


class Sites(Described):
    """What the sites of a federation reported."""

    measure: str
    alone: float | None
    together: float | None
    missed: dict[str, list[int]]
    notes: list[str]
    most_bytes_per_edge_and_round: int = 0


class Metrics(Described):
    """What ``metrics.json`` may say and is used; people may add more."""

    measure: str | None = None
    errors: Errors | None = None
    way: Literal["alone", "pooled", "together"] = "together"
    stayed_alone: list[Label] = Field(default_factory=list)
    clusters: list[Count] = Field(default_factory=list)
    federation: Sites | None = None

    @model_validator(mode="after")
    def _measured(self) -> Self:
        if self.errors is not None and self.measure is None:
            raise ValueError("it has errors, but not the measure of them")
        return self


class Entry(Described):
    """Nodes that joined, learned or left."""

    what: str
    when: str
    nodes: list[Label]
    neighbours: list[Label]
    rows: Count
    error: float | None
    refitted: Count


class Living(Described):
    """What ``living.json`` says; ``nodes`` are those of ``answers.npy``, ``rows`` how many each learned."""

    coupling: dict[str, Any]
    found_together: bool
    seed: Annotated[int, Field(ge=0)]
    stayed: list[Label]
    nodes: list[Label]
    rows: list[Count]
    story: list[Entry]


def read_json(content: bytes, file: str, kind: Any) -> Any:
    """Return the plain values of a JSON file, which must have the form of this kind."""
    with reading(file):
        from_json(kind, content)
        return json.loads(content)


def check_nodes(lines: list[dict[str, Any]], frame: DataFrame, labels: Iterable[Any]) -> None:
    """Refuse models of unknown nodes, several of one node, and those without a line in ``nodes.csv``."""
    nodes = [line["node"] for line in lines]
    if not nodes or len(set(nodes)) < len(nodes) or not set(nodes) <= set(labels):
        raise Damaged("models.json", "does not name nodes of the graph, each once")
    if not set(nodes) <= set(frame["node"]):
        raise Damaged("nodes.csv", "has no line for one of the nodes with a model")


def read_frame(
    content: bytes, file: str, labels: Mapping[str, Any], more: Iterable[str] = ()
) -> DataFrame:
    """Return one of our CSV files, with its columns and ``more``; those of nodes get their labels back."""
    import pandas as pd

    with reading(file):
        frame = pd.read_csv(BytesIO(content), dtype=str, keep_default_na=False)
        if frame.isna().any(axis=None):
            raise Refused("ends in the middle of a line")
        for column in frame.columns.difference(TEXTS):
            with suppress(ValueError):  # a column of texts that somebody has added
                frame[column] = pd.to_numeric(frame[column].replace("", None))
        needed = (*COLUMNS[file], *more)
        numeric = {*needed}.difference(TEXTS)
        missing = [column for column in needed if column not in frame.columns]
        if missing:
            raise Refused(f"has no column {missing[0]!r}")
        for column in frame.columns:
            if column in LABEL_COLUMNS:
                strange = [text for text in frame[column] if text not in labels]
                if strange:
                    raise Refused(f"names the node {strange[0]!r}, which is not in the graph")
                known = [labels[text] for text in frame[column]]
                frame[column] = pd.Series(known, dtype=object, index=frame.index)
            elif column in COUNT_COLUMNS and not _are_counts(frame[column].dropna()):
                raise Refused(f"has something other than counts in column {column!r}")
            elif column in numeric and len(frame) and frame[column].dtype.kind not in "if":
                raise Refused(f"has something other than numbers in column {column!r}")
        if file in ("nodes.csv", "positions.csv") and frame["node"].duplicated().any():
            raise Refused("names a node twice")
    return frame


def _are_counts(values: Series) -> bool:
    return bool(((values >= 0) & (values <= MOST_COUNTED) & (values % 1 == 0)).all())
