"""The losses in PyTorch, and one fit of one net: steps on their weighted mean over a node's rows."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from fedrelax.errors import FedRelaxError
from fedrelax.losses import Absolute, Huber, Log, Loss, Squared
from fedrelax.models.base import Rows, Task
from fedrelax.models.torch.model import TorchModel
from fedrelax.models.torch.modules import tried
from fedrelax.models.torch.trained import Scaling, Trained, seeded
from fedrelax.threads import one_torch_thread
from fedrelax.typing import AnyArray

Objective = Callable[[], Tensor]
"""Returns the value of an objective, after computing its gradients."""

INITIAL, TRAINING = 0, 1
"""Streams of random numbers under a node's seed: for the initial weights, and for training."""


FORMS: dict[type[Loss], Callable[[Any, Tensor], Tensor]] = {
    Squared: lambda loss, error: error.square(),
    Absolute: lambda loss, error: error.abs(),
    Huber: lambda loss, error: functional.huber_loss(
        error, torch.zeros_like(error), reduction="none", delta=loss.delta
    ),
}
"""Losses of numbers as functions of the errors."""


class _Foreign(torch.autograd.Function):  # type: ignore[misc]
    """Any other loss, through its ``per_row`` and ``gradient``."""

    @staticmethod
    def forward(context: Any, prediction: Tensor, target: Tensor, loss: Loss) -> Tensor:
        given = target.numpy(force=True), prediction.numpy(force=True)
        context.save_for_backward(prediction.new_tensor(loss.gradient(*given)))
        return prediction.new_tensor(loss.per_row(*given))

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
        if temperature == 1.0:
            return _divergence(target, output)
        heat = torch.where(target.amax(-1, keepdim=True) < 1.0, temperature, 1.0).to(output.dtype)
        softer = target ** (1.0 / heat)
        softer = softer / softer.sum(-1, keepdim=True)
        return heat.squeeze(-1) ** 2 * _divergence(softer, output / heat)
    prediction, form = output.softmax(-1) if classify else output, FORMS.get(type(loss))
    if form is not None:
        return form(loss, target - prediction).sum(-1)
    return _Foreign.apply(*torch.broadcast_tensors(prediction, target), loss)


def _divergence(target: Tensor, output: Tensor) -> Tensor:
    return functional.kl_div(output.log_softmax(-1), target, reduction="none").sum(-1)


def weighted(
    weights: Sequence[tuple[Loss, Tensor]],
    target: Tensor,
    output: Tensor,
    classify: bool,
    temperature: float,
) -> Tensor:
    """Return for every row r the sum of weight_r loss(target_r, output_r) over the losses."""
    parts = [
        weight * per_row(loss, target, output, classify, temperature) for loss, weight in weights
    ]
    return sum(parts[1:], parts[0])


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
        keep = np.concatenate([term.weight for term in terms]) > 0
        weight = np.concatenate([term.weight for term in terms])[keep]
        losses = list(dict.fromkeys(term.loss for term in terms))
        owner = np.repeat([losses.index(term.loss) for term in terms], [len(t) for t in terms])[
            keep
        ]
        form = {"dtype": model.torch_dtype, "device": model.find_device()}
        return cls(
            torch.as_tensor(np.concatenate([term.X for term in terms])[keep], **form),
            torch.as_tensor(np.concatenate([term.target for term in terms])[keep], **form),
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


def new_module(model: TorchModel, task: Task, X: AnyArray, seed: int) -> nn.Module:
    """Return the module with a node's initial weights, tried on the first row."""
    device = model.find_device()
    with seeded(device, seed, INITIAL):
        module = model.make_module(X.shape[1:], task.n_outputs)
        tried(module, torch.as_tensor(X[:1], dtype=model.torch_dtype, device=device), task)
    return module


def started(model: TorchModel, task: Task, term: Rows, seed: int) -> Trained:
    """Return an untrained net for rows like those of a node's first term."""
    module, scaling = new_module(model, task, term.X, seed), None
    if model.scale:
        classify, device = task.is_classification, model.find_device()
        scaling = Scaling.of(term.X, term.target, classify, model.torch_dtype, device)
    return Trained(module, scaling, term.X.shape[1:])


def train(
    model: TorchModel, task: Task, terms: Sequence[Rows], before: Trained | None, seed: int
) -> Trained:
    """Return the net after one more fit; ``before`` stays as it is."""
    with one_torch_thread():
        net = started(model, task, terms[0], seed) if before is None else before.copied()
        problem = Problem.of(terms, model)

        def objectives() -> Iterator[Objective]:
            for rows in problem.batches(model.batch_size):
                yield _objective(model, task, problem, net, rows)

        with seeded(model.find_device(), seed, TRAINING, net.fits):
            net.module.train()
            states = descend(model, net, net.module.parameters(), objectives)
        net.module.zero_grad()
        net.module.eval()
    return replace(net, **states)


def _objective(
    model: TorchModel, task: Task, problem: Problem, net: Trained, rows: Any
) -> Objective:
    """Return the mean loss over some of the rows."""
    X, target = problem.X[rows], problem.target[rows]
    weights = [(loss, weight[rows]) for loss, weight in problem.weights]
    scale = len(problem.X) / (len(X) * problem.total)
    if net.scaling is not None:
        scale = scale / net.scaling.unit

    def objective() -> Tensor:
        output, classify = net.outputs(X, task), task.is_classification
        value = scale * weighted(weights, target, output, classify, model.temperature).sum()
        value.backward()
        if model.clip is not None:
            torch.nn.utils.clip_grad_norm_(net.module.parameters(), model.clip)
        return value.detach()

    return objective


def descend(
    model: TorchModel,
    last: Any,
    parameters: Iterable[Tensor],
    objectives: Callable[[], Iterable[Objective]],
) -> dict[str, Any]:
    """Take the steps of one fit on the parameters, in place, one for each objective of every pass.

    ``last`` has the states of optimiser and schedule to continue from, and the number of fits so far;
    they are returned as the fit leaves them.
    """
    optimizer, schedule = model.make_optimizer(parameters)
    if last.optimizer is not None:
        optimizer.load_state_dict(copy.deepcopy(last.optimizer))
    if schedule is not None and last.schedule is not None:
        schedule.load_state_dict(copy.deepcopy(last.schedule))
    left, by_steps = model.amount(last.fits), model.epochs is None
    best, since, step = math.inf, 0, 0
    while left > 0 and (model.patience is None or since < model.patience):
        values = []
        for objective in objectives():
            if by_steps and left == 0:
                break
            value = float(optimizer.step(_with_new_gradients(optimizer, objective)))
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


def _with_new_gradients(optimizer: Any, objective: Objective) -> Objective:
    def evaluated() -> Tensor:
        optimizer.zero_grad()
        return objective()

    return evaluated
