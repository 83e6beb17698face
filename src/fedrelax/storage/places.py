"""Where results go: written completely or not at all, and never over somebody's other files."""

from __future__ import annotations

import errno
import os
import re
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fedrelax.errors import FedRelaxError, listing

MARK = "result.json"
"""The file by which a directory is recognised as a result."""

MARKS = {"result": (MARK, "models.json"), "comparison": ("comparison.json", "comparison.csv")}
"""The files by which each kind of directory is recognised."""

MODELS = "models"
OWN = {
    "result": r"(result|schema|models|metrics|living)\.json|(public|answers)\.npy|config\.toml"
    r"|(nodes|edges|positions|history|history_nodes|alphas|example)\.csv|result\.png|report\.html"
    r"|models(/\d{4,}\.[a-z.]+)?",
    "comparison": r"comparison\.(json|csv|png)|nodes\.csv|config\.toml",
}
"""Every file that a directory of each kind may hold; all others are the user's."""

NOBODYS = {".DS_Store", "Thumbs.db", "desktop.ini"}
"""What file managers leave in a directory by themselves."""

TAKEN = {errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR}
FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
CLOSED = {errno.EROFS, errno.EACCES, errno.EPERM}
REPLACE = "choose another {}, or replace it with overwrite=True"


class TakenError(FedRelaxError):
    """Something came to the target while a run worked; what the run has made stays beside it."""


class NotWritten(FedRelaxError):  # noqa: N818 - what happened, in the past
    """The disk refused what was to be written; nothing of it was left there."""


def is_result(directory: Path, kind: str = "result") -> bool:
    """Tell whether a directory was written by this library, as one of the kinds of ``MARKS``."""
    return all((directory / name).is_file() for name in MARKS[kind])


def check_directory(target: str | Path, overwrite: bool = False, kind: str = "result") -> Path:
    """Return the path if a result can be written there; say why not, before any work is done.

    Only a directory of the same kind (or an empty one) is ever replaced: never somebody's other
    files, even inside a result, and never trained models by a comparison.
    """
    target = Path(target)
    if target.exists() or target.is_symlink():
        reason = _why_kept(target, target, kind)
        if not overwrite:
            reason = reason or f"{target} exists; {REPLACE.format('directory')}"
        if reason:
            raise FedRelaxError(reason)
    _check_parent(target)
    return target


def _why_kept(directory: Path, given: Path, kind: str) -> str:
    """Return why what was found at ``given``, and now is in ``directory``, must not be replaced."""
    if not (directory.is_dir() and (is_result(directory, kind) or not any(directory.iterdir()))):
        return (
            f"{given} exists and is not a {kind} of fedrelax, so it is never replaced; choose "
            "another directory"
        )
    others = []
    for path in sorted([*directory.iterdir(), *(directory / MODELS).glob("*")]):
        name = path.relative_to(directory).as_posix()
        plain = not path.is_symlink() and (path.is_file() or name == MODELS)
        if path.name not in NOBODYS and not (plain and re.fullmatch(OWN[kind], name)):
            others.append(name)
    if not others:
        return ""
    return (
        f"{given} holds {listing(others)}, which fedrelax did not write and will not delete; move "
        "that elsewhere, or choose another directory"
    )


def check_file(target: str | Path, endings: tuple[str, ...], overwrite: bool = False) -> Path:
    """Return the path if a file can be written there; say why not, before any work is done."""
    target, reason = Path(target), ""
    if target.suffix.lower() not in endings:
        known = ", ".join(endings)
        reason = f"has the ending {target.suffix!r}, which is not known; use one of {known}"
    elif target.is_dir():
        reason = "is a directory; give the name of a file"
    elif target.exists() and not overwrite:
        reason = f"exists; {REPLACE.format('file')}"
    if reason:
        raise FedRelaxError(f"{target} {reason}")
    _check_parent(target)
    return target


def _check_parent(target: Path) -> None:
    parent = target.absolute().parent
    while not os.path.lexists(parent):
        parent = parent.parent
    if not (parent.is_dir() and os.access(parent, os.W_OK)):
        raise FedRelaxError(
            f"{target} cannot be written: nothing can be created in {parent}; choose another place"
        )


def _sibling(target: Path, why: str) -> Path:
    return target.parent / f".{target.name[:80]}.{uuid.uuid4().hex[:12]}.{why}"


@contextmanager
def whole_directory(
    target: str | Path, overwrite: bool = False, kind: str = "result"
) -> Iterator[Path]:
    """Yield a hidden directory next to the target, which becomes the target when all has gone well.

    If the process dies before that, no target appears, and an earlier one stays as it was (if killed
    between two renames, under a hidden name that ends in ``.former``). If someone else has written the
    target meanwhile, theirs stays, and an error names the hidden directory, which then stays, too.
    """
    given = check_directory(target, overwrite, kind)
    target = Path(os.path.realpath(given))  # a link to a result stays a link
    draft = _sibling(target, "draft")
    with _writing(given, draft):
        target.parent.mkdir(parents=True, exist_ok=True)
        draft.mkdir()
        yield draft
        _put_in_place(draft, target, given, overwrite, kind)


def _put_in_place(draft: Path, target: Path, given: Path, overwrite: bool, kind: str) -> None:
    """Move the draft to the target; ``os.rename`` never replaces a directory that is not empty."""
    former = _sibling(target, "former")
    try:
        if overwrite and os.path.lexists(target):
            if reason := _why_kept(target, given, kind):
                raise _taken(given, draft, reason)
            os.rename(target, former)
        os.rename(draft, target)
    except BaseException as error:
        if former.exists() and not os.path.lexists(target):
            os.rename(former, target)
        if isinstance(error, OSError) and error.errno in TAKEN:
            raise _taken(given, draft) from None
        raise
    shutil.rmtree(former, ignore_errors=True)


def _taken(given: Path, draft: Path, reason: str = "") -> TakenError:
    reason = reason or f"{given} was written by another run in the meantime and is left as it is"
    return TakenError(f"{reason}; what this run has made is in {draft}")


@contextmanager
def whole_file(target: str | Path, overwrite: bool = False) -> Iterator[Path]:
    """Yield a hidden file name next to the target, which becomes the target when all has gone well.

    As with ``whole_directory``, a target that someone else has written meanwhile stays.
    """
    given = Path(target)
    target = given.absolute()
    draft = _sibling(target, f"draft{target.suffix}")
    with _writing(given, draft):
        target.parent.mkdir(parents=True, exist_ok=True)
        yield draft
        if not overwrite and os.path.lexists(target):
            raise _taken(given, draft)
        os.replace(draft, target)


@contextmanager
def _writing(given: Path, draft: Path) -> Iterator[None]:
    """Remove the draft if anything fails but its place; say what to do about an error of the disk."""
    try:
        yield
    except TakenError:
        raise
    except BaseException as error:
        shutil.rmtree(draft) if draft.is_dir() else draft.unlink(missing_ok=True)
        if not isinstance(error, OSError):
            raise
        raise NotWritten(
            f"{given} could not be written ({error.strerror or error}), and nothing of it was left; "
            f"{advice_for(error, given.absolute().parent)}, or choose another place"
        ) from error


def advice_for(error: OSError, directory: Path) -> str:
    """Return what to do about an error of the disk."""
    if error.errno in FULL:
        return "make room there"
    return f"allow writing in {directory}" if error.errno in CLOSED else "check the disk"
