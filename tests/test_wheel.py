"""The wheel that ``make wheel`` builds works in an empty environment, without the checkout."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PIP = ["-m", "pip", "--disable-pip-version-check", "--quiet"]

pytestmark = pytest.mark.wheel


def run(*words: object, folder: Path) -> str:
    """Run a command away from the checkout, and return what it printed."""
    outside = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [str(word) for word in words], cwd=folder, env=outside, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, *PIP, "wheel", "--no-deps", "--wheel-dir", folder, ROOT, folder=folder)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def scripts(wheel, tmp_path_factory) -> Path:
    """The commands of an environment that holds the wheel and what it asks for, and nothing else."""
    folder = tmp_path_factory.mktemp("empty")
    venv.create(folder, with_pip=True)
    scripts = folder / ("Scripts" if os.name == "nt" else "bin")
    run(scripts / "python", *PIP, "install", f"{wheel}[report]", folder=folder)
    return scripts


def test_the_wheel_holds_the_package_and_nothing_else(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"fedrelax"}
    packed = {name for name in names if name.startswith("fedrelax/")}
    tracked = subprocess.run(
        ["git", "ls-files", "src/fedrelax"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    assert packed == {name.removeprefix("src/") for name in tracked}


def test_from_a_sample_table_to_models_and_a_report(scripts, tmp_path):
    where = "import fedrelax; print(fedrelax.__file__)"
    assert str(ROOT) not in run(scripts / "python", "-c", where, folder=tmp_path)
    fedrelax = scripts / "fedrelax"
    run(fedrelax, "example", "my.csv", folder=tmp_path)
    words = ("fit", "my.csv", "--node", "site", "--target", "load", "--out", "result")
    assert "Learning together lowered the RMSE" in run(fedrelax, *words, folder=tmp_path)
    errors = json.loads((tmp_path / "result" / "metrics.json").read_text())
    assert errors
    assert (tmp_path / "result" / "report.html").stat().st_size > 10_000
    run(fedrelax, "predict", "result", "my.csv", "--out", "predictions.csv", folder=tmp_path)
    lines = (tmp_path / "predictions.csv").read_text().splitlines()
    assert len(lines) == len((tmp_path / "my.csv").read_text().splitlines())
