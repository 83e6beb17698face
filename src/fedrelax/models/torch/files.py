"""Trained nets as bytes: tensors by safetensors, all else as JSON in its header. No code is stored."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import fields
from typing import Any

import numpy as np
import torch

from fedrelax.errors import FedRelaxError, in_one_line
from fedrelax.extras import need
from fedrelax.models.base import Task
from fedrelax.models.torch.model import TorchModel
from fedrelax.models.torch.modules import built
from fedrelax.models.torch.recipes import import_of, imported, is_stepper, made, recipe_of
from fedrelax.models.torch.trained import Scaling, Trained

HEADER = "fedrelax"
VERSION = 1
MODULE, SCALING = "module.", "scaling."


def to_bytes(estimator: TorchModel) -> bytes:
    """Return a trained net as the bytes of a safetensors file; raise an error if it cannot be saved."""
    trained, task = estimator.trained(), estimator.task_
    recipe = recipe_of(estimator.module)
    about = {
        "version": VERSION,
        "module": recipe,
        "input_shape": list(trained.input_shape),
        "settings": _settings(estimator),
        "task": _task(task),
    }
    state = trained.module.state_dict()
    _check_shapes(about, made(recipe, [recipe.get("name", "")]), state)
    tensors = {MODULE + name: value for name, value in state.items()}
    if trained.scaling is not None:
        for field in fields(Scaling):
            tensors[SCALING + field.name] = getattr(trained.scaling, field.name)
    plain = {name: value.detach().cpu().clone().contiguous() for name, value in tensors.items()}
    return bytes(_safetensors().save(plain, metadata={HEADER: json.dumps(about)}))


def from_bytes(data: bytes, trust: Sequence[str] = ()) -> TorchModel:
    """Return the trained net; code other than ours and PyTorch's runs only if ``trust`` names it."""
    tensors, about = _read(data)
    try:
        return _loaded(tensors, about, trust)
    except FedRelaxError:
        raise
    except (KeyError, TypeError, ValueError, RuntimeError, AttributeError) as error:
        raise _unreadable(error) from error


def types_in(data: bytes) -> list[str]:
    """Return the names of the functions and classes that make the net and are not ours or PyTorch's."""
    about = _read(data)[1]
    settings = about["settings"]
    parts = (about["module"], settings["optimizer"], settings["schedule"])
    names = [p["name"] for p in parts if isinstance(p, dict) and p.get("kind") == "import"]
    return [name for name in names if not is_stepper(name)]


def _loaded(tensors: dict[str, Any], about: dict[str, Any], trust: Sequence[str]) -> TorchModel:
    if about["version"] != VERSION:
        raise FedRelaxError(
            f"the saved net has version {about['version']!r}, and this fedrelax reads version {VERSION}"
        )
    task, recipe = _task_from(about["task"]), about["module"]
    state = {k.removeprefix(MODULE): v for k, v in tensors.items() if k.startswith(MODULE)}
    maker = made(recipe, trust)
    _check_shapes(about, maker, state)
    settings = dict(about["settings"])
    for name in ("optimizer", "schedule"):
        if isinstance(settings[name], dict):
            settings[name] = imported(settings[name], trust)
    model = TorchModel(maker, **settings)
    model.check()
    module = built(maker, tuple(about["input_shape"]), task.n_outputs).to(model.torch_dtype)
    if not all(value.isfinite().all() for value in state.values()):
        raise FedRelaxError("a weight of the saved net is not finite")
    module.load_state_dict(state)
    if recipe["kind"] == "layers":
        model.module = module
    scaling = None
    if model.scale:
        scaling = Scaling(*(tensors[SCALING + field.name] for field in fields(Scaling)))
    return model.fitted(Trained(module.eval(), scaling, tuple(about["input_shape"])), task)


def _check_shapes(about: dict[str, Any], maker: Any, state: dict[str, Any]) -> None:
    """Refuse a recipe that does not make a module with parameters of exactly these shapes.

    Our own recipes are tried without allocating memory: a file may claim any size.
    """
    ours = about["module"]["kind"] != "import"
    try:
        with torch.device("meta") if ours else nullcontext():
            module = built(maker, tuple(about["input_shape"]), about["task"]["n_outputs"])
        found = {name: tuple(value.shape) for name, value in module.state_dict().items()}
    except Exception as error:  # A module's own code may raise anything.
        raise _not_again(f" ({in_one_line(error)})") from error
    if found != {name: tuple(value.shape) for name, value in state.items()}:
        raise _not_again("")


def _not_again(why: str) -> FedRelaxError:
    return FedRelaxError(
        f"the net's module cannot be rebuilt as it was trained{why}; give TorchModel a function "
        "or class that makes the module, not a module made by hand"
    )


def _settings(model: TorchModel) -> dict[str, Any]:
    values = {k: v for k, v in model.get_params(deep=False).items() if k != "module"}
    values["options"] = None if model.options is None else dict(model.options)
    for name in ("optimizer", "schedule"):
        if callable(values[name]):
            values[name] = import_of(values[name])
    try:
        json.dumps(values)
    except TypeError as error:
        raise FedRelaxError(f"the net cannot be saved: a setting is not plain ({error})") from error
    return values


def _task(task: Task) -> dict[str, Any]:
    plain: dict[str, Any] = {"kind": task.kind, "n_outputs": task.n_outputs, "classes": None}
    if task.classes is not None:
        names = task.classes.tolist()
        if not all(isinstance(name, bool | int | float | str) for name in names):
            raise FedRelaxError(
                f"the net cannot be saved: its classes are of type {type(names[0]).__name__}; use "
                "numbers or strings"
            )
        plain |= {"classes": names, "dtype": task.classes.dtype.str}
    return plain


def _task_from(plain: dict[str, Any]) -> Task:
    classes = plain["classes"]
    if classes is not None:
        dtype = np.dtype(object if plain["dtype"].endswith("O") else plain["dtype"])
        classes = np.array(classes, dtype=dtype)
    return Task(str(plain["kind"]), int(plain["n_outputs"]), classes)


def _read(data: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the tensors and the JSON of a file."""
    load = _safetensors().load
    try:
        tensors = load(data)
        length = int.from_bytes(data[:8], "little")
        about = json.loads(json.loads(data[8 : 8 + length])["__metadata__"][HEADER])
    except Exception as error:  # A damaged file can fail in many ways.
        raise _unreadable(error) from error
    return tensors, about


def _safetensors() -> Any:
    need("safetensors", "torch")
    return need("safetensors.torch", "torch")


def _unreadable(error: Exception) -> FedRelaxError:
    return FedRelaxError(
        f"the saved net cannot be read ({in_one_line(error)}); check that the file is complete"
    )
