"""What a site reports about a round: a few numbers per lane, and one per lane and neighbour."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from fedrelax.federation.codec import Envelope, Refused, from_npy, to_npy
from fedrelax.runtime import SiteMeasure
from fedrelax.typing import Label

NAMES = ("local_loss", "gtv", "pull", "validation_loss", "validation_rows", "change", "size")
"""The numbers of a lane, in this order."""
MAY_BE_MISSING = ("validation_loss", "change")
"""Without held-out rows there is no validation loss, and at first the change is infinite."""


Looks = dict[int, dict[Label, float]]
"""By lane and neighbour: the loss on the site's own rows if the neighbour predicted them."""


def write_numbers(
    measures: Mapping[int, SiteMeasure], neighbours: Sequence[str], looks: Looks
) -> dict[str, bytes]:
    """Return the lanes' numbers as parts of a letter; ``looks`` only if there are any."""
    numbers = [[float(getattr(one, name)) for name in NAMES] for one in measures.values()]
    edges = [
        [one.discrepancies.get(name, np.nan) for name in neighbours] for one in measures.values()
    ]
    shape = len(measures), len(neighbours)
    more = {}
    if looks:
        fits = [[looks[lane].get(name, np.nan) for name in neighbours] for lane in measures]
        more["looks"] = to_npy(np.where(np.isfinite(fits), fits, np.nan).reshape(shape))
    return {
        **more,
        "numbers": to_npy(np.array(numbers, dtype=float).reshape(len(measures), len(NAMES))),
        "edges": to_npy(np.array(edges, dtype=float).reshape(shape)),
    }


def read_numbers(
    letter: Envelope, lanes: Sequence[int], neighbours: Sequence[str]
) -> dict[int, SiteMeasure]:
    """Return what a letter reports about these lanes, or refuse it."""
    shape = len(lanes), len(NAMES)
    numbers = from_npy(letter.part("numbers"), shape, "a report", finite=False)
    edges = from_npy(letter.part("edges"), (len(lanes), len(neighbours)), "a report", finite=False)
    for name, column in zip(NAMES, numbers.T, strict=True):
        known = column if name not in MAY_BE_MISSING else column[np.isfinite(column)]
        if not np.isfinite(known).all() or (known < 0).any():
            raise Refused(f"a report has a {name} that is negative, NaN or infinite")
    if np.isinf(edges).any() or (edges < 0).any():
        raise Refused("a report has a discrepancy that is negative or infinite")
    found = {}
    for lane, line, near in zip(lanes, numbers.tolist(), edges.tolist(), strict=True):
        values = dict(zip(NAMES, line, strict=True))
        found[lane] = SiteMeasure(
            **{**values, "validation_rows": int(values["validation_rows"])},
            discrepancies=_known(neighbours, near),
        )
    return found


def read_looks(letter: Envelope, lanes: Sequence[int], neighbours: Sequence[str]) -> Looks:
    """Return how well neighbours' answers fit a site's rows, if a letter says so, or refuse it."""
    if "looks" not in letter.parts:
        return {}
    shape = len(lanes), len(neighbours)
    fits = from_npy(letter.part("looks"), shape, "a report", finite=False)
    if np.isinf(fits).any() or (fits < 0).any():
        raise Refused("a report has a loss that is negative or infinite")
    return {lane: _known(neighbours, line) for lane, line in zip(lanes, fits.tolist(), strict=True)}


def _known(neighbours: Sequence[str], values: Sequence[float]) -> dict[Label, float]:
    pairs = zip(neighbours, values, strict=True)
    return {name: value for name, value in pairs if not np.isnan(value)}
