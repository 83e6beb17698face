"""Inputs made to break parsers, which may answer with a valid result or one clear sentence."""

from __future__ import annotations

import hashlib
import json
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from fedrelax import FedRelaxError, Graph
from fedrelax.cli.config import make_config
from fedrelax.cli.fit import FitConfig
from fedrelax.cli.graphs import parse_graph
from fedrelax.datasets import prepare_table, read_table
from fedrelax.files import to_npy
from fedrelax.storage.loading import read_result
from fedrelax.storage.states import MAGIC, from_bytes
from tests.fuzzed_files import MUTANTS

WORDS = st.sampled_from(
    [
        "site",
        "y",
        "a",
        "0",
        "1",
        "-1",
        "1e999",
        "nan",
        "inf",
        "true",
        "null",
        "2020-01-01",
        "é",
        "💥",
    ]
) | st.sampled_from([*"\"',;=[]{}#\x00\ufeff\t\n ", "\r\n", ""])
TEXTS = st.lists(WORDS | st.text(max_size=4), max_size=60).map("".join)
CELLS = st.sampled_from(["1", "2.5", "x", "", "nan", "1,5", "2020-01-01", "-3e4", '"q"']) | TEXTS
TABLES = st.lists(st.lists(CELLS, min_size=1, max_size=5), min_size=1, max_size=8).map(
    lambda rows: "site,y,a\n" + "\n".join(",".join(row) for row in rows)
)
NUMBERS = st.integers() | st.floats() | st.booleans() | st.none() | st.text(max_size=3)
EDGES = st.lists(st.lists(NUMBERS, max_size=4).map(tuple), max_size=8)
MATRICES = st.lists(st.lists(NUMBERS, max_size=4), max_size=4)
KEYS = st.sampled_from(["data", "node", "target", "alpha", "rounds", "model", "model-for", "graph"])
TOML = st.lists(
    st.tuples(
        KEYS | st.text(max_size=5),
        st.sampled_from(['"x"', "1", "-1", "[]", "{a = 1}", "nan", "1e400", '["a", 3]', "true"])
        | TEXTS,
    ),
    max_size=6,
).map(lambda pairs: "\n".join(f"{key} = {value}" for key, value in pairs))
JSON = st.recursive(
    NUMBERS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3)
)
RESULTS = st.dictionaries(
    st.sampled_from(
        ["models.json", "metrics.json", "config.toml", "nodes.csv", "edges.csv", "history.csv"]
    ),
    TEXTS | TABLES | TOML | JSON.map(json.dumps),
    max_size=6,
)

ARRAYS = st.tuples(
    st.sampled_from(["<f8", "<i8", "|b1", "<f4", "<U2"]),
    st.lists(st.integers(0, 4), max_size=3),
).map(lambda found: to_npy(np.zeros(found[1], dtype=found[0]))) | st.binary(max_size=40)
TREES = st.recursive(
    NUMBERS
    | st.fixed_dictionaries(
        {"array": st.tuples(st.integers(-1, 3), st.lists(st.integers(-1, 3), max_size=3))}
    ),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(st.tuples(inner, inner), max_size=3).map(lambda pairs: {"dict": pairs})
        | st.dictionaries(
            st.sampled_from(["tuple", "dict", "same", "bytes", "message", "csr", "array", "code"]),
            st.lists(inner, max_size=4) | inner,
            max_size=2,
        )
    ),
    max_leaves=12,
)
STATE_KEYS = st.sampled_from(["round", "first", "reason", "records", "best", "engine", "what"])
STATES = st.tuples(
    TREES | st.lists(st.tuples(STATE_KEYS, TREES), max_size=7).map(lambda pairs: {"dict": pairs}),
    st.lists(ARRAYS, max_size=4),
    st.integers(-1, 1),
).map(
    lambda found: sealed_state(
        [found[0], [len(block) + found[2] * (k == 0) for k, block in enumerate(found[1])]],
        b"".join(found[1]),
    )
)


def sealed_state(tree: object, numbers: bytes) -> bytes:
    """Return the bytes of a state with a right checksum, whatever it holds."""
    text = json.dumps(tree).encode()
    body = text + b"\n" + numbers
    return MAGIC + hashlib.sha256(body).digest() + body


def parse_state(data: bytes) -> None:
    """Read a state."""
    from_bytes(data)


def _file(name: str, content: str, read: Callable[[Path], object]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(content.encode("utf-8", "surrogatepass"))
        read(path)


def parse_table(text: str) -> None:
    """Read a table and make rows, targets and nodes of it."""

    def read(path: Path) -> None:
        frame = read_table(path)
        prepare_table(frame, node="site", target="y")

    _file("table.csv", text, read)


def parse_config(text: str) -> None:
    """Read a settings file."""
    flags = {"out": Path("out")}
    _file("config.toml", text, lambda path: make_config(FitConfig, path, flags))


def parse_result(files: dict[str, str]) -> None:
    """Read a directory that claims to be a result."""
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            (Path(folder) / name).write_bytes(content.encode("utf-8", "surrogatepass"))
        read_result(folder)


PARSERS: dict[str, tuple[Callable[[Any], object], st.SearchStrategy[Any]]] = {
    "table": (parse_table, TABLES | TEXTS),
    "graph flag": (
        parse_graph,
        TEXTS
        | st.sampled_from(["knn:", "edges:", "features:"]).flatmap(
            lambda k: TEXTS.map(lambda t: k + t)
        ),
    ),
    "edges": (Graph.from_edges, EDGES),
    "matrix": (Graph.from_matrix, MATRICES),
    "edge file": (lambda text: _file("edges.csv", text, Graph.from_csv), TABLES | TEXTS),
    "settings file": (parse_config, TOML | TEXTS),
    "result": (parse_result, RESULTS),
    "checkpoint": (parse_state, STATES | st.binary(max_size=200)),
    "damaged checkpoint": (
        parse_state,
        st.tuples(STATES, st.integers(0, 400), st.binary(min_size=1, max_size=4)).map(
            lambda found: found[0][: found[1]] + found[2] + found[0][found[1] + len(found[2]) :]
        ),
    ),
    **MUTANTS,
}
"""What is fuzzed: a parser, and inputs for it."""


def sentence_or_result(name: str, given: object) -> None:
    """Raise unless the parser takes the input or refuses it by one sentence of ours."""
    parse, _ = PARSERS[name]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            parse(given)
    except FedRelaxError as error:
        text = str(error)
        assert text and "Traceback" not in text, (name, given)


CORPUS = Path(__file__).parent / "data" / "corpus"
"""Small inputs that once broke a parser or reach deep into it: a folder per parser, a file per input."""


def corpus(name: str) -> list[Path]:
    """Return the kept inputs of a parser."""
    return sorted((CORPUS / name.replace(" ", "-").replace("'", "")).glob("*"))


def from_corpus(name: str, path: Path) -> object:
    """Return a kept input as the parser takes it: bytes for those of files and letters, else text."""
    content = path.read_bytes()
    return content if name in MUTANTS else content.decode("utf-8", "surrogatepass")
