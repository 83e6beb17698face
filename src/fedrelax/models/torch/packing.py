"""The rows of many nodes as a few tensors: shared rows once, the others padded.

A padding row repeats the node's first row and has weight 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from fedrelax.losses import Loss
from fedrelax.models.base import Rows
from fedrelax.models.torch.scaling import Scaling
from fedrelax.typing import AnyArray, FloatArray

Tensor = Any


@dataclass(frozen=True, eq=False)
class Packed:
    """Rows of n nodes: ``shared`` (rows, ...), and ``private`` (n, most rows of a node, ...).

    Scaled rows differ from node to node, so with scaling ``shared`` is (n, rows, ...), too.
    """

    given: list[list[AnyArray]]
    scaling: Scaling | None
    common: AnyArray | None
    shared: Tensor | None
    private: Tensor | None

    def holds(self, arrays: Sequence[Sequence[AnyArray]], scaling: Scaling | None) -> bool:
        """Tell whether this was made from exactly these arrays."""
        return self.scaling is scaling and all(
            len(old) == len(new) and all(a is b for a, b in zip(old, new, strict=True))
            for old, new in zip(self.given, arrays, strict=True)
        )

    def dealt(
        self, shared: FloatArray | None, private: FloatArray | None
    ) -> list[list[FloatArray]]:
        """Split predictions (n, rows, outputs) by node and array, in the order of the arrays."""
        found = []
        for place, arrays in enumerate(self.given):
            answers, end = [], 0
            for array in arrays:
                if array is self.common:
                    assert shared is not None
                    answers.append(shared[place])
                else:
                    assert private is not None
                    answers.append(private[place, end : end + len(array)])
                    end += len(array)
            found.append(answers)
        return found


def pack(
    arrays: Sequence[Sequence[AnyArray]],
    scaling: Scaling | None,
    like: Tensor,
    memory: dict[str, Any],
    name: str,
) -> Packed:
    """Return the rows of every node as tensors, from ``memory`` if the arrays are those of last time."""
    last = memory.get(name)
    if last is None or not last.holds(arrays, scaling):
        memory[name] = last = _packed([list(own) for own in arrays], scaling, like)
    return last


def _packed(given: list[list[AnyArray]], scaling: Scaling | None, like: Tensor) -> Packed:
    common = _common(given)
    own = [[array for array in arrays if array is not common] for arrays in given]
    most = max(sum(map(len, arrays)) for arrays in own)
    private = shared = None
    if most:
        shape = next(array.shape[1:] for arrays in given for array in arrays)
        rows = np.zeros((len(given), most, *shape), dtype=like.numpy(force=True).dtype)
        for place, arrays in enumerate(own):
            _fill(rows[place], arrays)
        private = torch.as_tensor(rows, device=like.device)
    if common is not None:
        shared = torch.as_tensor(common, dtype=like.dtype, device=like.device)
    if scaling is not None:
        private = None if private is None else _scaled(private, scaling)
        shared = None if shared is None else _scaled(shared[None], scaling)
    return Packed(given, scaling, common, shared, private)


def _common(given: list[list[AnyArray]]) -> AnyArray | None:
    """Return the array that more than half of the nodes hold, or None."""
    known = {id(array): array for arrays in given for array in arrays}
    counts = Counter(number for arrays in given for number in {id(array) for array in arrays})
    number, count = max(counts.items(), key=lambda item: item[1])
    return known[number] if 2 * count > len(given) > 1 else None


def _fill(rows: AnyArray, parts: Sequence[AnyArray]) -> None:
    end = 0
    for part in parts:
        rows[end : end + len(part)] = part
        end += len(part)
    rows[end:] = rows[0]


def _scaled(rows: Tensor, scaling: Scaling) -> Tensor:
    return (rows - scaling.mean[:, None]) / scaling.spread[:, None]


@dataclass(frozen=True, eq=False)
class Block:
    """Rows with targets and a weight per loss; ``each`` node has its own rows, or all share them."""

    X: Tensor
    each: bool
    target: Tensor
    weights: list[tuple[Loss, Tensor]]


def blocks(problems: Sequence[Sequence[Rows]], packed: Packed, like: Tensor) -> list[Block]:
    """Return the terms of all nodes: those on private rows, and those on the shared ones.

    A node may have several terms on the shared rows: targets are (n, terms, rows, outputs) there and
    (n, 1, rows, outputs) on private rows.
    """
    own = [[term for term in terms if term.X is not packed.common] for terms in problems]
    told = [[term for term in terms if term.X is packed.common] for terms in problems]
    found = []
    if packed.private is not None:
        found.append(_block(packed.private, True, [[terms] for terms in own], like))
    if packed.shared is not None and any(told):
        lines = [[[term] for term in terms] for terms in told]
        found.append(_block(packed.shared, packed.scaling is not None, lines, like))
    return found


def _block(X: Tensor, each: bool, terms: list[list[list[Rows]]], like: Tensor) -> Block:
    """Fill (nodes, lines, rows): every line holds the rows of some terms, one after another."""
    every = [term for lines in terms for line in lines for term in line]
    losses = list(dict.fromkeys(term.loss for term in every))
    rows = max(sum(map(len, line)) for lines in terms for line in lines)
    shape = (len(terms), max(map(len, terms)), rows)
    kind = like.numpy(force=True).dtype
    target = np.zeros((*shape, every[0].target.shape[1]), dtype=kind)
    target[...] = every[0].target[0]
    weight = {loss: np.zeros(shape, dtype=kind) for loss in losses}
    for place, lines in enumerate(terms):
        for number, line in enumerate(lines):
            end = 0
            for term in line:
                part = slice(end, end + len(term))
                target[place, number, part] = term.target
                weight[term.loss][place, number, part] = term.weight
                end += len(term)
    device = like.device
    return Block(
        X,
        each,
        torch.as_tensor(target, device=device),
        [(loss, torch.as_tensor(values, device=device)) for loss, values in weight.items()],
    )
