"""Rounds of linear models on one common public set, for all nodes at once, under attack or not.

The library runs such rounds node by node, and a hundred of them take minutes. Here attacks, combining and
wirings are the library's own, and only the least squares are solved together. ``tests/test_attacks.py``
compares both.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fedrelax import Network
from fedrelax.attacks import Attack
from fedrelax.combining import Combine, Mean, usable
from fedrelax.runtime import LocalExchange, Message
from fedrelax.typing import FloatArray
from fedrelax.wiring import Wiring
from fedrelax.wiring.smoother import Smoother


class Rounds:
    """Nodes with equally many rows and models without intercept, and what they have heard."""

    def __init__(self, network: Network, alpha: float, attack: Attack | None) -> None:
        self.labels, self._alpha = network.labels, alpha
        self._X = np.stack([node.X for node in network])
        self._y = np.stack([node.y for node in network])
        self._public: FloatArray = np.asarray(network.public.common)
        self.given = self.edges = network.graph.adjacency
        rows = self._X.shape[1]
        self._moments = np.einsum("nmi,nmj->nij", self._X, self._X) / rows
        self._products = np.einsum("nmi,nm->ni", self._X, self._y) / rows
        pairs = zip(self._X, self._y, strict=True)
        self.weights = np.stack([np.linalg.lstsq(X, y, rcond=None)[0] for X, y in pairs])
        self._alone = self.weights
        plain = LocalExchange()
        self._exchange = plain if attack is None else attack.around(plain, network, None)
        smoother = Smoother(self._public)
        self._smoother, self._carried = smoother, [smoother.weights(X) for X in self._X]

    def run(self, rounds: int, wiring: Wiring | None, combine: Combine) -> FloatArray:
        """Return the nodes' weights after all rounds."""
        wiring = None if wiring is None else wiring.paced(rounds)
        for round in range(rounds):
            self._share(round)
            stage = None if wiring is None else wiring.due(round)
            if wiring is not None and stage is not None:
                self.edges = wiring.wire(stage, self)
            self._update(combine)
        return self.weights

    def _share(self, round: int) -> None:
        self._own = self.weights @ self._public.T
        messages = [
            Message(label, label, round, answers[:, None])
            for label, answers in zip(self.labels, self._own, strict=True)
        ]
        self._exchange.post(messages)
        heard = self._exchange.collect(self.labels[0], self.labels)
        told = {message.sender: message.predictions for message in heard}
        shape = (len(self._public), 1)
        taken = [usable(told[label], shape, False) for label in self.labels]
        self._silent = np.array([answer is None for answer in taken])
        self._told = np.stack([np.zeros(shape) if one is None else one for one in taken])[..., 0]

    def _update(self, combine: Combine) -> None:
        A = self.edges.toarray()
        A[:, self._silent] = 0
        degree = A.sum(axis=1)
        target = A @ self._told / np.where(degree > 0, degree, 1.0)[:, None]
        for i in np.flatnonzero(degree) if not isinstance(combine, Mean) else ():
            ends, span = np.flatnonzero(A[i]), (self._y[i].min(), self._y[i].max())
            answers = self._told[ends, :, None]
            target[i] = combine(answers, A[i, ends], self._own[i][:, None], span)[0][:, 0]
        coupled, strength = degree > 0, self._alpha * degree[degree > 0] / len(self._public)
        P = self._public
        H = self._moments[coupled] + strength[:, None, None] * (P.T @ P)
        b = self._products[coupled] + strength[:, None] * (target[coupled] @ P)
        self.weights = self._alone.copy()  # a node that hears nobody trains alone
        self.weights[coupled] = np.linalg.solve(H, b[..., None])[..., 0]

    # What a wiring sees

    def discrepancies(self, edges: Any) -> FloatArray:
        """Return the mean squared difference of answers for every stored entry."""
        rows = np.repeat(np.arange(len(self.labels)), np.diff(edges.indptr))
        apart = np.square(self._own[rows] - self._told[edges.indices]).mean(axis=1)
        return np.where(self._silent[edges.indices], np.inf, apart)

    def own_losses(self, edges: Any) -> FloatArray:
        """Return for every stored entry how badly the neighbour's answers fit the node's own rows."""
        coefficients = self._smoother.coefficients(self._told.T)
        found = []
        for i, y in enumerate(self._y):
            ends = edges.indices[edges.indptr[i] : edges.indptr[i + 1]]
            guesses = self._carried[i] @ coefficients[:, ends]
            found.append(np.square(guesses - y[:, None]).mean(axis=0))
        return np.where(self._silent[edges.indices], np.inf, np.concatenate(found))

    def embedding(self) -> FloatArray:
        """Return the answers that every node has sent."""
        return self._told
