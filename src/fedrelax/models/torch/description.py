"""The description of a net and of its training, and what a node's net is taken home as."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from numbers import Integral, Real
from typing import Any

import torch
from sklearn.base import BaseEstimator

from fedrelax.errors import FedRelaxError, did_you_mean
from fedrelax.models.base import Task
from fedrelax.models.torch.building import built
from fedrelax.models.torch.state import Trained
from fedrelax.typing import AnyArray, FloatArray

OPTIMIZERS: dict[str, Any] = {
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
    "adagrad": torch.optim.Adagrad,
    "rmsprop": torch.optim.RMSprop,
    "sgd": torch.optim.SGD,
}
DTYPES = {"float32": torch.float32, "float64": torch.float64}
STEPS = 50
"""Steps of a fit where neither steps nor epochs are given."""


class TorchModel(BaseEstimator):  # type: ignore[misc]
    """A PyTorch net for a node: any module, and how it is trained.

    The module gets rows of any shape. It gives one number per output, or for classes one logit per
    class. What the nodes exchange, and what ``predict_proba`` returns, is the softmax of the logits.
    Training minimises the weighted mean of the losses over all rows of a node, its own and its
    neighbours' answers, which may have different losses.

    Parameters
    ----------
    module : an ``nn.Module``, which starts from the weights that it has (the same at every node that
        is given it), or a function or class that makes one, which draws its first weights from the
        node's seed. The function may take (input_shape, n_outputs) of a row.
    optimizer : "adam", "adamw", "adagrad", "rmsprop", "sgd", or what makes an optimiser when called
        with the parameters, ``lr`` and the ``options``.
    schedule : what makes a learning-rate schedule of ``torch.optim.lr_scheduler`` when called with
        the optimiser. It moves on after every pass over the rows.
    steps, epochs : how long a fit, that is a round, trains: so many steps, or passes over all rows.
        Default: 50 steps. ``first`` is the number, in the same unit, for the first fit of a node,
        alone; 0 leaves it untrained.
    batch_size : rows of a step; None: all.
    patience : end a fit after so many passes in which the training loss found no new minimum.
    clip : the largest norm of a step's gradient.
    scale : let inputs, and numbers to predict, be in units of the node's own rows (of the first fit).
    temperature : of soft labels under the log loss; see ``objective.per_row``.
    warm_start : every round goes on from the weights and the optimiser's state of the last one, as
        nets usually train. With False each round starts afresh, unless the solver's ``continued``
        says otherwise. The first fit of a run always starts afresh.
    device : "cpu", another device of PyTorch, or "auto": a GPU if there is one.
    dtype : "float32" or "float64".
    batched : train at once with all nodes of the same architecture and settings where that gives
        the same result; ``models.torch.why_alone`` tells where it does not.

    Attributes
    ----------
    module_ : the trained module, in evaluation mode. A fitted one is what a result's ``models`` hold.

    >>> from torch import nn
    >>> TorchModel(nn.Linear(3, 1), optimizer="sgd", lr=0.1)
    TorchModel(lr=0.1, module=Linear(in_features=3, out_features=1, bias=True),
               optimizer='sgd')
    """

    trained_: Trained
    task_: Task

    def __init__(
        self,
        module: Any,
        optimizer: str | Callable[..., Any] = "adam",
        lr: float = 0.01,
        options: Mapping[str, Any] | None = None,
        schedule: Callable[[Any], Any] | None = None,
        steps: int | None = None,
        epochs: int | None = None,
        first: int | None = None,
        batch_size: int | None = None,
        patience: int | None = None,
        clip: float | None = None,
        scale: bool = False,
        temperature: float = 1.0,
        warm_start: bool = True,
        device: str = "cpu",
        dtype: str = "float32",
        batched: bool = True,
    ) -> None:
        self.module = module
        self.optimizer = optimizer
        self.lr = lr
        self.options = options
        self.schedule = schedule
        self.steps = steps
        self.epochs = epochs
        self.first = first
        self.batch_size = batch_size
        self.patience = patience
        self.clip = clip
        self.scale = scale
        self.temperature = temperature
        self.warm_start = warm_start
        self.device = device
        self.dtype = dtype
        self.batched = batched

    # Settings

    def check(self) -> None:
        """Refuse settings that cannot work."""
        for name in ("steps", "epochs", "batch_size", "patience"):
            self._check_count(name, least=1)
        self._check_count("first", least=0)
        for name in ("lr", "clip", "temperature"):
            value = getattr(self, name)
            if value is None and name == "clip":
                continue
            if (
                isinstance(value, bool)
                or not isinstance(value, Real)
                or not 0 < float(value) < math.inf
            ):
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
        self.place()

    def _check_count(self, name: str, least: int) -> None:
        value = getattr(self, name)
        wrong = isinstance(value, bool) or not isinstance(value, Integral)
        if value is not None and (wrong or value < least):
            raise FedRelaxError(
                f"TorchModel({name}={value!r}): {name} must be a whole number of at least {least}"
            )

    def place(self) -> Any:
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
    def number(self) -> Any:
        """The type of the numbers to compute with."""
        return DTYPES[self.dtype]

    def amount(self, fits: int) -> int:
        """Return how many steps, or epochs, a fit lasts after so many before."""
        if fits == 0 and self.first is not None:
            return self.first
        return self.steps or self.epochs or STEPS

    def make_module(self, input_shape: tuple[int, ...], n_outputs: int) -> Any:
        """Return a new module with its first weights."""
        return built(self.module, input_shape, n_outputs).to(self.place(), self.number)

    def make_optimizer(self, parameters: Any) -> tuple[Any, Any]:
        """Return the optimiser of the parameters, and its schedule or None."""
        kind = OPTIMIZERS.get(self.optimizer) if isinstance(self.optimizer, str) else self.optimizer
        assert kind is not None
        optimizer = kind(parameters, lr=self.lr, **(self.options or {}))
        if self.schedule is None:
            return optimizer, None
        schedule = self.schedule(optimizer)
        if isinstance(schedule, torch.optim.lr_scheduler.ReduceLROnPlateau):
            raise FedRelaxError(
                "TorchModel(schedule=...): ReduceLROnPlateau follows a measure that a net at a node "
                "does not have; use a schedule that counts passes"
            )
        return optimizer, schedule

    # Taken home

    def fitted(self, trained: Trained, task: Task) -> TorchModel:
        """Return a copy that predicts with a trained net."""
        model = copy.copy(self)
        model.trained_, model.task_ = trained, task
        return model

    @property
    def module_(self) -> Any:
        """The trained module."""
        return self.trained().module

    def trained(self) -> Trained:
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
        trained = self.trained()
        return trained.predict(X, self.task_)

    @property
    def classes_(self) -> AnyArray:
        """All classes of the network."""
        self.trained()
        if self.task_.classes is None:
            raise AttributeError("this TorchModel predicts numbers")
        return self.task_.classes
