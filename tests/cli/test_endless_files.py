"""A path may lead to a device that never ends or a pipe that never answers: a sentence, at once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fedrelax import FedRelaxError, Graph
from fedrelax.federation.boxes import read_key
from fedrelax.federation.settings import read_hub, read_site
from fedrelax.files import read_file
from fedrelax.schema import Schema

from .runs import FIT, QUICK

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs devices and pipes")
NOT_A_FILE = "it is not a regular file"


@pytest.fixture(params=["zeros", "pipe"])
def endless(request, run, table):
    """A path with the ending of a table behind which something endless lies."""
    path = Path("endless.csv")
    if request.param == "zeros":
        path.symlink_to("/dev/zero")
    else:
        os.mkfifo(path)
    return path


def test_no_flag_reads_without_end(run, endless):
    for words in (
        ("--schema", endless),
        ("--config", endless),
        ("--public", endless),
        ("--graph", f"edges:{endless}"),
    ):
        assert NOT_A_FILE in run.refused(*FIT, *QUICK, *words)
    assert NOT_A_FILE in run.refused("fit", endless, *FIT[2:], *QUICK)


def test_no_reader_of_the_library_reads_without_end(endless):
    for read in (
        Schema.read,
        Graph.from_csv,
        read_site,
        read_hub,
        lambda path: read_key(path, "north"),
    ):
        with pytest.raises(FedRelaxError, match=NOT_A_FILE):
            read(endless)


def test_a_file_is_read_up_to_its_limit(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"x" * 1024)
    assert read_file(path, 1024) == b"x" * 1024
    with pytest.raises(OSError, match="it has more than 1023 bytes"):
        read_file(path, 1023)
    os.truncate(path, 2**40)  # takes no room on the disk
    with pytest.raises(OSError, match="it has more than 1024 bytes"):
        read_file(path, 1024)


def test_a_huge_settings_file_is_refused(run, table):
    with open("huge", "wb") as file:
        os.truncate(file.fileno(), 2**40)
    assert "it has more than 67108864 bytes" in run.refused(*FIT, *QUICK, "--schema", "huge")
    assert "it has more than 67108864 bytes" in run.refused("fit", "--config", "huge")
