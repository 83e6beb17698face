"""The description of a net and its training, which is also the fitted model; and the built-in modules."""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from numbers import Real
from typing import TYPE_CHECKING, Any

import torch
from sklearn.base import BaseEstimator
from torch import Tensor, nn

from fedrelax.errors import FedRelaxError, did_you_mean, listing
from fedrelax.models.base import Task
from fedrelax.typing import AnyArray, FloatArray
from fedrelax.validation import check_count

if TYPE_CHECKING:
    from fedrelax.models.torch.training import Net

Factory = Any
"""A module, or a function or class that returns one."""
ARGUMENTS = ("input_shape", "n_outputs")


@dataclass(frozen=True)
class MLP:
    """A factory of perceptrons with ReLU between the layers, for rows of any shape; linear without any."""

    hidden: tuple[int, ...] = (32,)

    def __call__(self, input_shape: tuple[int, ...], n_outputs: int) -> nn.Module:
        """Return the module."""
        sizes = (math.prod(input_shape), *self.hidden)
        layers: list[nn.Module] = [nn.Flatten()]
        for before, after in zip(sizes[:-1], sizes[1:], strict=True):
            layers += [nn.Linear(before, after), nn.ReLU()]
        return nn.Sequential(*layers, nn.Linear(sizes[-1], n_outputs))


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
    every = inspect.signature(factory).parameters.values()
    given = [parameter for parameter in every if parameter.kind <= parameter.POSITIONAL_OR_KEYWORD]
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


OPTIMIZERS: dict[str, Any] = {
    name.lower(): getattr(torch.optim, name)
    for name in ("Adam", "AdamW", "Adagrad", "RMSprop", "SGD")
}
DTYPES = {"float32": torch.float32, "float64": torch.float64}
COUNTS = {"steps": 1, "epochs": 1, "batch_size": 1, "first": 0}
"""The least value of each setting that counts something."""
STEPS = 50
"""Steps of a fit if neither steps nor epochs are given."""


@dataclass(eq=False, repr=False)
class TorchModel(BaseEstimator):  # type: ignore[misc]
    """A PyTorch net for a node: any module, and how it is trained.

    The module gets rows of any shape and returns one number per output, or one logit per class. What
    the nodes exchange, and what ``predict_proba`` returns, is the softmax of the logits. Training
    minimises the weighted mean of the losses over all rows of a node, its own and the public ones with
    its neighbours' answers, which may have different losses.

    Parameters
    ----------
    module : an ``nn.Module``, which starts from its present weights (the same at every node that is
        given it), or a function or class that returns one, with initial weights drawn from the node's
        seed. It is called with nothing or with (input_shape, n_outputs), the shape of one row.
    optimizer : "adam", "adamw", "adagrad", "rmsprop", "sgd", or a class or function that returns an
        optimiser when called with the parameters, ``lr`` and the ``options``.
    steps, epochs : the length of a fit, that is, of a round: so many steps, or passes over all rows.
        Default: 50 steps. ``first`` is the length, in the same unit, of a node's first fit, alone;
        0 leaves it untrained.
    batch_size : rows per step; None for all.
    clip : the largest norm of a step's gradient.
    scale : standardise inputs, and numbers to predict, by the node's own rows (in its first fit).
    warm_start : every round continues from the weights and the optimiser's state of the last one, as
        nets usually do. With False each round starts afresh, unless the solver's ``continued``
        says otherwise. The first fit of a run always starts afresh.
    device : "cpu", another device of PyTorch, or "auto": a GPU if there is one.
    dtype : "float32" or "float64".
    batched : train at once with all nodes of the same architecture and settings where that gives
        the same result; where it does not, ``models.torch.unsupported_reason`` says why.

    Attributes
    ----------
    module_ : the trained module, in evaluation mode. A result's ``models`` are fitted ones.

    >>> from torch import Tensor, nn
    >>> TorchModel(nn.Linear(3, 1), optimizer="sgd", lr=0.1)
    TorchModel(lr=0.1, module=Linear(in_features=3, out_features=1, bias=True),
               optimizer='sgd')
    """

    module: Factory
    optimizer: str | Callable[..., Any] = "adam"
    lr: float = 0.01
    options: Mapping[str, Any] | None = None
    steps: int | None = None
    epochs: int | None = None
    first: int | None = None
    batch_size: int | None = None
    clip: float | None = None
    scale: bool = False
    warm_start: bool = True
    device: str = "cpu"
    dtype: str = "float32"
    batched: bool = True
    trained_: Net = field(init=False)
    task_: Task = field(init=False)

    # Settings

    def check(self) -> None:
        """Refuse settings that cannot work."""
        for name, least in COUNTS.items():
            if getattr(self, name) is not None:
                check_count(f"TorchModel.{name}", getattr(self, name), least)
        for name in ("lr", "clip"):
            value = getattr(self, name)
            wrong = isinstance(value, bool) or not isinstance(value, Real)
            if (name, value) != ("clip", None) and (wrong or not 0 < float(value) < math.inf):
                raise FedRelaxError(
                    f"TorchModel({name}={value!r}): {name} must be a number above 0"
                )
        if self.steps is not None and self.epochs is not None:
            raise FedRelaxError(
                f"TorchModel(steps={self.steps}, epochs={self.epochs}): give one of the two"
            )
        if self.dtype not in DTYPES:
            raise FedRelaxError(f"TorchModel(dtype={self.dtype!r}): use {' or '.join(DTYPES)}")
        if isinstance(self.optimizer, str) and self.optimizer not in OPTIMIZERS:
            hint = did_you_mean(self.optimizer, OPTIMIZERS)
            raise FedRelaxError(
                f"TorchModel(optimizer={self.optimizer!r}) is not known (known: "
                f"{', '.join(OPTIMIZERS)}, or a class of torch.optim){hint}"
            )
        self.find_device()

    def find_device(self) -> torch.device:
        """Return the device to train on."""
        name = self.device
        if name == "auto":
            name = "cuda" if torch.cuda.is_available() else "cpu"
        try:
            return torch.empty(0, device=name).device
        except (RuntimeError, AssertionError) as error:
            text = str(error).partition("\n")[0]
            raise FedRelaxError(
                f"TorchModel(device={self.device!r}) cannot be used here ({text}); use 'cpu' or 'auto'"
            ) from error

    @property
    def form(self) -> dict[str, Any]:
        """The floating-point type and the device of all tensors."""
        return {"dtype": DTYPES[self.dtype], "device": self.find_device()}

    def amount(self, fits: int) -> int:
        """Return how many steps, or epochs, a fit lasts that comes after ``fits`` others."""
        if fits == 0 and self.first is not None:
            return self.first
        return self.steps or self.epochs or STEPS

    def make_module(self, input_shape: tuple[int, ...], n_outputs: int) -> nn.Module:
        """Return a new module with its initial weights."""
        return built(self.module, input_shape, n_outputs).to(**self.form)

    def make_optimizer(self, parameters: Any) -> Any:
        """Return the optimiser of the parameters."""
        kind = OPTIMIZERS.get(self.optimizer) if isinstance(self.optimizer, str) else self.optimizer
        assert kind is not None
        return kind(parameters, lr=self.lr, **(self.options or {}))

    # After training

    def fitted(self, trained: Net, task: Task) -> TorchModel:
        """Return a copy that predicts with a trained net."""
        model = copy.copy(self)
        model.trained_, model.task_ = trained, task
        return model

    @property
    def module_(self) -> nn.Module:
        """The trained module."""
        return self.trained().module

    def trained(self) -> Net:
        """Return the net that a node has trained."""
        if not hasattr(self, "trained_"):
            raise FedRelaxError("this TorchModel is not trained; a network trains it at its nodes")
        return self.trained_

    def predict(self, X: AnyArray) -> AnyArray:
        """Return numbers, or the most likely class of each row."""
        answer = self.predict_proba(X)
        return self.task_.decode(answer)

    def predict_proba(self, X: AnyArray) -> FloatArray:
        """Return class probabilities in the order of ``classes_``, or numbers, as (rows, outputs)."""
        return self.trained().predict(X, self.task_)

    @property
    def classes_(self) -> AnyArray:
        """All classes of the network."""
        self.trained()
        if self.task_.classes is None:
            raise AttributeError("this TorchModel predicts numbers")
        return self.task_.classes


def mlp(classify: bool) -> TorchModel:
    """Return a perceptron with 32 hidden units for unscaled tables, for numbers as for classes."""
    return _ready_net(MLP(), 0.01, 200, classify)


def linear(classify: bool) -> TorchModel:
    """Return a linear model trained by gradient steps, for unscaled tables."""
    return _ready_net(MLP(()), 0.03, 300, classify)


def _ready_net(module: Factory, lr: float, first: int, classify: bool) -> TorchModel:
    # Weight decay takes the role of the penalty in other models: a node may have few rows.
    options = {"weight_decay": 0.1 if classify else 0.03}
    return TorchModel(module, "adamw", lr, options, first=first, steps=50, scale=True)
