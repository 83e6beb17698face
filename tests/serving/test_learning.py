"""A service that learns: rows that it refuses leave no trace, and it goes on learning."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("uvicorn", reason="needs uvicorn (the extra live)")
pytest.importorskip("starlette", reason="needs starlette (the extra live)")

from fedrelax.cli import new_rows
from fedrelax.cli.console import Talk
from fedrelax.cli.new_rows import Learner
from fedrelax.storage import load_result

from .asking import Client, serving

ROW = {"wind": 0.5, "sun": 1.0}
ASKED = {"node": "Oslo", "rows": [ROW]}


def new(power: float = 3.0, **more: float) -> dict[str, object]:
    return {"node": "Oslo", "rows": [{**ROW, "power": power, **more}] * 3}


@pytest.fixture
def result(numbers: Path, tmp_path: Path) -> Path:
    """The result under a name of its own, so that what is learned goes elsewhere."""
    (tmp_path / "result").symlink_to(numbers / "result")
    return tmp_path / "result"


def learner(numbers: Path, result: Path) -> Learner:
    talk = Talk()
    made = Learner(result, numbers / "rows.csv", (), talk)
    talk.activity.pause()
    return made


@pytest.fixture
def ask(numbers: Path, result: Path) -> Iterator[Client]:
    with serving(result, learn=learner(numbers, result)) as client:
        yield client
        assert client.said == []


def learned(result: Path) -> list[str]:
    home = result.with_name("result.learned")
    return sorted(path.name for path in home.iterdir()) if home.exists() else []


def answer(ask: Client) -> float:
    return ask("/predict", ASKED)[1]["predictions"][0]


def expected(numbers: Path, tmp_path: Path) -> float:
    """Return the answer of a service that has learned the good rows, and was never sent any others."""
    (tmp_path / "other").symlink_to(numbers / "result")
    with serving(tmp_path / "other", learn=learner(numbers, tmp_path / "other")) as ask:
        assert ask("/rows", new()) == (200, {"learned": 3})
        return answer(ask)


EXTREME = {
    "target": new(1e308),
    "feature": new(wind=1e308),
    "both": new(-1e200, wind=1e200, sun=-1e308),
    "overflows when squared": new(1e160),
    "unknown node": {**new(), "node": "Olso"},
}


def test_rows_that_are_refused_are_not_learned(ask, numbers, result, tmp_path):
    before = answer(ask)
    for name, rows in EXTREME.items():
        status, text = ask.refused("/rows", rows)
        assert status in (404, 422), name
        assert "no node 'Olso'" in text or "too large" in text
        assert answer(ask) == before and learned(result) == []
    assert ask("/rows", new()) == (200, {"learned": 3})
    assert learned(result) == ["0001"]
    assert answer(ask) == expected(numbers, tmp_path)


def test_what_cannot_be_saved_is_not_learned(ask, numbers, result, tmp_path):
    before, home = answer(ask), result.with_name("result.learned")
    home.mkdir()
    (home / "0001").write_text("a file is in the way")
    status, text = ask.refused("/rows", new(99.0))
    assert status == 422 and "0001" in text
    assert answer(ask) == before
    (home / "0001").unlink()
    assert ask("/rows", new()) == (200, {"learned": 3})
    assert answer(ask) == expected(numbers, tmp_path)
    assert load_result(home / "0001").story_ == ()


def test_what_cannot_be_loaded_again_is_not_learned(ask, numbers, result, tmp_path, monkeypatch):
    before, save = answer(ask), new_rows.save_grown

    def damaging(*given, **more):
        out = save(*given, **more)
        next((out / "models").iterdir()).unlink()
        return out

    monkeypatch.setattr(new_rows, "save_grown", damaging)
    status, text = ask.refused("/rows", new(99.0))
    assert status == 422 and "this result is damaged" in text
    assert answer(ask) == before and learned(result) == []
    monkeypatch.undo()
    assert ask("/rows", new()) == (200, {"learned": 3})
    assert answer(ask) == expected(numbers, tmp_path)
