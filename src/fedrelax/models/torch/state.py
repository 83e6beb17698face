"""A trained net: the module, its scaling, and where its optimiser stands. It is never changed."""

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
    """What one fit leaves for the next; ``fits`` counts the fits so far."""

    module: Any
    scaling: Scaling | None
    input_shape: tuple[int, ...]
    """Of a row."""
    optimizer: dict[str, Any] | None = None
    schedule: dict[str, Any] | None = None
    fits: int = 0

    def without_optimizer(self) -> Trained:
        """Return what is needed to predict."""
        return replace(self, optimizer=None, schedule=None)

    def copied(self) -> Trained:
        """Return the same with a module that may be trained on."""
        return replace(self, module=copy.deepcopy(self.module))

    def after(self, optimizer: Any, schedule: Any) -> Trained:
        """Return what the next fit goes on from, one fit later."""
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
    """Return outputs as what nodes exchange, checked."""
    if task.is_classification:
        output = output.double().softmax(-1)
    answer: FloatArray = output.numpy(force=True).astype(np.float64)
    if not np.isfinite(answer).all():
        raise FedRelaxError("predicted NaN or infinity; the training probably diverged")
    return answer


@cache
def keep_freed_memory() -> None:
    """Let the C library keep the memory of large arrays for the next ones of their kind.

    By default glibc gives it back to the system after every step and takes it anew, page by page,
    in the next one, which can take as long as the arithmetic. Whenever it frees an array that was
    mapped by itself it raises its limit to that size, up to 32 MB; so we free one, never touched.
    Other libraries have other rules, and lose nothing.
    """
    np.empty(31 * 2**20, dtype=np.uint8)


@contextmanager
def seeded(device: Any, *numbers: int) -> Iterator[None]:
    """Draw from a stream that the numbers determine; PyTorch's own stays where it was."""
    digest = hashlib.sha256(repr(numbers).encode()).digest()
    seed, on_gpu = int.from_bytes(digest[:7], "big"), device.type == "cuda"
    with torch.random.fork_rng(devices=[device] if on_gpu else []):
        # torch.manual_seed would note a traceback for every kind of device that is not there.
        torch.default_generator.manual_seed(seed)
        if on_gpu:
            torch.cuda.manual_seed(seed)
        yield
