"""Figures: what is computed, kept, tabulated, drawn and said of them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from fedrelax.cli.app import app
from fedrelax.errors import FedRelaxError
from fedrelax.paper import curves as paper_curves
from fedrelax.paper import runs as paper_runs
from fedrelax.paper.catalog import FIGURES, Choice, figures
from fedrelax.paper.curves import Cell
from fedrelax.paper.reproduce import draw_figures, reproduce
from fedrelax.paper.runs import Store, ratio_curve
from fedrelax.paper.statements import Comparison, judge

SMALL = Choice(features=(2,), noise=(1.0,), alpha=(0.0, 0.05))


@pytest.fixture(autouse=True)
def few_iterations(monkeypatch):
    """The numbers of iterations do not matter here."""
    monkeypatch.setattr(paper_curves, "ITERATIONS", 60)


@pytest.fixture
def counted(monkeypatch):
    """Count the runs that are really computed."""
    calls = []
    real = paper_runs.compute

    def count(task):
        calls.append(task)
        return real(task)

    monkeypatch.setattr(paper_runs, "compute", count)
    return calls


def test_finished_runs_are_not_computed_again(tmp_path, counted):
    first = reproduce(["fig1a"], tmp_path, runs=2, ask=SMALL)
    assert len(counted) == first.computed == 4
    again = reproduce(["fig1a"], tmp_path, runs=2, ask=SMALL)
    assert len(counted) == 4
    assert again.computed == 0
    pd.testing.assert_frame_equal(first.frames["fig1a"], again.frames["fig1a"])
    reproduce(["fig1a"], tmp_path, runs=3, ask=SMALL)
    assert len(counted) == 6


def test_an_interrupted_command_keeps_its_runs_and_goes_on(tmp_path, monkeypatch):
    real, done = paper_runs.compute, []

    def stop_at_the_third(task):
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(task)
        return real(task)

    monkeypatch.setattr(paper_runs, "compute", stop_at_the_third)
    with pytest.raises(FedRelaxError, match="2 of 4 runs are finished"):
        reproduce(["fig1a"], tmp_path, runs=2, ask=SMALL)
    monkeypatch.setattr(paper_runs, "compute", real)
    assert reproduce(["fig1a"], tmp_path, runs=2, ask=SMALL).computed == 2


def test_a_damaged_run_is_computed_again(tmp_path):
    before = reproduce(["fig5b"], tmp_path, runs=1, ask=SMALL).frames["fig5b"]
    cell = figures(["fig5b"], SMALL)[0].cells[0]
    path = Store(tmp_path).path(cell, 0)
    path.write_bytes(path.read_bytes()[:40])
    after = reproduce(["fig5b"], tmp_path, runs=1, ask=SMALL)
    assert after.computed == 1
    pd.testing.assert_frame_equal(before, after.frames["fig5b"])


def test_the_number_of_workers_changes_nothing(tmp_path, monkeypatch):
    monkeypatch.undo()  # Workers would not see the fewer iterations.
    cell = Cell("single", "linear", "fedrelax", "variation", 2, 1.0, 0.8, 0.05)
    tasks = [(cell, seed) for seed in range(3)]
    one, two = Store(tmp_path / "one"), Store(tmp_path / "two")
    one.complete(tasks, 1, lambda task: None)
    two.complete(tasks, 2, lambda task: None)
    for task in tasks:
        np.testing.assert_array_equal(one.load(*task), two.load(*task))


def test_figures_share_the_cells_that_they_have_in_common():
    a, b = figures(["fig1a", "fig1b"], Choice())
    shared = set(a.cells) & set(b.cells)
    assert {(cell.d, cell.sigma) for cell in shared} == {(10, 0.0)}
    assert [figure.name for figure in figures(["all"], Choice())] == list(FIGURES)


def test_every_figure_follows_what_was_asked_for():
    ask = Choice(features=(20, 100), noise=(0.1,), alpha=(0.0, 0.3))
    for figure in figures(["all"], ask):
        assert {cell.alpha for cell in figure.cells} <= {None, 0.0, 0.3}
        if figure.name in ("fig1a", "fig2a"):
            assert {cell.d for cell in figure.cells} == {20, 100}
        if figure.name in ("fig1b", "fig2b", "fig5a"):
            assert {cell.sigma for cell in figure.cells} == {0.1}


def test_the_table_has_every_iteration_and_honest_means(tmp_path):
    done = reproduce(["fig3"], tmp_path, runs=3, ask=SMALL)
    frame = done.frames["fig3"]
    assert set(frame["figure"]) == {"3 noniid d/m", "3 noniid noise"}
    line = frame[(frame["alpha"] == 0.05) & (frame["sigma"] == 1.0)]
    assert line["iteration"].tolist() == list(range(60))
    cell = Cell("mixture", "linear", "fedrelax", "MSE_val", 10, 1.0, 0.8, 0.05)
    kept = Store(tmp_path)
    own = np.array([kept.load(cell, seed) for seed in range(3)])
    alone = Cell("mixture", "linear", "fedrelax", "MSE_val", 10, 1.0, 0.8, 0.0)
    base = np.array([kept.load(alone, seed) for seed in range(3)])
    np.testing.assert_allclose(line["mean"], own.mean(axis=0))
    np.testing.assert_allclose(line["sem"], own.std(axis=0, ddof=1) / 3**0.5)
    np.testing.assert_allclose(line["normalised_by_local"], own.mean(axis=0) / base.mean(axis=0))


def test_the_error_of_a_ratio_is_that_of_resampled_runs():
    rng = np.random.default_rng(0)
    base = rng.uniform(5, 15, (400, 1))
    values = 0.5 * base + rng.normal(0, 0.5, (400, 1))
    curve = ratio_curve(values, base)
    rows = rng.integers(400, size=(2000, 400))
    ratios = values[rows].mean(axis=1) / base[rows].mean(axis=1)
    assert curve.sem[0] == pytest.approx(ratios.std(), rel=0.1)


def test_a_curve_is_the_same_for_two_alphas_until_they_can_differ():
    """Iteration 0 is measured before the first update, on the same data and the same start."""
    cells = [
        Cell("clustered", "linear", "fedrelax", "MSE_w", 2, 0.0, 0.8, alpha)
        for alpha in (0.0, 0.05)
    ]
    alone, together = (paper_curves.linear_curve(cell, 7) for cell in cells)
    assert alone[0] == together[0]
    assert alone[-1] != together[-1]


def test_statements_are_confirmed_refuted_or_left_open():
    rng = np.random.default_rng(0)
    noise = rng.normal(0, 0.1, (20,))
    low, high, same = noise + 1, noise + 2, noise[::-1] + 1.0001
    assert Comparison("", low, high).verdict == "confirmed"
    assert Comparison("", high, low).verdict == "refuted"
    assert Comparison("", low, same).verdict == "not decided"
    both = [Comparison("", low, high), Comparison("", high, low)]
    assert judge(both).verdict == "refuted in part"
    assert judge([]).verdict == "not tested"


def test_pictures_are_drawn_in_both_formats(tmp_path):
    done = reproduce(["fig5a", "fig3"], tmp_path, runs=2, ask=SMALL)
    for path in draw_figures(done, tmp_path, 2):
        assert path.stat().st_size > 5000
    assert "<svg" in (tmp_path / "fig3.svg").read_text()


def run(*words):
    return CliRunner().invoke(app, ["reproduce", *map(str, words)])


def test_the_command_writes_tables_pictures_and_a_summary(tmp_path):
    words = ("fig1b", "--runs", 2, "--noise", "0,5", "--alpha", "0,0.05", "--out", tmp_path)
    result = run(*words)
    assert result.exit_code == 0, result.output
    assert {"fig1b.csv", "fig1b.png", "fig1b.svg", "summary.md"} <= {
        path.name for path in tmp_path.iterdir()
    }
    assert "at sigma = 5, FedRelax prevents that" in (tmp_path / "summary.md").read_text()
    assert "0 runs computed" in run(*words).output


def test_the_table_has_the_columns_of_the_targets(tmp_path, linear_targets):
    columns = list(pd.read_csv(linear_targets).columns)
    frame = reproduce(["fig5b"], tmp_path, runs=2, ask=SMALL).frames["fig5b"]
    assert list(frame.columns[: len(columns)]) == columns


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["fig1d"], "figure='fig1d' must be one of"),
        (["fig1a", "--features", "2,x"], "--features '2,x' is not a list of whole numbers"),
        (["fig1a", "--alpha", "-1"], "--alpha '-1' is not a list of numbers of at least 0"),
        (["fig3", "--alpha", "0"], "fig3 compares with alpha = 0"),
        (["fig1a", "--jobs", "0"], "--jobs 0 must be"),
        (["fig1a", "--first-exchange", "nothing"], "first-exchange"),
    ],
)
def test_bad_input_is_refused_before_any_work(tmp_path, words, sentence):
    result = run(*words, "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert sentence in " ".join(result.output.split())
    assert not (tmp_path / "out" / "runs-1").exists()


def test_a_run_that_cannot_be_kept_says_where(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(FedRelaxError, match="cannot be written"):
        Store(blocked).save(Cell("single", "linear", "fedrelax", "bound", 2), 0, np.ones(1))


@pytest.mark.slow
def test_a_slow_machine_draws_the_same_curve(monkeypatch):
    """The search of "fedrelax auto" has no time limit, unlike that of an estimator."""
    cell = Cell("single", "linear", "fedrelax auto", "MSE_w", d=5, sigma=0.5)
    curves = []
    for seconds in (30.0, 0.0):
        monkeypatch.setattr("fedrelax.estimators.base.SECONDS", seconds)
        curves.append(paper_curves.linear_curve(cell, 0))
    np.testing.assert_array_equal(*curves)
