"""How to rebuild a module, written down in plain values, without its code."""

from __future__ import annotations

import functools
import importlib
import inspect
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from fedrelax.errors import FedRelaxError
from fedrelax.models.torch.modules import MLP, Linear, name_of

OURS: dict[str, Any] = {"mlp": MLP, "linear": Linear}
LAYERS = frozenset(
    str.split("""
    Sequential Linear Bilinear Identity Flatten Unflatten
    Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d
    MaxPool1d MaxPool2d MaxPool3d AvgPool1d AvgPool2d AvgPool3d LPPool1d LPPool2d LPPool3d
    AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d AdaptiveMaxPool1d AdaptiveMaxPool2d
    AdaptiveMaxPool3d ZeroPad1d ZeroPad2d ZeroPad3d ConstantPad1d ConstantPad2d ConstantPad3d
    ReflectionPad1d ReflectionPad2d ReflectionPad3d ReplicationPad1d ReplicationPad2d ReplicationPad3d
    CircularPad1d CircularPad2d CircularPad3d
    BatchNorm1d BatchNorm2d BatchNorm3d InstanceNorm1d InstanceNorm2d InstanceNorm3d GroupNorm
    LayerNorm LocalResponseNorm RMSNorm
    Dropout Dropout1d Dropout2d Dropout3d AlphaDropout FeatureAlphaDropout
    CELU ELU GELU GLU Hardshrink Hardsigmoid Hardswish Hardtanh LeakyReLU LogSigmoid LogSoftmax Mish
    PReLU RReLU ReLU ReLU6 SELU SiLU Sigmoid Softmax Softmin Softplus Softshrink Softsign Tanh
    Tanhshrink Threshold
    Embedding ChannelShuffle PixelShuffle PixelUnshuffle Upsample Fold Unfold CosineSimilarity
    """)
)
"""The layers of ``torch.nn`` that a file may name; a net with others is saved by its import name."""

Plain = dict[str, Any]


def recipe_of(module: Any) -> Plain:
    """Return the recipe of what a ``TorchModel`` was given as its module."""
    for kind, maker in OURS.items():
        if isinstance(module, maker):
            return {"kind": kind, "arguments": _checked(vars(module), name_of(module))}
    if not isinstance(module, nn.Module):
        return import_of(module)
    layers = _layers(module)
    return import_of(type(module)) if layers is None else {"kind": "layers", "layers": layers}


def made(recipe: Plain, trust: Sequence[str]) -> Any:
    """Return a factory of the module from its recipe."""
    if recipe["kind"] in OURS:
        return OURS[recipe["kind"]](**_tuples(recipe["arguments"]))
    if recipe["kind"] == "layers":
        return functools.partial(_built_layers, recipe["layers"])
    return imported(recipe, trust)


# Layers of PyTorch


def _layers(module: Any) -> Plain | None:
    """Return a layer of ``torch.nn``, or a chain of them, as plain values; None for any other module."""
    kind = type(module)
    if kind.__name__ not in LAYERS or getattr(nn, kind.__name__, None) is not kind:
        return None
    if kind is nn.Sequential:
        inside = {name: _layers(child) for name, child in module.named_children()}
        return None if None in inside.values() else {"type": "Sequential", "layers": inside}
    names = [name for name in inspect.signature(kind).parameters if name not in ("device", "dtype")]
    if not all(hasattr(module, name) for name in names):
        return None
    arguments = {name: getattr(module, name) for name in names}
    if "bias" in arguments:
        arguments["bias"] = arguments["bias"] is not None
    recipe = {"type": kind.__name__, "arguments": arguments}
    if not all(map(_is_plain, arguments.values())) or repr(_built_layers(recipe)) != repr(module):
        return None
    return recipe


def _built_layers(layers: Plain) -> Any:
    name = str(layers["type"])
    if name not in LAYERS:
        raise FedRelaxError(f"the saved net names a layer {name!r}, which a file may not name")
    if name == "Sequential":
        inside = ((key, _built_layers(child)) for key, child in layers["layers"].items())
        return nn.Sequential(OrderedDict(inside))
    return getattr(nn, name)(**_tuples(layers["arguments"]))


# Functions and classes by name


def import_of(thing: Any) -> Plain:
    """Return the import name of a function or class, with the arguments that a partial fixes."""
    arguments: Plain = {}
    if isinstance(thing, functools.partial):
        if thing.args:
            raise FedRelaxError(
                f"the net cannot be saved: {name_of(thing.func)} is given arguments without names; "
                "name them in functools.partial"
            )
        thing, arguments = thing.func, dict(thing.keywords)
    home, name = getattr(thing, "__module__", None), getattr(thing, "__qualname__", None)
    known = home not in (None, "__main__", "builtins") and name is not None
    if not known or _found(f"{home}:{name}") is not thing:
        raise FedRelaxError(
            f"the net cannot be saved: {name or type(thing).__name__} cannot be imported by name "
            "when it is loaded; define it at the top level of a module, as a function or class"
        )
    arguments = _checked(arguments, str(name))
    return {"kind": "import", "name": f"{home}:{name}", "arguments": arguments}


def imported(recipe: Plain, trust: Sequence[str]) -> Any:
    """Import what a recipe names, if ``trust`` names it or it is a stepper of PyTorch."""
    name = str(recipe["name"])
    if name not in trust and not is_stepper(name):
        raise FedRelaxError(
            f"the saved net needs code that is not trusted: {name}; if you know who wrote this "
            f"result and trust this package, say so with trust={[name]!r}"
        )
    thing = _found(name)
    if thing is None:
        raise FedRelaxError(
            f"the saved net needs {name}, which cannot be imported; install its package"
        )
    arguments = _tuples(recipe["arguments"])
    return functools.partial(thing, **arguments) if arguments else thing


def is_stepper(name: str) -> bool:
    """Tell whether a name is that of an optimiser or schedule of PyTorch itself."""
    thing = _found(name) if name.startswith(("torch.optim.", "torch.optim:")) else None
    kinds = (torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler)
    return isinstance(thing, type) and issubclass(thing, kinds)


def _found(name: str) -> Any:
    """Return the function or class of a name, or None."""
    home, _, inside = name.partition(":")
    try:
        thing: Any = importlib.import_module(home)
        for part in inside.split("."):
            thing = getattr(thing, part)
    except Exception:  # Importing runs foreign code, which may raise anything.
        return None
    return thing if callable(thing) else None


# Plain values


def _is_plain(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, bool | int | float | str)


def _checked(values: Plain, owner: str) -> Plain:
    for key, value in values.items():
        if not _is_plain(value):
            raise FedRelaxError(
                f"the net cannot be saved: {key}={value!r} of {owner} is not a plain value"
            )
    return dict(values)


def _tuples(value: Any) -> Any:
    """Turn JSON's lists back into tuples."""
    if isinstance(value, dict):
        return {key: _tuples(part) for key, part in value.items()}
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
