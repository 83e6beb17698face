"""One fit of one net: steps on the weighted mean of the losses over a node's rows."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch

from fedrelax.errors import FedRelaxError
from fedrelax.losses import Loss
from fedrelax.models.base import Rows, Task
from fedrelax.models.torch.building import tried
from fedrelax.models.torch.description import TorchModel
from fedrelax.models.torch.objective import weighted
from fedrelax.models.torch.scaling import Scaling
from fedrelax.models.torch.state import Trained, outputs, seeded
from fedrelax.threads import one_torch_thread
from fedrelax.typing import AnyArray

Tensor = Any


class Resting(Protocol):
    """Something that holds the states of an optimiser and its schedule, to continue from."""

    @property
    def optimizer(self) -> dict[str, Any] | None:
        """The optimiser's state."""

    @property
    def schedule(self) -> dict[str, Any] | None:
        """The schedule's state."""


INITIAL, TRAINING = 0, 1
"""Streams of random numbers under a node's seed: for the initial weights, and for training."""


@dataclass(frozen=True, eq=False)
class Problem:
    """All rows of a node's terms together, with a weight per row for each loss."""

    X: Tensor
    target: Tensor
    weights: list[tuple[Loss, Tensor]]
    total: float

    @classmethod
    def of(cls, terms: Sequence[Rows], model: TorchModel) -> Problem:
        """Join the terms, without rows of zero weight."""
        losses = list(dict.fromkeys(term.loss for term in terms))
        keep = [term.weight > 0 for term in terms]
        weight = np.concatenate([term.weight[k] for term, k in zip(terms, keep, strict=True)])
        owner = np.repeat([losses.index(term.loss) for term in terms], [k.sum() for k in keep])
        form = {"dtype": model.number, "device": model.place()}
        return cls(
            torch.as_tensor(_joined([t.X for t in terms], keep), **form),
            torch.as_tensor(_joined([t.target for t in terms], keep), **form),
            [
                (loss, torch.as_tensor(np.where(owner == k, weight, 0.0), **form))
                for k, loss in enumerate(losses)
            ],
            float(weight.sum()),
        )

    def batches(self, size: int | None) -> Iterator[Any]:
        """Yield the rows of every step of one pass: all, or batches in random order.

        A single row left over joins the batch before it: batch normalisation needs two.
        """
        n = len(self.X)
        if size is None or size >= n:
            yield slice(None)
            return
        order = torch.randperm(n).to(self.X.device)
        ends = list(range(size, n, size))
        if n - ends[-1] == 1 and len(ends) > 1:
            ends.pop()
        yield from torch.tensor_split(order, ends)


def _joined(parts: Sequence[AnyArray], keep: Sequence[AnyArray]) -> AnyArray:
    return np.concatenate([part[k] for part, k in zip(parts, keep, strict=True)])


def new_module(model: TorchModel, task: Task, X: AnyArray, seed: int) -> Any:
    """Return the module with a node's initial weights, tried on the first row."""
    device = model.place()
    with seeded(device, seed, INITIAL):
        module = model.make_module(X.shape[1:], task.n_outputs)
        tried(module, torch.as_tensor(X[:1], dtype=model.number, device=device), task)
    return module


def started(model: TorchModel, task: Task, term: Rows, seed: int) -> Trained:
    """Return an untrained net for rows like those of a node's first term."""
    module, scaling = new_module(model, task, term.X, seed), None
    if model.scale:
        classify, device = task.is_classification, model.place()
        scaling = Scaling.of(term.X, term.target, classify, model.number, device)
    return Trained(module, scaling, term.X.shape[1:])


def train(
    model: TorchModel, task: Task, terms: Sequence[Rows], before: Trained | None, seed: int
) -> Trained:
    """Return the net after one more fit; ``before`` stays as it is."""
    with one_torch_thread():
        net = started(model, task, terms[0], seed) if before is None else before.copied()
        problem = Problem.of(terms, model)
        optimizer, schedule = resumed(model, net, net.module.parameters())
        with seeded(model.place(), seed, TRAINING, net.fits):
            net.module.train()
            _descend(model, task, problem, net, optimizer, schedule)
        net.module.zero_grad()
        net.module.eval()
    return net.after(optimizer, schedule)


def resumed(model: TorchModel, last: Resting, parameters: Any) -> tuple[Any, Any]:
    """Return optimiser and schedule in the states where ``last`` left them."""
    optimizer, schedule = model.make_optimizer(parameters)
    if last.optimizer is not None:
        optimizer.load_state_dict(copy.deepcopy(last.optimizer))
    if schedule is not None and last.schedule is not None:
        schedule.load_state_dict(copy.deepcopy(last.schedule))
    return optimizer, schedule


def _descend(
    model: TorchModel, task: Task, problem: Problem, net: Trained, optimizer: Any, schedule: Any
) -> None:
    """Take the steps of one fit on the net's module, in place."""
    left, by_steps = model.amount(net.fits), model.epochs is None
    best, since, step = math.inf, 0, 0
    while left > 0 and (model.patience is None or since < model.patience):
        values = []
        for rows in problem.batches(model.batch_size):
            if by_steps and left == 0:
                break
            value = _step(model, task, problem, net, rows, optimizer)
            if not math.isfinite(value):
                raise diverged(value, step)
            values.append(value)
            step += 1
            left -= by_steps
        left -= not by_steps
        if schedule is not None:
            schedule.step()
        mean = sum(values) / len(values)
        since = 0 if mean < best else since + 1
        best = min(best, mean)


def _step(
    model: TorchModel, task: Task, problem: Problem, net: Trained, rows: Any, optimizer: Any
) -> float:
    """Take one step on some of the rows; return the objective before it."""
    X, target = problem.X[rows], problem.target[rows]
    weights = [(loss, weight[rows]) for loss, weight in problem.weights]
    scale = len(problem.X) / (len(X) * problem.total)
    if net.scaling is not None:
        scale = scale / net.scaling.unit

    def objective() -> Tensor:
        optimizer.zero_grad()
        output = outputs(net.module, net.scaling, X, task)
        classify = task.is_classification
        value = scale * weighted(weights, target, output, classify, model.temperature).sum()
        value.backward()
        if model.clip is not None:
            torch.nn.utils.clip_grad_norm_(net.module.parameters(), model.clip)
        return value.detach()

    return float(optimizer.step(objective))


def diverged(value: float, step: int) -> FedRelaxError:
    """Return the error for a training loss that is NaN or infinite."""
    return FedRelaxError(
        f"the training loss became {value} at step {step}; try a smaller lr, scale=True, or "
        "clip=1.0"
    )
