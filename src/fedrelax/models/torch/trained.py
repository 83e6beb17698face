"""A trained net, which is never changed: the module, its scaling, and its optimiser's state."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fedrelax.errors import FedRelaxError
from fedrelax.linear.arrays import nonzero
from fedrelax.models.base import Task
from fedrelax.models.torch.modules import shaped_output
from fedrelax.threads import one_torch_thread
from fedrelax.typing import AnyArray, FloatArray

ROWS_AT_ONCE = 4096


@dataclass(frozen=True, eq=False)
class Scaling:
    """x -> (x - mean) / spread before the module, z -> z target_spread + target_mean after it.

    The columns of a table are scaled one by one, inputs of a higher dimension channel by channel.
    A constant column is only centred.
    """

    mean: Tensor
    spread: Tensor
    target_mean: Tensor
    target_spread: Tensor

    @classmethod
    def of(
        cls, X: AnyArray, target: FloatArray, classify: bool, dtype: Any, device: Any
    ) -> Scaling:
        """Learn from a node's rows; class probabilities are not scaled."""
        axes = (0, *range(2, X.ndim))
        shape = (X.shape[1],) + (1,) * (X.ndim - 2)
        outputs = target.shape[1]
        values = (
            X.mean(axis=axes).reshape(shape),
            nonzero(X.std(axis=axes)).reshape(shape),
            np.zeros(outputs) if classify else target.mean(axis=0),
            np.ones(outputs) if classify else nonzero(target.std(axis=0)),
        )
        return cls(*(torch.as_tensor(value, dtype=dtype, device=device) for value in values))

    @classmethod
    def stack(cls, scalings: Sequence[Scaling]) -> Scaling:
        """Return the scalings of n nodes as one, for rows of shape (n, rows, ...)."""
        names = [field.name for field in fields(cls)]
        return cls(*(torch.stack([getattr(s, name) for s in scalings])[:, None] for name in names))

    def at(self, node: int) -> Scaling:
        """Return one node's scaling of a stack."""
        return Scaling(*(getattr(self, field.name)[node, 0].clone() for field in fields(self)))

    def inputs(self, X: Tensor) -> Tensor:
        """Scale rows for the module."""
        return (X - self.mean) / self.spread

    def outputs(self, Z: Tensor) -> Tensor:
        """Return the module's outputs in the target's unit."""
        return Z * self.target_spread + self.target_mean

    @property
    def unit(self) -> Tensor:
        """The mean square of the target's unit: what a squared error is divided by."""
        return self.target_spread.square().mean(-1)


@dataclass(frozen=True, eq=False)
class Trained:
    """What one fit passes to the next; ``fits`` counts the fits so far."""

    module: nn.Module
    scaling: Scaling | None
    input_shape: tuple[int, ...]
    """Of a row."""
    optimizer: dict[str, Any] | None = None
    schedule: dict[str, Any] | None = None
    fits: int = 0

    def without_optimizer(self) -> Trained:
        """Return only what is needed to predict."""
        return replace(self, optimizer=None, schedule=None)

    def copied(self) -> Trained:
        """Return the same with a copy of the module, to train further."""
        return replace(self, module=copy.deepcopy(self.module))

    def outputs(self, rows: Tensor, task: Task) -> Tensor:
        """Return numbers in the target's unit, or logits, of shape (rows, outputs)."""
        if self.scaling is None:
            return shaped_output(self.module, self.module(rows), len(rows), task)
        output = self.module(self.scaling.inputs(rows))
        return self.scaling.outputs(shaped_output(self.module, output, len(rows), task))

    def predict(self, X: AnyArray, task: Task) -> FloatArray:
        """Return (rows, outputs): numbers, or class probabilities."""
        like = next(self.module.parameters())
        rows = torch.as_tensor(np.asarray(X), dtype=like.dtype, device=like.device)
        self.module.eval()
        with torch.no_grad(), one_torch_thread():
            parts = [self.outputs(part, task) for part in rows.split(ROWS_AT_ONCE)]
            return finished(torch.cat(parts) if parts else rows.new_empty(0, task.n_outputs), task)

    def memory(self) -> dict[str, Any]:
        """Return the weights and the states of optimiser and schedule, as plain values and arrays."""
        return {
            "module": plain(dict(self.module.state_dict())),
            "optimizer": plain(self.optimizer),
            "schedule": plain(self.schedule),
            "fits": self.fits,
        }

    def remembering(self, memory: dict[str, Any]) -> Trained:
        """Return the net of the same node that had this memory."""
        module, state = copy.deepcopy(self.module), tensors(memory["module"])
        shapes = {name: value.shape for name, value in module.state_dict().items()}
        if shapes != {name: value.shape for name, value in state.items()}:
            raise FedRelaxError("the saved weights of a net do not have the shapes of its module")
        module.load_state_dict(state)
        return replace(
            self,
            module=module.eval(),
            optimizer=tensors(memory["optimizer"]),
            schedule=tensors(memory["schedule"]),
            fits=int(memory["fits"]),
        )


def finished(output: Tensor, task: Task) -> FloatArray:
    """Return outputs as numbers or class probabilities; raise an error if any is not finite."""
    if task.is_classification:
        output = output.double().softmax(-1)
    answer: FloatArray = output.numpy(force=True).astype(np.float64)
    if not np.isfinite(answer).all():
        raise FedRelaxError("predicted NaN or infinity; the training probably diverged")
    return answer


TENSOR = "tensor"


def plain(value: Any) -> Any:
    """Return values with arrays in place of tensors."""
    if isinstance(value, torch.Tensor):
        return {TENSOR: value.detach().cpu().numpy()}
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    return type(value)(map(plain, value)) if isinstance(value, list | tuple) else value


def tensors(value: Any) -> Any:
    """Return the original of what ``plain`` returned."""
    if isinstance(value, dict):
        if set(value) == {TENSOR}:
            return torch.from_numpy(value[TENSOR].copy())
        return {key: tensors(part) for key, part in value.items()}
    return type(value)(map(tensors, value)) if isinstance(value, list | tuple) else value


@contextmanager
def seeded(device: Any, *numbers: int) -> Iterator[None]:
    """Within this context, draw from a stream that the numbers determine, not from PyTorch's own."""
    digest = hashlib.sha256(repr(numbers).encode()).digest()
    seed, on_gpu = int.from_bytes(digest[:7], "big"), device.type == "cuda"
    with torch.random.fork_rng(devices=[device] if on_gpu else []):
        # torch.manual_seed would record a traceback for every kind of device that is missing.
        torch.default_generator.manual_seed(seed)
        if on_gpu:
            torch.cuda.manual_seed(seed)
        yield
