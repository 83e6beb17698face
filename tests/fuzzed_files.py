"""Valid files and letters, which are then changed a little: such mutants reach deep into parsers."""

from __future__ import annotations

import json
import random
import re
import tempfile
from collections.abc import Callable, Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st
from sklearn.linear_model import Ridge

from fedrelax import FedRelaxRegressor, Graph
from fedrelax.federation.agreement import SiteManifest
from fedrelax.federation.boxes import read_predictions, write_predictions
from fedrelax.federation.letters import Envelope, pack, unpack
from fedrelax.federation.settings import read_hub, read_site
from fedrelax.federation.state import Folder, LaneState
from fedrelax.files import from_npy, to_npy
from fedrelax.schema import Schema, schema_of
from fedrelax.schema.agreeing import ColumnSummary
from fedrelax.storage import read_result, save_result
from fedrelax.storage.checking import fingerprint
from fedrelax.storage.states import BEGIN, MAGIC

PIECES = [
    *(b"", b"\0", b"\xff", b"0", b"-1", b"7", b"1e999", b"9" * 400, b"0.5", b"NaN", b"null"),
    *(
        b"true",
        b'"a"',
        b'""',
        b"[]",
        b"{}",
        b"[1]",
        b'["a"]',
        b'{"a": 1}',
        b"[[]]",
        b"[" * 3000,
    ),
    *(
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b":",
        b"=",
        b"\n",
        b"'",
        b'"',
        b"\\",
        b"../",
        b"\xed\xa0\x80",
    ),
]
EDITS = st.lists(
    st.tuples(
        st.floats(0, 1),
        st.integers(0, 12) | st.none(),
        st.sampled_from(PIECES) | st.binary(max_size=3),
    ),
    min_size=1,
    max_size=4,
)
"""Where, how many bytes are taken out (None: the next number, text or word), and what is put in."""
TOKEN = re.compile(rb'"[^"\n]*"|-?[0-9][0-9.eE+-]*|[A-Za-z_]+')


def edited(content: bytes, edits: list[tuple[float, int | None, bytes]]) -> bytes:
    """Return the content with all edits made."""
    for where, taken, put in edits:
        start = int(where * len(content))
        token = TOKEN.search(content, start) if taken is None else None
        start, end = (start, start + (taken or 0)) if token is None else token.span()
        content = content[:start] + put + content[end:]
    return content


def random_edits(rng: random.Random) -> list[tuple[float, int | None, bytes]]:
    """Return edits as EDITS has them, far faster."""
    return [
        (
            rng.random(),
            rng.choice([None, rng.randrange(13)]),
            rng.choice(PIECES) if rng.random() < 0.8 else rng.randbytes(rng.randrange(4)),
        )
        for _ in range(rng.randrange(1, 5))
    ]


def mutants(*valid: bytes) -> st.SearchStrategy[bytes]:
    """Return the valid contents, changed in a few places."""
    return st.builds(edited, st.sampled_from(valid), EDITS)


# Settings files and schemas

SITE = b"""name = "Oslo"
data = "oslo.csv"
target = "load"
task = "regression"
model = "ridge"
features = ["wind", "sun"]
public_rows = 50
test_share = 0.25
[neighbours]
Hamar = 1.0
[keys]
Hamar = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
"""
HUB = b"""sites = ["Oslo", "Hamar"]
alpha = [0.1, 1.0]
rounds = 5
tol = 0.0
wait = 60.0
damping = 0.5
objective = "paper"
combine = "median"
"""


@cache
def schema_file() -> bytes:
    """Return a schema with a column of every kind."""
    import pandas as pd

    frame = pd.DataFrame(
        {
            "wind": np.linspace(0, 1, 12),
            "kind": ["x", "y", "z"] * 4,
            "flag": [True, False] * 6,
            "day": [f"2024-01-{k + 1:02d}" for k in range(12)],
        }
    )
    return json.dumps(schema_of(frame)[0].to_dict()).encode()


def on_disk(name: str, read: Any) -> Any:
    """Return a parser of bytes that reads them from a file."""

    def parse(content: bytes) -> object:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / name
            path.write_bytes(content)
            return read(path)

    return parse


# Letters

HELLO = SiteManifest(
    name="Oslo",
    features=("wind", "type"),
    target="load",
    task="classification",
    classes=("high", "low"),
    rows=8,
    neighbours={"Hamar": 1.0},
    nonce="bm9uY2U=",
    model="ridge",
    form="encoded",
    columns=(
        ColumnSummary("wind", "number", known=8, mean=4.5, spread=2.0),
        ColumnSummary("type", "category", known=8, categories=("a", "b"), counts=(4, 3), others=1),
    ),
    named=False,
    public="blend",
    public_rows=3,
)


@cache
def letters() -> tuple[bytes, ...]:
    """Return a greeting, and predictions of two lanes, as they are once the seal is open."""
    array = np.arange(6.0).reshape(3, 2)
    box = write_predictions({0: [array, array], 2: [array, array]})
    return pack(HELLO.letter()), pack(Envelope("answers", {"round": 1}, {"Hamar": box}))


def parse_letter(content: bytes) -> None:
    """Read a letter as hub and site do: what it says of its sender, and the predictions in its boxes."""
    letter = unpack(resealed(content))
    if letter.kind == "hello":
        SiteManifest.of(letter)
    for box in letter.parts.values():
        read_predictions(box, [3, 3], 2, {0, 2})


def parse_array(content: bytes) -> None:
    """Read numbers of a known shape."""
    from_npy(content, "an array", (3, 2), finite=True)


@cache
def state_file() -> bytes:
    """Return the state of a site after a round."""
    array = np.arange(6.0).reshape(3, 2)
    with tempfile.TemporaryDirectory() as folder:
        kept = Folder(Path(folder))
        kept.begin()
        lane = LaneState(
            answers={"own": array},
            shared={"a": array},
            received={("b", "b"): array},
            change=0.5,
            neighbours={"b": 1.0},
            consensus=array,
            steps=[(array, array)],
            fitted=0,
        )
        kept.save(1, {0: lane})
        [path] = Path(folder).rglob("*.bin")
        return path.read_bytes()


def resealed(content: bytes) -> bytes:
    """Return a state with a checksum that fits, as that of a skilled forger would."""
    body = content[BEGIN:]
    return content[: len(MAGIC)] + sha256(body).digest() + body


def parse_state(content: bytes) -> None:
    """Read what a site has kept of a round."""
    with tempfile.TemporaryDirectory() as folder:
        kept = Folder(Path(folder))
        kept.claim()
        (kept.where / "rounds").mkdir()
        (kept.where / "rounds" / "00001.bin").write_bytes(resealed(content))
        kept.load(1)


# Results


@cache
def result_files() -> Mapping[str, bytes]:
    """Return the files of a small saved result, its models left out."""
    rng = np.random.default_rng(0)
    X, nodes = rng.normal(size=(24, 2)), np.repeat(["a", "b", "c"], 8)
    fitted = FedRelaxRegressor(Ridge(), Graph.complete(["a", "b", "c"]), alpha=0.5, rounds=2)
    fitted.fit(X, X.sum(axis=1), nodes=nodes)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(save_result(Path(folder) / "out", fitted, metrics={"task": "regression"}))
        return {path.name: path.read_bytes() for path in sorted(out.iterdir()) if path.is_file()}


def changed_result(name: str, edits: list[tuple[float, int | None, bytes]]) -> dict[str, bytes]:
    """Return a result with one changed file; checksums fit, as those of a skilled forger would."""
    files = dict(result_files())
    files[name] = edited(files[name], edits)
    try:
        about = json.loads(files["result.json"])
        about["files"] = {other: fingerprint(files[other]) for other in about["files"]}
        files["result.json"] = json.dumps(about).encode()
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        pass  # the mutant is the description itself, and is no longer one
    return files


def parse_whole_result(files: dict[str, bytes]) -> None:
    """Read a directory with these files."""
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            (Path(folder) / name).write_bytes(content)
        read_result(folder)


MUTANTS: dict[str, tuple[Any, st.SearchStrategy[Any]]] = {
    "schema": (on_disk("schema.json", Schema.read), st.deferred(lambda: mutants(schema_file()))),
    "site file": (on_disk("site.toml", read_site), mutants(SITE)),
    "hub file": (on_disk("hub.toml", read_hub), mutants(HUB)),
    "letter": (parse_letter, st.deferred(lambda: mutants(*letters()))),
    "array": (parse_array, mutants(to_npy(np.arange(6.0).reshape(3, 2)))),
    "site's state": (parse_state, st.deferred(lambda: mutants(state_file()))),
    "whole result": (
        parse_whole_result,
        st.deferred(
            lambda: st.builds(changed_result, st.sampled_from(sorted(result_files())), EDITS)
        ),
    ),
}
"""Parsers of what comes in valid files, and mutants of these."""


TABLE = b"site,y,a,b\nx,1,2.5,2020-01-01\ny,2,-3e4,2021-02-03\nx,3,nan,\n"
SETTINGS = (
    b'data = "t.csv"\nnode = "site"\ntarget = "y"\nalpha = 0.5\nrounds = 3\nmodel = "ridge"\n'
)
VALID: dict[str, Callable[[], tuple[bytes, ...]]] = {
    "table": lambda: (TABLE,),
    "graph flag": lambda: (b"knn:lat,lon:5", b"edges:file.csv"),
    "edge file": lambda: (b"source,target,weight\na,b,1\nb,c,0.5\n",),
    "settings file": lambda: (SETTINGS,),
    "schema": lambda: (schema_file(),),
    "site file": lambda: (SITE,),
    "hub file": lambda: (HUB,),
    "letter": letters,
    "array": lambda: (to_npy(np.arange(6.0).reshape(3, 2)),),
    "site's state": lambda: (state_file(),),
}
"""What mutants are made of, by parser."""


def mutant(name: str, rng: random.Random) -> Any:
    """Return one mutant for a parser, as it takes it."""
    if name == "whole result":
        return changed_result(rng.choice(sorted(result_files())), random_edits(rng))
    content = edited(rng.choice(VALID[name]()), random_edits(rng))
    return content if name in MUTANTS else content.decode("utf-8", "replace")
