"""Every value of every file of a result is replaced by others, with checksums that fit.

Whoever sends a result may write all of it: whatever it holds, reading it, predicting with it and showing
it must end well or with one sentence.
"""

from __future__ import annotations

import copy
import csv
import io
import json
import math
import shutil
import warnings
from contextlib import suppress
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge

from fedrelax import FedRelaxError, FedRelaxRegressor, Graph
from fedrelax.evaluation import evaluate
from fedrelax.report import report_data
from fedrelax.report.data.sharing import sharing_of
from fedrelax.report.page.texts import events_of, facts
from fedrelax.report.terminal import evaluation_report
from fedrelax.storage import load_result, read_result, save_result

from .hostile import resign

VALUES = (None, True, -1, 1.5, 10**30, math.nan, "x", "", [], [[1]], {}, {"a": None})
CELLS = ("", "x", "-1", "1.5", "nan", "inf", "1e308", "99999999999999999999", "=1", "a,b")
SAMPLE = 4
"""How many mutations of each file are tried, of up to a thousand; a larger number tries more."""
NUMBERS = (math.nan, math.inf, 1e308)


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """A result with every kind of file: chosen settings, a rewired graph, positions, a story."""
    rng = np.random.default_rng(3)
    nodes = np.repeat(["a", "b", "c"], 12)
    frame = pd.DataFrame(rng.normal(size=(36, 2)), columns=["u", "v"])
    frame["kind"] = np.where(rng.random(36) > 0.5, "red", "blue")
    y = frame["u"].to_numpy() + 0.1 * rng.normal(size=36)
    places = {"a": (60.0, 20.0), "b": (61.0, 21.0), "c": (62.0, 25.0)}
    graph = Graph.from_coordinates(places, k=1)
    fitted = FedRelaxRegressor(Ridge(), graph=graph, alpha=[0.1, 1.0], wiring="rewire", rounds=2)
    fitted.fit(frame, y, nodes=nodes)
    fitted.update(frame[:12], y[:12], nodes[:12])
    measured = evaluate(fitted, (frame, y, nodes), (frame, y, nodes))
    out = tmp_path_factory.mktemp("good") / "out"
    config = {"data": "t.csv", "node": "n", "target": "y", "graph": "complete", "alpha": 0.25}
    return save_result(out, fitted, evaluation=measured, config=config, target="y"), frame, nodes


def paths(value, at=()):
    """Return the places of all values in a tree of JSON, the branches included."""
    yield at
    if isinstance(value, dict | list):
        parts = list(value.items() if isinstance(value, dict) else enumerate(value[:2]))
        for key, part in parts:
            yield from paths(part, (*at, key))


def changed(tree, at, value):
    """Return a tree with another value in one place; without the place if the value is ``...``."""
    if not at:
        return value
    tree = copy.deepcopy(tree)
    part = tree
    for key in at[:-1]:
        part = part[key]
    if value is ...:
        del part[at[-1]]
    else:
        part[at[-1]] = value
    return tree


def mutations(path: Path):
    """Return the contents that a file may be given."""
    content = path.read_bytes()
    if path.suffix == ".json":
        tree = json.loads(content)
        for at in paths(tree):
            for value in (*VALUES, ...):
                if at or value is not ...:
                    yield f"{at} = {value}", json.dumps(changed(tree, at, value)).encode()
    elif path.suffix == ".csv":
        rows = list(csv.reader(io.StringIO(content.decode())))
        yield "header only", written(rows[:1])
        yield "half", written(rows[: 1 + len(rows) // 2])
        yield "a line twice", written([*rows, rows[-1]])
        for column, name in enumerate(rows[0]):
            yield f"without {name}", written([row[:column] + row[column + 1 :] for row in rows])
            for cell in CELLS:
                lines = copy.deepcopy(rows)
                lines[1][column] = cell
                yield f"{name} = {cell!r}", written(lines)
    elif path.suffix == ".npy":
        array = np.load(path)
        for number in NUMBERS:
            other = array.copy()
            other.flat[0] = number
            yield f"{number}", saved(other)
        yield "no rows", saved(array[:0])
        yield "one more axis", saved(array[None])
    elif path.suffix == ".toml":
        for line in ('graph = "knn:u,v:9"', "graph = 3", "seed = 1979-05-27", "seed = nan"):
            yield line, f'data = "x"\nnode = ["n"]\ntarget = 1\n{line}\n'.encode()


def written(rows) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


def saved(array) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def used(out: Path, frame, nodes) -> None:
    """Do with a result what ``info``, ``report``, ``predict``, ``update`` and ``unplug`` begin with."""
    found = read_result(out)
    facts(found), sharing_of(found), events_of(found)
    data = report_data(found)
    if data.evaluation is not None:
        evaluation_report(data)
    fitted = load_result(found)
    fitted.predict(frame, nodes)
    assert fitted.living_ is not None


FILES = ("result.json", "models.json", "metrics.json", "living.json", "schema.json", "nodes.csv",
         "edges.csv", "history.csv", "history_nodes.csv", "alphas.csv", "positions.csv", "public.npy",
         "answers.npy", "config.toml")  # fmt: skip


def test_the_good_result_is_used_and_has_all_files(good):
    out, frame, nodes = good
    used(out, frame, nodes)
    assert sorted(p.name for p in out.iterdir() if p.is_file()) == sorted(FILES)


@pytest.mark.parametrize("file", FILES)
def test_a_mutated_file_gives_a_result_or_a_sentence(good, tmp_path, file):
    whole, frame, nodes = good
    out = Path(shutil.copytree(whole, tmp_path / "out"))
    before = {p.name: p.read_bytes() for p in out.iterdir() if p.is_file()}
    wrong, count = [], 0
    rng, all_of_them = np.random.default_rng(0), list(mutations(whole / file))
    for k in sorted(rng.permutation(len(all_of_them))[:SAMPLE]):
        what, content = all_of_them[k]
        for name in ("result.json", "models.json", file):
            (out / name).write_bytes(before[name])
        (out / file).write_bytes(content)
        count += 1
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            with suppress(TypeError, ValueError, AttributeError):  # too strange for a seal
                resign(out)
            try:
                used(out, frame, nodes)
            except FedRelaxError as error:
                if "\n" in str(error):
                    wrong.append(f"{what}: {error}")
            except Exception as error:
                wrong.append(f"{what}: {type(error).__name__}: {error}")
    assert wrong == [], f"{len(wrong)} of {count}"


NAMED = {
    "living.json": [
        ("seed", -1, "has -1 under 'seed', which should be greater than or equal to 0"),
        ("stayed", [[1]], "has [1] under 'stayed.0"),
        ("stayed", ["zzz"], "names nodes that are not in the graph"),
        ("rows", [], "or does not count their rows"),
    ],
    "metrics.json": [
        ("errors", [1], "has [1] under 'errors'"),
        ("stayed_alone", 3, "has 3 under 'stayed_alone', which should be a valid array"),
        ("clusters", "x", "has 'x' under 'clusters'"),
    ],
    "result.json": [
        ("losses", "x", "has 'x' under 'losses'"),
        ("versions", {"numpy": 1}, "has 1 under 'versions.numpy', which should be a valid string"),
        ("outputs", 10**12, "under 'outputs', which should be less than or equal to 1000000"),
    ],
}


@pytest.mark.parametrize(
    ("file", "name", "value", "words"),
    [(file, *case) for file, cases in NAMED.items() for case in cases],
)
def test_the_sentence_names_file_entry_and_value(good, tmp_path, file, name, value, words):
    out = Path(shutil.copytree(good[0], tmp_path / "out"))
    tree = json.loads((out / file).read_text())
    (out / file).write_text(json.dumps({**tree, name: value}))
    resign(out)
    with pytest.raises(FedRelaxError) as error:
        load_result(out)
    assert str(error.value).startswith(f"this result is damaged: {file} ")
    assert words in str(error.value)


def test_nodes_without_lines_and_public_rows_without_numbers_are_damage(good, tmp_path):
    out = Path(shutil.copytree(good[0], tmp_path / "out"))
    lines = (out / "nodes.csv").read_text()
    (out / "nodes.csv").write_text(lines.splitlines()[0] + "\n")
    resign(out)
    with pytest.raises(FedRelaxError, match="damaged: nodes.csv has no line for one of the nodes"):
        read_result(out)
    (out / "nodes.csv").write_text(lines)
    public = np.load(out / "public.npy")
    public[0, 0] = math.nan
    (out / "public.npy").write_bytes(saved(public))
    resign(out)
    with pytest.raises(FedRelaxError, match="damaged: public.npy holds NaN or infinite values"):
        load_result(out)
