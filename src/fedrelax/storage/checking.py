"""The files of a result, which may come from anywhere: with the checksums that were recorded."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from fedrelax.errors import FedRelaxError, in_one_line, named
from fedrelax.files import RESULT, Refused, read_file, why_unread
from fedrelax.typing import Label


class Untrusted(FedRelaxError):  # noqa: N818 - what they are
    """A file of a model names types that nobody has trusted; none of them was created."""

    def __init__(self, labels: Collection[Label], types: Iterable[str]) -> None:
        self.types = sorted(set(types))
        super().__init__(
            f"the model of {named('node', labels, most=3)} is made of types that are not trusted: "
            f"{', '.join(self.types)}; if you know who wrote this result and trust these packages, say so "
            f"with trust={self.types!r}"
        )


AGAIN = "run the fit again, or copy the result again from an intact one"


class Damaged(FedRelaxError):  # noqa: N818 - what it is
    """A file, of a result or of something else, is not as it was written."""

    def __init__(self, file: str, what: str, of: str = "result", advice: str = AGAIN) -> None:
        super().__init__(f"this {of} is damaged: {file} {what}; {advice}")


def fingerprint(content: bytes) -> str:
    """Return the checksum of a file's content.

    >>> fingerprint(b"")[:8]
    'e3b0c442'
    """
    return hashlib.sha256(content).hexdigest()


def read_inside(directory: Path, name: str, checksum: str | None, where: str) -> bytes:
    """Return the content of a result's file, which must have this checksum, if ``where`` gives one."""
    try:
        content = read_file(directory / name, RESULT)
    except OSError as error:
        raise Damaged(name, f"cannot be opened ({why_unread(error)})") from error
    if checksum is not None and fingerprint(content) != checksum:
        raise Damaged(name, f"does not match the checksum in {where}")
    return content


@contextmanager
def reading(file: str, of: str = "result", advice: str = AGAIN) -> Iterator[None]:
    """Report any error inside the ``with`` block as damage of this file."""
    try:
        yield
    except (Untrusted, Damaged):
        raise
    except Refused as error:
        raise Damaged(file, str(error), of, advice) from error
    except FedRelaxError as error:
        raise Damaged(file, f"cannot be used ({error})", of, advice) from error
    except Exception as error:  # values of the wrong kind fail in many ways
        raise Damaged(file, f"cannot be read ({in_one_line(error)})", of, advice) from error
