"""Keras networks: what it takes to train one, and the adapter that makes it the model of a node."""

from __future__ import annotations

import copy
import inspect
import os
import random
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator

from fedrelax.errors import FedRelaxError
from fedrelax.extras import need
from fedrelax.linear.arrays import centre_and_spread
from fedrelax.models.base import LocalModel, Rows, Task, stack
from fedrelax.models.criteria import OBJECTIVES
from fedrelax.models.scikit import shaped
from fedrelax.typing import AnyArray, FloatArray

MANY = 4096
SPARSE, BINARY = "sparse_categorical_crossentropy", "binary_crossentropy"


def load_keras(backend: str = "torch") -> Any:
    """Return the module ``keras``.

    Unless ``KERAS_BACKEND`` or an earlier import says otherwise, Keras gets the backend named here, if
    that is installed.
    """
    if "keras" not in sys.modules and find_spec(backend) is not None:
        os.environ.setdefault("KERAS_BACKEND", backend)
    return need("keras", "keras")


@contextmanager
def steady(seed: int) -> Iterator[None]:
    """Within this context, Keras draws from ``seed`` and uses one thread.

    Keras draws from the global generators of Python, numpy and its backend. Afterwards those of Python,
    numpy and PyTorch, and Keras's own seed, are as before.
    """
    from threadpoolctl import threadpool_limits

    keras = load_keras()
    numbers, arrays = random.getstate(), np.random.get_state()
    names = ("global_random_seed", "global_seed_generator")
    state = keras.src.backend.common.global_state
    before = {name: state.get_global_attribute(name) for name in names}
    torch = sys.modules.get("torch")
    tensors = None if torch is None else torch.get_rng_state()
    try:
        with threadpool_limits(1):
            keras.utils.set_random_seed(seed)
            yield
    finally:
        random.setstate(numbers)
        np.random.set_state(arrays)
        for name, value in before.items():
            state.set_global_attribute(name, value)
        if torch is not None:
            torch.set_rng_state(tensors)


@dataclass(eq=False, repr=False)
class KerasModel(BaseEstimator):  # type: ignore[misc]
    """A compiled Keras model, or a function that makes one, as the model of a node.

    model : a compiled ``keras.Model``, whose present weights are the start of every fit; or a
        function of the input shape and the number of outputs (of classes, in classification) that
        returns one. A classifier ends in one output per class: probabilities or, with a loss of
        ``from_logits=True``, scores. For two classes, one output with binary cross-entropy is enough.
        The optimiser starts afresh in every fit.
    epochs, batch_size : of one fit, that is, of one node in one round.
    scale : standardise inputs, and in regression the target, by the rows of the fit (with ``continued``,
        of the first fit).

    After training: ``model_``, the plain fitted ``keras.Model`` (it sees scaled rows if ``scale``),
    and ``classes_``.
    """

    model: Any
    epochs: int = 20
    batch_size: int = 32
    scale: bool = False
    weights_: list[Any] = field(init=False)
    input_shape_: tuple[int, ...] = field(init=False)
    task_: Task = field(init=False)
    scales_: tuple[FloatArray, ...] = field(init=False)
    """Centre and spread of the inputs, and of the target; only where the model scales."""

    @property
    def model_(self) -> Any:
        """The fitted network."""
        if not hasattr(self, "weights_"):
            raise FedRelaxError("this KerasModel is not fitted yet; train a network with it first")
        if not hasattr(self, "_network"):
            with steady(0):
                self._network = self.build(self.input_shape_, self.task_.n_outputs)
                self._network.set_weights(self.weights_)
        return self._network

    def adopt(self, network: Any) -> None:
        """Store a trained network."""
        self.weights_, self._network = network.get_weights(), network

    def build(self, shape: tuple[int, ...], outputs: int) -> Any:
        """Return a new, compiled network for rows of this shape."""
        keras, given = load_keras(), self.model
        if isinstance(given, keras.Model):
            network = keras.models.clone_model(given)
            if given.built:
                if not network.built:
                    network.build(given.input_shape)
                network.set_weights(given.get_weights())
            optimizer = type(given.optimizer).from_config(given.optimizer.get_config())
            network.compile(optimizer=optimizer, loss=given.loss, run_eagerly=given.run_eagerly)
        else:
            network = given(shape, outputs)
            if not (isinstance(network, keras.Model) and network.compiled):
                raise FedRelaxError(
                    "the function of a KerasModel must return a compiled keras.Model; end it with "
                    "model.compile(optimizer, loss) and return model"
                )
        if not network.built:
            network.build((None, *shape))
        return network

    def scaled(self, X: AnyArray) -> AnyArray:
        """Return inputs as the network sees them."""
        if self.scale:
            X = (X - self.scales_[0]) / self.scales_[1]
        return np.asarray(X, dtype=np.float32)

    def outputs_for(self, X: AnyArray) -> FloatArray:
        """Return numbers, or class probabilities, of shape (rows, outputs)."""
        with steady(0):
            raw = self.model_.predict(self.scaled(X), batch_size=MANY, verbose=0)
        answer = np.asarray(raw, dtype=float).reshape(len(X), -1)
        if self.task_.is_classification:
            return probabilities(answer, self.model_.loss, self.task_.n_outputs)
        if self.scale:
            answer = answer * self.scales_[3] + self.scales_[2]
        return answer

    @property
    def classes_(self) -> AnyArray | None:
        """The classes, of a network that predicts classes."""
        return self.task_.classes

    def predict(self, X: AnyArray) -> AnyArray:
        """Return labels, or numbers (1-D for one output)."""
        return self.task_.decode(self.outputs_for(np.asarray(X)))

    def predict_proba(self, X: AnyArray) -> FloatArray:
        """Return class probabilities in the order of ``classes_``."""
        if self.classes_ is None:
            raise FedRelaxError("this KerasModel predicts numbers; use predict")
        return self.outputs_for(np.asarray(X))

    # Pickling is only for a program's own worker processes; Keras supports it. Files never hold a pickle.

    def __getstate__(self) -> dict[str, Any]:
        backend = Backend(load_keras().backend.backend())
        return {"_backend": backend} | {k: v for k, v in vars(self).items() if k != "_network"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update({k: v for k, v in state.items() if k != "_backend"})


class Backend:
    """Keras's backend, pickled ahead of a model: unpickling it imports Keras with this backend."""

    def __init__(self, name: str) -> None:
        load_keras(name)
        self.name = name

    def __reduce__(self) -> tuple[type[Backend], tuple[str]]:
        return Backend, (self.name,)


def loss_name(loss: Any) -> str:
    """Return the full name of a compiled loss: "mean_squared_error" for "mse"."""
    function = load_keras().losses.get(loss)
    name = getattr(function, "name", None) or getattr(function, "__name__", None)
    return str(name or type(function).__name__)


def probabilities(answer: FloatArray, loss: Any, outputs: int) -> FloatArray:
    """Return a classifier's outputs as probabilities of shape (rows, outputs)."""
    if not np.isfinite(answer).all():
        raise FedRelaxError("predicted NaN or infinity; the training probably diverged")
    scores = hasattr(loss, "get_config") and loss.get_config().get("from_logits", False)
    if answer.shape[1] == 1 and outputs == 2:
        answer = expit(answer) if scores else answer
        return np.hstack([1 - answer, answer])
    if scores:
        return np.asarray(softmax(answer, axis=1))
    if (answer < 0).any() or not np.allclose(answer.sum(axis=1), 1, atol=1e-3):
        raise FedRelaxError(
            "the outputs of the Keras model are not probabilities; end it with softmax, or compile "
            "it with a loss of from_logits=True"
        )
    return answer


# At a node


def is_keras(estimator: Any) -> bool:
    """Whether this is a ``KerasModel`` or a Keras model; the check does not import Keras."""
    if isinstance(estimator, KerasModel):
        return True
    keras = sys.modules.get("keras")
    return keras is not None and isinstance(estimator, getattr(keras, "Model", ()))


class KerasNode(LocalModel):
    """A Keras network at a node, with sample weights, soft labels, and training that can continue."""

    def __init__(self, estimator: Any, task: Task) -> None:
        given = estimator if isinstance(estimator, KerasModel) else KerasModel(estimator)
        super().__init__(given, task)
        model = given.model
        if not isinstance(model, load_keras().Model):
            try:
                inspect.signature(model).bind((1,), 1)
            except (TypeError, ValueError):
                raise FedRelaxError(
                    f"KerasModel got {model!r}; pass a compiled keras.Model, or a function of the "
                    "input shape and the number of outputs that returns one"
                ) from None
            return
        if not model.compiled:
            raise FedRelaxError(
                f"the Keras model {model.name!r} is not compiled; call model.compile(optimizer, loss)"
            )
        self.fits = OBJECTIVES.get(loss_name(model.loss))
        if model.built:
            if isinstance(model.outputs, list) and len(model.outputs) > 1:
                raise FedRelaxError(
                    f"the Keras model {model.name!r} has {len(model.outputs)} outputs; one is needed"
                )
            self._check_outputs(model)

    def _check_outputs(self, network: Any) -> int:
        """Return how many outputs a network has; refuse one with too few or too many."""
        width, task = int(network.output_shape[-1]), self.task
        binary = task.is_classification and (width, task.n_outputs) == (1, 2)
        if width != task.n_outputs and not (binary and loss_name(network.loss) == BINARY):
            what = "classes" if task.is_classification else "numbers"
            raise FedRelaxError(
                f"the Keras model has {width} output{'s' * (width != 1)} and there are "
                f"{task.n_outputs} {what} to predict; end it with a layer of {task.n_outputs}"
            )
        return width

    def forgets(self, continued: bool) -> bool:
        """Whether every fit starts from the initial weights: always, unless training is ``continued``."""
        return not continued

    def fit(self, terms: Sequence[Rows], *, seed: int, continued: bool = False) -> KerasNode:
        """Return a network trained for ``epochs``, from the present weights or from the initial ones."""
        rows, model = stack(terms), copy.copy(self._estimator)
        goes_on = continued and hasattr(model, "weights_")
        model.task_, model.input_shape_ = self.task, rows.X.shape[1:]
        if model.scale and not goes_on:
            model.scales_ = (*centre_and_spread(rows.X), *centre_and_spread(rows.target))
        with steady(seed):
            network = model.build(model.input_shape_, self.task.n_outputs)
            if goes_on:
                network.set_weights(model.weights_)
            X, target, weight = self._training_rows(network, model, rows)
            network.fit(
                X,
                target,
                sample_weight=weight / weight.mean(),  # Keras divides by rows, not by weights.
                epochs=model.epochs,
                batch_size=model.batch_size,
                verbose=0,
            )
            model.adopt(network)
        fitted = copy.copy(self)
        fitted._estimator = model
        return fitted

    def _training_rows(
        self, network: Any, model: KerasModel, rows: Rows
    ) -> tuple[AnyArray, AnyArray, FloatArray]:
        """Return scaled rows, targets and weights; soft labels have the form that the loss takes.

        A loss on class numbers gets K copies of every row, each with its share of the weight.
        """
        width, X, target = self._check_outputs(network), model.scaled(rows.X), rows.target
        if not self.task.is_classification:
            if model.scale:
                target = (target - model.scales_[2]) / model.scales_[3]
        elif loss_name(network.loss) == SPARSE:
            share = target * rows.weight[:, None]
            row, label = np.nonzero(share)
            return X[row], label, share[row, label]
        elif width == 1:
            target = target[:, 1:]
        return X, target, rows.weight

    def predict(self, X: AnyArray) -> FloatArray:
        """Return numbers, or class probabilities."""
        return shaped(self._estimator.outputs_for(X), len(X), self.task.n_outputs)


# The model of the command line


def perceptron(shape: tuple[int, ...], outputs: int, *, ending: str, loss: str) -> Any:
    """Return a network of one hidden layer of 32 units."""
    keras = load_keras()
    layers = keras.layers
    decay = keras.regularizers.L2(1e-3)  # nodes have few rows
    network = keras.Sequential(
        [
            layers.Input(shape),
            layers.Flatten(),
            layers.Dense(32, activation="relu", kernel_regularizer=decay),
            layers.Dense(outputs, activation=ending),
        ]
    )
    network.compile(keras.optimizers.Adam(0.02), loss)
    return network


def mlp(classify: bool) -> KerasModel:
    """Return a small network on standardised rows, for the name ``keras-mlp``."""
    load_keras()
    ending, loss = ("softmax", "categorical_crossentropy") if classify else ("linear", "mse")
    factory = partial(perceptron, ending=ending, loss=loss)
    return KerasModel(factory, epochs=40, batch_size=64, scale=True)
