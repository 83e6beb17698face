"""Mixed model: what all nodes have in common, and random deviations of every node from it.

Laird and Ware, "Random-effects models for longitudinal data", Biometrics 1982; fitted by statsmodels.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

from fedrelax.baselines.base import Baseline, Run
from fedrelax.errors import FedRelaxError
from fedrelax.extras import need
from fedrelax.linear.arrays import centre_and_spread, with_constant
from fedrelax.models import adapt
from fedrelax.network import Network
from fedrelax.pooling.columns import Columns
from fedrelax.threads import one_thread
from fedrelax.typing import AnyArray, FloatArray

MOST_WORK = 1_000_000
"""Nodes times the fourth power of the columns; statsmodels takes about 15 seconds for this much."""


@dataclass(frozen=True)
class MixedModel(Baseline):
    """y = x'(b + u_i) + noise, u_i normal: ``fit_slopes`` on standardised columns of all rows.

    Node i predicts with its best linear unbiased prediction (BLUP) of u_i. The nodes' own kinds of
    models play no part.
    """

    name = "mixed model"

    def unsupported_reason(self, network: Network) -> str | None:
        """Return what about the targets, the rows or the installation does not suit."""
        if network.kind != "regression":
            return "it predicts numbers, and the target holds classes"
        first = next(iter(network))
        if network.task.n_outputs != 1:
            return f"it predicts one number, and the target has {network.task.n_outputs}"
        if first.X.ndim != 2:
            return f"node {first.label!r}: its rows have the shape {first.X.shape[1:]}"
        nodes, columns = len(network), first.X.shape[1]
        if nodes < 2:
            return "it needs at least two nodes"
        if nodes * (columns + 1) ** 4 > MOST_WORK:  # statsmodels loops over pairs of covariances
            return f"it takes too long for {nodes:,} nodes and {columns:,} columns"
        try:
            need("statsmodels", "mixed")
        except FedRelaxError as error:
            return str(error)
        return None

    def run(self, network: Network, *, seed: int = 0, n_jobs: int | None = None) -> Run:
        """Fit the model to all rows; every node gets a linear model."""
        reason = self.unsupported_reason(network)
        if reason is not None:
            raise FedRelaxError(f"{self.name}: {reason}")
        own, task = network.own_rows, network.task
        X, y = np.asarray(own.X, dtype=float), task.encode(own.y)[:, 0]
        node = np.repeat(np.arange(len(network)), own.counts)
        centre, spread = centre_and_spread(X)
        Z = (X - centre) / spread
        columns = independent(Z)
        weights = np.zeros((len(network), X.shape[1] + 1))
        with one_thread():
            weights[:, [*columns, -1]] = fit_slopes(Z[:, columns], y, node)
        made = Columns(centre, spread).estimators(np.asarray(weights)[:, None])
        models = (adapt(model, task) for model in made)
        return Run(dict(zip(network.labels, models, strict=True)))


def fit_slopes(X: FloatArray, y: FloatArray, g: AnyArray) -> FloatArray:
    """Fit a random intercept and random slopes of all columns that vary within most groups.

    Returns every group's linear model: coefficients, the intercept last. Where the covariance cannot be
    estimated (statsmodels meets a singular matrix), a statistician falls back on the random intercept,
    and so does this function. ``g`` numbers the groups from 0.
    """
    within = np.array([np.ptp(X[g == i], axis=0) for i in np.unique(g)])
    varies = [*(c for c in range(X.shape[1]) if (within[:, c] > 0).mean() > 0.5), X.shape[1]]
    try:
        return _fit(X, y, g, varies)
    except (np.linalg.LinAlgError, ValueError):
        return fit_intercept(X, y, g)


def fit_intercept(X: FloatArray, y: FloatArray, g: AnyArray) -> FloatArray:
    """Fit a random intercept, or plain least squares where groups do not differ; see ``fit_slopes``."""
    try:
        return _fit(X, y, g, [X.shape[1]])
    except (np.linalg.LinAlgError, ValueError):
        fixed = np.linalg.lstsq(with_constant(X), y, rcond=None)[0]
        return np.tile(fixed, (int(g.max()) + 1, 1)).astype(float)


def independent(X: FloatArray) -> AnyArray:
    """Return which standardised columns say more than a constant and the columns before them.

    >>> x, z = np.array([1.0, -1.0, 1.0, -1.0]), np.array([1.0, 1.0, -1.0, -1.0])
    >>> independent(np.column_stack([x, 0 * x, z, x + z])).tolist()
    [0, 2]
    """
    R = np.linalg.qr(np.column_stack([np.ones(len(X)), X]), mode="r")
    return np.flatnonzero(np.abs(np.diag(R))[1:] > 1e-8 * np.sqrt(len(X)))


def _fit(X: FloatArray, y: FloatArray, g: AnyArray, varies: list[int]) -> FloatArray:
    """Fit a linear mixed model by REML and add the BLUPs of the columns that vary to the fixed effects."""
    from statsmodels.regression.mixed_linear_model import MixedLM, MixedLMParams

    level, scale = y.mean(), y.std() or 1.0
    A, z = with_constant(X), (y - level) / scale
    fixed, relative = _start(A, z, g, varies)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = MixedLM(z, A, g, exog_re=A[:, varies])
        start = MixedLMParams.from_components(fe_params=fixed, cov_re=relative)
        fit = model.fit(start_params=start, reml=True, method=["lbfgs"], maxiter=50)
        effects = fit.random_effects
    weights = np.tile(np.asarray(fit.fe_params, dtype=float), (int(g.max()) + 1, 1))
    for i, effect in effects.items():
        weights[int(i), varies] += np.asarray(effect, dtype=float)
    weights *= scale
    weights[:, -1] += level
    if not np.isfinite(weights).all():
        raise np.linalg.LinAlgError("the mixed model's weights are not finite")
    return weights


def _start(
    A: FloatArray, y: FloatArray, g: AnyArray, varies: list[int], steps: int = 100
) -> tuple[FloatArray, FloatArray]:
    """Return fixed effects and relative covariance after some EM steps, to start statsmodels from.

    From its own starting point its optimisers often stop far from the maximum, and take ten times longer.
    """
    n, q = int(g.max()) + 1, len(varies)
    Z = A[:, varies]
    ZZ, ZA, Zy = np.zeros((n, q, q)), np.zeros((n, q, A.shape[1])), np.zeros((n, q))
    np.add.at(ZZ, g, Z[:, :, None] * Z[:, None, :])
    np.add.at(ZA, g, Z[:, :, None] * A[:, None, :])
    np.add.at(Zy, g, Z * y[:, None])
    psi, noise, AA, Ay = np.eye(q), 1.0, A.T @ A, A.T @ y
    beta = np.zeros(A.shape[1])
    for _ in range(steps):
        C = np.linalg.inv(ZZ / noise + np.linalg.pinv(psi))
        inner = C @ ZA / noise
        system = AA - np.einsum("nqa,nqb->ab", ZA, inner)
        beta = np.linalg.lstsq(system, Ay - np.einsum("nqa,nq->a", inner, Zy), rcond=None)[0]
        u = np.einsum("nqr,nr->nq", C, Zy - ZA @ beta) / noise
        psi = (np.einsum("nq,nr->qr", u, u) + C.sum(axis=0)) / n + 1e-9 * np.eye(q)
        rest = y - A @ beta - (Z * u[g]).sum(axis=1)
        noise = max(float((rest @ rest + np.einsum("nqr,nrq->", ZZ, C)) / len(y)), 1e-9)
    return beta, psi / noise
