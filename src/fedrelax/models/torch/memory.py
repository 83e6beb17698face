"""What a net keeps from fit to fit, as plain values: its weights and its optimiser's state."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from fedrelax.errors import FedRelaxError
from fedrelax.models.base import Task
from fedrelax.models.torch.stack import Stack
from fedrelax.models.torch.state import Trained

TENSOR = "tensor"


def memory_of(net: Trained) -> dict[str, Any]:
    """Return the weights of a net and the states of its optimiser and schedule."""
    return {
        "module": plain(dict(net.module.state_dict())),
        "optimizer": plain(net.optimizer),
        "schedule": plain(net.schedule),
        "fits": net.fits,
    }


def trained_from(memory: Mapping[str, Any], like: Trained) -> Trained:
    """Return the net that had this memory; ``like`` is a net of the same node, from any round."""
    module, state = copy.deepcopy(like.module), tensors(memory["module"])
    shapes = {name: value.shape for name, value in module.state_dict().items()}
    if shapes != {name: value.shape for name, value in state.items()}:
        raise FedRelaxError("the saved weights of a net do not have the shapes of its module")
    module.load_state_dict(state)
    return replace(
        like,
        module=module.eval(),
        optimizer=tensors(memory["optimizer"]),
        schedule=tensors(memory["schedule"]),
        fits=int(memory["fits"]),
    )


def plain(value: Any) -> Any:
    """Return values with arrays in place of tensors."""
    if isinstance(value, torch.Tensor):
        return {TENSOR: value.detach().cpu().numpy()}
    if isinstance(value, Mapping):
        return {key: plain(part) for key, part in value.items()}
    return type(value)(map(plain, value)) if isinstance(value, list | tuple) else value


def tensors(value: Any) -> Any:
    """Return the original of what ``plain`` returned."""
    if isinstance(value, Mapping):
        if set(value) == {TENSOR}:
            return torch.from_numpy(value[TENSOR].copy())
        return {key: tensors(part) for key, part in value.items()}
    return type(value)(map(tensors, value)) if isinstance(value, list | tuple) else value


def stacked(nets: Sequence[Trained], task: Task) -> Stack:
    """Return nets that were trained together as one stack again, with one optimiser for all."""
    stack, first = Stack.of(nets, task), nets[0]
    assert first.optimizer is not None
    named = list(enumerate(first.module.named_parameters()))
    trained = [(number, p) for number, (_, p) in named if p.requires_grad]
    state: dict[str, Any] = {}
    for key, value in first.optimizer["state"].get(trained[0][0], {}).items():
        one = isinstance(value, torch.Tensor) and value.shape == trained[0][1].shape
        parts = [
            torch.stack([net.optimizer["state"][number][key] for net in nets]).ravel()  # type: ignore[index]
            for number, _ in trained
            if one
        ]
        state[key] = torch.cat(parts) if one else copy.deepcopy(value)
    group = {**first.optimizer["param_groups"][0], "params": [0]}
    return replace(
        stack,
        optimizer={"state": {0: state} if state else {}, "param_groups": [group]},
        schedule=first.schedule,
        fits=first.fits,
    )
