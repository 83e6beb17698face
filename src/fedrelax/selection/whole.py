"""The choice for a whole network: settings and models are found together."""

from __future__ import annotations

import numpy as np

from fedrelax.engines.whole.found import ONE_MODEL, find
from fedrelax.network import Network
from fedrelax.selection.candidates import Candidate
from fedrelax.selection.choice import Choice
from fedrelax.solvers import WholeNetwork


def choose_whole(network: Network) -> tuple[Choice, WholeNetwork]:
    """Return what was found for a network, as a choice and as a solver that holds the models.

    The choice names each node alone, what was chosen and, where it was tried, one model for all, with
    the losses of rows under models that have not seen them.
    """
    found = find(network)
    alone = found.left_out["alone"]
    lines = {0.0: alone, found.alpha: found.left_out["together"]}
    if "one model" in found.left_out:
        lines.setdefault(ONE_MODEL, found.left_out["one model"])
    choice = Choice(
        chosen=Candidate(found.alpha),
        rounds=1,
        candidates=tuple(Candidate(alpha) for alpha in lines),
        losses=np.array([[alone, value] for value in lines.values()]),
        reason=(
            f"{found.words}: the loss of rows left out is {found.left_out['together']:.4g}, and "
            f"{alone:.4g} for each node alone"
        ),
    )
    return choice, WholeNetwork(found)
