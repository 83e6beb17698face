"""The network over time on the page: joins, updates, leaves, and names that nobody should run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fedrelax.report import write_report
from fedrelax.storage import load_result, read_result
from fedrelax.storage.saving import save_grown

from .conftest import HOSTILE

pytest.importorskip("plotly", reason="needs plotly (the extra report)")


@pytest.fixture
def grown(small: Path, tmp_path: Path) -> Path:
    est = load_result(small)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6, 2))
    for name in HOSTILE[:3]:
        est.plug_in(name, X, X.sum(axis=1), neighbours=["site 01", "site 02"])
    est.update(X[:3], X[:3].sum(axis=1), [HOSTILE[0]] * 3)
    est.update(X, X.sum(axis=1), [HOSTILE[0]] * 6)
    est.unplug("site 05")
    return save_grown(tmp_path / "grown", read_result(small), est)


def test_the_page_tells_the_story(grown, opened):
    page = opened(write_report(grown))
    lines = page.js("[...document.querySelectorAll('#story tbody tr')].map((r) => r.textContent)")
    assert len(lines) == 6
    assert "joined next to 'site 01', 'site 02'" in lines[0]
    assert "learned 6 rows" in lines[4]
    assert "'site 05' left" in lines[5]
    assert page.js("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    assert page.js("window.harmed === undefined")
    assert page.complaints == []


def test_a_network_as_it_was_trained_has_none(small, opened):
    assert opened(write_report(small)).js("document.querySelector('#story') === null")
