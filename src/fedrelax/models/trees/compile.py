"""How the functions of this folder are compiled: with numba, to run without the interpreter's lock."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

from numba import njit
from numba.extending import intrinsic

from fedrelax.typing import AnyArray

F = TypeVar("F", bound=Callable[..., Any])


def compiled(function: F) -> F:
    """Compile a function inline into its callers; a division by zero gives infinity, as in C."""
    return cast(F, njit(nogil=True, error_model="numpy", forceinline=True)(function))


def called(function: F) -> F:
    """Compile a function that is called, not inlined: it is recursive, or rarely needed."""
    return cast(F, njit(nogil=True, error_model="numpy")(function))


def kept(function: F) -> F:
    """Compile a function at its first call and keep the machine code on disk for later runs."""
    return cast(F, njit(nogil=True, error_model="numpy", cache=True)(function))


def source_mark() -> int:
    """Return a checksum of all source files of this folder.

    numba looks up machine code on disk by the file of the outermost function alone. That function
    closes over this number, so that a change in another file invalidates the cache too.
    """
    mark = 0
    for path in sorted(Path(__file__).parent.glob("*.py")):
        mark = zlib.crc32(path.read_bytes(), mark)
    return mark


def _without_owner(typing: Any, array: Any) -> Any:
    def build(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        view = context.make_array(signature.args[0])(context, builder, given[0])
        view.meminfo = view.meminfo.type(None)
        view.parent = view.parent.type(None)
        return view._getvalue()

    return array(array), build


bare = cast(Callable[[AnyArray], AnyArray], intrinsic(_without_owner))
"""Returns an array without its owner, so that references to it are not counted.

At a small node, counting takes longer than the work itself. The owner must outlive the bare array.
"""
