"""A model that was not kept, fitted again: the same rows, seed and answers give the same fit."""

from __future__ import annotations

from fedrelax.engines.sites.refits import Answers, refit
from fedrelax.federation.lane_sites import LaneSites
from fedrelax.federation.state import Folder
from fedrelax.models import LocalModel


def rebuilt(
    sites: LaneSites, lane: int, kept: int, folder: Folder, coming: int = 0
) -> tuple[LocalModel, Answers]:
    """Return the model of a round, fitted once more to what the site knew then, and its answers.

    ``kept=-1`` is the model trained alone; ``coming`` is the round that the answers are for.
    """
    site = sites.of(lane)
    terms = site.local_problem()
    if kept >= 0:
        _, states = folder.load(kept)
        origin = states[lane].origin
        if origin >= 0 and sites.moves(lane):
            folder.load(origin)[1][lane].restore(site)
            terms = site.problem(origin)
    return refit(site.label, site.model, terms, site.inputs(coming), site.seed, False)
