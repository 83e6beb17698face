"""All sites of a network in one process (with workers): the engine for any mix of models."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Self

import numpy as np

from fedrelax.combining import as_combine
from fedrelax.engines.base import Engine
from fedrelax.engines.sites.keeping import (
    Kept,
    made_again,
    packed_model,
    packed_words,
    take_words,
    unsupported_states,
)
from fedrelax.engines.sites.refits import Refit, refit_all
from fedrelax.errors import FedRelaxError, FedRelaxWarning, named
from fedrelax.losses import requirement
from fedrelax.models import LocalModel, Rows, adapt
from fedrelax.models.difference import local_model
from fedrelax.network import Network
from fedrelax.runtime import (
    Exchange,
    LocalExchange,
    NodeMeasures,
    Settings,
    Site,
    Workers,
)
from fedrelax.runtime.exchange import layered, parts_of, unsupported_checkpoint
from fedrelax.runtime.site import Answers, Smoothers, seeds_of
from fedrelax.typing import FloatArray, Label, SparseMatrix

STEADY = 0.999
"""Damping for models that drift where messages may be lost, unless some was given.

Such a model is most useful to its neighbours as it was when trained alone: refitted to refitted models, it
loses detail. If all nodes hear each other in every round, its first answers arrive in the first round. If
some are away, it has to keep sending them until they arrive.
"""


class SiteEngine(Engine):
    """Runs rounds over sites that communicate only through an exchange.

    ``order`` is "simultaneous" (all nodes refit to the last round's predictions), "sequential" (one after
    the other, each hearing the newest) or "asynchronous" (the same, for nodes drawn at random). This and
    all other settings of the rounds are those of the sites' coupling.
    """

    name, rank = "sites", 9

    def __init__(
        self, sites: Sequence[Site], edges: SparseMatrix, exchange: Exchange, workers: Workers
    ) -> None:
        self.sites, self.given, self.edges = list(sites), edges, edges
        self.labels = tuple(site.label for site in sites)
        self.coupling = self.sites[0].coupling
        self._exchange, self._workers = exchange, workers
        self._alone: list[Kept] = []
        self._memory: dict[Hashable, Any] = {}

    @classmethod
    def unsupported_network(cls, network: Network, settings: Settings) -> str | None:
        """Return which node's model cannot take its rows or minimise the pair of losses, or None."""
        combine = as_combine(settings.combine)
        if combine.compares and network.public.common is None:
            return (
                f"combine={combine.name!r} compares the neighbours' answers on the same rows, but every "
                "node has its own public rows; pass one array as public"
            )
        nodes = network.nodes
        for label, given in network.distinct_models.items():
            try:
                model = local_model(given, network.task, settings.update)
                model.check(nodes[label].X)
            except FedRelaxError as error:
                return f"node {label!r}: {error}"
            reason = _reason_in_model(model, settings, network.kind)
            if reason is not None:
                return f"node {label!r}: {reason}"
        return None

    @classmethod
    def of(cls, network: Network, settings: Settings) -> Self:
        """Set up a site for every node."""
        warn_of_resampling(network, settings)
        task, public, graph = network.task, network.public, network.graph
        coupling = settings.coupling(network.kind)
        layers = settings.layers
        interrupted = any(layer.interrupts for layer in layers)
        seeds = seeds_of(settings.random_state, len(network))
        fitted: dict[bytes, LocalModel] = {}
        sites = [
            Site(
                node=node,
                task=task,
                model=local_model(node.model, task, settings.update, fitted),
                public=public,
                neighbours=graph.neighbours(node.label),
                coupling=coupling,
                seed=int(seed),
                nodes=len(network),
            )
            for node, seed in zip(network, seeds, strict=True)
        ]
        if interrupted and not (coupling.damping or coupling.continued):
            for site in sites:
                if site.model.drifts:
                    site.coupling = replace(coupling, damping=STEADY)
        workers = Workers(settings.n_jobs, threads=all(site.model.releases_gil for site in sites))
        exchange = layered(LocalExchange(), layers, network, settings)
        engine = cls(sites, graph.adjacency, exchange, workers)
        uneven = settings.order == "asynchronous"
        engine.may_rest = not uneven and not interrupted
        if settings.update == "difference" and not all(site.model.settles for site in sites):
            engine.usual_rounds = cls.few_rounds
        if network.memory is not None and settings.random_state is not None:
            key = "sites", settings.random_state, coupling.loss.name, settings.update
            engine._memory = network.memory.setdefault(key, {})
        return engine

    @contextmanager
    def working(self) -> Iterator[None]:
        """Keep the workers ready."""
        with self._workers.open() as run:
            self._run = run
            yield

    def start(self) -> None:
        """Train every node alone, or reuse the models of an earlier run on the same rows."""
        new = [site for site in self.sites if site.label not in self._memory]
        self._refit(new, [site.local_problem() for site in new])
        self._memory.update({site.label: (site.model, site.answers) for site in new})
        for site in self.sites:
            model, answers = self._memory[site.label]
            site.adopt(model, answers, site.local_problem())
        _, self._alone = self.snapshot()

    def share(self, round: int) -> None:
        """Post and collect the messages of this round."""
        zeros = self.coupling.first_exchange == "zeros" and round == 0
        for site in self.sites:
            self._exchange.post(site.share(round, zeros))
        for site in self.sites:
            self._hear(site)

    def update(self, round: int) -> int:
        """Refit all nodes, at once or one after the other."""
        if self.coupling.order == "simultaneous":
            problems = [site.problem(round) for site in self.sites]
            self._refit(self.sites, problems, round + 1)
            return 1
        for site in self._awake(round):
            self._hear(site)
            self._refit([site], [site.problem(round)], round + 1)
            before = dict(site.shared)
            self._exchange.post(site.share(round))
            site.shared = before  # Change and damping refer to the last round.
        return 1

    def _awake(self, round: int) -> list[Site]:
        """Return the sites to update in a round: all in turn, or as many drawn at random."""
        if self.coupling.order == "sequential":
            return self.sites
        count = len(self.sites)
        waking = int(seeds_of(self.coupling.random_state, count + 1)[-1])
        drawn = np.random.default_rng([waking, round]).integers(count, size=count)
        return [self.sites[place] for place in drawn]

    def _hear(self, site: Site) -> None:
        site.receive(self._exchange.collect(site.label, site.neighbours))

    def _refit(
        self, sites: Sequence[Site], problems: Sequence[Sequence[Rows]], coming: int = 0
    ) -> None:
        fitted = self._fitted(sites, problems, coming)
        for site, terms, found in zip(sites, problems, fitted, strict=True):
            site.adopt(*found, terms)

    def _fitted(
        self, sites: Sequence[Site], problems: Sequence[Sequence[Rows]], coming: int
    ) -> list[tuple[LocalModel, Answers]]:
        tasks = [
            Refit(s.label, s.model, terms, s.inputs(coming), s.seed, s.coupling.continued)
            for s, terms in zip(sites, problems, strict=True)
        ]
        return refit_all(self._run, tasks)

    def measure(self) -> NodeMeasures:
        """Gather the measures that the sites report."""
        return NodeMeasures.of([site.measure() for site in self.sites], self.coupling.factor)

    @property
    def local_models(self) -> Mapping[Label, LocalModel]:
        """The current models."""
        return {site.label: site.model for site in self.sites}

    @property
    def alone_models(self) -> Mapping[Label, LocalModel]:
        """The models of round 0."""
        return {label: model for label, (model, _, _) in zip(self.labels, self._alone, strict=True)}

    # Wiring

    def discrepancies(self, edges: SparseMatrix) -> FloatArray:
        """Return d(i, j) for every stored entry, computed by site i from what it has heard."""
        found = []
        for i, site in enumerate(self.sites):
            others = self._neighbours(edges, i)
            strangers = [j for j in others if (j, j) not in site.received]
            if strangers:
                site.receive(self._exchange.collect(site.label, strangers))
            values = site.discrepancies(others)
            found += [values.get(j, np.inf) for j in others]
        return np.array(found)

    def own_losses(self, edges: SparseMatrix) -> FloatArray:
        """Return site i's loss on its own rows if it predicted them with neighbour j's answers.

        Neighbours answer on public rows only, so a smoother carries their answers over to these rows.
        """
        smoothers: Smoothers = {}
        found: list[float] = []
        for i, site in enumerate(self.sites):
            found += site.own_losses(self._neighbours(edges, i), smoothers).values()
        return np.array(found)

    def embedding(self) -> FloatArray:
        """Return what every site has sent about the common public rows, as a row."""
        rows = []
        for site in self.sites:
            sent = self._exchange.collect(site.label, [site.label])
            rows.append((sent[-1].predictions if sent else site.shared[site.label]).ravel())
        return np.stack(rows)

    def rewire(self, edges: SparseMatrix) -> None:
        """Tell every site which neighbours count from now on; those of the given graph are still heard."""
        self._heed(edges)
        for site in self.sites:
            self._hear(site)

    def _heed(self, edges: SparseMatrix) -> None:
        for i, site in enumerate(self.sites):
            heard = dict.fromkeys(self._neighbours(self.given, i), 0.0)
            site.neighbours = {**heard, **self._neighbours(edges, i)}
        self.edges = edges

    def _neighbours(self, edges: SparseMatrix, i: int) -> dict[Label, float]:
        """Return the neighbours of node number i on a graph, with their weights."""
        part = slice(edges.indptr[i], edges.indptr[i + 1])
        names = (self.labels[j] for j in edges.indices[part])
        return dict(zip(names, edges.data[part].tolist(), strict=True))

    def settle(self, round: int) -> None:
        """Restart from the models trained alone, if any model drifts.

        A tree refitted to refitted trees keeps what it learned from neighbours it has since dropped, and
        loses detail in every round. The rounds so far only served to find the graph.
        """
        if not any(site.model.drifts for site in self.sites):
            return
        self._adopt(self._alone)
        self.share(round)

    def snapshot(self) -> tuple[Any, list[Kept]]:
        """Return the graph, and the models with their answers; models are never modified in place."""
        return self.edges, [(site.model, site.answers, site.terms) for site in self.sites]

    def restore(self, state: tuple[Any, list[Kept]]) -> None:
        """Return to earlier models and their graph, and share their predictions."""
        edges, models = state
        self._adopt(models)
        if edges is not self.edges:
            self.rewire(edges)
        self.share(-1)

    def _adopt(self, models: Sequence[Kept]) -> None:
        for site, kept in zip(self.sites, models, strict=True):
            site.adopt(*kept)
            site.shared.clear()
            site.consensus, site.steps = None, []

    # Checkpoints

    def unsupported_checkpoint(self) -> str | None:
        """Return which model or layer has a memory that cannot be stored, or None."""
        return unsupported_states(self.sites) or unsupported_checkpoint(self._exchange)

    def state(self) -> dict[str, Any]:
        """Return what models were fitted to, what sites have heard, and messages still on their way."""
        return {
            "models": self.packed(self.snapshot()),
            "words": [packed_words(site) for site in self.sites],
            "exchange": [part.state() for part in parts_of(self._exchange)],
        }

    def resume(self, state: Any, round: int) -> None:
        """Refit the models of a round, and restore what was sent and heard."""
        edges, models = self.unpacked(state["models"], round)
        if edges is not self.edges:
            self._heed(edges)
        self._adopt(models)
        for site, words in zip(self.sites, state["words"], strict=True):
            take_words(site, *words)
        for part, kept in zip(parts_of(self._exchange), state["exchange"], strict=True):
            part.resume(kept)

    def packed_models(self, models: list[Kept]) -> list[dict[str, Any]]:
        """Return what the models were fitted to or remember."""
        return [packed_model(site, *kept) for site, kept in zip(self.sites, models, strict=True)]

    def models_from(self, values: Any, round: int) -> list[Kept]:
        """Return the models, refitted as they were in the round before."""
        together = self.coupling.order == "simultaneous" or round == 0
        return made_again(self.sites, values, round, self._fitted, together)


def _reason_in_model(model: LocalModel, settings: Settings, kind: str) -> str | None:
    loss, discrepancy = settings.losses(kind)
    mixed = requirement(loss, discrepancy) == "gradients" and settings.alpha > 0
    if mixed and not model.gradients:
        return (
            f"loss={loss.name!r} with discrepancy={discrepancy.name!r} needs a model that minimises "
            f"a sum of two losses by gradients, but {model.name} fits weighted rows under one loss; "
            "use one loss for both, or fedrelax.models.LinearModel"
        )
    asked = settings.loss is not None or settings.discrepancy is not None
    if asked and model.fits is not None and loss.name not in model.fits:
        own = " or ".join(sorted(model.fits)) or "another loss"
        return (
            f"{model.name} as configured minimises {own}, not loss={loss.name!r}; configure the "
            "model for it, or choose another model or loss"
        )
    return None


def warn_of_resampling(network: Network, settings: Settings) -> None:
    """Warn, once, which models take no sample weights."""
    models = [adapt(given, network.task) for given in network.distinct_models.values()]
    resampled = {model.name: None for model in models if model.weights == "resampled"}
    if resampled and settings.alpha > 0 and settings.update != "difference":
        warnings.warn(
            f"{named('model', resampled, 'takes')} no sample weights: rows are resampled in "
            "proportion to the weights instead, with a fixed seed",
            FedRelaxWarning,
            stacklevel=6,
        )
