"""A result that is not as it was written is refused: which file, and what is wrong with it."""

from __future__ import annotations

import errno
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from fedrelax import FedRelaxError, FedRelaxRegressor, Graph
from fedrelax.storage import load_result, read_result, save_result

from .hostile import resign

SENTENCE = "^this result is damaged: "


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    rng = np.random.default_rng(1)
    X, nodes = rng.normal(size=(27, 3)), np.repeat(["a", "b", "c"], 9)
    places = {"a": (60.0, 20.0), "b": (61.0, 21.0), "c": (62.0, 25.0)}
    graph = Graph.from_coordinates(places, k=1)
    fitted = FedRelaxRegressor(Ridge(), graph=graph, alpha="auto", rounds=2)
    fitted.fit(X, X @ [1.0, 2.0, -1.0], nodes=nodes)
    return save_result(tmp_path_factory.mktemp("good") / "out", fitted, config={"alpha": 0.25})


@pytest.fixture
def out(good, tmp_path):
    return Path(shutil.copytree(good, tmp_path / "out"))


FILES = ("result.json", "models.json", "metrics.json", "config.toml", "nodes.csv", "edges.csv",
         "history.csv", "history_nodes.csv", "alphas.csv", "positions.csv",
         "living.json", "public.npy", "answers.npy")  # fmt: skip


def test_the_whole_result_is_read(out):
    assert sorted(p.name for p in out.iterdir()) == sorted([*FILES, "models"])
    assert load_result(out).alpha_ > 0


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("how", ["half", "one bit", "another kind", "missing"])
def test_every_file_is_needed_as_it_was_written(out, file, how):
    path = out / file
    content = path.read_bytes()
    if how == "missing" and file in ("result.json", "models.json"):
        pytest.skip("then it is no result at all")
    if how == "half":
        path.write_bytes(content[: len(content) // 2])
    elif how == "one bit" and file == "result.json":
        pytest.skip("it holds the checksums of the others")
    elif how == "one bit":
        at = len(content) // 2
        while not chr(content[at]).isdigit() and at + 1 < len(content):
            at += 1
        path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
    elif how == "another kind":
        path.write_bytes(b"[1, 2]" if file != "models.json" else b'{"a": 1}')
    else:
        path.unlink()
    if path.exists() and path.read_bytes() == content:
        pytest.skip("nothing to change")
    with pytest.raises(FedRelaxError, match=f"{SENTENCE}{file} |has the format"):
        read_result(out)


CONTENTS = {
    "config.toml": ["= x", "\x00", "a = 1\na = 2"],
    "metrics.json": ["[]", "1", "null", "{"],
    "models.json": ["{}", "[]", "[1]", '[{"node": "a"}]', '[{"node": "zzz", "file": 3}]'],
    "nodes.csv": ["", "nod\na\n", "node\nzzz\n", "node\na\na\n", 'node\n"a'],
    "edges.csv": ["", "source,target\na,b\n",
                  "source,target,weight,discrepancy,discrepancy_back,used\na,b,x,1,1,1\n",
                  "source,target,weight,discrepancy,discrepancy_back,used\na,zzz,1,1,1,1\n",
                  "source,target,weight,discrepancy,discrepancy_back,used\na,b,-1,1,1,1\n",
                  "source,target,weight,discrepancy,discrepancy_back,used\na,b,,1,1,1\n",
                  "source,target,weight,discrepancy,discrepancy_back,used\na,b\n"],
    "history.csv": ["round\n1\n", "x"],
    "history_nodes.csv": ["", "round,node\n0,a\n",
                          "round,node,local_loss,gtv,validation_loss\n0,a,1,1,1\n"],
    "positions.csv": ["", "node,latitude,longitude\na,1,2\n",
                      "node,latitude,longitude\na,x,2\nb,1,1\nc,1,1\n"],
}  # fmt: skip


@pytest.mark.parametrize(("file", "text"), [(f, t) for f, texts in CONTENTS.items() for t in texts])
def test_contents_that_make_no_sense_are_refused_although_the_checksums_fit(out, file, text):
    (out / file).write_text(text)
    resign(out)
    with pytest.raises(FedRelaxError, match=f"{SENTENCE}{file} "):
        load_result(out)


ENTRIES = {
    "task": "clustering", "outputs": 0, "classes": ["x"], "feature_names": [1], "graph_nodes": "abc",
    "alpha": None, "rounds": -1, "wiring": 3, "public": [], "files": [], "types_to_trust": None,
    "versions": 1, "reason": {}, "exchanges": 1.5, "geographic": "no",
}  # fmt: skip


@pytest.mark.parametrize("name", ENTRIES)
@pytest.mark.parametrize("gone", [True, False])
def test_every_entry_of_the_description_is_checked(out, name, gone):
    about = json.loads((out / "result.json").read_text())
    if gone:
        del about[name]
    else:
        about[name] = ENTRIES[name]
    (out / "result.json").write_text(json.dumps(about))
    if name != "files":
        resign(out)
    with pytest.raises(FedRelaxError, match=f"{SENTENCE}result.json "):
        load_result(out)


def test_more_features_than_the_models_take_are_refused(out):
    about = json.loads((out / "result.json").read_text())
    about["feature_names"] = ["x0", "x1", "x2", "x3"]
    (out / "result.json").write_text(json.dumps(about))
    resign(out)
    with pytest.raises(FedRelaxError, match=f"{SENTENCE}models/0001.skops .*from 4 features"):
        load_result(out)


# Models


def model_line(out, **change):
    lines = json.loads((out / "models.json").read_text())
    lines[0] |= change
    (out / "models.json").write_text(json.dumps(lines))
    resign(out)


def test_a_model_that_was_changed_is_refused(out):
    file = out / "models/0001.skops"
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    with pytest.raises(
        FedRelaxError,
        match=f"{SENTENCE}models/0001.skops does not match the checksum in models.json; ",
    ):
        load_result(out)


@pytest.mark.parametrize("name", ["/etc/hostname", "../out/models.json", "models/../../x", "/dev/zero",
                                  "C:\\x", "", "models\\0001.skops", "\0", "models"])  # fmt: skip
def test_a_path_may_not_leave_the_result(out, name):
    model_line(out, file=name, sha256="0" * 64)
    with pytest.raises(FedRelaxError, match=SENTENCE):
        load_result(out)


def test_links_in_a_circle_are_not_followed(out):
    file = out / "models/0001.skops"
    file.unlink()
    file.symlink_to(file)
    with pytest.raises(FedRelaxError, match=f"{SENTENCE}models/0001.skops cannot be opened"):
        load_result(out)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names here")
def test_a_pipe_is_not_waited_for(out):
    file = out / "models/0001.skops"
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(
        FedRelaxError, match=f"{SENTENCE}models/0001.skops .*it is not a regular file"
    ):
        load_result(out)


def test_a_file_that_grew_is_not_read_to_its_end(out):
    with open(out / "models/0001.skops", "ab") as file:
        file.truncate(2**40)
    with pytest.raises(FedRelaxError, match=f"{SENTENCE}models/0001.skops .*it has more than"):
        load_result(out)


# A disk that is full


def test_a_full_disk_is_one_sentence_and_leaves_nothing(good, tmp_path, monkeypatch):
    fitted = load_result(good)
    real = Path.write_bytes

    def full(self, data):
        if self.name.startswith("0003"):
            real(self, data[:10])
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(self, data)

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(
        FedRelaxError,
        match=r"out could not be written \(No space left on device\), and nothing of it was left",
    ):
        save_result(tmp_path / "out", fitted)
    assert list(tmp_path.iterdir()) == []
