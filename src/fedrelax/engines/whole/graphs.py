"""A network of ridge models on any graph, solved in one go, and its evidence.

Node i has ``A_i = c_i X_i'X_i + R`` and ``b_i = c_i X_i'y_i`` as in ``closed``. The models minimise

    sum_i c_i |X_i w_i - y_i|^2 + w_i'R w_i + sum_ij L_ij w_i'P w_j + sum_i (w_i - mean w)'E (w_i - mean w),

with L the graph's Laplacian, P the coupling along edges and E an equal coupling between all nodes. L is
scaled to the mean degree of the complete graph in ``closed``, on which both give the same models. The
system ``blockdiag(A_i + E) + L (x) P`` is factorised as a sparse matrix; the mean in the last term adds a
matrix of rank d, which is handled separately. The prior's determinant needs only the eigenvalues of L.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from scipy import linalg, sparse
from scipy.sparse.csgraph import connected_components

from fedrelax.engines.whole.closed import NodeSums, solve_complete
from fedrelax.typing import AnyArray, FloatArray, IntArray, SparseMatrix

DENSE = 0.2
"""Graphs with more than this share of all pairs joined are factorised as dense matrices."""
NODES = 2000
"""The most nodes, because all eigenvalues of the Laplacian are computed."""
OPERATIONS = 3e8
"""Operations one factorisation may take (about a sixth of a second); a search needs a few hundred."""


@dataclass(frozen=True)
class Mesh:
    """A weighted graph, scaled, with everything precomputed that all candidates share.

    ``part`` is the number of every node's connected component. ``order`` is an order of the nodes in
    which factorising causes little fill-in.
    """

    laplacian: SparseMatrix
    part: IntArray
    order: IntArray
    per_edge: float
    """The share of P that an edge of weight one gets."""
    _patterns: dict[int, tuple[IntArray, IntArray, IntArray]] = field(default_factory=dict)

    @classmethod
    def of(cls, laplacian: SparseMatrix, per_edge: float | None = None) -> Mesh:
        """Prepare a Laplacian, scaled as given or to the mean degree ``(n - 1) / n``."""
        given = sparse.csr_array(laplacian, dtype=np.float64)
        n = given.shape[0]
        degree = float(given.diagonal().mean())
        if per_edge is None:
            per_edge = (n - 1) / n / degree if degree > 0 else 0.0
        part = connected_components(given, directed=False)[1]
        scaled = given * per_edge
        order = np.argsort(_symbolic(scaled).perm_c)
        return cls(scaled, part, order, per_edge)

    @cached_property
    def eigenvalues(self) -> FloatArray:
        """The scaled Laplacian's eigenvalues, ascending; one per connected component is zero."""
        values: FloatArray = np.linalg.eigvalsh(self.laplacian.toarray())
        values[: self.parts] = 0.0
        return np.maximum(values, 0.0)

    @property
    def n(self) -> int:
        """The number of nodes."""
        return len(self.part)

    @property
    def parts(self) -> int:
        """The number of connected components."""
        return int(self.part.max()) + 1

    @property
    def is_dense(self) -> bool:
        """Whether so many nodes are joined that sparse matrices do not pay off."""
        return bool(self.laplacian.nnz > DENSE * self.n**2)

    @cached_property
    def blocks(self) -> tuple[IntArray, IntArray, FloatArray]:
        """Rows, columns and values of the Laplacian's entries in ``order``, the diagonal first."""
        ordered = self.laplacian[self.order][:, self.order].tocoo()
        off, places = ordered.row != ordered.col, np.arange(self.n)
        rows = np.concatenate([places, ordered.row[off]])
        columns = np.concatenate([places, ordered.col[off]])
        return rows, columns, np.concatenate([ordered.diagonal(), ordered.data[off]])

    def pattern(self, d: int) -> tuple[IntArray, IntArray, IntArray]:
        """Return where the entries of all d x d blocks go in a CSC matrix: take, indices, indptr."""
        if d not in self._patterns:
            self._patterns[d] = self._pattern(d)
        return self._patterns[d]

    def _pattern(self, d: int) -> tuple[IntArray, IntArray, IntArray]:
        rows, columns, _ = self.blocks
        inner = np.arange(d)
        row = np.broadcast_to(rows[:, None, None] * d + inner[:, None], (len(rows), d, d)).ravel()
        col = np.broadcast_to(columns[:, None, None] * d + inner, (len(rows), d, d)).ravel()
        take = np.lexsort((row, col))
        ends = np.append(0, np.cumsum(np.bincount(col, minlength=self.n * d)))
        return take, row[take].astype(np.int32), ends.astype(np.int32)


def operations(laplacian: SparseMatrix, d: int) -> float:
    """Return roughly how many sparse multiplications it takes to factorise a network of d columns.

    Dense multiplications are ten times as fast, and counted so.
    """
    n = laplacian.shape[0]
    if laplacian.nnz > DENSE * n * n:
        return float((n * d) ** 3 / 30)
    filled = np.diff(_symbolic(laplacian).L.indptr).astype(float)
    return float(np.square(filled).sum() * d**3)


def _symbolic(laplacian: SparseMatrix) -> Any:
    """Factorise the graph itself, for the ordering and the fill-in."""
    matrix = sparse.csc_array(laplacian + sparse.eye_array(laplacian.shape[0]))
    return _sparse_factor(matrix, "MMD_AT_PLUS_A")


def _sparse_factor(matrix: SparseMatrix, ordering: str) -> Any:
    from scipy.sparse.linalg import splu

    options = {"SymmetricMode": True}
    return splu(matrix, permc_spec=ordering, diag_pivot_thresh=0.0, options=options)


class _Factor:
    """The factorised system, without its part of rank d, nodes in the mesh's order.

    It is sparse, or dense if many nodes are joined.
    """

    def __init__(self, mesh: Mesh, own: FloatArray, coupling: FloatArray) -> None:
        d = len(coupling)
        blocks = mesh.blocks[2][:, None, None] * coupling
        blocks[: mesh.n] += own
        take, indices, ends = mesh.pattern(d)
        shape = (mesh.n * d, mesh.n * d)
        self.matrix = sparse.csc_array((blocks.ravel()[take], indices, ends), shape=shape)
        self._dense: Any = None
        if mesh.is_dense:
            self._dense = linalg.cho_factor(self.matrix.toarray(), lower=True, check_finite=False)
        else:
            self._sparse = _sparse_factor(self.matrix, "NATURAL")

    def log_determinant(self) -> float:
        if self._dense is not None:
            return 2.0 * float(np.log(np.diag(self._dense[0])).sum())
        return float(np.log(np.abs(self._sparse.U.diagonal())).sum())

    def solve(self, right: FloatArray) -> FloatArray:
        if self._dense is not None:
            found = linalg.cho_solve(self._dense, right, check_finite=False)
        else:
            found = self._sparse.solve(right)
        return np.asarray(found)


@dataclass(frozen=True)
class GraphNetwork:
    """All models (n, d) of one candidate on a graph, and what its evidence needs."""

    models: FloatArray
    ridge: FloatArray
    coupling: FloatArray
    everywhere: FloatArray
    log_determinant: float


def solve_graph(
    sums: NodeSums,
    mesh: Mesh,
    ridge: FloatArray,
    coupling: FloatArray,
    everywhere: FloatArray | None = None,
) -> GraphNetwork:
    """Solve the network exactly, with one step of refinement; ``everywhere`` is E, zero by default.

    With ``B = blockdiag(A_i + E) + L (x) P``, ``U`` n stacked identities and ``Y = B^-1 U``, the
    inverse is ``B^-1 + Y (E / n) T^-1 Y'`` with ``T = Y' blockdiag(A_i) U / n``. A connected component
    without rows needs E above zero in the columns without ridge.
    """
    n, d = mesh.n, len(ridge)
    E = np.zeros((d, d)) if everywhere is None else everywhere
    own = sums.gram[mesh.order] + np.diag(ridge)
    factor = _Factor(mesh, own + E, coupling)
    log_determinant = factor.log_determinant()
    Y: FloatArray = np.zeros((n * d, 0))
    passed: AnyArray = np.zeros((0, 0))
    if E.any():
        Y = factor.solve(np.tile(np.eye(d), (n, 1)))
        T = Y.T @ own.reshape(n * d, d) / n
        passed = np.linalg.solve(T.T, E.T / n).T
        log_determinant += float(np.linalg.slogdet(T)[1])

    def solve(right: FloatArray) -> FloatArray:
        return factor.solve(right) + Y @ (passed @ (Y.T @ right))

    right = sums.moment[mesh.order].ravel()
    models = solve(right)
    mean = models.reshape(n, d).mean(axis=0)
    models += solve(right - factor.matrix @ models + np.tile(E @ mean, n))
    placed = np.empty((n, d))
    placed[mesh.order] = models.reshape(n, d)
    return GraphNetwork(placed, ridge, coupling, E, log_determinant)


def graph_evidence(sums: NodeSums, mesh: Mesh, network: GraphNetwork) -> float:
    """Return -2 log of the restricted likelihood of the rows, up to a constant.

    Like ``closed.negative_log_evidence``, and equal to it on a complete graph: the part of the models
    along an eigenvector of L with eigenvalue e has prior precision ``R + e P + E``, and their mean has
    ``R``. With E = 0, every connected component has its own mean, flat in a column without ridge, so
    candidates with and without E are comparable only on a connected graph.
    """
    penalised = network.ridge > 0
    held = bool(network.everywhere.any())
    means = 1 if held else mesh.parts
    R = np.diag(network.ridge) + network.everywhere
    values = mesh.eigenvalues[means:, None, None]
    prior = float(np.linalg.slogdet(R + values * network.coupling)[1].sum())
    prior += means * float(np.log(network.ridge[penalised]).sum())
    residual = float(sums.power.sum() - (sums.moment * network.models).sum())
    freedom = sums.rows.sum() - means * int((~penalised).sum())
    weights = float((sums.rows * np.log(sums.weight)).sum())
    system = network.log_determinant
    return float(freedom * np.log(max(residual, 1e-300)) + system - prior - weights)


def solve_parts(sums: NodeSums, mesh: Mesh, ridge: FloatArray, faint: float) -> FloatArray:
    """Return the limit of infinite coupling: one model per connected component, as (n, d).

    ``faint`` weakly couples the components' columns without ridge, so that a component without rows
    gets the mean of the others there.
    """
    sizes, d = np.bincount(mesh.part), len(ridge)
    gram: AnyArray = (sizes - 1.0)[:, None, None] * np.diag(ridge)
    moment = np.zeros((len(sizes), d))
    np.add.at(gram, mesh.part, sums.gram)
    np.add.at(moment, mesh.part, sums.moment)
    ones = np.ones(len(sizes))
    whole = NodeSums(gram, moment, ones, sizes, ones)
    held = faint * np.diag((ridge == 0).astype(float))
    return solve_complete(whole, ridge, held).models[mesh.part]
