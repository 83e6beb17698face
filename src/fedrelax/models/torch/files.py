"""Trained nets as bytes: tensors by safetensors, all else as JSON in its header. No code is stored."""

from __future__ import annotations

import functools
import inspect
import json
import pkgutil
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fedrelax.errors import FedRelaxError, in_one_line
from fedrelax.extras import need
from fedrelax.models.archive import described_task, task_in
from fedrelax.models.torch.model import MLP, TorchModel, built, name_of
from fedrelax.models.torch.training import Net, Scaling, Tensors, tensors_of

HEADER = "fedrelax"
VERSION = 3
MODULE, SCALING = "module.", "scaling."

Plain = dict[str, Any]
"""A part of the JSON: plain values by name."""

IN_ALL_DIMENSIONS = """
    AdaptiveAvgPool AdaptiveMaxPool AvgPool BatchNorm CircularPad ConstantPad Conv ConvTranspose
    Dropout InstanceNorm LPPool MaxPool ReflectionPad ReplicationPad ZeroPad
"""
LAYERS = frozenset(f"{name}{d}d" for name in IN_ALL_DIMENSIONS.split() for d in (1, 2, 3)) | set(
    str.split("""
    AlphaDropout Bilinear CELU ChannelShuffle CosineSimilarity Dropout ELU Embedding
    FeatureAlphaDropout Flatten Fold GELU GLU GroupNorm Hardshrink Hardsigmoid Hardswish Hardtanh
    Identity LayerNorm LeakyReLU Linear LocalResponseNorm LogSigmoid LogSoftmax Mish PReLU
    PixelShuffle PixelUnshuffle RMSNorm RReLU ReLU ReLU6 SELU Sequential SiLU Sigmoid Softmax
    Softmin Softplus Softshrink Softsign Tanh Tanhshrink Threshold Unflatten Unfold Upsample
    """)
)
"""The layers of ``torch.nn`` that a file may name; a net with others is saved by its import name."""


def to_bytes(estimator: TorchModel) -> bytes:
    """Return a trained net as the bytes of a safetensors file; raise an error if it cannot be saved."""
    trained, task, settings = estimator.trained(), estimator.task_, estimator.get_params(deep=False)
    recipe = _recipe(settings.pop("module"))
    if callable(settings["optimizer"]):
        settings["optimizer"] = _import_name(settings["optimizer"])
    if estimator.options is not None:
        settings["options"] = dict(estimator.options)
    about = {
        "version": VERSION,
        "module": recipe,
        "input_shape": list(trained.input_shape),
        "settings": settings,
        "task": described_task(task),
    }
    try:
        header = json.dumps(about)
    except TypeError as error:
        raise FedRelaxError(
            f"the net cannot be saved: a setting or a class is neither a number nor a string ({error})"
        ) from error
    state = trained.module.state_dict()
    _check_shapes(about, _factory(recipe, [recipe.get("name", "")]), state)
    tensors = {MODULE + name: value for name, value in state.items()}
    if estimator.scale:
        tensors |= {SCALING + name: v for name, v in trained.scaling._asdict().items()}
    own = {name: value.detach().cpu().clone().contiguous() for name, value in tensors.items()}
    return bytes(need("safetensors.torch", "torch").save(own, metadata={HEADER: header}))


def from_bytes(data: bytes, trust: Sequence[str] = ()) -> TorchModel:
    """Return the trained net; code other than ours and PyTorch's runs only if ``trust`` names it."""
    with _readable():
        tensors, about = _read(data)
        if about["version"] != VERSION:
            raise FedRelaxError(
                f"the saved net has version {about['version']!r}, and this fedrelax reads version "
                f"{VERSION}"
            )
        state = {k.removeprefix(MODULE): v for k, v in tensors.items() if k.startswith(MODULE)}
        factory = _factory(about["module"], trust)
        _check_shapes(about, factory, state)
        settings, task = dict(about["settings"]), task_in(about["task"])
        if isinstance(settings["optimizer"], dict):
            settings["optimizer"] = _imported(settings["optimizer"], trust)
        model = TorchModel(factory, **settings)
        model.check()
        shape = tuple(about["input_shape"])
        module = built(factory, shape, task.n_outputs).to(model.form["dtype"]).eval()
        if not all(value.isfinite().all() for value in state.values()):
            raise FedRelaxError("a weight of the saved net is not finite")
        module.load_state_dict(state)
        if about["module"]["kind"] == "layers":
            model.module = module
        if model.scale:
            scaling = Scaling(*(tensors[SCALING + name] for name in Scaling._fields))
        else:
            scaling = Scaling.of(model, task, np.zeros((1, *shape)), np.zeros((1, task.n_outputs)))
        return model.fitted(Net(module, tensors_of(module), scaling, shape), task)


def types_in(data: bytes) -> list[str]:
    """Return the names of the functions and classes that make the net and are not ours or PyTorch's."""
    with _readable():
        about = _read(data)[1]
        parts = (about["module"], about["settings"]["optimizer"])
        names = [p["name"] for p in parts if isinstance(p, dict) and p.get("kind") == "import"]
        return [name for name in names if not _is_optimizer(name)]


def _read(data: bytes) -> tuple[Tensors, Plain]:
    """Return the tensors and the JSON of a file."""
    tensors = need("safetensors.torch", "torch").load(data)
    length = int.from_bytes(data[:8], "little")
    return tensors, json.loads(json.loads(data[8 : 8 + length])["__metadata__"][HEADER])


@contextmanager
def _readable() -> Iterator[None]:
    """Say in a sentence what is wrong with a file; a damaged one can fail in many ways."""
    try:
        yield
    except FedRelaxError:
        raise
    except Exception as error:
        raise FedRelaxError(
            f"the saved net cannot be read ({in_one_line(error)}); check that the file is complete"
        ) from error


def _check_shapes(about: Plain, factory: Callable[..., Any], state: dict[str, Tensor]) -> None:
    """Refuse a recipe that does not make a module with parameters of exactly these shapes.

    Our own recipes are tried without allocating memory: a file may claim any size.
    """
    ours, why = about["module"]["kind"] != "import", ""
    try:
        with torch.device("meta") if ours else nullcontext():
            module = built(factory, tuple(about["input_shape"]), about["task"]["n_outputs"])
        shapes = {name: value.shape for name, value in module.state_dict().items()}
        if shapes == {name: value.shape for name, value in state.items()}:
            return
    except Exception as error:  # A module's own code may raise anything.
        why = f" ({in_one_line(error)})"
    raise FedRelaxError(
        f"the net's module cannot be rebuilt as it was trained{why}; give TorchModel a function "
        "or class that makes the module, not a module made by hand"
    )


# How to rebuild a module, in plain values


def _recipe(module: Any) -> Plain:
    """Return how to make again what a ``TorchModel`` was given as its module."""
    if isinstance(module, MLP):
        return {"kind": "mlp", "arguments": dict(vars(module))}
    if not isinstance(module, nn.Module):
        return _import_name(module)
    layers = _described(module)
    return _import_name(type(module)) if layers is None else {"kind": "layers", "layers": layers}


def _factory(recipe: Plain, trust: Sequence[str]) -> Callable[..., Any]:
    """Return what makes the module of a recipe."""
    if recipe["kind"] == "mlp":
        return MLP(**_tuples(recipe["arguments"]))
    if recipe["kind"] == "layers":
        return functools.partial(_built_layers, recipe["layers"])
    return _imported(recipe, trust)


def _described(module: nn.Module) -> Plain | None:
    """Return a layer of ``torch.nn``, or a chain of them, as plain values; None for any other module."""
    kind = type(module)
    if kind.__name__ not in LAYERS or getattr(nn, kind.__name__, None) is not kind:
        return None
    if kind is nn.Sequential:
        inside = {name: _described(child) for name, child in module.named_children()}
        return None if None in inside.values() else {"type": "Sequential", "layers": inside}
    names = [name for name in inspect.signature(kind).parameters if name not in ("device", "dtype")]
    if not all(hasattr(module, name) for name in names):
        return None
    arguments = {name: getattr(module, name) for name in names}
    if "bias" in arguments:
        arguments["bias"] = arguments["bias"] is not None
    layer = {"type": kind.__name__, "arguments": arguments}
    same = all(map(_is_plain, arguments.values())) and repr(_built_layers(layer)) == repr(module)
    return layer if same else None


def _built_layers(layers: Plain) -> nn.Module:
    name = str(layers["type"])
    if name not in LAYERS:
        raise FedRelaxError(f"the saved net names a layer {name!r}, which a file may not name")
    if name == "Sequential":
        inside = ((key, _built_layers(child)) for key, child in layers["layers"].items())
        return nn.Sequential(OrderedDict(inside))
    return getattr(nn, name)(**_tuples(layers["arguments"]))


def _import_name(thing: Any) -> Plain:
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
    nowhere = home in (None, "__main__", "builtins") or name is None
    if nowhere or _object_named(f"{home}:{name}") is not thing:
        raise FedRelaxError(
            f"the net cannot be saved: {name or type(thing).__name__} cannot be imported by name "
            "when it is loaded; define it at the top level of a module, as a function or class"
        )
    return {"kind": "import", "name": f"{home}:{name}", "arguments": arguments}


def _imported(recipe: Plain, trust: Sequence[str]) -> Callable[..., Any]:
    """Import what a recipe names, if ``trust`` names it or it is an optimiser of PyTorch."""
    name = str(recipe["name"])
    if name not in trust and not _is_optimizer(name):
        raise FedRelaxError(
            f"the saved net needs code that is not trusted: {name}; if you know who wrote this "
            f"result and trust this package, say so with trust={[name]!r}"
        )
    thing = _object_named(name)
    if thing is None:
        raise FedRelaxError(
            f"the saved net needs {name}, which cannot be imported; install its package"
        )
    arguments = _tuples(recipe["arguments"])
    return functools.partial(thing, **arguments) if arguments else thing


def _is_optimizer(name: str) -> bool:
    """Tell whether a name is that of an optimiser of PyTorch itself."""
    thing = _object_named(name) if name.startswith(("torch.optim.", "torch.optim:")) else None
    return isinstance(thing, type) and issubclass(thing, torch.optim.Optimizer)


def _object_named(name: str) -> Callable[..., Any] | None:
    """Return the function or class of a name, or None."""
    try:
        thing = pkgutil.resolve_name(name)
    except Exception:  # Importing runs foreign code, which may raise anything.
        return None
    return thing if callable(thing) else None


def _is_plain(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, bool | int | float | str)


def _tuples(value: Any) -> Any:
    """Turn JSON's lists back into tuples."""
    if isinstance(value, dict):
        return {key: _tuples(part) for key, part in value.items()}
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
