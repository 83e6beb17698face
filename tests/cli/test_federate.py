"""``fedrelax federate``: files, keys, status, and a federation in one process."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pandas as pd
import pytest

from fedrelax.federation.settings import read_site
from fedrelax.federation.state import HUB, Folder
from fedrelax.federation.trial import made_up, parted, prepare, run_here
from fedrelax.storage import load_result, read_result

pytest.importorskip("cryptography", reason="keys need pip install 'fedrelax[flower]'")


def test_init_and_keys_make_sites_that_are_ready(run, table):
    run(
        "federate",
        "init",
        "home",
        "--sites",
        "north,south",
        "--target",
        "y",
        "--model",
        "ridge,tree",
    )
    assert run.code == 0, run.output
    assert "pins" not in run.output and Path("home/app/pyproject.toml").is_file()
    said = tomllib.loads(Path("home/app/pyproject.toml").read_text())
    assert said["tool"]["flwr"]["app"]["config"]["hub"] == str(Path("home/hub/hub.toml").absolute())
    text = run("federate", "keys", "home", "--host", "hub.example.org")
    assert run.code == 0 and "keys of north, south" in text
    north, south = (read_site(f"home/sites/{name}/site.toml") for name in ("north", "south"))
    assert (north.model, south.model) == ("ridge", "tree")
    assert north.keys["south"] == Path("home/sites/south/site.pub").read_text().strip()
    for name in ("site.key", "auth.key"):
        assert Path(f"home/sites/north/{name}").stat().st_mode & 0o077 == 0
    assert Path("home/certificates/ca.key").stat().st_mode & 0o077 == 0


def test_a_site_makes_its_own_keys_and_keeps_them(run, table):
    run("federate", "init", "home", "--sites", "a,b", "--target", "y")
    first = run("federate", "keys", "home/sites/a")
    assert run.code == 0 and run("federate", "keys", "home/sites/a") == first
    assert Path("home/sites/a/site.pub").read_text().strip() in first


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("init", "home", "--sites", "a", "--target", "y"), "name at least two sites"),
        (
            ("init", "home", "--sites", "a,../b", "--target", "y"),
            "has '../b' under 'name', which should be up to 100 letters",
        ),
        (("try", "--target", "load"), "name columns of a table, but no table is given"),
        (("try", "--node", "site"), "name columns of a table, but no table is given"),
        (("try", "towns.csv"), "--target is missing"),
        (("keys", "nowhere"), "holds no sites"),
        (("status", "nowhere"), "cannot be read"),
    ],
)
def test_what_is_refused(run, table, words, text):
    said = run("federate", *words)
    assert run.code == 2 and text in " ".join(said.split())


def test_a_run_can_be_looked_at_and_each_site_predicts_by_itself(run, table):
    home = Path("home")
    hub = {"alpha": 0.5, "rounds": 2}
    prepare(home, made_up(3), "y", models=["ridge", "tree"], hub=hub)
    run_here(home)
    rows = home / "sites" / "site-2" / "rows.csv"
    run("predict", "home/sites/site-2/state/model", str(rows), "--out", "answers.csv")
    assert run.code == 0, run.output
    assert len(pd.read_csv("answers.csv")) == len(pd.read_csv(rows))
    saved = read_result(home / "hub" / "result")
    assert saved.about["rounds"] == 2 and len(saved.nodes) == 3
    X = pd.read_csv(rows).drop(columns="y")
    with pytest.raises(ValueError, match="its model is at the site and not here"):
        load_result(home / "hub" / "result").predict(X, nodes=["site-1"] * len(X))
    page = (home / "hub" / "result" / "report.html").read_text()
    for text in ("Measured at the sites", "Every site took part", "could not read them"):
        assert text in page
    assert saved.about["public"] == {"how": "blend", "rows": 100}
    run("info", "home/hub/result")
    assert run.code == 0, run.output


def test_status_says_how_far_a_run_has_got(run, table):
    prepare(Path("home"), made_up(2), "y", models=["ridge"], hub={"alpha": 0.5})
    assert "No run is under way" in run("federate", "status", "home") and run.code == 0
    folder = Folder(Path("home/hub/state"))
    folder.begin()
    folder.write(HUB, {"reports": [b"", b""], "notes": ["site 'site-2' is missing"]})
    text = run("federate", "status", "home")
    assert run.code == 0 and "Round 2 is under way" in text and "'site-2' is missing" in text


def test_a_table_is_parted_by_its_nodes_or_dealt(tmp_path):
    frame = pd.DataFrame({"town": ["Oslo"] * 5 + ["Bodø"] * 3 + ["x/y"] * 2, "y": range(10)})
    path = tmp_path / "rows.csv"
    frame.to_csv(path, index=False)
    by_node = parted(path, "town", 3)
    assert {name: len(rows) for name, rows in by_node.items()} == {"Oslo": 5, "Bodø": 3, "x-y": 2}
    assert sorted(len(rows) for rows in parted(path, None, 4).values()) == [2, 2, 3, 3]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ((), "Learned in 9 rounds: "),
        (
            ("--alpha", "0.5", "--rounds", "2"),
            "Learned in 2 rounds, with alpha 0.5: all rounds done.",
        ),
    ],
)
def test_try_says_what_took_place(run, table, words, text):
    command = ("federate", "try", "towns.csv", "--node", "town", "--target", "power", *words)
    printed = " ".join(run(*command, "--out", "home").split())
    assert run.code == 0 and text in printed, printed
    assert ("alpha" in printed) == bool(words)
    saved = read_result("home/hub/result")
    assert saved.about["rounds"] == (2 if words else 9)
