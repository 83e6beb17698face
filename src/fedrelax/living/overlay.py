"""Changes on top of a base, which is never copied; a change that fails is undone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from fedrelax.typing import Label

T = TypeVar("T")

GONE: Any = object()
NOTHING: Any = object()


class Journal:
    """Remembers what overlays held before a change, so that it can be undone as a whole."""

    def __init__(self) -> None:
        self._entries: list[tuple[dict[Label, Any], Label, Any]] = []

    def note(self, changed: dict[Label, Any], label: Label) -> None:
        """Remember an entry as it is."""
        self._entries.append((changed, label, changed.get(label, NOTHING)))

    def clear(self) -> None:
        """Forget what was there before: what was changed stays."""
        self._entries.clear()

    def labels(self, changed: dict[Label, Any]) -> list[Label]:
        """Return the nodes whose entries in one overlay have changed since the last ``clear``."""
        return list(dict.fromkeys(label for store, label, _ in self._entries if store is changed))

    def undo(self) -> None:
        """Undo all changes since the last ``clear``, newest first."""
        while self._entries:
            changed, label, old = self._entries.pop()
            if old is NOTHING:
                del changed[label]
            else:
                changed[label] = old


class Overlay(Mapping[Label, T]):
    """A mapping over another one: what was set or removed here, else what the base says.

    >>> journal = Journal()
    >>> overlay = Overlay({"a": 1, "b": 2}, journal)
    >>> overlay["c"] = 3
    >>> del overlay["a"]
    >>> dict(overlay)
    {'b': 2, 'c': 3}
    >>> journal.undo()
    >>> dict(overlay)
    {'a': 1, 'b': 2}
    """

    def __init__(self, base: Mapping[Label, T], journal: Journal) -> None:
        self.base, self.changed = base, dict[Label, Any]()
        self._journal = journal

    def __getitem__(self, label: Label) -> T:
        found = self.changed.get(label, NOTHING)
        if found is GONE:
            raise KeyError(label)
        return self.base[label] if found is NOTHING else found

    def __setitem__(self, label: Label, value: T) -> None:
        self._journal.note(self.changed, label)
        self.changed[label] = value

    def __delitem__(self, label: Label) -> None:
        self._journal.note(self.changed, label)
        self.changed[label] = GONE

    def __contains__(self, label: object) -> bool:
        found = self.changed.get(label, NOTHING)
        return label in self.base if found is NOTHING else found is not GONE

    def __iter__(self) -> Iterator[Label]:
        for label in self.base:
            if self.changed.get(label) is not GONE:
                yield label
        for label, value in self.changed.items():
            if value is not GONE and label not in self.base:
                yield label

    def __len__(self) -> int:
        new = sum(
            (value is not GONE) - (label in self.base) for label, value in self.changed.items()
        )
        return len(self.base) + new

    def frozen(self) -> Overlay[T]:
        """Return a copy that later changes do not reach; only the changes are copied."""
        copy: Overlay[T] = Overlay(self.base, Journal())
        copy.changed = dict(self.changed)
        return copy
