"""The nets of many nodes as one, with one optimiser for all of them."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from fedrelax.losses import Loss
from fedrelax.models.base import Rows, Task
from fedrelax.models.torch.model import TorchModel
from fedrelax.models.torch.modules import shaped_output
from fedrelax.models.torch.trained import Scaling, Trained, finished
from fedrelax.models.torch.training import Objective, descend, weighted
from fedrelax.typing import AnyArray, FloatArray

Parameters = dict[str, Tensor]

ACTIVATIONS = (
    nn.ELU,
    nn.GELU,
    nn.Identity,
    nn.LeakyReLU,
    nn.ReLU,
    nn.Sigmoid,
    nn.SiLU,
    nn.Softplus,
    nn.Tanh,
)
"""Elementwise layers."""

COMMON = ("step", "mu_product")
"""The entries of an optimiser's state that are the same for all nets trained together."""


@dataclass(frozen=True, eq=False)
class Stack:
    """n nets of one architecture. A stack is never changed: a fit returns a new one.

    ``parameters`` holds the values (n, *shape) of all nodes. The optimisers allowed here are elementwise,
    so one optimiser over these takes the steps of n optimisers.
    """

    module: nn.Module
    task: Task
    parameters: Parameters
    scaling: Scaling | None
    input_shape: tuple[int, ...]
    optimizer: dict[str, Any] | None = None
    schedule: dict[str, Any] | None = None
    fits: int = 0

    @classmethod
    def of(cls, nets: Sequence[Trained], task: Task) -> Stack:
        """Return a stack of nets after equally many fits."""
        parameters, _ = stack_module_state([net.module for net in nets])
        first, scalings = nets[0], [net.scaling for net in nets if net.scaling is not None]
        optimizers = [net.optimizer for net in nets if net.optimizer is not None]
        return cls(
            copy.deepcopy(first.module),
            task,
            parameters,
            Scaling.stack(scalings) if scalings else None,
            first.input_shape,
            _one_optimizer(optimizers) if optimizers else None,
            first.schedule,
            first.fits,
        )

    def outputs(self, X: Tensor, parameters: Parameters) -> Tensor:
        """Return (n, rows, outputs) for scaled rows (n, rows, ...)."""
        output = forward(self.module, self.task, parameters, X)
        return output if self.scaling is None else self.scaling.outputs(output)

    def answers(
        self, inputs: Sequence[Sequence[AnyArray]], memory: dict[str, Any]
    ) -> list[list[FloatArray]]:
        """Return the predictions of every net for each of its sets of rows."""
        packed = pack(inputs, self, memory, "asked")
        self.module.eval()
        with torch.no_grad():
            found = finished(self.outputs(packed.X, self.parameters), self.task)
        return [
            [found[node, packed.places[node][id(rows)]] for rows in own]
            for node, own in enumerate(inputs)
        ]

    def trained(self, node: int) -> Trained:
        """Return one node's net as if it had been trained alone."""
        module = copy.deepcopy(self.module)
        with torch.no_grad():
            for name, parameter in module.named_parameters():
                parameter.copy_(self.parameters[name][node])
        optimizer = self.optimizer
        if optimizer is not None:
            state = {
                number: {
                    key: value if key in COMMON or value is None else value[node].clone()
                    for key, value in entries.items()
                }
                for number, entries in optimizer["state"].items()
            }
            optimizer = {**optimizer, "state": state}
        scaling = None if self.scaling is None else self.scaling.at(node)
        return Trained(
            module.eval(), scaling, self.input_shape, optimizer, self.schedule, self.fits
        )


def _one_optimizer(states: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the state of one optimiser that goes on as these would."""
    joined = {
        number: {
            key: value
            if key in COMMON or value is None
            else torch.stack([state["state"][number][key] for state in states])
            for key, value in entries.items()
        }
        for number, entries in states[0]["state"].items()
    }
    return {**states[0], "state": joined}


def train_stack(
    model: TorchModel, stack: Stack, problems: Sequence[Sequence[Rows]], memory: dict[str, Any]
) -> Stack:
    """Return all nets after one more fit."""
    keep_freed_memory()
    parameters = {
        name: values.detach().clone().requires_grad_(values.requires_grad)
        for name, values in stack.parameters.items()
    }
    packed = pack([[term.X for term in terms] for terms in problems], stack, memory, "fit")
    target, weights = packed.targets(problems)
    total = sum(weight.sum((1, 2)) for _, weight in weights)
    scale = 1.0 / (total if stack.scaling is None else total * stack.scaling.unit[:, 0])
    classify = stack.task.is_classification
    stack.module.train()

    def objective() -> Tensor:
        output = stack.outputs(packed.X, parameters)[:, None]
        losses = weighted(weights, target, output, classify, model.temperature)
        value = (scale * losses.sum((1, 2))).sum()
        value.backward()
        if model.clip is not None:
            _clip([p.grad for p in parameters.values() if p.grad is not None], model.clip)
        return value.detach()

    def objectives() -> list[Objective]:
        return [objective]

    states = descend(model, stack, parameters.values(), objectives)
    for values in parameters.values():
        values.grad = None
    return replace(stack, parameters=parameters, **states)


def _clip(gradients: Sequence[Tensor], most: float) -> None:
    """Clip every node's gradient by its own norm."""
    square = sum(gradient.square().reshape(len(gradient), -1).sum(1) for gradient in gradients)
    factor = (most / (square.sqrt() + 1e-6)).clamp(max=1.0)
    for gradient in gradients:
        gradient.mul_(factor.view(-1, *(1,) * (gradient.ndim - 1)))


@cache
def keep_freed_memory() -> None:
    """Let the C library keep the memory of freed large arrays for the next ones.

    By default glibc returns it to the system after every step and takes it again, page by page, in the
    next, which can take as long as the arithmetic. Whenever glibc frees an array that had a mapping of
    its own, it raises its limit for such mappings to that size, up to 32 MB; so we free one that was
    never touched. Other C libraries have other rules, and lose nothing.
    """
    np.empty(31 * 2**20, dtype=np.uint8)


# The forward pass


def forward(module: nn.Module, task: Task, parameters: Parameters, X: Tensor) -> Tensor:
    """Return (n, rows, outputs) for the parameters of n nets and rows (n, rows, ...).

    ``torch.vmap`` handles any module; a chain of linear layers takes a faster way to the same numbers.
    """
    if _is_dense(module, X):
        before: nn.Module | None = None
        for name, layer in module.named_children():
            if type(layer) is nn.Linear:
                weight, bias = parameters[f"{name}.weight"].mT, parameters.get(f"{name}.bias")
                X = X @ weight if bias is None else torch.baddbmm(bias[:, None], X, weight)
            elif type(layer) is nn.ReLU and type(before) is nn.Linear:
                X = torch.relu_(X)  # Nothing else needs the output of a linear layer.
            else:
                X = X.flatten(2) if type(layer) is nn.Flatten else layer(X)
            before = layer
        return X

    def one(own: Parameters, rows: Tensor) -> Tensor:
        return shaped_output(module, functional_call(module, own, (rows,)), len(rows), task)

    return vmap(one)(parameters, X)


def _is_dense(module: nn.Module, X: Tensor) -> bool:
    """Tell whether a module is a chain of linear layers and activations, on rows of numbers."""
    if type(module) is not nn.Sequential:
        return False
    layers = list(module)
    if layers and type(layers[0]) is nn.Flatten:
        if (layers[0].start_dim, layers[0].end_dim) != (1, -1):
            return False
        layers = layers[1:]
    elif X.ndim != 3:
        return False
    return all(type(layer) in (nn.Linear, *ACTIVATIONS) for layer in layers)


# Rows


@dataclass(frozen=True, eq=False)
class Packed:
    """The rows of n nodes as one tensor (n, most rows of a node, ...), scaled; padding repeats a row.

    ``places`` says for every node where each of its arrays is, by the array's identity.
    """

    arrays: list[list[AnyArray]]
    places: list[dict[int, slice]]
    scaling: Scaling | None
    X: Tensor

    def targets(
        self, problems: Sequence[Sequence[Rows]]
    ) -> tuple[Tensor, list[tuple[Loss, Tensor]]]:
        """Return targets (n, terms, rows, outputs), and for each loss weights (n, terms, rows).

        There are as many terms as any node has on the same rows; the others have weight 0.
        """
        every = [term for terms in problems for term in terms]
        most = max(max(Counter(id(term.X) for term in terms).values()) for terms in problems)
        shape = (len(problems), most, self.X.shape[1])
        kind = self.X.numpy(force=True).dtype
        target = np.empty((*shape, every[0].target.shape[1]), dtype=kind)
        target[...] = every[0].target[0]
        losses = dict.fromkeys(term.loss for term in every)
        weight = {loss: np.zeros(shape, dtype=kind) for loss in losses}
        for node, terms in enumerate(problems):
            seen: Counter[int] = Counter()
            for term in terms:
                place = node, seen[id(term.X)], self.places[node][id(term.X)]
                seen[id(term.X)] += 1
                target[place] = term.target
                weight[term.loss][place] = term.weight
        form = {"device": self.X.device}
        weights = [(loss, torch.as_tensor(values, **form)) for loss, values in weight.items()]
        return torch.as_tensor(target, **form), weights


def pack(
    arrays: Sequence[Sequence[AnyArray]], stack: Stack, memory: dict[str, Any], name: str
) -> Packed:
    """Return the rows of every node as a tensor, from ``memory`` if the arrays are those of last time."""
    given = [list({id(array): array for array in own}.values()) for own in arrays]
    last = memory.get(name)
    if last is None or last.scaling is not stack.scaling or not _are_same(last.arrays, given):
        memory[name] = last = _packed(given, stack)
    return last


def _are_same(old: list[list[AnyArray]], new: list[list[AnyArray]]) -> bool:
    return [list(map(id, own)) for own in old] == [list(map(id, own)) for own in new]


def _packed(arrays: list[list[AnyArray]], stack: Stack) -> Packed:
    like = next(iter(stack.parameters.values()))
    most = max(sum(map(len, own)) for own in arrays)
    shape = (len(arrays), most, *stack.input_shape)
    rows = np.zeros(shape, dtype=like.numpy(force=True).dtype)
    places: list[dict[int, slice]] = []
    for node, own in enumerate(arrays):
        end, found = 0, {}
        for array in own:
            found[id(array)] = slice(end, end + len(array))
            rows[node, found[id(array)]] = array
            end += len(array)
        rows[node, end:] = rows[node, :1]
        places.append(found)
    X = torch.as_tensor(rows, device=like.device)
    X = X if stack.scaling is None else stack.scaling.inputs(X)
    return Packed(arrays, places, stack.scaling, X)
