"""Choosing the settings of a way on the training rows: the same procedure for every way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fedrelax.baselines import Baseline, Run
from fedrelax.baselines.base import validation_loss
from fedrelax.comparison.together import Together
from fedrelax.network import Network
from fedrelax.typing import FloatArray


def choose(
    way: Baseline,
    network: Network,
    folds: Sequence[Network],
    *,
    seed: int = 0,
    n_jobs: int | None = None,
) -> Baseline:
    """Return the way with the settings, and the rounds, of the least validation loss.

    ``network`` holds all training rows; each of ``folds`` trains on some of them and validates on
    the others. The loss is the mean over all validated rows. Of equally good settings the earlier
    candidate and the earlier round win. A way without rounds and with a single candidate has
    nothing to choose and is not run. FedRelax chooses by the rule of its estimators.
    """
    if isinstance(way, Together):
        return way.choose(network, folds, seed=seed, n_jobs=n_jobs)
    candidates = list(way.candidates(network))
    if len(candidates) == 1 and not hasattr(way, "rounds"):
        return candidates[0]
    curves = [validation_curve(candidate, folds, seed, n_jobs) for candidate in candidates]
    length = max(map(len, curves))
    losses = np.array([_padded(curve, length) for curve in curves])
    losses = np.where(np.isnan(losses), np.inf, losses)
    least = np.isclose(losses, losses.min(), rtol=1e-9, atol=0.0)  # equal but for rounding
    best, best_round = divmod(int(np.argmax(least)), length)
    chosen = candidates[best]
    changes: dict[str, Any] = {"rounds": best_round} if hasattr(chosen, "rounds") else {}
    return replace(chosen, **changes)


def validation_curve(
    way: Baseline, folds: Sequence[Network], seed: int = 0, n_jobs: int | None = None
) -> FloatArray:
    """Return the validation loss after every round, as the mean over the rows of all folds."""
    found = [_validation(way.run(fold, seed=seed, n_jobs=n_jobs), fold) for fold in folds]
    rows = [sum(len(node.validation[1]) for node in fold if node.validation) for fold in folds]
    length = max(map(len, found))
    padded = [_padded(curve, length) for curve in found]
    return np.asarray(np.average(padded, axis=0, weights=rows))


def _padded(curve: FloatArray, length: int) -> FloatArray:
    """Return the curve of a run that ended early, as it had settled, at full length."""
    return np.concatenate([curve, np.full(length - len(curve), curve[-1])])


def _validation(run: Run, network: Network) -> FloatArray:
    """Return the run's own curve, or for a way without rounds the loss of its models."""
    if len(run.validation):
        return run.validation
    return np.array([validation_loss(network, run.models)])
