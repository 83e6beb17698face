"""A net at a node: the local model around a ``TorchModel``."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from fedrelax.errors import FedRelaxError
from fedrelax.models.base import BatchedModel, Rows, Task
from fedrelax.models.torch.batching import batch_key
from fedrelax.models.torch.building import name_of
from fedrelax.models.torch.description import TorchModel
from fedrelax.models.torch.memory import memory_of, stacked, trained_from
from fedrelax.models.torch.packing import pack
from fedrelax.models.torch.stack import Stack, train_stack
from fedrelax.models.torch.state import Trained
from fedrelax.models.torch.training import new_module, started, train
from fedrelax.threads import one_torch_thread
from fedrelax.typing import AnyArray, FloatArray


class TorchNode(BatchedModel):
    """A ``TorchModel`` at a node. After a batched fit its weights are part of a stack of many nodes'."""

    def __init__(self, model: TorchModel, task: Task) -> None:
        model.check()
        self.task = task
        self._model = model
        self._own: Trained | None = None
        self._shown: Trained | None = None
        self._stacked: tuple[Stack, int] | None = None
        self._key: tuple[Hashable | None] | None = None
        self._together: list[int] | None = None
        """For a net trained with others before its run was stopped: the stack's number, the net's place."""

    @classmethod
    def of(cls, model: TorchModel, task: Task, net: Trained) -> TorchNode:
        """Return a node with a trained net."""
        return cls(model, task)._with(net)

    @property
    def estimator(self) -> TorchModel:
        """The ``TorchModel``, which can predict after the first fit."""
        net = self._net()
        return self._model if net is None else self._model.fitted(net, self.task)

    def _net(self) -> Trained | None:
        """Return the net to predict with, taken out of the stack if it is part of one."""
        if self._shown is None and self._own is not None:
            self._shown = self._own.without_optimizer()
        elif self._shown is None and self._stacked is not None:
            stack, place = self._stacked
            self._shown = stack.trained(place)
        return self._shown

    def _last(self) -> Trained | None:
        """Return what training continues from."""
        if self._own is None and self._stacked is not None:
            stack, place = self._stacked
            self._own = stack.trained(place, to_go_on=True)
        return self._own

    def _with(self, own: Trained | None, stacked: tuple[Stack, int] | None = None) -> TorchNode:
        node = object.__new__(TorchNode)
        node.task, node._model, node._key = self.task, self._model, self._key
        node._own, node._shown, node._stacked, node._together = own, None, stacked, None
        return node

    def __getstate__(self) -> dict[str, Any]:
        self._last()
        return {**self.__dict__, "_shown": None, "_stacked": None, "_key": None}

    @property
    def name(self) -> str:
        """The module's class, or the name of its factory."""
        return name_of(self._model.module)

    @property
    def gradients(self) -> bool:
        """Always true: terms may have different losses."""
        return True

    def forgets(self, continued: bool) -> bool:
        """Whether every fit starts from the initial weights."""
        return not (self._model.warm_start or continued)

    @property
    def recalls(self) -> bool:
        """Whether weights and the optimiser's state are all; a schedule's state may be of any type."""
        return self._model.schedule is None

    def memory(self) -> dict[str, Any]:
        """Return weights, optimiser, and the stack in which the net was trained, if any."""
        last = self._last()
        assert last is not None
        together = None if self._stacked is None else [id(self._stacked[0]), self._stacked[1]]
        return {**memory_of(last), "together": together or self._together}

    def remembering(self, memory: dict[str, Any]) -> TorchNode:
        """Return the net that had this memory."""
        like = self._last()
        assert like is not None
        node, together = self._with(trained_from(memory, like)), memory["together"]
        node._together = None if together is None else [int(part) for part in together]
        return node

    def check(self, X: AnyArray) -> None:
        """Build the module once and pass one row through it."""
        new_module(self._model, self.task, X, seed=0)

    def fit(self, terms: Sequence[Rows], *, seed: int, continued: bool = False) -> TorchNode:
        """Return the net after one more fit; see ``TorchModel`` on when it starts afresh."""
        before = self._last() if self._model.warm_start or continued else None
        return self._with(train(self._model, self.task, terms, before, seed))

    def predict(self, X: AnyArray) -> FloatArray:
        """Return numbers or class probabilities."""
        net = self._net()
        return (self._model.trained() if net is None else net).predict(X, self.task)

    # All at once

    def batch_key(self, terms: Sequence[Rows]) -> Hashable | None:
        """Return architecture and settings, or None if the net must be trained alone."""
        if self._key is None:
            self._key = (batch_key(self._model, terms[0].X, self.task),)
        return self._key[0]

    @classmethod
    def fit_many(
        cls,
        models: Sequence[TorchNode],
        problems: Sequence[Sequence[Rows]],
        *,
        seeds: Sequence[int],
        continued: bool,
        memory: dict[str, Any],
    ) -> list[TorchNode]:
        """Return all nets after one more fit, their weights in one stack."""
        model, task = models[0]._model, models[0].task
        with one_torch_thread():
            stack = _common_stack(models) if model.warm_start or continued else None
            if stack is None:
                nets = [
                    started(node._model, task, terms[0], seed)
                    for node, terms, seed in zip(models, problems, seeds, strict=True)
                ]
                stack = Stack.of(nets, task)
            stack = train_stack(model, stack, problems, memory)
        return [node._with(None, (stack, place)) for place, node in enumerate(models)]

    @classmethod
    def predict_many(
        cls,
        models: Sequence[TorchNode],
        inputs: Sequence[Sequence[AnyArray]],
        memory: dict[str, Any],
    ) -> list[list[FloatArray]]:
        """Return all predictions, from one forward pass."""
        stack = _common_stack(models)
        assert stack is not None
        with one_torch_thread():
            packed = pack(inputs, stack.scaling, stack.flat, memory, "asked")
            return packed.dealt(*stack.answers(packed))


def _common_stack(models: Sequence[TorchNode]) -> Stack | None:
    """Return the stack of exactly these nodes in this order; None before their first fit."""
    lies = [node._stacked for node in models]
    first = lies[0]
    if all(lie is None and node._own is None for lie, node in zip(lies, models, strict=True)):
        return None
    if first is not None and len(models) == first[0].n:
        stack = first[0]
        if all(lie is not None and lie[0] is stack and lie[1] == k for k, lie in enumerate(lies)):
            return stack
    if all(node._together == [first_of(models), k] for k, node in enumerate(models)):
        return stacked([node._own for node in models if node._own is not None], models[0].task)
    raise FedRelaxError("the nets were not trained together before")


def first_of(models: Sequence[TorchNode]) -> int | None:
    """Return the number of the stack in which the first net was trained before its run was stopped."""
    return None if models[0]._together is None else models[0]._together[0]
