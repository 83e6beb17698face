"""``fedrelax fit --epsilon``: what is promised, saved and shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fedrelax.storage import read_result

from .runs import FIT

NAMED = (*FIT, "--out", "out")
PRIVATE = (
    *NAMED,
    *("--model", "ridge", "--alpha", "0.5", "--rounds", "2"),
    *("--public", "standard", "--epsilon", "4", "--range", "-5,5"),
)


def test_the_promise_is_told_saved_and_shown(run, table):
    text = run(*PRIVATE, "--delta", "1e-6")
    assert run.code == 0, run.output
    assert "Promised to every node: moments of each node's rows with noise" in text
    [promise] = json.loads(Path("out/result.json").read_text())["promises"]
    assert promise["epsilon"] == pytest.approx(4.0, abs=1e-3)
    assert promise["delta"] == 1e-6
    assert promise["protects"] == "one row of a node, replaced by another"
    saved = read_result("out")
    assert saved.about["promises"] == [promise]
    assert (
        saved.metrics["saved_models_trained_on"] == "training rows"
    )  # a second run would tell more
    told = run("info", "out")
    assert "epsilon 4 at delta 1e-06" in told
    assert "not a privacy guarantee" not in told
    page = Path("out/report.html")
    if page.exists():
        words = " ".join(page.read_text(encoding="utf-8").split())
        assert "Differential privacy of what each node sent" in words
        assert "no noise was added" not in words


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--alpha", "auto"), "--epsilon needs --alpha as a number"),
        (("--model", "auto"), "--epsilon needs --model with a name"),
        (("--public", "blend"), "--public blend draws public rows from the inputs"),
        (("--wiring", "rewire"), "with --epsilon use --wiring fixed"),
        (("--range", "5,-5"), "low < high"),
        (("--epsilon", "0"), "epsilon"),
    ],
)
def test_what_would_tell_more_is_refused(run, table, flags, words):
    assert words in run.refused(*PRIVATE, *flags)


def test_flags_that_make_no_sense_are_refused(run, table):
    usual = (*NAMED, "--model", "ridge", "--alpha", "1")
    assert "--range needs --epsilon" in run.refused(*usual, "--range", "0,1")
