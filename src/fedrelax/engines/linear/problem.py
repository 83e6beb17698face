"""A network of linear least-squares models, reduced to what a round needs."""

from __future__ import annotations

import copy
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy import sparse

from fedrelax.engines.linear.blocks import Blocks
from fedrelax.engines.linear.memory import problem_bytes, require_memory
from fedrelax.engines.linear.rows import NodeRows, build_blocks
from fedrelax.errors import FedRelaxError
from fedrelax.typing import AnyArray, FloatArray


class LinearProblem:
    """All rows as ``H_i = X_i'X_i/m_i``, ``b_i = X_i'y_i/m_i`` and ``Q_j = P_j'P_j/m_pub(j)``.

    Node i's model is ``w_i`` of shape (d, q); with ``intercept``, a constant column is appended, so
    its last row is the intercept. Node i's own objective is ``|X_i w - y_i|^2/m_i + w'R_i w`` with
    ``R_i = ridge_i`` on the diagonal, zero for the intercept.

    Parameters
    ----------
    X, y : rows (n, m, features) and targets (n, m) or (n, m, q); or, with ``offsets`` (n + 1),
        rows (N, features) and targets (N,) or (N, q), node i owning rows offsets[i]:offsets[i+1].
    adjacency : symmetric sparse matrix (n, n), weights >= 0, zero diagonal.
    public : (m_pub, features) for one common set; (n, m_pub, features), or (M, features) with
        ``public_offsets``, for a set per node.
    ridge : one number, one per node, or one per node and feature; in the units of H_i, that is
        already divided by the node's number of rows if ``scaling`` is "mean".
    scaling : "mean" as above; "rows" leaves out the divisions by m_i and m_pub(j).
    level : the share of the coupling that also applies to the level: ``Q - (1 - level) x x'`` replaces Q,
        with x the mean public row; for a common set only.
    """

    def __init__(
        self,
        X: npt.ArrayLike,
        y: npt.ArrayLike,
        adjacency: Any,
        public: npt.ArrayLike,
        *,
        offsets: npt.ArrayLike | None = None,
        public_offsets: npt.ArrayLike | None = None,
        intercept: bool = False,
        ridge: npt.ArrayLike = 0.0,
        scaling: Literal["mean", "rows"] = "mean",
        level: float = 1.0,
    ) -> None:
        if scaling not in ("mean", "rows"):
            raise FedRelaxError(f"scaling: expected 'mean' or 'rows', found {scaling!r}")
        rows = NodeRows(X, offsets, name="X")
        targets = _targets(y, rows)
        self.n, self.d, self.q = rows.n, rows.d + bool(intercept), targets.shape[1]
        self.intercept, self.level = bool(intercept), float(level)
        graph = check_adjacency(adjacency, self.n)
        shared = np.asarray(public)
        is_common = shared.ndim == 2 and public_offsets is None
        public_rows = None if is_common else NodeRows(public, public_offsets, name="public")
        _check_public(shared if public_rows is None else public_rows.flat, rows.d)
        if public_rows is not None and public_rows.n != self.n:
            raise FedRelaxError(f"public: {public_rows.n} sets for {self.n} nodes; give one each")
        require_memory(
            problem_bytes(
                self.n,
                self.d,
                self.q,
                graph.nnz // 2,
                m=rows.most,
                m_pub=None if public_rows is None else public_rows.most,
            ),
            n=self.n,
            d=self.d,
            common=is_common,
        )
        self._join(graph)
        self.ridge = self._ridge(ridge)
        self.own, self.moment, self.power = build_blocks(
            rows,
            intercept=self.intercept,
            targets=targets,
            scaling=scaling,
        )
        self.common: FloatArray | None = None
        self.whole: FloatArray | None = None
        """Q itself; ``common`` differs from it if ``level`` is below 1."""
        self.public: Blocks | None = None
        if public_rows is None:
            self.common, self.mean = _common(shared, self.intercept, scaling)
            self.whole = self.common
            if level < 1.0:
                self.common = self.whole - (1.0 - level) * np.outer(self.mean, self.mean)
        else:
            if (public_rows.counts == 0).any():
                node = int(np.flatnonzero(public_rows.counts == 0)[0])
                raise FedRelaxError(f"public: node {node} (counting from 0) has no public rows")
            self.public = build_blocks(
                public_rows,
                intercept=self.intercept,
                scaling=scaling,
            )[0]

    def _join(self, graph: Any) -> None:
        """Store the graph with the smallest index type that suffices."""
        index = np.int32 if max(graph.nnz, self.n) < np.iinfo(np.int32).max else np.int64
        self.adjacency = sparse.csr_array(
            (
                graph.data,
                graph.indices.astype(index, copy=False),
                graph.indptr.astype(index, copy=False),
            ),
            shape=graph.shape,
        )
        self.degree: FloatArray = np.asarray(graph.sum(axis=1), dtype=np.float64).reshape(-1)

    def on(self, edges: Any) -> LinearProblem:
        """Return the problem on another graph, a CSR matrix with the nodes in the same order.

        The rows' products are shared, not copied.
        """
        other = copy.copy(self)
        other.adjacency = sparse.csr_array(edges, dtype=np.float64)
        other.degree = np.asarray(edges.sum(axis=1), dtype=np.float64).reshape(-1)
        return other

    def _ridge(self, ridge: npt.ArrayLike) -> FloatArray:
        """Return the diagonals of all ``R_i`` (n, d)."""
        value = np.asarray(ridge, dtype=np.float64)
        features = self.d - self.intercept
        shapes = ((), (self.n,), (self.n, features))
        if value.shape not in shapes or not (value >= 0).all():
            raise FedRelaxError(
                f"ridge: expected a number >= 0 or one for each of {self.n} nodes (and each of "
                f"{features} features), found shape {value.shape} with smallest value "
                f"{value.min(initial=np.inf):g}"
            )
        if value.ndim == 0:
            row = np.full(self.d, float(value))
            row[features:] = 0.0
            return np.broadcast_to(row, (self.n, self.d))
        diagonal: FloatArray = np.zeros((self.n, self.d))
        diagonal[:, :features] = value.reshape(self.n, -1)
        return diagonal

    @property
    def nbytes(self) -> int:
        """The size of the stored problem in bytes."""
        kept = self.own.nbytes + self.moment.nbytes + self.power.nbytes
        kept += self.ridge.nbytes if self.ridge.strides[0] else 0
        kept += self.degree.nbytes
        A = self.adjacency
        kept += A.data.nbytes + A.indices.nbytes + A.indptr.nbytes
        kept += 0 if self.public is None else self.public.nbytes
        return int(kept + (0 if self.common is None else self.common.nbytes))

    def start(self, W: npt.ArrayLike | None) -> FloatArray:
        """Return a copy of the models (n, d, q) or (n, d) to start from; zeros for None."""
        if W is None:
            return np.zeros((self.n, self.d, self.q))
        given = np.array(W, dtype=np.float64)
        if given.ndim == 2:
            given = given[:, :, None]
        if given.shape != (self.n, self.d, self.q):
            raise FedRelaxError(
                f"initial models: expected shape {(self.n, self.d, self.q)}, found {given.shape}"
            )
        return given


def check_adjacency(adjacency: Any, n: int) -> Any:
    """Return the graph as CSR after checking shape, weights, diagonal and symmetry."""
    graph = sparse.csr_array(adjacency, dtype=np.float64)
    if graph.shape != (n, n):
        raise FedRelaxError(
            f"adjacency: {n} nodes have rows, but the graph has shape {graph.shape}"
        )
    if not (np.isfinite(graph.data).all() and (graph.data >= 0).all()):
        raise FedRelaxError("adjacency: weights must be finite and >= 0")
    if graph.diagonal().any():
        node = int(np.flatnonzero(graph.diagonal())[0])
        raise FedRelaxError(
            f"adjacency: node {node} is its own neighbour; set the diagonal to zero"
        )
    probe = np.random.default_rng(0).random(n)
    gap = np.abs(graph @ probe - graph.T @ probe).max(initial=0.0)
    if gap > 1e-9 * np.abs(graph.data).max(initial=1.0) * max(n, 1):
        raise FedRelaxError("adjacency: A_ij and A_ji differ; the graph must be undirected")
    return graph


def _targets(y: npt.ArrayLike, rows: NodeRows) -> AnyArray:
    """Return targets as (N, q), one row per row of X."""
    array = np.asarray(y)
    total = len(rows.flat)
    if array.shape[:1] == (total,) and array.ndim in (1, 2):
        return array.reshape(total, -1 if total else 1)
    if array.ndim in (2, 3) and array.shape[0] * array.shape[1] == total:
        return array.reshape(total, -1 if total else 1)
    raise FedRelaxError(f"y: expected one target row for each of {total} rows, found {array.shape}")


def _check_public(flat: AnyArray, features: int) -> None:
    if flat.ndim != 2 or flat.shape[1] != features or not len(flat):
        raise FedRelaxError(
            f"public: expected at least one row of {features} features, found shape {flat.shape}"
        )


def _common(rows: AnyArray, intercept: bool, scaling: str) -> tuple[FloatArray, FloatArray]:
    """Return ``Q = P'P/m_pub``, or ``P'P``, of the common set, and its mean row x in the same units."""
    P = np.asarray(rows, dtype=np.float64)
    if intercept:
        P = np.column_stack([P, np.ones(len(P))])
    if not np.isfinite(P).all():
        raise FedRelaxError("public: the common set has a value that is not a finite number")
    Q: FloatArray = P.T @ P / (len(P) if scaling == "mean" else 1)
    return Q, P.mean(axis=0) * (1.0 if scaling == "mean" else np.sqrt(len(P)))
