"""Nothing is lost where results go: not by two runs at once, not beside notes, not on a full disk."""

from __future__ import annotations

import errno
import multiprocessing
import os
import resource
import signal
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fedrelax import FedRelaxError
from fedrelax.storage.places import NotWritten, check_directory, whole_directory, whole_file

fork = multiprocessing.get_context("fork")
TIMES = 10


def write(target: Path, name: str, how: str, barrier: Any, told: Any) -> None:
    """Write a result that says who made it; all is ready but the last step at the barrier."""
    error = ""
    try:
        with whole_directory(target, how == "overwrite") as draft:
            for own in ("result.json", "models.json", "metrics.json"):
                (draft / own).write_text(name * 1000)
            barrier.wait(30)
    except FedRelaxError as found:
        error = str(found)
    told.put((name, error))


def at_once(target: Path, names: str, how: str = "new") -> dict[str, str]:
    """Run a real process per name up to the last step, let all go at once; return what each said."""
    barrier, told = fork.Barrier(len(names)), fork.Queue()
    started = [
        fork.Process(target=write, args=(target, name, how, barrier, told)) for name in names
    ]
    for process in started:
        process.start()
    ended = dict(told.get(timeout=60) for _ in names)
    for process in started:
        process.join(60)
    return ended


def maker(place: Path) -> str:
    """Return who made a result, which must be whole."""
    files = sorted(place.iterdir())
    texts = {path.read_text() for path in files}
    assert len(texts) == 1 and len(files) == 3
    text = texts.pop()
    assert len(text) == 1000 and len(set(text)) == 1
    return text[0]


@pytest.mark.parametrize("time", range(TIMES))
def test_of_runs_at_once_one_gets_the_name_and_the_others_say_where_their_work_is(tmp_path, time):
    target = tmp_path / "out"
    ended = at_once(target, "abc")
    assert [who for who, said in ended.items() if not said] == [maker(target)]
    kept = []
    for who, said in ended.items():
        if said:
            assert "was written by another run in the meantime" in said
            kept.append(Path(said.rpartition(" is in ")[2]))
            assert maker(kept[-1]) == who
    assert sorted(tmp_path.iterdir()) == sorted([target, *kept])


@pytest.mark.parametrize("time", range(TIMES))
def test_of_runs_that_may_all_replace_one_gets_the_name(tmp_path, time):
    target = tmp_path / "out"
    with whole_directory(target) as draft:
        for own in ("result.json", "models.json", "metrics.json"):
            (draft / own).write_text("o" * 1000)
    ended = at_once(target, "abc", "overwrite")
    assert maker(target) in [who for who, said in ended.items() if not said]


def test_a_file_that_came_in_the_meantime_stays(tmp_path):
    file = tmp_path / "p.csv"
    with pytest.raises(FedRelaxError, match="draft"), whole_file(file) as draft:
        draft.write_text("second")
        file.write_text("first")
    assert file.read_text() == "first" and draft.read_text() == "second"


def a_result(target: Path, text: str = "old") -> None:
    with whole_directory(target, overwrite=True) as draft:
        for own in ("result.json", "models.json"):
            (draft / own).write_text(text)
        (draft / "models").mkdir()
        (draft / "models" / "0001.skops").write_text(text)


@pytest.mark.parametrize("name", ["notes.txt", "models/mine.txt", "predictions.csv"])
def test_files_of_the_user_in_a_result_are_named_and_never_deleted(tmp_path, name):
    target = tmp_path / "out"
    a_result(target)
    a_result(target, "new")  # a result alone may be replaced
    (target / name).write_text("mine")
    with pytest.raises(FedRelaxError, match=f"holds '{name}', which fedrelax did not write"):
        check_directory(target, overwrite=True)
    with pytest.raises(FedRelaxError, match=name):
        a_result(target, "newer")
    assert (target / name).read_text() == "mine"
    assert (target / "result.json").read_text() == "new"


def test_notes_that_come_while_a_run_works_stay_and_so_does_the_work(tmp_path):
    target = tmp_path / "out"
    a_result(target)
    with (
        pytest.raises(FedRelaxError, match=r"notes.txt.*what this run has made is in .*draft"),
        whole_directory(target, overwrite=True) as draft,
    ):
        (draft / "result.json").write_text("new")
        (target / "notes.txt").write_text("mine")
    assert (target / "notes.txt").read_text() == "mine"
    assert (target / "result.json").read_text() == "old"
    assert (draft / "result.json").read_text() == "new"
    assert set(tmp_path.iterdir()) == {target, draft}


def test_what_file_managers_leave_is_nobodys(tmp_path):
    a_result(tmp_path / "out")
    (tmp_path / "out" / ".DS_Store").write_text("")
    a_result(tmp_path / "out", "new")
    assert not (tmp_path / "out" / ".DS_Store").exists()


def test_a_link_to_a_result_goes_on_leading_to_it(tmp_path):
    a_result(tmp_path / "disk" / "real")
    (tmp_path / "out").symlink_to(tmp_path / "disk" / "real")
    a_result(tmp_path / "out", "new")
    assert (tmp_path / "out").is_symlink()
    assert (tmp_path / "disk" / "real" / "result.json").read_text() == "new"
    assert [path.name for path in (tmp_path / "disk").iterdir()] == ["real"]


# The disk


@contextmanager
def small_files():
    """Let this process write 20 kB per file, as if the disk were full after that.

    For the block only: the log of the tests may be a larger file.
    """
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def test_a_full_disk_leaves_nothing_and_says_what_to_do(tmp_path):
    with (
        small_files(),
        pytest.raises(NotWritten, match="could not be written .*make room there"),
        whole_directory(tmp_path / "out") as draft,
    ):
        (draft / "result.json").write_text("x" * 10_000)
        (draft / "models.json").write_text("x" * 100_000)
    with (
        small_files(),
        pytest.raises(NotWritten, match=r"p.csv could not be written .*make room there"),
        whole_file(tmp_path / "p.csv") as file,
    ):
        file.write_text("x" * 100_000)
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_leaves_the_former_result(tmp_path):
    a_result(tmp_path / "out")
    with small_files(), pytest.raises(NotWritten):
        a_result(tmp_path / "out", "x" * 100_000)
    assert (tmp_path / "out" / "result.json").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_directory_that_turns_read_only_is_told(tmp_path, monkeypatch):
    def refuse(old, new):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(os, "rename", refuse)
    with pytest.raises(NotWritten, match="Read-only file system.*allow writing in"):
        a_result(tmp_path / "out")
    assert list(tmp_path.iterdir()) == []
