"""Wiring: graphs that change while the nodes learn, and graphs learned before they do."""

from fedrelax.errors import FedRelaxError, did_you_mean
from fedrelax.members import members
from fedrelax.wiring.base import View, Wiring
from fedrelax.wiring.discover import Discover
from fedrelax.wiring.rewire import Guarded, Rewire

__all__ = [
    "Discover",
    "Guarded",
    "Rewire",
    "View",
    "Wiring",
    "as_wiring",
    "wiring_name",
]

WIRINGS: dict[str, type[Wiring]] = members(__name__, Wiring)


def as_wiring(given: str | Wiring | None) -> Wiring | None:
    """Return the wiring of this name, or the object itself; None for "fixed" and None.

    >>> as_wiring("fixed"), as_wiring("rewire").name
    (None, 'rewire')
    """
    if isinstance(given, Wiring):
        return given
    if given is None or given == "fixed":
        return None
    if not isinstance(given, str) or given not in WIRINGS:
        known = ("fixed", *WIRINGS, "auto")
        raise FedRelaxError(
            f"wiring={given!r} must be one of {', '.join(known)}, or a fedrelax.wiring object"
            f"{did_you_mean(given, known)}"
        )
    return WIRINGS[given]()


def wiring_name(given: str | Wiring | None) -> str:
    """Return the name of a wiring in tables."""
    wiring = as_wiring(given)
    return "fixed" if wiring is None else wiring.name
