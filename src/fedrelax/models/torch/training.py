"""Nets in training: the losses in PyTorch, and one fit of a single net or of many nodes' nets at once."""

from __future__ import annotations

import copy
import hashlib
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn import functional

from fedrelax.errors import FedRelaxError, in_one_line
from fedrelax.linear.arrays import nonzero
from fedrelax.losses import Absolute, Huber, Log, Loss, Squared
from fedrelax.models.base import Rows, Task
from fedrelax.models.torch.model import TorchModel, name_of, shaped_output
from fedrelax.threads import one_torch_thread
from fedrelax.typing import AnyArray, FloatArray

Tensors = dict[str, Tensor]
State = dict[str, Any]
"""The state of an optimiser or a schedule."""

ROWS_AT_ONCE = 4096
INITIAL, TRAINING = 0, 1
"""Streams of random numbers under a node's seed: for the initial weights, and for training."""
COMMON = ("step", "mu_product")
"""The entries of an optimiser's state that are the same for all nets trained together."""
DENSE = (
    nn.Linear,
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
"""Linear and elementwise layers."""


# Losses


class _Foreign(torch.autograd.Function):  # type: ignore[misc]
    """A loss that PyTorch does not have, through its ``per_row`` and ``gradient``."""

    @staticmethod
    def forward(context: Any, prediction: Tensor, target: Tensor, loss: Loss) -> Tensor:
        arrays = target.numpy(force=True), prediction.numpy(force=True)
        context.save_for_backward(prediction.new_tensor(loss.gradient(*arrays)))
        return prediction.new_tensor(loss.per_row(*arrays))

    @staticmethod
    def backward(context: Any, *slopes: Tensor) -> tuple[Tensor, None, None]:
        (gradient,) = context.saved_tensors
        return slopes[0][..., None] * gradient, None, None


def per_row(
    loss: Loss, target: Tensor, output: Tensor, classify: bool, temperature: float = 1.0
) -> Tensor:
    """Return the loss of each row; ``output`` holds numbers, or logits of classes.

    At a temperature T other than 1, the log loss learns soft labels at that temperature:
    T^2 KL(t', softmax(output / T)) with t' proportional to t^(1/T). Hard labels are learnt at
    temperature 1.
    """
    if isinstance(loss, Log):
        heat: Tensor | float = 1.0
        if temperature != 1.0:
            soft = target.amax(-1, keepdim=True) < 1.0
            heat = torch.where(soft, temperature, 1.0).to(output.dtype)
            target = target ** (1.0 / heat)
            target, output = target / target.sum(-1, keepdim=True), output / heat
        divergence = functional.kl_div(output.log_softmax(-1), target, reduction="none").sum(-1)
        return heat.squeeze(-1) ** 2 * divergence if isinstance(heat, Tensor) else divergence
    prediction = output.softmax(-1) if classify else output
    kind, error = type(loss), target - prediction
    if kind is Squared:
        return error.square().sum(-1)
    if kind is Absolute:
        return error.abs().sum(-1)
    if isinstance(loss, Huber) and kind is Huber:
        zero = torch.zeros_like(error)
        return functional.huber_loss(error, zero, reduction="none", delta=loss.delta).sum(-1)
    return _Foreign.apply(*torch.broadcast_tensors(prediction, target), loss)


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
        shape, axes = (X.shape[1], *(1,) * (X.ndim - 2)), (0, *range(2, X.ndim))
        values = [
            np.zeros(shape),
            np.ones(shape),
            np.zeros(target.shape[1]),
            np.ones(target.shape[1]),
        ]
        if model.scale:
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

    The weights are in ``tensors``. The module of nets that were trained together is ``shared``: it only
    says how to compute with them.
    """

    module: nn.Module
    tensors: Tensors
    scaling: Scaling
    input_shape: tuple[int, ...]
    """Of a row."""
    optimizer: State | None = None
    schedule: State | None = None
    fits: int = 0
    shared: bool = False

    @cached_property
    def own_module(self) -> nn.Module:
        """A module that has the weights itself, in evaluation mode."""
        if not self.shared:
            return self.module
        module = copy.deepcopy(self.module).eval()
        for name, tensor in tensors_of(module).items():
            tensor.copy_(self.tensors[name])
        return module

    def to_predict(self) -> Net:
        """Return only what is needed to predict."""
        module = self.own_module
        return Net(module, tensors_of(module), self.scaling, self.input_shape)

    def predict(self, X: AnyArray, task: Task) -> FloatArray:
        """Return (rows, outputs): numbers, or class probabilities."""
        like = next(iter(self.tensors.values()))
        rows = torch.as_tensor(np.asarray(X), dtype=like.dtype, device=like.device)
        module = self.own_module.eval()
        with torch.no_grad(), one_torch_thread():
            parts = [
                shaped_output(module, module(self.scaling.inputs(part)), len(part), task)
                for part in rows.split(ROWS_AT_ONCE)
            ]
            return _answers(self.scaling.outputs(torch.cat(parts)), task)

    def memory(self) -> dict[str, Any]:
        """Return the weights and the states of optimiser and schedule, as plain values and arrays."""
        return {
            "module": _to_arrays(self.tensors),
            "optimizer": _to_arrays(self.optimizer),
            "schedule": _to_arrays(self.schedule),
            "fits": self.fits,
        }

    def remembering(self, memory: dict[str, Any]) -> Net:
        """Return the net of the same node that had this memory."""
        tensors = _to_tensors(memory["module"])
        shapes = {name: value.shape for name, value in self.tensors.items()}
        if shapes != {name: value.shape for name, value in tensors.items()}:
            raise FedRelaxError("the saved weights of a net do not have the shapes of its module")
        return replace(
            self,
            tensors=tensors,
            optimizer=_to_tensors(memory["optimizer"]),
            schedule=_to_tensors(memory["schedule"]),
            fits=int(memory["fits"]),
            shared=True,
        )


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


TENSOR = "tensor"


def _to_arrays(value: Any) -> Any:
    if isinstance(value, Tensor):
        return {TENSOR: value.numpy(force=True)}
    if isinstance(value, dict):
        return {key: _to_arrays(part) for key, part in value.items()}
    return type(value)(map(_to_arrays, value)) if isinstance(value, list | tuple) else value


def _to_tensors(value: Any) -> Any:
    """Return the original of what ``_to_arrays`` returned."""
    if isinstance(value, dict):
        if set(value) == {TENSOR}:
            return torch.from_numpy(value[TENSOR].copy())
        return {key: _to_tensors(part) for key, part in value.items()}
    return type(value)(map(_to_tensors, value)) if isinstance(value, list | tuple) else value


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
    return Net(
        module, tensors_of(module), Scaling.of(model, task, rows.X, rows.target), rows.X.shape[1:]
    )


# One fit


@dataclass(frozen=True, eq=False)
class Problem:
    """What n nets learn, each from its node's rows; scaled inputs and weighted targets in the user's unit.

    The shapes are (n, rows, ...) of X, (n, terms, rows, outputs) of the target, and (n, terms, rows)
    of the weights for each loss. ``factor`` (n) makes the weighted sum of losses a mean.
    """

    X: Tensor
    target: Tensor
    weights: list[tuple[Loss, Tensor]]
    scaling: Scaling
    factor: Tensor

    @classmethod
    def of(
        cls,
        model: TorchModel,
        nets: Sequence[Net],
        X: AnyArray | Tensor,
        target: FloatArray,
        weights: dict[Loss, FloatArray],
    ) -> Problem:
        """Return the problem of arrays of these shapes."""
        scaling = Scaling.stack(model, nets)
        by_loss = [(loss, torch.as_tensor(w, **model.form)) for loss, w in weights.items()]
        total = sum(weight.sum((1, 2)) for _, weight in by_loss)
        unit = scaling.target_spread.square().mean((1, 2))  # what a squared error is divided by
        return cls(
            scaling.inputs(torch.as_tensor(X, **model.form)),
            torch.as_tensor(target, **model.form),
            by_loss,
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
                target=self.target[:, :, rows],
                weights=[(loss, weight[:, :, rows]) for loss, weight in self.weights],
                factor=self.factor * (n / len(rows)),
            )


def train(
    model: TorchModel, task: Task, terms: Sequence[Rows], before: Net | None, seed: int
) -> Net:
    """Return the net after one more fit; ``before`` stays as it is."""
    with one_torch_thread():
        net = before or new_net(model, task, terms[0], seed)
        rows = [term.some(np.flatnonzero(term.weight > 0)) for term in terms]
        weights = {
            loss: np.concatenate([r.weight if r.loss == loss else 0.0 * r.weight for r in rows])
            for loss in dict.fromkeys(r.loss for r in rows)
        }
        problem = Problem.of(
            model,
            [net],
            np.concatenate([r.X for r in rows])[None],
            np.concatenate([r.target for r in rows])[None, None],
            {loss: weight[None, None] for loss, weight in weights.items()},
        )
        module = copy.deepcopy(net.own_module).train()

        def outputs(X: Tensor) -> Tensor:
            return shaped_output(module, module(X[0]), X.shape[1], task)[None]

        with seeded(model.find_device(), seed, TRAINING, net.fits):
            optimizer = copy.deepcopy(net.optimizer)
            states = _descend(model, task, net, optimizer, module.parameters(), problem, outputs)
        module.zero_grad()
    module.eval()
    return replace(net, module=module, tensors=tensors_of(module), shared=False, **states)


def train_many(
    model: TorchModel,
    task: Task,
    nets: Sequence[Net],
    problems: Sequence[Sequence[Rows]],
    memory: dict[str, Any],
) -> list[Net]:
    """Return nets of one architecture after one more fit, for all of which one optimiser steps.

    That gives what n optimisers would: the steps of those allowed here are elementwise.
    """
    _keep_freed_memory()
    first = nets[0]
    parameters: Tensors = _joined([net.tensors for net in nets])
    for name, own in first.module.named_parameters():
        parameters[name].requires_grad_(own.requires_grad)
    X, parts = pack([[term.X for term in terms] for terms in problems], model, memory, "fit")
    problem = Problem.of(model, nets, X, *_targets(problems, X.shape[1], parts, model.dtype))

    def outputs(X: Tensor) -> Tensor:
        return forward(first.module, task, parameters, X)

    first.module.train()
    optimizer = _joined([net.optimizer for net in nets])
    states = _descend(model, task, first, optimizer, parameters.values(), problem, outputs)
    first.module.eval()
    with torch.no_grad():  # Views are made much faster where no gradients may pass through them.
        weights = _split(parameters, len(nets))
        own_states = _split(states.pop("optimizer"), len(nets))
    return [
        replace(net, module=first.module, tensors=tensors, optimizer=state, shared=True, **states)
        for net, tensors, state in zip(nets, weights, own_states, strict=True)
    ]


def predict_many(
    model: TorchModel,
    task: Task,
    nets: Sequence[Net],
    inputs: Sequence[Sequence[AnyArray]],
    memory: dict[str, Any],
) -> list[list[FloatArray]]:
    """Return the predictions of every net for each of its sets of rows, from one forward pass."""
    X, parts = pack(inputs, model, memory, "predict")
    module, scaling = nets[0].module.eval(), Scaling.stack(model, nets)
    weights = _joined([net.tensors for net in nets])
    with torch.no_grad():
        output = scaling.outputs(forward(module, task, weights, scaling.inputs(X)))
        answer = _answers(output, task)
    return [[answer[k, parts[k][id(rows)]] for rows in own] for k, own in enumerate(inputs)]


def _descend(
    model: TorchModel,
    task: Task,
    last: Net,
    state: State | None,
    parameters: Iterable[Tensor],
    problem: Problem,
    outputs: Callable[[Tensor], Tensor],
) -> dict[str, Any]:
    """Take the steps of one fit on the parameters, in place, and return the states that the fit leaves.

    It goes on from the given state of an optimiser, which it may change, and from the last net's schedule.
    """
    parameters = list(parameters)
    optimizer, schedule = model.make_optimizer(parameters)
    if state is not None:
        optimizer.load_state_dict(state)
    if schedule is not None and last.schedule is not None:
        schedule.load_state_dict(copy.deepcopy(last.schedule))
    left, by_steps = model.amount(last.fits), model.epochs is None
    best, since, step = math.inf, 0, 0
    while left > 0 and (model.patience is None or since < model.patience):
        values = []
        for batch in problem.batches(model.batch_size):
            if by_steps and left == 0:
                break

            def objective(batch: Problem = batch) -> Tensor:
                optimizer.zero_grad()
                output = batch.scaling.outputs(outputs(batch.X))[:, None]
                classify, heat = task.is_classification, model.temperature
                losses = sum(
                    weight * per_row(loss, batch.target, output, classify, heat)
                    for loss, weight in batch.weights
                )
                value = (batch.factor * losses.sum((1, 2))).sum()
                value.backward()
                if model.clip is not None:
                    _clip(parameters, len(batch.X), model.clip)
                return value.detach()

            value = float(optimizer.step(objective))
            if not math.isfinite(value):
                raise FedRelaxError(
                    f"the training loss became {value} at step {step}; try a smaller lr, "
                    "scale=True, or clip=1.0"
                )
            values.append(value)
            step += 1
            left -= by_steps
        left -= not by_steps
        if schedule is not None:
            schedule.step()
        mean = sum(values) / len(values)
        since = 0 if mean < best else since + 1
        best = min(best, mean)
    return {
        "optimizer": optimizer.state_dict(),
        "schedule": None if schedule is None else schedule.state_dict(),
        "fits": last.fits + 1,
    }


def _clip(parameters: Iterable[Tensor], n: int, most: float) -> None:
    """Clip the gradient of each of n nets by its own norm."""
    gradients = [p.grad if n > 1 else p.grad[None] for p in parameters if p.grad is not None]
    square = sum(gradient.square().reshape(n, -1).sum(1) for gradient in gradients)
    factor = (most / (square.sqrt() + 1e-6)).clamp(max=1.0)
    for gradient in gradients:
        gradient.mul_(factor.view(-1, *(1,) * (gradient.ndim - 1)))


def _joined(states: Sequence[Any]) -> Any:
    """Return the weights or states of n nets as one, a tensor (n, ...) for the n tensors of each name."""
    first = states[0]
    if isinstance(first, dict):
        return {
            name: copy.deepcopy(value) if name in COMMON else _joined([s[name] for s in states])
            for name, value in first.items()
        }
    return torch.stack(list(states)) if isinstance(first, Tensor) else first


def _split(state: Any, n: int) -> list[Any]:
    """Return the states of which ``_joined`` makes this one; their tensors are views of it."""
    if isinstance(state, dict):
        parts = {
            name: [value] * n if name in COMMON else _split(value, n)
            for name, value in state.items()
        }
        return [{name: values[k] for name, values in parts.items()} for k in range(n)]
    return list(state.detach().unbind()) if isinstance(state, Tensor) else [state] * n


@cache
def _keep_freed_memory() -> None:
    """Let the C library keep the memory of freed large arrays for the next ones.

    By default glibc returns it to the system after every step and takes it again, page by page, in the
    next, which can take as long as the arithmetic. Whenever glibc frees an array that had a mapping of
    its own, it raises its limit for such mappings to that size, up to 32 MB; so we free one that was
    never touched. Other C libraries have other rules, and lose nothing.
    """
    np.empty(31 * 2**20, dtype=np.uint8)


def forward(module: nn.Module, task: Task, weights: Tensors, X: Tensor) -> Tensor:
    """Return (n, rows, outputs) for the weights of n nets and rows (n, rows, ...).

    ``torch.vmap`` handles any module; a chain of linear layers takes a faster way to the same numbers.
    """
    layers = list(module.named_children()) if type(module) is nn.Sequential else []
    flat = X
    if layers and repr(layers[0][1]) == repr(nn.Flatten()):
        layers, flat = layers[1:], X.flatten(2)
    if layers and flat.ndim == 3 and all(type(layer) in DENSE for _, layer in layers):
        fresh = False
        for name, layer in layers:
            if type(layer) is nn.Linear:
                weight, bias = weights[f"{name}.weight"].mT, weights.get(f"{name}.bias")
                flat = flat @ weight if bias is None else torch.baddbmm(bias[:, None], flat, weight)
            elif fresh and type(layer) is nn.ReLU:
                flat = torch.relu_(flat)  # Nothing else needs the output of a linear layer.
            else:
                flat = layer(flat)
            fresh = type(layer) is nn.Linear
        return flat

    def one(own: Tensors, rows: Tensor) -> Tensor:
        return shaped_output(module, functional_call(module, own, (rows,)), len(rows), task)

    return vmap(one)(weights, X)


# The rows of many nodes


Parts = list[dict[int, slice]]
"""For every node, which of its rows are those of an array, by the array's identity."""


def pack(
    arrays: Sequence[Sequence[AnyArray]], model: TorchModel, memory: dict[str, Any], name: str
) -> tuple[Tensor, Parts]:
    """Return the rows of n nodes as one tensor (n, most rows of a node, ...); padding repeats a row.

    They come from ``memory`` if the arrays are those of last time.
    """
    distinct = [{id(array): array for array in own} for own in arrays]
    last = memory.get(name)
    if last is None or [[*own] for own in last[0]] != [[*own] for own in distinct]:
        most = max(sum(map(len, own.values())) for own in distinct)
        rows = np.zeros((len(arrays), most, *arrays[0][0].shape[1:]), dtype=model.dtype)
        parts: Parts = []
        for node, own in enumerate(distinct):
            end = 0
            parts.append({})
            for key, array in own.items():
                parts[node][key] = slice(end, end + len(array))
                rows[node, parts[node][key]] = array
                end += len(array)
            rows[node, end:] = rows[node, :1]
        memory[name] = last = distinct, torch.as_tensor(rows, **model.form), parts
    return last[1], last[2]


def _targets(
    problems: Sequence[Sequence[Rows]], rows: int, parts: Parts, dtype: str
) -> tuple[FloatArray, dict[Loss, FloatArray]]:
    """Return targets (n, terms, rows, outputs), and for each loss weights (n, terms, rows).

    There are as many terms as any node has on the same rows; the others have weight 0.
    """
    every = [term for terms in problems for term in terms]
    most = max(max(Counter(id(term.X) for term in terms).values()) for terms in problems)
    shape = (len(problems), most, rows)
    target = np.empty((*shape, every[0].target.shape[1]), dtype=dtype)
    target[...] = every[0].target[0]
    weights = {term.loss: np.zeros(shape, dtype=dtype) for term in every}
    for node, terms in enumerate(problems):
        used: Counter[int] = Counter()
        for term in terms:
            at = node, used[id(term.X)], parts[node][id(term.X)]
            used[id(term.X)] += 1
            target[at] = term.target
            weights[term.loss][at] = term.weight
    return target, weights
