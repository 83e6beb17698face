"""A Keras network and what it takes to train it: epochs, batch size, scaling, classes."""

from __future__ import annotations

import inspect
import os
import random
import sys
from collections.abc import Iterator
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
from fedrelax.typing import AnyArray, FloatArray

MANY = 4096
SCALES = ("center_", "spread_", "target_center_", "target_spread_")
"""The attributes of a ``KerasModel`` that scales."""


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
    known = {name: state.get_global_attribute(name) for name in names}
    torch = sys.modules.get("torch")
    drawn = None if torch is None else torch.get_rng_state()
    try:
        with threadpool_limits(1):
            keras.utils.set_random_seed(seed)
            yield
    finally:
        random.setstate(numbers)
        np.random.set_state(arrays)
        for name, value in known.items():
            state.set_global_attribute(name, value)
        if torch is not None:
            torch.set_rng_state(drawn)


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
    outputs_: int = field(init=False)
    classes_: AnyArray | None = field(init=False)
    center_: FloatArray = field(init=False)
    spread_: FloatArray = field(init=False)
    target_center_: FloatArray = field(init=False)
    target_spread_: FloatArray = field(init=False)

    @property
    def model_(self) -> Any:
        """The fitted network."""
        if not hasattr(self, "weights_"):
            raise FedRelaxError("this KerasModel is not fitted yet; train a network with it first")
        if not hasattr(self, "_network"):
            with steady(0):
                self._network = self.build(self.input_shape_, self.outputs_)
                self._network.set_weights(self.weights_)
        return self._network

    def adopt(self, network: Any) -> None:
        """Store a trained network."""
        self.weights_, self._network = network.get_weights(), network

    def build(self, shape: tuple[int, ...], outputs: int) -> Any:
        """Return a new, compiled network for rows of this shape."""
        keras = load_keras()
        if isinstance(self.model, keras.Model):
            network = _copy_of(self.model)
        else:
            network = self.model(shape, outputs)
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
            X = (X - self.center_) / self.spread_
        return np.asarray(X, dtype=np.float32)

    def outputs_for(self, X: AnyArray) -> FloatArray:
        """Return numbers, or class probabilities, of shape (rows, outputs)."""
        with steady(0):
            raw = self.model_.predict(self.scaled(X), batch_size=MANY, verbose=0)
        answer = np.asarray(raw, dtype=float).reshape(len(X), -1)
        if self.classes_ is not None:
            return probabilities(answer, self.model_.loss, len(self.classes_))
        if self.scale:
            answer = answer * self.target_spread_ + self.target_center_
        return answer

    def predict(self, X: AnyArray) -> AnyArray:
        """Return labels, or numbers (1-D for one output)."""
        answer = self.outputs_for(np.asarray(X))
        if self.classes_ is not None:
            return np.asarray(self.classes_[answer.argmax(axis=1)])
        return answer[:, 0] if answer.shape[1] == 1 else answer

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


def check_model(model: Any) -> None:
    """Refuse what is neither a compiled model nor a function of shape and outputs."""
    keras = load_keras()
    if isinstance(model, keras.Model):
        if not model.compiled:
            raise FedRelaxError(
                f"the Keras model {model.name!r} is not compiled; call model.compile(optimizer, loss)"
            )
        if isinstance(model.outputs if model.built else None, list) and len(model.outputs) > 1:
            raise FedRelaxError(
                f"the Keras model {model.name!r} has {len(model.outputs)} outputs; one is needed"
            )
        return
    try:
        inspect.signature(model).bind((1,), 1)
    except (TypeError, ValueError):
        raise FedRelaxError(
            f"KerasModel got {model!r}; pass a compiled keras.Model, or a function of the input shape "
            "and the number of outputs that returns one"
        ) from None


def _copy_of(model: Any) -> Any:
    """Return a network with the same layers, weights and settings, and a new optimiser."""
    network = load_keras().models.clone_model(model)
    if model.built:
        if not network.built:
            network.build(model.input_shape)
        network.set_weights(model.get_weights())
    optimizer = type(model.optimizer).from_config(model.optimizer.get_config())
    network.compile(optimizer=optimizer, loss=model.loss, run_eagerly=model.run_eagerly)
    return network


def loss_name(loss: Any) -> str:
    """Return the full name of a compiled loss: "mean_squared_error" for "mse"."""
    found = load_keras().losses.get(loss)
    return str(getattr(found, "name", None) or getattr(found, "__name__", type(found).__name__))


def takes_scores(loss: Any) -> bool:
    """Whether a compiled loss has ``from_logits=True``."""
    settings = loss.get_config() if hasattr(loss, "get_config") else {}
    return bool(settings.get("from_logits", False))


def probabilities(answer: FloatArray, loss: Any, outputs: int) -> FloatArray:
    """Return a classifier's outputs as probabilities of shape (rows, outputs)."""
    if not np.isfinite(answer).all():
        raise FedRelaxError("predicted NaN or infinity; the training probably diverged")
    if answer.shape[1] == 1 and outputs == 2:
        answer = expit(answer) if takes_scores(loss) else answer
        return np.hstack([1 - answer, answer])
    if takes_scores(loss):
        return np.asarray(softmax(answer, axis=1))
    if (answer < 0).any() or not np.allclose(answer.sum(axis=1), 1, atol=1e-3):
        raise FedRelaxError(
            "the outputs of the Keras model are not probabilities; end it with softmax, or compile "
            "it with a loss of from_logits=True"
        )
    return answer


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
