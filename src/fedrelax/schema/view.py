"""A model's own view of coded rows: the columns that its node has, in the form that the model takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fedrelax.schema.preparation import CODED, ENCODED, FRAME
from fedrelax.schema.schema import Schema
from fedrelax.typing import FloatArray


@dataclass(frozen=True)
class View:
    """Some columns of coded rows, encoded, coded, or as a DataFrame."""

    schema: Schema
    columns: tuple[int, ...]
    form: str = ENCODED

    def __call__(self, coded: FloatArray) -> Any:
        """Return the rows as the model sees them."""
        if self.form == FRAME:
            return self.schema.frame(coded, self.columns)
        own = coded[:, self.columns]
        if self.form == CODED:
            return own
        return self.part.encode(own)

    @property
    def part(self) -> Schema:
        """The schema of the columns in view."""
        if len(self.columns) == len(self.schema.columns):
            return self.schema
        part = Schema(tuple(self.schema.columns[k] for k in self.columns))
        part.__dict__["texts"] = self.schema.texts
        return part

    @property
    def names(self) -> list[str]:
        """The names of the columns that the model sees."""
        return self.part.names if self.form == ENCODED else self.part.column_names

    @property
    def categories(self) -> list[bool]:
        """Which of the columns in view are categories."""
        return [self.schema.columns[k].kind == "category" for k in self.columns]
