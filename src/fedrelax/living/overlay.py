"""A mapping as trained, and changes on top of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from fedrelax.typing import Label

T = TypeVar("T")

GONE: Any = object()


class Overlay(Mapping[Label, T]):
    """A mapping over another one: what was set or removed here, else what the base says.

    >>> overlay = Overlay({"a": 1, "b": 2})
    >>> overlay["c"] = 3
    >>> del overlay["a"]
    >>> dict(overlay)
    {'b': 2, 'c': 3}
    """

    def __init__(self, base: Mapping[Label, T], changed: Mapping[Label, T] | None = None) -> None:
        self.base, self.changed = base, dict(changed or {})

    def __getitem__(self, label: Label) -> T:
        value = self.changed[label] if label in self.changed else self.base[label]
        if value is GONE:
            raise KeyError(label)
        return value

    def __setitem__(self, label: Label, value: T) -> None:
        self.changed[label] = value

    def __delitem__(self, label: Label) -> None:
        self.changed[label] = GONE

    def __contains__(self, label: object) -> bool:
        if label in self.changed:
            return self.changed[label] is not GONE
        return label in self.base

    def __iter__(self) -> Iterator[Label]:
        yield from (label for label in self.base if self.changed.get(label) is not GONE)
        yield from (label for label in self.present_changes if label not in self.base)

    def __len__(self) -> int:
        return len(self.base) + sum(
            (value is not GONE) - (label in self.base) for label, value in self.changed.items()
        )

    @property
    def present_changes(self) -> dict[Label, T]:
        """What was set here, without what was removed."""
        return {label: value for label, value in self.changed.items() if value is not GONE}

    def __copy__(self) -> Overlay[T]:
        """Return a copy that later changes do not reach; only the changes are copied."""
        return Overlay(self.base, self.changed)
