"""The nets of many nodes as one: all weights in one tensor, one optimiser for all of them."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from typing import Any

import torch

from fedrelax.errors import FedRelaxError
from fedrelax.models.base import Rows, Task
from fedrelax.models.torch.description import TorchModel
from fedrelax.models.torch.forward import Forward, forward_of
from fedrelax.models.torch.objective import weighted
from fedrelax.models.torch.packing import Block, Packed, blocks, pack
from fedrelax.models.torch.scaling import Scaling
from fedrelax.models.torch.state import Trained, finished, keep_freed_memory
from fedrelax.models.torch.training import diverged, resumed
from fedrelax.typing import FloatArray

Tensor = Any


@dataclass(frozen=True, eq=False)
class Stack:
    """n nets of one architecture. A stack is never changed: a fit returns a new one.

    ``flat`` holds, one parameter after another, the values (n, *shape) of all nodes. The optimisers
    allowed here are elementwise, so one optimiser over ``flat`` takes the steps of n optimisers.
    """

    module: Any
    task: Task
    n: int
    flat: Tensor
    fixed: dict[str, Tensor]
    """Parameters that are not trained."""
    scaling: Scaling | None
    input_shape: tuple[int, ...]
    optimizer: dict[str, Any] | None = None
    schedule: dict[str, Any] | None = None
    fits: int = 0

    @classmethod
    def of(cls, nets: Sequence[Trained], task: Task) -> Stack:
        """Return a stack of nets, without their optimisers."""
        names = [dict(net.module.named_parameters()) for net in nets]
        shapes = [{name: p.shape for name, p in own.items()} for own in names]
        if any(other != shapes[0] for other in shapes):
            raise FedRelaxError("the nets have parameters of different shapes")
        with torch.no_grad():
            whole = {name: torch.stack([own[name] for own in names]) for name in names[0]}
        trained = [whole[name].ravel() for name, p in names[0].items() if p.requires_grad]
        fixed = {name: whole[name] for name, p in names[0].items() if not p.requires_grad}
        scalings = [net.scaling for net in nets if net.scaling is not None]
        scaling = Scaling.stack(scalings) if scalings else None
        return cls(
            nets[0].module, task, len(nets), torch.cat(trained), fixed, scaling, nets[0].input_shape
        )

    def parts(self, flat: Tensor) -> Iterator[tuple[str, Tensor]]:
        """Yield name and values (n, *shape) of every trained parameter, as views of ``flat``."""
        trained = [(name, p) for name, p in self.module.named_parameters() if p.requires_grad]
        pieces = flat.split([self.n * p.numel() for _, p in trained])
        for (name, p), piece in zip(trained, pieces, strict=True):
            yield name, piece.view(self.n, *p.shape)

    def outputs(self, forward: Forward, flat: Tensor, X: Tensor, each: bool) -> Tensor:
        """Return (n, rows, outputs) for rows (n, rows, ...), or for rows that all share."""
        output = forward({**dict(self.parts(flat)), **self.fixed}, X, each)
        if self.scaling is None:
            return output
        return output * self.scaling.target_spread[:, None] + self.scaling.target_mean[:, None]

    def answers(self, packed: Packed) -> list[FloatArray | None]:
        """Return the predictions of all nets for the shared and for the private rows."""
        forward = forward_of(self.module, self.task, train=False)
        found: list[FloatArray | None] = []
        with torch.no_grad():
            for X, each in ((packed.shared, packed.scaling is not None), (packed.private, True)):
                output = None if X is None else self.outputs(forward, self.flat, X, each)
                found.append(None if output is None else finished(output, self.task))
        return found

    def trained(self, place: int, to_go_on: bool = False) -> Trained:
        """Return one node's net as if it had been trained alone; with ``to_go_on``, its optimiser too."""
        module = copy.deepcopy(self.module)
        own = {**dict(self.parts(self.flat)), **self.fixed}
        with torch.no_grad():
            for name, parameter in module.named_parameters():
                parameter.copy_(own[name][place])
        scaling = None if self.scaling is None else self.scaling.at(place)
        net = Trained(module.eval(), scaling, self.input_shape)
        if not to_go_on:
            return net
        optimizer = self._optimizer_at(place)
        return replace(net, optimizer=optimizer, schedule=self.schedule, fits=self.fits)

    def _optimizer_at(self, place: int) -> dict[str, Any]:
        """Return the optimiser's state for one node only."""
        assert self.optimizer is not None, "an untrained stack has no optimiser to continue from"
        names = [name for name, _ in self.module.named_parameters()]
        state: dict[int, dict[str, Any]] = {}
        for key, value in self.optimizer["state"].get(0, {}).items():
            whole = isinstance(value, torch.Tensor) and value.shape == self.flat.shape
            for name, part in self.parts(value if whole else self.flat):
                own = part[place].clone() if whole else copy.deepcopy(value)
                state.setdefault(names.index(name), {})[key] = own
        group = {**self.optimizer["param_groups"][0], "params": list(range(len(names)))}
        return {"state": state, "param_groups": [group]}


def train_stack(
    model: TorchModel,
    stack: Stack,
    problems: Sequence[Sequence[Rows]],
    memory: dict[str, Any],
) -> Stack:
    """Return all nets after one more fit."""
    keep_freed_memory()
    flat = stack.flat.clone().requires_grad_()
    packed = pack(
        [[term.X for term in terms] for terms in problems], stack.scaling, flat, memory, "fit"
    )
    parts = blocks(problems, packed, flat)
    total = sum(w.sum((1, 2)) for part in parts for _, w in part.weights)
    scale = 1.0 / (total if stack.scaling is None else total * stack.scaling.unit)
    optimizer, schedule = resumed(model, stack, [flat])
    forward = forward_of(stack.module, stack.task, train=True)

    def objective() -> Tensor:
        optimizer.zero_grad()
        outputs = [stack.outputs(forward, flat, part.X, part.each) for part in parts]
        value = scale * sum(map(_value, repeat(model), repeat(stack), parts, outputs))
        value.sum().backward()
        if model.clip is not None:
            _clip(stack, flat.grad, model.clip)
        return value.detach()

    for step in range(model.amount(stack.fits)):
        value = optimizer.step(objective)
        if not torch.isfinite(value).all():
            raise diverged(math.nan, step)
        if schedule is not None:
            schedule.step()
    later = None if schedule is None else schedule.state_dict()
    return replace(
        stack,
        flat=flat.detach(),
        optimizer=optimizer.state_dict(),
        schedule=later,
        fits=stack.fits + 1,
    )


def _value(model: TorchModel, stack: Stack, part: Block, output: Tensor) -> Tensor:
    """Return each node's weighted sum of losses over a block of rows."""
    classify = stack.task.is_classification
    losses = weighted(part.weights, part.target, output[:, None], classify, model.temperature)
    return losses.sum((1, 2))


def _clip(stack: Stack, gradient: Tensor, most: float) -> None:
    """Clip every node's gradient by its own norm."""
    parts = [part for _, part in stack.parts(gradient)]
    square = sum(part.flatten(1).square().sum(1) for part in parts)
    factor = (most / (square.sqrt() + 1e-6)).clamp(max=1.0)
    for part in parts:
        part.mul_(factor.view(-1, *(1,) * (part.ndim - 1)))
