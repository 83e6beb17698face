"""Where results go: whole or not at all."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fedrelax.errors import FedRelaxError

MARK = "result.json"
"""The file by which a directory is known as a result."""

MARKS = {"result": (MARK, "models.json"), "comparison": ("comparison.json", "comparison.csv")}
"""The files by which each kind of directory is known."""


def is_result(directory: Path, kind: str = "result") -> bool:
    """Tell whether a directory was written by this library, as one of the kinds of ``MARKS``."""
    return all((directory / name).is_file() for name in MARKS[kind])


def check_directory(target: str | Path, overwrite: bool = False, kind: str = "result") -> Path:
    """Return the path if a result can be written there; say why not, before any work is done.

    Only a directory of the same kind (or an empty one) is ever replaced, never somebody's other
    files, and trained models never by a comparison.
    """
    target = Path(target)
    if target.exists() or target.is_symlink():
        replaceable = target.is_dir() and (is_result(target, kind) or not any(target.iterdir()))
        if not replaceable:
            raise FedRelaxError(
                f"{target} exists and is not a {kind} of fedrelax, so it is never replaced; "
                "choose another --out"
            )
        if not overwrite:
            raise FedRelaxError(
                f"{target} exists; choose another --out, or replace it with --overwrite"
            )
    _try_parent(target)
    return target


def check_file(target: str | Path, endings: tuple[str, ...], overwrite: bool = False) -> Path:
    """Return the path if a file can be written there; say why not, before any work is done."""
    target = Path(target)
    if target.suffix.lower() not in endings:
        raise FedRelaxError(
            f"--out {target} has the ending {target.suffix!r}, which is not known; "
            f"use one of {', '.join(endings)}"
        )
    if target.is_dir():
        raise FedRelaxError(f"--out {target} is a directory; give the name of a file")
    if target.exists() and not overwrite:
        raise FedRelaxError(
            f"{target} exists; choose another --out, or replace it with --overwrite"
        )
    _try_parent(target)
    return target


def _try_parent(target: Path) -> None:
    """Really make and remove a directory where the target will stand."""
    parent = target.absolute().parent
    while not (parent.exists() or parent.is_symlink()):
        parent = parent.parent
    try:
        probe = _sibling(parent / target.name, "try")
        probe.mkdir()
        probe.rmdir()
    except OSError as error:
        raise FedRelaxError(
            f"{target} cannot be written: nothing can be made in {parent} "
            f"({error.strerror or error}); choose another --out"
        ) from error


def _sibling(target: Path, why: str) -> Path:
    return target.parent / f".{target.name[:80]}.{uuid.uuid4().hex[:12]}.{why}"


@contextmanager
def whole_directory(
    target: str | Path, overwrite: bool = False, kind: str = "result"
) -> Iterator[Path]:
    """Yield a hidden directory next to the target that takes its place when all has gone well.

    If the process dies before that, no target appears, and a former one stays as it was.
    """
    target = check_directory(target, overwrite, kind).absolute()
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = _sibling(target, "draft")
    draft.mkdir()
    try:
        yield draft
        _put_in_place(draft, target)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise


def _put_in_place(draft: Path, target: Path) -> None:
    if not target.exists():
        os.rename(draft, target)
        return
    former = _sibling(target, "former")
    os.rename(target, former)
    try:
        os.rename(draft, target)
    except BaseException:
        os.rename(former, target)
        raise
    shutil.rmtree(former, ignore_errors=True)


@contextmanager
def whole_file(target: Path) -> Iterator[Path]:
    """Yield a hidden file name next to the target that takes its place when all has gone well."""
    target = target.absolute()
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = _sibling(target, f"draft{target.suffix}")
    try:
        yield draft
        os.replace(draft, target)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
