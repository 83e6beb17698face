"""What every solver does: check, run the loop, return a result; and by what a checkpoint knows a run."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from typing import Any

import joblib
import numpy as np

from fedrelax.engines import Engine
from fedrelax.errors import FedRelaxError
from fedrelax.graph import Graph
from fedrelax.losses import Loss, Weighted
from fedrelax.models import LocalModel, Task
from fedrelax.network import Network
from fedrelax.network.rows import Lookup
from fedrelax.runtime import Callback, History, Loop, Stopping
from fedrelax.runtime.callbacks import keeper_in
from fedrelax.runtime.exchange import Layer, Promise
from fedrelax.typing import DataFrame, FloatArray, Label, Model
from fedrelax.validation import check_callbacks
from fedrelax.views import view
from fedrelax.wiring import Wiring

NO_MATTER = ("n_jobs", "pooled")
"""Settings that do not change a result, and what is found again from the rows."""
ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+|, spent=(True|False)")
"""What texts say of an object in memory and not of the run."""


def identity_of(network: Network, solver: Any) -> dict[str, str]:
    """Return what a run of a solver on a network is known by."""
    graph, public = network.graph.adjacency, network.public
    models = {id(model): described(model) for model in network.distinct_models.values()}
    common = public.common
    sets = [common] if common is not None else [public.of(label) for label in network.labels]
    discrepancy = getattr(solver, "discrepancy", None)
    weights = [discrepancy.weights(X) for X in sets] if isinstance(discrepancy, Weighted) else []
    settings = [
        f"{field.name}={plain_text(getattr(solver, field.name))}"
        for field in fields(solver)
        if field.name not in NO_MATTER
    ]
    own, held = network.own_rows, network.validation_rows
    return {
        "rows": joblib.hash([vars(rows) for rows in (own, held) if rows is not None]),
        "graphs": joblib.hash([repr(network.labels), graph.data, graph.indices, graph.indptr]),
        "public rows": joblib.hash(sets),
        "models": joblib.hash([models[id(model)] for model in network.models]),
        "settings": joblib.hash([type(solver).__name__, *settings, *weights]),
    }


def described(model: Model) -> str:
    """Return a model's kind and settings as a text that is the same in every process.

    >>> from sklearn.linear_model import Ridge
    >>> described(Ridge(2.0)) == described(Ridge(2.0)), described(Ridge(2.0)) == described(Ridge())
    (True, False)
    """
    if isinstance(model, LocalModel):
        model = model.estimator
    if hasattr(model, "estimator") and hasattr(model, "view"):  # a model that sees some columns
        return f"{described(model.estimator)} {plain_text(model.view)}"
    kind = f"{type(model).__module__}.{type(model).__qualname__}"
    if not hasattr(model, "get_params") or isinstance(model, type):
        return f"{kind} {plain_text(model)}"
    params = model.get_params(deep=True)
    return f"{kind} {[(name, plain_text(params[name])) for name in sorted(params)]}"


def plain_text(value: Any) -> str:
    """Return a value as a text without addresses in memory; of an array, its checksum."""
    if isinstance(value, np.ndarray):
        return str(joblib.hash(value))
    return ADDRESS.sub("", repr(value))


USUAL_TOL = 1e-4
"""The change of predictions that counts as rest where ``tol`` is not given."""


class EdgeValues(Mapping[tuple[Label, Label], float]):
    """One number per directed edge, in the order of the graph's matrix."""

    def __init__(self, graph: Graph, values: FloatArray | Callable[[], FloatArray]) -> None:
        """Take the values, or what computes them when the first is asked for."""
        self._graph, self._values = graph, values

    @cached_property
    def _all(self) -> dict[tuple[Label, Label], float]:
        A, labels = self._graph.adjacency.tocoo(), self._graph.labels
        values = self._values() if callable(self._values) else self._values
        ends = zip(A.row.tolist(), A.col.tolist(), values.tolist(), strict=True)
        return {(labels[i], labels[j]): value for i, j, value in ends}

    def __getitem__(self, edge: tuple[Label, Label]) -> float:
        return self._all[edge]

    def __iter__(self) -> Iterator[tuple[Label, Label]]:
        return iter(self._all)

    def __len__(self) -> int:
        return 2 * self._graph.n_edges

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (self._all,)


@dataclass(frozen=True)
class Result:
    """A trained network: one model per node and how it came to be."""

    local_models: Mapping[Label, LocalModel]
    alone: Mapping[Label, LocalModel]
    """The models of round 0: every node trained on its own rows only."""
    task: Task
    graph: Graph
    discrepancies: Mapping[tuple[Label, Label], float]
    history: History
    n_rounds: int
    reason: str
    kept: Graph | None = None
    """The graph of the last rounds, if it was rewired; ``graph`` is the one that was given."""
    stayed: tuple[Label, ...] = ()
    """The nodes that kept the model of round 0."""
    losses: tuple[str, str] | None = None
    """The names of the loss on own rows and of the one across edges, where they are known."""
    engine: str = "sites"
    """The name of the engine that computed it."""
    around: tuple[str, ...] = ()
    """What stood around the exchange: noise with its epsilon and delta, faults, attacks."""
    promises: tuple[Promise, ...] = ()
    """The differential privacy that every node was promised."""

    @property
    def models(self) -> Mapping[Label, Any]:
        """The plain fitted estimator of every node, to take home."""
        return Lookup(self.local_models, partial(_estimator_in, self.local_models))

    def with_alone(self, labels: Iterable[Label]) -> Result:
        """Return this result with the models of round 0 at these nodes."""
        first = {label: self.alone[label] for label in labels}
        return replace(self.with_models(first), stayed=tuple(first)) if first else self

    def with_models(self, models: Mapping[Label, LocalModel]) -> Result:
        """Return this result with other models at some nodes."""
        return replace(self, local_models={**self.local_models, **models}) if models else self

    @property
    def clusters(self) -> list[list[Label]]:
        """The groups of nodes that a rewired graph has found, the largest first; else none."""
        return [] if self.kept is None else self.kept.communities()

    @property
    def plot(self) -> Any:
        """Pictures: ``graph``, ``curves`` and ``gains``; see ``fedrelax.report.plots``."""
        return view("plots").Plots(self)

    def _repr_html_(self) -> str:
        text: str = view("notebook").result_html(self)
        return text

    def edges_to_frame(self, graph: Graph | None = None) -> DataFrame:
        """Return a DataFrame of the edges: both ends, weight, the discrepancy each way, and ``used``.

        ``used`` is the weight in the last rounds: 0 where a rewired graph has dropped the edge. Edges
        that were found and not given have the weight 0. ``graph`` may be a larger one; its edges at
        nodes without a model have no discrepancy (NaN).
        """
        import pandas as pd

        known, nan = self.discrepancies, float("nan")
        whole = self.graph if graph is None else graph
        given = {(u, v): weight for u, v, weight in whole.edges()}
        used = dict(given)
        if self.kept is not None:
            used |= {edge: 0.0 for edge in given if edge in known}
            for u, v, weight in self.kept.edges():
                edge = (v, u) if (v, u) in given else (u, v)
                given.setdefault(edge, 0.0)
                used[edge] = weight
        lines = [
            (u, v, weight, known.get((u, v), nan), known.get((v, u), nan), used[u, v])
            for (u, v), weight in given.items()
        ]
        columns = ["source", "target", "weight", "discrepancy", "discrepancy_back", "used"]
        return pd.DataFrame(lines, columns=columns)


def _estimator_in(models: Mapping[Label, LocalModel], label: Label) -> Model:
    return models[label].estimator


class Solver(ABC):
    """A way to train a network. ``solve`` checks first, so nothing fails in the middle."""

    rounds: int | None
    tol: float | None
    patience: int | None
    wiring: Wiring | None

    def solve(self, network: Network, callbacks: Sequence[Callback] = ()) -> Result:
        """Train the network."""
        if not isinstance(network, Network):
            raise FedRelaxError(f"network is a {type(network).__name__}, not a fedrelax.Network")
        check_callbacks(callbacks)
        network.check()
        self.check(network)
        engine, losses, identity = self.prepare(network), self.losses(network.kind), None
        if keeper_in(callbacks) is not None:
            reason = engine.unsupported_checkpoint()
            if getattr(self, "random_state", 0) is None:
                reason = "random_state=None draws a new seed every time; give a number"
            if reason is not None:
                raise FedRelaxError(f"no checkpoint can be kept of this run: {reason}")
            identity = identity_of(network, self)
        with engine.working():
            outcome = Loop(engine, self.stopping(engine), callbacks, self.wiring, identity).run()
        settings: Any = self
        promises = [layer.promise(network, settings) for layer in self.layers]
        graph, kept = network.graph, None
        if self.wiring is not None:
            kept = Graph(engine.edges, graph.labels, graph.positions, graph.geographic)
        return Result(
            local_models=engine.local_models,
            alone=engine.alone_models,
            task=network.task,
            graph=graph,
            discrepancies=EdgeValues(graph, engine.discrepancies(engine.given)),
            kept=kept,
            history=outcome.history,
            n_rounds=outcome.n_rounds,
            reason=outcome.reason,
            losses=(losses[0].name, losses[1].name),
            engine=engine.name,
            around=tuple(layer.describe(network, settings) for layer in self.layers),
            promises=tuple(promise for promise in promises if promise is not None),
        )

    @property
    def layers(self) -> tuple[Layer, ...]:
        """What stands around the exchange."""
        return ()

    def stopping(self, engine: Engine) -> Stopping:
        """Return when to stop: what was given, or what is usual with the engine."""
        rounds = engine.usual_rounds if self.rounds is None else int(self.rounds)
        tol = USUAL_TOL if self.tol is None else float(self.tol)
        return Stopping(rounds, tol, self.patience)

    @abstractmethod
    def check(self, network: Network) -> None:
        """Refuse settings that this solver cannot serve, naming the argument."""

    @abstractmethod
    def prepare(self, network: Network) -> Engine:
        """Return an engine ready to run; refuse models that it cannot serve, naming the node."""

    @abstractmethod
    def losses(self, kind: str) -> tuple[Loss, Loss]:
        """Return the loss on own rows and the one across edges, for a kind of task."""
