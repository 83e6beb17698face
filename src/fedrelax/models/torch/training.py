"""Nets in training: the losses in PyTorch, and one fit of a single net or of many nodes' nets at once."""

from __future__ import annotations

import copy
import hashlib
import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain, count, islice
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn import functional

from fedrelax.errors import FedRelaxError, in_one_line
from fedrelax.linear.arrays import nonzero
from fedrelax.losses import Log, Loss, Squared
from fedrelax.models.base import Rows, Task
from fedrelax.models.torch.model import TorchModel, name_of, shaped_output
from fedrelax.threads import one_torch_thread
from fedrelax.typing import AnyArray, FloatArray

Tensors = dict[str, Tensor]
State = dict[str, Any]
"""The state of an optimiser."""

ROWS_AT_ONCE = 4096
INITIAL, TRAINING = 0, 1
"""Streams of random numbers under a node's seed: for the initial weights, and for training."""
COMMON = ("step", "mu_product")
"""The entries of an optimiser's state that are the same for all nets trained together."""


# Losses


def per_row(loss: Loss, target: Tensor, output: Tensor, classify: bool) -> Tensor:
    """Return the loss of each row; ``output`` holds numbers, or logits of classes.

    A loss that PyTorch does not have enters with its ``per_row`` and ``gradient``.
    """
    if isinstance(loss, Log):
        return functional.kl_div(output.log_softmax(-1), target, reduction="none").sum(-1)
    prediction = output.softmax(-1) if classify else output
    if type(loss) is Squared:
        return (target - prediction).square().sum(-1)
    arrays = target.numpy(force=True), prediction.numpy(force=True)
    value, slope = (prediction.new_tensor(part(*arrays)) for part in (loss.per_row, loss.gradient))
    linear = (prediction * slope).sum(-1)
    return value + (linear - linear.detach())


# Nets


class Scaling(NamedTuple):
    """x -> (x - mean) / spread before the module, z -> z target_spread + target_mean after it.

    The columns of a table are scaled one by one, inputs of a higher dimension channel by channel.
    A constant column is only centred.
    """

    mean: Tensor
    spread: Tensor
    target_mean: Tensor
    target_spread: Tensor

    @classmethod
    def of(cls, model: TorchModel, task: Task, X: AnyArray, target: FloatArray) -> Scaling:
        """Learn from a node's rows if the model says so; class probabilities are not scaled."""
        values = [np.zeros(1), np.ones(1), np.zeros(1), np.ones(1)]
        if model.scale:
            shape, axes = (X.shape[1], *(1,) * (X.ndim - 2)), (0, *range(2, X.ndim))
            values[0] = X.mean(axis=axes).reshape(shape)
            values[1] = nonzero(X.std(axis=axes)).reshape(shape)
            if not task.is_classification:
                values[2:] = target.mean(axis=0), nonzero(target.std(axis=0))
        return cls(*(torch.as_tensor(value, **model.form) for value in values))

    @classmethod
    def stack(cls, model: TorchModel, nets: Sequence[Net]) -> Scaling:
        """Return the scalings of n nets as one, for rows of shape (n, rows, ...)."""
        scalings = [net.scaling for net in (nets if model.scale else nets[:1])]  # else all alike
        return cls(*(torch.stack(values)[:, None] for values in zip(*scalings, strict=True)))

    def inputs(self, X: Tensor) -> Tensor:
        """Scale rows for the module."""
        return (X - self.mean) / self.spread

    def outputs(self, Z: Tensor) -> Tensor:
        """Return the module's outputs in the target's unit."""
        return Z * self.target_spread + self.target_mean


@dataclass(frozen=True, eq=False)
class Net:
    """What one fit passes to the next. It is never changed; ``fits`` counts the fits so far.

    The weights are in ``tensors``; the module, which nets may share, says how to compute with them.
    """

    module: nn.Module
    tensors: Tensors
    scaling: Scaling
    input_shape: tuple[int, ...]
    """Of a row."""
    optimizer: State | None = None
    fits: int = 0

    def to_predict(self) -> Net:
        """Return only what is needed to predict, with a module that has the weights itself."""
        module = copy.deepcopy(self.module).eval()
        for name, tensor in tensors_of(module).items():
            tensor.copy_(self.tensors[name])
        return Net(module, tensors_of(module), self.scaling, self.input_shape)

    def predict(self, X: AnyArray, task: Task) -> FloatArray:
        """Return (rows, outputs): numbers, or class probabilities."""
        like, module = next(iter(self.tensors.values())), self.module.eval()
        rows = torch.as_tensor(np.asarray(X), dtype=like.dtype, device=like.device)
        with torch.no_grad(), one_torch_thread():
            parts = [
                forward(module, task, self.tensors, self.scaling.inputs(part)[None])[0]
                for part in rows.split(ROWS_AT_ONCE)
            ]
            return _answers(self.scaling.outputs(torch.cat(parts)), task)


def tensors_of(module: nn.Module) -> Tensors:
    """Return the parameters and buffers of a module, without copying them."""
    named = (*module.named_parameters(), *module.named_buffers())
    return {name: tensor.detach() for name, tensor in named}


def _answers(output: Tensor, task: Task) -> FloatArray:
    """Return outputs as numbers or class probabilities; raise an error if any is not finite."""
    if task.is_classification:
        output = output.double().softmax(-1)
    answer: FloatArray = output.numpy(force=True).astype(np.float64)
    if not np.isfinite(answer).all():
        raise FedRelaxError("predicted NaN or infinity; the training probably diverged")
    return answer


@contextmanager
def seeded(device: torch.device, *numbers: int) -> Iterator[None]:
    """Within this context, draw from a stream that the numbers determine, not from PyTorch's own."""
    digest = hashlib.sha256(repr(numbers).encode()).digest()
    seed, on_gpu = int.from_bytes(digest[:7], "big"), device.type == "cuda"
    with torch.random.fork_rng(devices=[device] if on_gpu else []):
        # torch.manual_seed would record a traceback for every kind of device that is missing.
        torch.default_generator.manual_seed(seed)
        if on_gpu:
            torch.cuda.manual_seed(seed)
        yield


def new_module(model: TorchModel, task: Task, X: AnyArray, seed: int) -> nn.Module:
    """Return the module with a node's initial weights, tried in evaluation mode on the first row."""
    with seeded(model.find_device(), seed, INITIAL), torch.no_grad():
        module = model.make_module(X.shape[1:], task.n_outputs).eval()
        row = torch.as_tensor(X[:1], **model.form)
        try:
            output = module(row)
        except Exception as error:  # A module may raise anything.
            raise FedRelaxError(
                f"the module {name_of(module)} cannot take rows of shape {tuple(row.shape[1:])} "
                f"({in_one_line(error)})"
            ) from error
        shaped_output(module, output, len(row), task)
    return module


def new_net(model: TorchModel, task: Task, rows: Rows, seed: int) -> Net:
    """Return an untrained net for rows like those of a node's first term."""
    module = new_module(model, task, rows.X, seed)
    scaling = Scaling.of(model, task, rows.X, rows.target)
    return Net(module, tensors_of(module), scaling, rows.X.shape[1:])


# One fit


@dataclass(frozen=True, eq=False)
class Problem:
    """What n nets learn, each from its node's rows; scaled inputs and weighted targets in the user's unit.

    The shapes are (n, rows, ...) of X, (n, rows, outputs) of the target, and (n, rows) of the weights for
    each loss. ``factor`` (n) makes the weighted sum of losses a mean.
    """

    X: Tensor
    target: Tensor
    weights: list[tuple[Loss, Tensor]]
    scaling: Scaling
    factor: Tensor

    @classmethod
    def of(
        cls, model: TorchModel, nets: Sequence[Net], problems: Sequence[Sequence[Rows]]
    ) -> Problem:
        """Return the problem of nets, each of which has several terms."""
        problems = [[t.some(np.flatnonzero(t.weight > 0)) for t in terms] for terms in problems]
        scaling, form = Scaling.stack(model, nets), model.form
        X, _ = padded([[term.X for term in terms] for terms in problems])
        target, own = padded([[term.target for term in terms] for terms in problems])
        weights = []
        for loss in dict.fromkeys(term.loss for terms in problems for term in terms):
            share, _ = padded([[t.weight * (t.loss == loss) for t in terms] for terms in problems])
            weights.append((loss, torch.as_tensor(own * share, **form)))
        total = sum(weight.sum(1) for _, weight in weights)
        unit = scaling.target_spread.square().mean((1, 2))  # what a squared error is divided by
        return cls(
            scaling.inputs(torch.as_tensor(X, **form)),
            torch.as_tensor(target, **form),
            weights,
            scaling,
            1.0 / (total * unit),
        )

    def batches(self, size: int | None) -> Iterator[Problem]:
        """Yield the rows of every step of one pass: all, or batches in random order.

        A single row left over joins the batch before it: batch normalisation needs two.
        """
        n = self.X.shape[1]
        if size is None or size >= n:
            yield self
            return
        ends = list(range(size, n, size))
        if n - ends[-1] == 1 and len(ends) > 1:
            ends.pop()
        for rows in torch.tensor_split(torch.randperm(n).to(self.X.device), ends):
            yield replace(
                self,
                X=self.X[:, rows],
                target=self.target[:, rows],
                weights=[(loss, weight[:, rows]) for loss, weight in self.weights],
                factor=self.factor * (n / len(rows)),
            )


def padded(sets: Sequence[Sequence[AnyArray]]) -> tuple[AnyArray, AnyArray]:
    """Return every node's arrays one below the other, as (n, most rows, ...), and which rows are its own.

    The rest repeats its first row.
    """
    rows = [np.concatenate(own) for own in sets]
    sizes = [len(array) for array in rows]
    places = np.arange(max(sizes))
    own = places < np.array(sizes)[:, None]
    chosen = zip(rows, own * places, strict=True)
    return np.stack([array[at] for array, at in chosen]), own


def train(
    model: TorchModel,
    task: Task,
    nets: Sequence[Net],
    problems: Sequence[Sequence[Rows]],
    seed: int = 0,
) -> list[Net]:
    """Return nets of one architecture after one more fit; those given stay as they are.

    A single net draws its random numbers from ``seed``. The weights of several are stacked, and one
    optimiser steps. That gives what n optimisers would: the steps of those allowed here are elementwise.
    """
    module, fits, problem = nets[0].module, nets[0].fits, Problem.of(model, nets, problems)
    weights = _joined([net.tensors for net in nets])
    parameters = [
        weights[name].requires_grad_(own.requires_grad) for name, own in module.named_parameters()
    ]
    optimizer, state = model.make_optimizer(parameters), _joined([net.optimizer for net in nets])
    if state is not None:
        optimizer.load_state_dict(state)
    amount, by_steps = model.amount(fits), model.epochs is None
    passes = (problem.batches(model.batch_size) for _ in (count() if by_steps else range(amount)))
    batches = islice(chain.from_iterable(passes), amount if by_steps else None)
    module.train()
    with seeded(model.find_device(), seed, TRAINING, fits):
        for step, batch in enumerate(batches):

            def objective(batch: Problem = batch) -> Tensor:
                optimizer.zero_grad()
                output = batch.scaling.outputs(forward(module, task, weights, batch.X))
                losses = sum(
                    weight * per_row(loss, batch.target, output, task.is_classification)
                    for loss, weight in batch.weights
                )
                value = (batch.factor * losses.sum(1)).sum()
                value.backward()
                if model.clip is not None:
                    _clip(parameters, len(nets), model.clip)
                return value.detach()

            value = float(optimizer.step(objective))
            if not math.isfinite(value):
                raise FedRelaxError(
                    f"the training loss became {value} at step {step}; try a smaller lr, "
                    "scale=True, or clip=1.0"
                )
    module.eval()
    with torch.no_grad():
        states = zip(
            _split(weights, len(nets)), _split(optimizer.state_dict(), len(nets)), strict=True
        )
    return [
        replace(net, module=module, tensors=own, optimizer=own_state, fits=fits + 1)
        for net, (own, own_state) in zip(nets, states, strict=True)
    ]


def predict_many(
    model: TorchModel, task: Task, nets: Sequence[Net], inputs: Sequence[Sequence[AnyArray]]
) -> list[list[FloatArray]]:
    """Return the predictions of every net for each of its sets of rows, from one forward pass."""
    module, scaling = nets[0].module.eval(), Scaling.stack(model, nets)
    X = scaling.inputs(torch.as_tensor(padded(inputs)[0], **model.form))
    with torch.no_grad():
        output = forward(module, task, _joined([net.tensors for net in nets]), X)
        answers = _answers(scaling.outputs(output), task)
    ends = [np.cumsum([len(rows) for rows in own]) for own in inputs]
    return [np.split(own, end)[:-1] for own, end in zip(answers, ends, strict=True)]


def _clip(parameters: Iterable[Tensor], n: int, most: float) -> None:
    """Clip the gradient of each of n nets by its own norm."""
    gradients = [p.grad if n > 1 else p.grad[None] for p in parameters if p.grad is not None]
    square = sum(gradient.square().reshape(n, -1).sum(1) for gradient in gradients)
    factor = (most / (square.sqrt() + 1e-6)).clamp(max=1.0)
    for gradient in gradients:
        gradient.mul_(factor.view(-1, *(1,) * (gradient.ndim - 1)))


def _joined(states: Sequence[Any]) -> Any:
    """Return copies of the weights or states of n nets as one, tensors (n, ...); one net's as they are."""
    first = states[0]
    if len(states) == 1:
        return copy.deepcopy(first)
    if isinstance(first, dict):
        return {
            name: copy.deepcopy(value) if name in COMMON else _joined([s[name] for s in states])
            for name, value in first.items()
        }
    return torch.stack(list(states)) if isinstance(first, Tensor) else first


def _split(state: Any, n: int) -> list[Any]:
    """Return the weights or states of which ``_joined`` makes this one."""
    if isinstance(state, dict):
        parts = {
            name: [value] * n if name in COMMON else _split(value, n)
            for name, value in state.items()
        }
        return [{name: values[k] for name, values in parts.items()} for k in range(n)]
    if not isinstance(state, Tensor):
        return [state] * n
    # A view would be pickled with the weights of all nodes.
    return [part.clone() for part in state.detach()] if n > 1 else [state.detach()]


def forward(module: nn.Module, task: Task, weights: Tensors, X: Tensor) -> Tensor:
    """Return (n, rows, outputs) for rows (n, rows, ...) and the weights of n nets, as ``_joined``."""

    def one(own: Tensors, rows: Tensor) -> Tensor:
        return shaped_output(module, functional_call(module, own, (rows,)), len(rows), task)

    return vmap(one)(weights, X) if len(X) > 1 else one(weights, X[0])[None]
