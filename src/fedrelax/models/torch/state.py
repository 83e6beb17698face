"""A trained net: the module, its scaling, and its optimiser's state. It is never changed."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import torch

from fedrelax.errors import FedRelaxError
from fedrelax.models.base import Task
from fedrelax.models.torch.building import shaped_output
from fedrelax.models.torch.scaling import Scaling
from fedrelax.threads import one_torch_thread
from fedrelax.typing import AnyArray, FloatArray

Tensor = Any
ROWS_AT_ONCE = 4096


@dataclass(frozen=True, eq=False)
class Trained:
    """What one fit passes to the next; ``fits`` counts the fits so far."""

    module: Any
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

    def after(self, optimizer: Any, schedule: Any) -> Trained:
        """Return what the next fit continues from."""
        later = None if schedule is None else schedule.state_dict()
        return replace(self, optimizer=optimizer.state_dict(), schedule=later, fits=self.fits + 1)

    def predict(self, X: AnyArray, task: Task) -> FloatArray:
        """Return (rows, outputs): numbers, or class probabilities."""
        like = next(self.module.parameters())
        rows = torch.as_tensor(np.asarray(X), dtype=like.dtype, device=like.device)
        self.module.eval()
        with torch.no_grad(), one_torch_thread():
            parts = [
                outputs(self.module, self.scaling, part, task) for part in rows.split(ROWS_AT_ONCE)
            ]
            return finished(torch.cat(parts) if parts else rows.new_empty(0, task.n_outputs), task)


def outputs(module: Any, scaling: Scaling | None, rows: Tensor, task: Task) -> Tensor:
    """Return numbers in the target's unit, or logits, of shape (rows, outputs)."""
    if scaling is None:
        return shaped_output(module, module(rows), len(rows), task)
    return scaling.outputs(shaped_output(module, module(scaling.inputs(rows)), len(rows), task))


def finished(output: Tensor, task: Task) -> FloatArray:
    """Return outputs as numbers or class probabilities; raise an error if any is not finite."""
    if task.is_classification:
        output = output.double().softmax(-1)
    answer: FloatArray = output.numpy(force=True).astype(np.float64)
    if not np.isfinite(answer).all():
        raise FedRelaxError("predicted NaN or infinity; the training probably diverged")
    return answer


@cache
def keep_freed_memory() -> None:
    """Let the C library keep the memory of freed large arrays for the next ones.

    By default glibc returns it to the system after every step and takes it again, page by page, in the
    next, which can take as long as the arithmetic. Whenever glibc frees an array that had a mapping of
    its own, it raises its limit for such mappings to that size, up to 32 MB; so we free one that was
    never touched. Other C libraries have other rules, and lose nothing.
    """
    np.empty(31 * 2**20, dtype=np.uint8)


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
