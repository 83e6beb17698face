"""The built-in modules, and how a module or a factory becomes one whose outputs have the right shape."""

from __future__ import annotations

import copy
import inspect
import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from fedrelax.errors import FedRelaxError, listing
from fedrelax.models.base import Task

Factory = Any
"""A module, or a function or class that returns one."""
ARGUMENTS = ("input_shape", "n_outputs")


@dataclass(frozen=True)
class MLP:
    """A factory of perceptrons with ReLU between the layers, for rows of any shape."""

    hidden: tuple[int, ...] = (32,)

    def __call__(self, input_shape: tuple[int, ...], n_outputs: int) -> nn.Module:
        """Return the module."""
        sizes = (math.prod(input_shape), *self.hidden)
        layers: list[nn.Module] = [nn.Flatten()]
        for before, after in zip(sizes[:-1], sizes[1:], strict=True):
            layers += [nn.Linear(before, after), nn.ReLU()]
        return nn.Sequential(*layers, nn.Linear(sizes[-1], n_outputs))


@dataclass(frozen=True)
class Linear:
    """A factory of linear models, for rows of any shape."""

    bias: bool = True

    def __call__(self, input_shape: tuple[int, ...], n_outputs: int) -> nn.Module:
        """Return the module."""
        layer = nn.Linear(math.prod(input_shape), n_outputs, bias=self.bias)
        return nn.Sequential(nn.Flatten(), layer)


def name_of(module: Factory) -> str:
    """Return what messages call a module, or a factory of modules."""
    if isinstance(module, nn.Module):
        return type(module).__name__
    return str(getattr(module, "__name__", type(module).__name__))


def built(module: Factory, input_shape: tuple[int, ...], n_outputs: int) -> nn.Module:
    """Return a copy of a module, or the module that a function or class returns."""
    if isinstance(module, nn.Module):
        return copy.deepcopy(module)
    if not callable(module):
        raise FedRelaxError(
            f"TorchModel(module={module!r}) is neither an nn.Module nor a function that makes one"
        )
    made = module(input_shape, n_outputs) if _takes_shapes(module) else module()
    if not isinstance(made, nn.Module):
        raise FedRelaxError(
            f"TorchModel(module={name_of(module)}): it returned an object of type "
            f"{type(made).__name__}, and an nn.Module is needed"
        )
    if not any(True for _ in made.parameters()):
        raise FedRelaxError(
            f"TorchModel(module={name_of(module)}): it returned a module without parameters, so "
            "there is nothing to train"
        )
    return made


def _takes_shapes(factory: Factory) -> bool:
    """Tell whether a factory takes (input_shape, n_outputs), or nothing."""
    given = [
        parameter
        for parameter in inspect.signature(factory).parameters.values()
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    required = [parameter for parameter in given if parameter.default is parameter.empty]
    if len(required) == 2 or tuple(parameter.name for parameter in given[:2]) == ARGUMENTS:
        return True
    if required:
        names = ", ".join(parameter.name for parameter in required)
        raise FedRelaxError(
            f"TorchModel(module={name_of(factory)}): it takes ({names}), and a factory is called "
            "with nothing or with (input_shape, n_outputs); wrap it in a function"
        )
    return False


def shaped_output(module: nn.Module, output: Tensor, rows: int, task: Task) -> Tensor:
    """Return the output as (rows, outputs); raise an error if it has another shape."""
    wanted = (rows, task.n_outputs)
    shape = tuple(getattr(output, "shape", ()))
    if shape == wanted:
        return output
    if shape == (rows,) and task.n_outputs == 1:
        return output[:, None]
    found = f"of shape {shape}" if isinstance(output, torch.Tensor) else type(output).__name__
    hint = "one number for each output"
    if task.classes is not None:
        hint = f"one logit for each of the {task.n_outputs} classes that the nodes have seen"
        hint += f" ({listing(task.classes.tolist(), most=4)})"
        if len(shape) == 2 and shape[1] > task.n_outputs:
            hint += "; a class that no node has seen cannot be learnt"
    raise FedRelaxError(
        f"the module {name_of(module)} gives outputs {found} for {rows} "
        f"row{'s' * (rows != 1)}; {wanted} is wanted, {hint}"
    )
