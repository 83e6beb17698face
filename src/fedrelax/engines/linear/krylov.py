"""Two short-memory methods for a non-symmetric linear system ``op(s) = b``, one product per step."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from fedrelax.engines.linear.vectors import dot, norm
from fedrelax.typing import AnyArray, FloatArray

Operator = Callable[[AnyArray, AnyArray], AnyArray]


class TruncatedResidual:
    """Generalised conjugate residuals, each image orthogonal to the last ``window`` images.

    Each step takes the residual r as direction p, orthogonalises ``op(p)`` against earlier images and
    moves s along p to minimise ``|r|``. It modifies the given ``s`` and ``r`` in place.
    """

    def __init__(self, operator: Operator, s: AnyArray, r: AnyArray, window: int) -> None:
        self.operator, self.s, self.r = operator, s, r
        self.window = max(1, window)
        self._pairs: list[tuple[AnyArray, AnyArray]] = []
        self._work = np.empty_like(s)

    def step(self) -> float:
        """Run one step and return the norm of the residual."""
        if len(self._pairs) == self.window:
            p, image = self._pairs.pop(0)
        else:
            p, image = np.empty_like(self.s), np.empty_like(self.s)
        np.copyto(p, self.r)
        self.operator(p, image)
        for old, old_image in self._pairs:
            share = dot(old_image, image)
            p -= np.multiply(old, share, out=self._work)
            image -= np.multiply(old_image, share, out=self._work)
        size = norm(image)
        if size == 0:
            return norm(self.r)
        p /= size
        image /= size
        along = dot(image, self.r)
        self.s += np.multiply(p, along, out=self._work)
        self.r -= np.multiply(image, along, out=self._work)
        self._pairs.append((p, image))
        return norm(self.r)


class InducedReduction:
    """IDR(s) with bi-orthogonal directions (van Gijzen and Sonneveld, 2011): robust, fixed memory.

    Residuals are forced into shrinking subspaces defined by ``size`` fixed shadow vectors. The norm
    need not fall at every step. It modifies the given ``s`` and ``r`` in place.
    """

    def __init__(self, operator: Operator, s: AnyArray, r: AnyArray, size: int = 8) -> None:
        self.operator = operator
        self.s, self.r = s.reshape(-1), r.reshape(-1)
        self.shape = s.shape
        size = min(size, max(1, self.s.size - 1))
        shadow = np.random.default_rng(0).standard_normal((self.s.size, size))
        self._shadow = np.ascontiguousarray(np.linalg.qr(shadow)[0].T)
        self._steps = self._run(size)

    def step(self) -> float:
        """Run one product with the operator and return the norm of the residual."""
        next(self._steps)
        return norm(self.r)

    def _product(self, v: AnyArray) -> AnyArray:
        shaped = np.ascontiguousarray(v).reshape(self.shape)
        return self.operator(shaped, np.empty_like(shaped)).reshape(-1)

    def _run(self, size: int) -> Iterator[None]:
        r, s, shadow = self.r, self.s, self._shadow
        G = np.zeros((size, r.size))
        U = np.zeros_like(G)
        M: FloatArray = np.eye(size)
        omega = 1.0
        while True:
            f = shadow @ r
            for k in range(size):
                c = np.linalg.lstsq(M[k:, k:], f[k:], rcond=None)[0]
                v = r - c @ G[k:]
                u = omega * v + c @ U[k:]
                g = self._product(u)
                for i in range(k):
                    share = shadow[i] @ g / M[i, i] if M[i, i] else 0.0
                    g -= share * G[i]
                    u -= share * U[i]
                G[k], U[k] = g, u
                M[k:, k] = shadow[k:] @ g
                if M[k, k]:
                    beta = f[k] / M[k, k]
                    r -= beta * g
                    s += beta * u
                    f[k + 1 :] -= beta * M[k + 1 :, k]
                f[k] = 0.0
                yield
            image = self._product(r)
            omega = self._omega(image)
            s += omega * r
            r -= omega * image
            yield

    def _omega(self, image: AnyArray) -> float:
        """Return the step along r that minimises the residual, enlarged if image and r hardly align."""
        size, length = norm(image), norm(self.r)
        if not size or not length:
            return 1.0
        inner = float(image @ self.r)
        cosine = abs(inner) / (size * length)
        omega = inner / size**2
        return omega if cosine >= 0.7 or not cosine else omega * 0.7 / cosine
