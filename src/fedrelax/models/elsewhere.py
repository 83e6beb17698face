"""A model kept at its site: the hub knows that there is one, and never sees it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Never

from fedrelax.errors import FedRelaxError
from fedrelax.models.base import LocalModel, Rows
from fedrelax.typing import AnyArray


@dataclass(frozen=True)
class Elsewhere:
    """A placeholder for the model of a site: the model's name and the site's."""

    model: str
    site: str


class ElsewhereModel(LocalModel):
    """A local model that can neither be fitted nor predict here."""

    @property
    def name(self) -> str:
        """The model's name at its site."""
        return str(self._estimator.model)

    def fit(self, terms: Sequence[Rows], *, seed: int, continued: bool = False) -> Never:
        """Raise an error: the model is at its site."""
        self.predict(terms[0].X)

    def predict(self, X: AnyArray) -> Never:
        """Raise an error: the model is at its site."""
        raise FedRelaxError(
            f"node {self._estimator.site!r}: its model is at the site and not here; run fedrelax "
            "predict there"
        )


def to_bytes(estimator: Elsewhere) -> bytes:
    """Return a placeholder as JSON."""
    return json.dumps(asdict(estimator)).encode()


def from_bytes(data: bytes, trust: Sequence[str] = ()) -> Elsewhere:
    """Return the placeholder in a JSON file; it runs no code, so ``trust`` is not needed."""
    try:
        fields = json.loads(data)
        return Elsewhere(str(fields["model"]), str(fields["site"]))
    except (ValueError, TypeError, KeyError) as error:
        raise FedRelaxError("the file does not say at which site the model is") from error
