"""A network of linear least-squares models, reduced to what a round needs."""

from __future__ import annotations

import copy
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy import sparse

from fedrelax.engines.linear.blocks import Blocks
from fedrelax.engines.linear.memory import problem_bytes, require_memory
from fedrelax.engines.linear.ordering import cache_order
from fedrelax.engines.linear.rows import NodeRows, Progress, build_blocks
from fedrelax.errors import FedRelaxError
from fedrelax.typing import AnyArray, FloatArray, IntArray


class LinearProblem:
    """All rows as ``H_i = X_i'X_i/m_i``, ``b_i = X_i'y_i/m_i`` and ``Q_j = P_j'P_j/m_pub(j)``.

    Node i's model is ``w_i`` of shape (d, q); with ``intercept`` a constant column is appended, so
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
        already divided by the node's number of rows when ``scaling`` is "mean".
    scaling : "mean" as above; "rows" leaves out the divisions by m_i and m_pub(j).
    level : share of the coupling that also holds for the level: ``Q - (1 - level) x x'`` takes the place
        of Q, with x the mean public row; for a common set.
    reorder : True, False, or None to store nodes in reverse Cuthill-McKee order where it pays.
        Arrays of this class are in stored order; ``stored`` and ``given`` translate.
    progress : called as ``progress(nodes_done, nodes_total)`` while products are formed.
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
        dtype: npt.DTypeLike = np.float64,
        reorder: bool | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.dtype = np.dtype(dtype)
        if scaling not in ("mean", "rows"):
            raise FedRelaxError(f"scaling: expected 'mean' or 'rows', found {scaling!r}")
        if self.dtype not in (np.dtype(np.float64), np.dtype(np.float32)):
            raise FedRelaxError(f"dtype: expected float64 or float32, found {self.dtype}")
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
                dtype=self.dtype,
            ),
            n=self.n,
            d=self.d,
            common=is_common,
        )
        self._place(graph, reorder)
        self.ridge = self._ridge(ridge)
        total = self.n * (1 if public_rows is None else 2)

        def report(done: int) -> None:
            if progress is not None:
                progress(done, total)

        self.own, self.moment, self.power = build_blocks(
            rows,
            intercept=self.intercept,
            position=self.position,
            dtype=self.dtype,
            targets=targets,
            scaling=scaling,
            progress=report,
        )
        self.spent = False
        self.common: FloatArray | None = None
        self.whole: FloatArray | None = None
        """Q itself, where ``common`` has a share of the level only."""
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
                position=self.position,
                dtype=self.dtype,
                scaling=scaling,
                progress=lambda done: report(self.n + done),
            )[0]

    def _place(self, graph: Any, reorder: bool | None) -> None:
        """Choose the stored order of nodes and bring the graph into it."""
        row_bytes = self.d * self.q * self.dtype.itemsize
        order = cache_order(graph, row_bytes, reorder)
        self.order: IntArray = np.arange(self.n) if order is None else order
        self.position: IntArray = np.empty(self.n, dtype=np.int64)
        self.position[self.order] = np.arange(self.n)
        self.reordered = order is not None
        if self.reordered:
            graph = graph[self.order][:, self.order]
            graph.sort_indices()
        index = np.int32 if max(graph.nnz, self.n) < np.iinfo(np.int32).max else np.int64
        self.adjacency = sparse.csr_array(
            (
                graph.data.astype(self.dtype, copy=False),
                graph.indices.astype(index, copy=False),
                graph.indptr.astype(index, copy=False),
            ),
            shape=graph.shape,
        )
        self.degree: FloatArray = np.asarray(graph.sum(axis=1), dtype=np.float64).reshape(-1)

    def on(self, edges: Any) -> LinearProblem:
        """Return the problem on another graph, a CSR matrix in the given order of nodes.

        The rows' products are shared, not copied.
        """
        if self.reordered:
            raise FedRelaxError("problem: nodes are stored in another order; use reorder=False")
        other = copy.copy(self)
        other.adjacency = sparse.csr_array(edges, dtype=self.dtype)
        other.degree = np.asarray(edges.sum(axis=1), dtype=np.float64).reshape(-1)
        return other

    def _ridge(self, ridge: npt.ArrayLike) -> FloatArray:
        """Return the diagonals of all ``R_i`` (n, d), in stored order."""
        value = np.asarray(ridge, dtype=np.float64)
        features = self.d - self.intercept
        shapes = ((), (self.n,), (self.n, features))
        if value.shape not in shapes or not (value >= 0).all():
            raise FedRelaxError(
                f"ridge: expected a number >= 0 or one for each of {self.n} nodes (and each of "
                f"{features} features), found shape {value.shape} with least value "
                f"{value.min(initial=np.inf):g}"
            )
        if value.ndim == 0:
            row = np.full(self.d, float(value))
            row[features:] = 0.0
            return np.broadcast_to(row, (self.n, self.d))
        diagonal: FloatArray = np.zeros((self.n, self.d))
        diagonal[:, :features] = value[self.order].reshape(self.n, -1)
        return diagonal

    def require_own(self) -> None:
        """Refuse further use after an update has overwritten the nodes' Gram matrices."""
        if self.spent:
            raise FedRelaxError(
                "problem: an update built with overwrite=True has taken its matrices; build the "
                "problem anew, or the update without overwrite"
            )

    @property
    def nbytes(self) -> int:
        """Bytes of the stored problem."""
        kept = self.own.nbytes + self.moment.nbytes + self.power.nbytes
        kept += self.ridge.nbytes if self.ridge.strides[0] else 0
        kept += self.degree.nbytes + self.order.nbytes + self.position.nbytes
        A = self.adjacency
        kept += A.data.nbytes + A.indices.nbytes + A.indptr.nbytes
        kept += 0 if self.public is None else self.public.nbytes
        return int(kept + (0 if self.common is None else self.common.nbytes))

    def stored(self, W: npt.ArrayLike | None) -> AnyArray:
        """Return models (n, d, q) or (n, d) in stored order and precision; zeros for None."""
        if W is None:
            return np.zeros((self.n, self.d, self.q), dtype=self.dtype)
        given = np.asarray(W)
        if given.ndim == 2:
            given = given[:, :, None]
        if given.shape != (self.n, self.d, self.q):
            raise FedRelaxError(
                f"initial models: expected shape {(self.n, self.d, self.q)}, found {given.shape}"
            )
        return np.ascontiguousarray(given[self.order], dtype=self.dtype)

    def given(self, W: AnyArray) -> AnyArray:
        """Return a copy of stored models in the order in which nodes were given."""
        return W[self.position] if self.reordered else W.copy()


def check_adjacency(adjacency: Any, n: int) -> Any:
    """Return the graph as CSR after checking shape, weights, diagonal and symmetry."""
    graph = sparse.csr_array(adjacency, dtype=np.float64)
    if graph.shape != (n, n):
        raise FedRelaxError(f"adjacency: {n} nodes have rows, the graph has shape {graph.shape}")
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
    """Return ``Q = P'P/m_pub`` of the one public set, or ``P'P``, and its mean row x in the same units."""
    P = np.asarray(rows, dtype=np.float64)
    if intercept:
        P = np.column_stack([P, np.ones(len(P))])
    if not np.isfinite(P).all():
        raise FedRelaxError("public: the common set holds a value that is not a finite number")
    Q: FloatArray = P.T @ P / (len(P) if scaling == "mean" else 1)
    return Q, P.mean(axis=0) * (1.0 if scaling == "mean" else np.sqrt(len(P)))
