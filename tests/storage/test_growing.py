"""Results that grow: what is unchanged is copied, a story, and nothing of those who left."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from fedrelax import FedRelax, FedRelaxClassifier, FedRelaxRegressor, Graph
from fedrelax.errors import FedRelaxError
from fedrelax.files import from_npy
from fedrelax.storage import load_result, read_result, save_result
from fedrelax.storage.saving import save_grown

N, M = 8, 6


def rows(n: int = N) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n * M, 2))
    y = X @ [1.0, 2.0] + 0.2 * rng.normal(size=n * M)
    return X, y, np.repeat([f"s{i}" for i in range(n)], M)


@pytest.fixture
def first(tmp_path: Path) -> Path:
    X, y, nodes = rows()
    models = {f"s{i}": DecisionTreeRegressor(max_depth=3) if i == 2 else Ridge() for i in range(N)}
    graph = Graph.from_edges([(f"s{i}", f"s{(i + 1) % N}") for i in range(N)])
    est = FedRelaxRegressor(models, graph, alpha=0.2, public_rows=40, rounds=10).fit(X, y, nodes)
    return save_result(tmp_path / "first", est)


@pytest.mark.parametrize("kind", ["numbers", "classes"])
def test_a_saved_network_of_differences_goes_on(tmp_path: Path, kind: str) -> None:
    X, y, nodes = rows(9)
    own = nodes == "s8"
    tree: Any = DecisionTreeRegressor(max_depth=3, random_state=0)
    make: Any = FedRelaxRegressor
    if kind == "classes":
        tree, make = DecisionTreeClassifier(max_depth=3, random_state=0), FedRelaxClassifier
        y = np.where(y > 0, "up", "down")
    solver = FedRelax(update="difference")
    est = make(tree, alpha=0.2, public_rows=40, rounds=2, solver=solver)
    est.fit(X[~own], y[~own], nodes[~own])
    loaded = load_result(save_result(tmp_path / "first", est))
    loaded.know_rows(X[~own], y[~own], nodes[~own])
    for one in (est, loaded):
        one.plug_in("s8", X[own], y[own], neighbours=["s0", "s4"])
    assert set(loaded.story_[0].refitted) == set(est.story_[0].refitted) > {"s8"}
    for node in ("s8", "s0"):
        answers = [one.models_[node].predict(X) for one in (est, loaded)]
        assert (answers[0] == answers[1]).all()
    again = load_result(save_result(tmp_path / "second", loaded))
    again.unplug("s8")
    assert "s8" not in again.models_


def content(directory: Path) -> dict[str, bytes]:
    return {
        str(p.relative_to(directory)): p.read_bytes() for p in directory.rglob("*") if p.is_file()
    }


def test_a_loaded_network_goes_on_as_the_one_in_memory(first: Path) -> None:
    X, y, nodes = rows()
    here, loaded = load_result(first), load_result(first)
    loaded.know_rows(X, y, nodes)
    new = rows(N + 1)
    own = new[2] == f"s{N}"
    for est in (here, loaded):
        est.plug_in("new", new[0][own], new[1][own], neighbours=["s0", "s4"])
    assert here.story_[0].refitted == ("new",)
    assert "their rows are not available" in here.story_[0].notes[0]
    assert set(loaded.story_[0].refitted) >= {"new", "s0", "s4"}
    assert not loaded.story_[0].notes


def test_a_grown_result_stands_by_itself(first: Path, tmp_path: Path) -> None:
    before = content(first)
    X, y, _ = rows()
    est = load_result(first)
    est.plug_in("new", X[:5], y[:5] + 1, neighbours=["s0", "s4"])
    save_grown(tmp_path / "second", read_result(first), est)

    assert content(first) == before
    second = load_result(tmp_path / "second")
    assert list(second.models_) == [*(f"s{i}" for i in range(N)), "new"]
    assert np.array_equal(second.predict(X[:5], ["new"] * 5), est.predict(X[:5], ["new"] * 5))
    assert second.graph_.neighbours("new") == {"s0": 1.0, "s4": 1.0}
    files = [p for p in (tmp_path / "second").rglob("*") if p.is_file()]
    assert all(p.stat().st_nlink == 1 and not p.is_symlink() for p in files)

    saved = read_result(tmp_path / "second")
    assert saved.living is not None
    assert [event["what"] for event in saved.living["story"]] == ["join"]
    assert second.can_go_on
    with pytest.raises(FedRelaxError, match="is never replaced"):
        save_grown(first, read_result(first), est, overwrite=True)


def test_nothing_of_those_who_left_is_in_files(first: Path, tmp_path: Path) -> None:
    """Bytes of the rows, answers and coefficients, as they are and as they are written in texts."""
    X, y, nodes = rows()
    rng = np.random.default_rng(7)
    own = rng.normal(size=(6, 2)), rng.normal(size=6)
    est = load_result(first)
    est.know_rows(X, y, nodes)
    est.plug_in("secret", *own, neighbours=["s0", "s4"])
    save_grown(tmp_path / "second", read_result(first), est)
    est = load_result(tmp_path / "second")
    est.know_rows(np.vstack([X, own[0]]), np.append(y, own[1]), np.append(nodes, ["secret"] * 6))
    model, said = est.models_["secret"], est.living_.said["secret"]
    numbers = np.concatenate(
        [own[0].ravel(), own[1], said.ravel(), model.coef_, [model.intercept_]]
    )
    assert any(found_in(tmp_path / "second", numbers))

    est.unplug("secret")
    save_grown(tmp_path / "third", read_result(tmp_path / "second"), est)
    assert not any(found_in(tmp_path / "third", numbers))
    names = [p.name for p in (tmp_path / "third").rglob("*")]
    assert not [name for name in names if "secret" in name]
    third = read_result(tmp_path / "third")
    assert "secret" not in third.graph
    assert set(load_result(tmp_path / "third").models_) == set(nodes)
    assert third.living is not None
    assert [event["what"] for event in third.living["story"]] == ["join", "leave"]


def found_in(directory: Path, numbers: Any) -> list[bool]:
    """Tell of every number whether it is in a file, as eight bytes or as text; archives are opened."""
    parts = []
    for data in content(directory).values():
        parts.append(data)
        if zipfile.is_zipfile(io.BytesIO(data)):
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                parts += [archive.read(name) for name in archive.namelist()]
    whole = b"\0".join(parts)
    return [np.float64(v).tobytes() in whole or f"{v:.10g}".encode() in whole for v in numbers]


def test_many_generations_stay_whole(first: Path, tmp_path: Path) -> None:
    X, y, nodes = rows()
    former = first
    for k in range(4):
        est = load_result(former)
        est.know_rows(X, y, nodes)
        if k % 2:
            est.unplug(f"s{k}")
        else:
            est.update(X[:3], y[:3], nodes[:3])
        former = save_grown(tmp_path / f"next{k}", read_result(former), est)
    last = load_result(former)
    common = last.living_.public.common
    for label, model in last.result_.local_models.items():
        assert last.living_.said[label] == pytest.approx(model.predict(common))
    saved = read_result(former)
    assert saved.living is not None
    assert set(last.models_) == {f"s{i}" for i in range(N)} - {"s1", "s3"}


@pytest.mark.parametrize("what", ["header", "object", "short"])
def test_foreign_arrays_are_refused(first: Path, what: str) -> None:
    good = (first / "answers.npy").read_bytes()
    if what == "object":
        file = io.BytesIO()
        np.save(file, np.array([{}], dtype=object), allow_pickle=True)
        bad = file.getvalue()
    elif what == "header":
        bad = good.replace(b"(8, 40, 1)", b"(8, 99, 9)")
    else:
        bad = good[:-8]
    with pytest.raises(FedRelaxError, match="is not a whole array in the .npy format"):
        from_npy(bad)


def test_results_without_answers_still_predict(first: Path) -> None:
    """Written by an earlier version: everything but going on works."""
    about = json.loads((first / "result.json").read_text())
    for name in ("living.json", "public.npy", "answers.npy"):
        (first / name).unlink()
        del about["files"][name]
    (first / "result.json").write_text(json.dumps(about))
    est = load_result(first)
    X, _, nodes = rows()
    assert np.isfinite(est.predict(X, nodes)).all()
    with pytest.raises(FedRelaxError, match="cannot change after fit"):
        est.unplug("s0")


def test_public_rows_that_are_somebodys_rows_stay_out(tmp_path: Path) -> None:
    X, y, nodes = rows()
    est = FedRelaxRegressor(Ridge(), alpha=0.2, public="bootstrap").fit(X, y, nodes)
    save_result(tmp_path / "out", est)
    assert not any(found_in(tmp_path / "out", X.ravel()))
    assert not load_result(tmp_path / "out").can_go_on


def test_a_changed_network_can_be_saved_whole(tmp_path: Path) -> None:
    X, y, nodes = rows()
    est = FedRelaxRegressor(Ridge(), alpha=0.2, wiring="discover").fit(X, y, nodes)
    est.plug_in("new", X[:5], y[:5])
    est.unplug("s3")
    save_result(tmp_path / "out", est)
    again = load_result(tmp_path / "out")
    assert list(again.models_) == list(est.models_)
    assert np.array_equal(again.predict(X[:2], ["new"] * 2), est.predict(X[:2], ["new"] * 2))
    assert again.result_.kept == est.result_.kept
    assert read_result(tmp_path / "out").living["story"][1]["what"] == "leave"
    again.plug_in("next", X[:5], y[:5])
    save_grown(tmp_path / "grown", read_result(tmp_path / "out"), again)
    assert "next" in load_result(tmp_path / "grown").models_
