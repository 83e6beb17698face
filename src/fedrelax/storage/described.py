"""What the JSON and CSV files of a result must hold, checked before any of it is used."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from io import BytesIO
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from fedrelax.evaluation import WAYS
from fedrelax.files import from_npy
from fedrelax.jsonfiles import Described, from_json
from fedrelax.runtime.exchange import Promise
from fedrelax.runtime.history import TOTALS
from fedrelax.storage.checking import damage, reading
from fedrelax.storage.labels import check_labels
from fedrelax.typing import AnyArray, FloatArray

if TYPE_CHECKING:
    import pandas as pd

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

LONGEST_NUMBER = 18
"""Most digits of a whole number that is read as an integer."""

LIVING, PUBLIC, ANSWERS = "living.json", "public.npy", "answers.npy"
"""What the network needs to go on, its public rows, and all answers on them (nodes, rows, outputs)."""

Label = Annotated[str | int | float | bool, Field(union_mode="left_to_right")]
Count = Annotated[int, Field(ge=0, le=MOST_COUNTED)]


class Fingerprint(Described):
    """Size and checksum of a file."""

    size: Count
    sha256: str


class Public(Described):
    """How the public rows were made, and how many there are."""

    rows: Count
    how: str


class Losses(Described):
    """The losses on a node's own rows and across edges."""

    own_rows: str
    edges: str


class About(Described):
    """What ``result.json`` says; entries with a default are missing in results of earlier versions."""

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
    files: dict[str, Fingerprint]
    losses: Losses | None
    engine: str
    public_for_each_node: bool = False
    objective: str = ""
    seed: int | None = None
    choice: str | None = None
    better: str | None = None
    level: float | None = None
    update: Literal["refit", "difference"] | None = None
    promises: list[Promise] = Field(default_factory=list)
    by_default: bool = False
    pooled_numbers: Count = 0

    @model_validator(mode="after")
    def _told_apart(self) -> Self:
        """Labels can be told apart, and classes match the outputs."""
        check_labels(self.graph_nodes)
        classes = self.classes or []
        if len({str(label) for label in classes}) < len(classes):
            raise ValueError("it names a class twice")
        if len(classes) != (self.outputs if self.task == "classification" else 0):
            raise ValueError(f"it has {len(classes)} classes but {self.outputs} outputs")
        return self


class ModelLine(Fingerprint):
    """An entry of ``models.json``."""

    node: Label
    file: str
    format: str
    type: str
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


class PastLine(Described):
    """The losses of a node's updates."""

    node: Label
    total: float
    rows: Count
    updates: Count
    recent: list[tuple[float, Annotated[int, Field(ge=1, le=MOST_COUNTED)]]]


class Part(Described):
    """A file of answers: whose they are, and how many rows each was trained on."""

    file: Literal["answers.npy"]
    nodes: list[Label]
    rows: list[Count]


class Move(Described):
    """A node that moved to other neighbours."""

    node: Label
    neighbours: list[Label]


class Entry(Described):
    """Nodes that joined, learned or left."""

    what: str
    when: str
    nodes: list[Label]
    neighbours: list[Label]
    rows: Count
    error: float | None
    refitted: Count
    drifting: list[Label]
    moves: list[Move]


class Living(Described):
    """What ``living.json`` says."""

    coupling: dict[str, Any]
    found_together: bool
    wired: bool
    seed: Annotated[int, Field(ge=0)]
    stayed: list[Label]
    past: list[PastLine]
    answers: Annotated[list[Part], Field(min_length=1, max_length=1)]
    story: list[Entry]


def read_json(content: bytes, file: str, kind: Any) -> Any:
    """Return the plain values of a JSON file, which must have the form of this kind."""
    with reading(file):
        from_json(kind, content)
        return json.loads(content)


def check_lines(lines: list[dict[str, Any]], nodes: Iterable[Any]) -> None:
    """Refuse a ``models.json`` in which a node is unknown or named twice."""
    known = set(nodes)
    for line in lines:
        if line["node"] not in known:
            what = f"names the node {line['node']!r}, which is unknown or named twice"
            raise damage("models.json", what)
        known.remove(line["node"])
    if not lines:
        raise damage("models.json", "names no model")


def check_nodes(frame: pd.DataFrame, lines: list[dict[str, Any]], measured: bool) -> None:
    """Refuse a ``nodes.csv`` without a line for each model, or without errors that were measured."""
    known = set(frame["node"])
    missing = [line["node"] for line in lines if line["node"] not in known]
    if missing:
        raise damage("nodes.csv", f"has no line for the node {missing[0]!r}")
    if measured:
        _check_columns(frame, "nodes.csv", MEASURED)


def _check_columns(frame: pd.DataFrame, file: str, columns: Iterable[str]) -> None:
    for column in columns:
        if column not in frame.columns:
            raise damage(file, f"has no column {column!r}")
        if column not in TEXTS and frame[column].dtype.kind not in "if":
            raise damage(file, f"has something other than numbers in column {column!r}")


def read_frame(content: bytes, file: str, labels: Mapping[str, Any]) -> pd.DataFrame:
    """Return one of our CSV files as a DataFrame; columns that hold nodes get their labels back."""
    import pandas as pd

    with reading(file):
        frame = pd.read_csv(BytesIO(content), dtype=str, keep_default_na=False)
    for column in frame.columns:
        texts = frame[column].tolist()
        if not all(isinstance(text, str) for text in texts):
            raise damage(file, "ends in the middle of a line")
        if column in LABEL_COLUMNS:
            strange = [text for text in texts if text not in labels]
            if strange:
                raise damage(file, f"names the node {strange[0]!r}, which is not in the graph")
            frame[column] = np.array([labels[text] for text in texts], dtype=object)
        elif column not in TEXTS:
            frame[column] = _numbers(texts)
            counts = frame[column].dropna().to_numpy()
            if column in COUNT_COLUMNS and not (
                counts.dtype.kind in "if"
                and ((counts >= 0) & (counts <= MOST_COUNTED) & (counts % 1 == 0)).all()
            ):
                raise damage(file, f"has something other than counts in column {column!r}")
    _check_columns(frame, file, COLUMNS[file])
    if file in ("nodes.csv", "positions.csv") and frame["node"].duplicated().any():
        raise damage(file, "names a node twice")
    return frame


def _numbers(texts: list[str]) -> AnyArray:
    """Return integers if all texts are whole numbers, else exactly the floats that were written.

    Texts that are no numbers stay texts.
    """
    digits = [text.removeprefix("-") for text in texts]
    if all(text.isascii() and text.isdecimal() and len(text) <= LONGEST_NUMBER for text in digits):
        return np.array([int(text) for text in texts], dtype=np.int64)
    try:
        return np.array([float(text or "nan") for text in texts])
    except ValueError:
        return np.array(texts, dtype=object)


def read_array(content: bytes, file: str) -> FloatArray:
    """Return the numbers of an .npy file, whose header must match what the file holds."""
    with reading(file):
        return from_npy(content)
