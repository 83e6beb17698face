"""The files of a federation: nobody else's are touched, and broken ones get a sentence."""

from __future__ import annotations

import os
import shutil
import stat
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fedrelax.cli.app import app
from fedrelax.federation.hub import Hub
from fedrelax.federation.letters import Envelope
from fedrelax.federation.participant import Participant
from fedrelax.files import dump_toml

from .sites import hub_settings, make

pytest.importorskip("cryptography", reason="keys need pip install 'fedrelax[flower]'")
HELLO = Envelope("hello", {"run": "r1", "schema": None})


@pytest.fixture
def federation(tmp_path):
    return make(tmp_path / "sites", ("ash", "birch"), ("ridge",))


@pytest.fixture
def mine(tmp_path):
    """A directory of the user's, with names that a state has as well."""
    folder = tmp_path / "mine"
    (folder / "rounds").mkdir(parents=True)
    for name in ("run.bin", "rounds/00001.bin", "rounds/golf.txt"):
        (folder / name).write_text("dear to me")
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_a_directory_of_the_users_is_refused_and_left_as_it_is(federation, mine):
    before = contents(mine)
    federation.change("ash", folder=str(mine))
    said = Participant(federation.site("ash")).answer(HELLO)
    assert said.kind == "refusal" and "fedrelax did not make it" in said.head["reason"]
    assert contents(mine) == before


def test_state_can_be_read_by_its_owner_only(federation, tmp_path):
    Hub(hub_settings(federation), federation.transport()).run()
    folder = federation.site("ash").state
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    inside = [p for p in folder.rglob("*") if "model" not in p.relative_to(folder).parts]
    assert len(inside) >= 2
    for path in inside:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)


# Commands


def run(*words: object) -> str:
    """Return what a command says; it must end well or with a sentence."""
    result = CliRunner().invoke(app, ["federate", *map(str, words)])
    text = " ".join(result.output.split())
    assert result.exit_code in (0, 2) and "unexpected" not in text, text
    return text


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A federation as init writes it."""
    home = tmp_path_factory.mktemp("written") / "home"
    run("init", home, "--sites", "north,south", "--target", "y")
    return home


@pytest.fixture
def home(written, tmp_path):
    return Path(shutil.copytree(written, tmp_path / "home"))


@pytest.fixture(scope="module")
def keys(written, tmp_path_factory):
    """The folder of a site with its keys."""
    site = shutil.copytree(written / "sites" / "north", tmp_path_factory.mktemp("keys") / "north")
    run("keys", site)
    return site


@pytest.mark.parametrize("names", ["a,a", "a,A", "a,b,a"])
def test_two_sites_of_one_name_are_refused_before_anything_is_written(tmp_path, names):
    assert "two sites are called" in run("init", tmp_path / "x", "--sites", names, "--target", "y")
    assert not (tmp_path / "x").exists()


def test_two_files_of_one_name_get_no_keys(home):
    file = home / "sites" / "south" / "site.toml"
    file.write_text(
        dump_toml({**tomllib.loads(file.read_text()), "name": "north", "neighbours": {}})
    )
    assert "two sites are called 'north'" in run("keys", home)
    assert not (home / "certificates").exists()


BROKEN = {
    "empty": lambda path: path.write_bytes(b""),
    "binary": lambda path: path.write_bytes(b"\xff\xfe\x00"),
    "other": lambda path: path.write_text("name = 3\nsites = 4\n"),
    "list": lambda path: path.write_text("[]"),
    "directory": lambda path: (path.unlink(), path.mkdir()),
    "dangling": lambda path: (path.unlink(), path.symlink_to("nowhere")),
    "pipe": lambda path: (path.unlink(), os.mkfifo(path)),
}


@pytest.mark.parametrize("how", BROKEN)
@pytest.mark.parametrize(
    "file", ["sites/north/site.toml", "sites/north/site.key", "sites/north/auth.key"]
)
def test_keys_says_what_is_broken(home, keys, file, how):
    shutil.copytree(keys, home / "sites" / "north", dirs_exist_ok=True)
    BROKEN[how](home / file)
    text = run("keys", home)
    if "auth.key" not in file:  # which is not read here
        assert Path(file).name in text and "error: " in text
        assert not (home / "certificates").exists()


@pytest.mark.parametrize("host", ["h ö st", "", "a b", "x" * 300])
def test_a_host_that_no_certificate_can_hold_is_refused(home, host):
    assert "must be a name such as hub.example.org" in run("keys", home, "--host", host)


def test_a_key_that_others_can_read_is_mentioned(home):
    site = home / "sites" / "north"
    assert "note: " not in run("keys", site)
    (site / "site.key").chmod(0o644)
    text = run("keys", site)
    assert "site.key can be read by other users of this machine; run chmod 600" in text
