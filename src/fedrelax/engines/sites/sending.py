"""Refits on a cluster: rows are placed once, a round sends only changes, models stay on the workers."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np

from fedrelax.engines.sites.parts import Change, Home, HomeNode, Kept, Lies, Term, refit_part
from fedrelax.engines.sites.refits import Answers, Refit
from fedrelax.models import BatchedModel, LocalModel, Rows
from fedrelax.runtime import Site
from fedrelax.runtime.clusters import Cluster
from fedrelax.runtime.traffic import Trip, traffic
from fedrelax.typing import AnyArray, FloatArray, Label


class KeptBatch:
    """The models fitted by one task, still on their worker."""

    def __init__(self, cluster: Cluster, reference: Any) -> None:
        self.cluster, self.reference = cluster, reference
        self._models: list[LocalModel] | None = None

    def models(self) -> list[LocalModel]:
        """Return the models, fetched if need be."""
        if self._models is None:
            bring([self])
        assert self._models is not None
        return self._models

    def arrive(self, models: list[LocalModel]) -> None:
        """Store the fetched models."""
        self._models = models

    @property
    def is_here(self) -> bool:
        """Whether the models have been fetched."""
        return self._models is not None


def bring(batches: Iterable[KeptBatch]) -> None:
    """Fetch the models of several tasks in one go."""
    missing = [batch for batch in batches if not batch.is_here]
    if missing:
        found = missing[0].cluster.fetch([batch.reference for batch in missing])
        for batch, models in zip(missing, found, strict=True):
            batch.arrive(models)


class KeptModel(LocalModel):
    """A fitted model that stays on its worker until more than its kind is needed."""

    def __init__(self, batch: KeptBatch, number: int, kind: LocalModel) -> None:
        self.batch, self.number, self._kind = batch, number, kind
        self.task = kind.task

    @property
    def here(self) -> LocalModel:
        """The model itself, fetched if need be."""
        return self.batch.models()[self.number]

    @property
    def estimator(self) -> Any:
        """The plain object that the user gets in the end."""
        return self.here.estimator

    @property
    def settles(self) -> bool:
        """Whether rounds converge to the same model from any start."""
        return self._kind.settles

    def fit(self, terms: Sequence[Rows], *, seed: int, continued: bool = False) -> LocalModel:
        """Fetch the model and fit it in this process."""
        return self.here.fit(terms, seed=seed, continued=continued)

    def predict(self, X: AnyArray) -> FloatArray:
        """Fetch the model and predict in this process."""
        return self.here.predict(X)


def brought(models: Iterable[LocalModel]) -> list[LocalModel]:
    """Return the models themselves; those still on workers are fetched in one go."""
    found = list(models)
    bring({model.batch: None for model in found if isinstance(model, KeptModel)})
    return [model.here if isinstance(model, KeptModel) else model for model in found]


def noted(kind: LocalModel, task: Refit) -> LocalModel:
    """Return a model that knows what a worker fitted it to, and is fitted here on demand."""
    assert isinstance(kind, BatchedModel)
    (model,) = type(kind).fit_many(
        [kind], [task.terms], seeds=[task.seed], continued=task.continued, memory={}
    )
    return model


class SentRefits:
    """Sends refits to the workers that hold the rows."""

    def __init__(
        self, cluster: Cluster, sites: Sequence[Site], memory: dict[Hashable, Any]
    ) -> None:
        self._cluster, self._sites = cluster, {site.label: site for site in sites}
        self._parts = cluster.parts(len(sites))
        self._number = {site.label: number for number, site in enumerate(sites)}
        self._first = {site.label: site.model for site in sites}
        self._memory = memory

    def __call__(self, tasks: Sequence[Refit]) -> list[tuple[LocalModel, Answers]]:
        """Return models, most of which stay on their workers, and their answers."""
        seen = traffic()
        if seen is not None:
            seen.trips.append(Trip())
        homes = self._homes()
        places: dict[int, list[int]] = {}
        for place, task in enumerate(tasks):
            places.setdefault(self._number[task.label] % self._parts, []).append(place)
        sent = [
            self._submit(homes[part], part, [tasks[place] for place in chosen])
            for part, chosen in places.items()
        ]
        answers = self._cluster.fetch([reference for _, reference in sent])
        done: dict[int, tuple[LocalModel, Answers]] = {}
        for chosen, (models, _), found in zip(places.values(), sent, answers, strict=True):
            if seen is not None:
                seen.tell("received", found)
            batch = KeptBatch(self._cluster, models)
            for number, (place, (answer, stays)) in enumerate(zip(chosen, found, strict=True)):
                kind = self._first[tasks[place].label]
                model = KeptModel(batch, number, kind) if stays else noted(kind, tasks[place])
                done[place] = model, answer
        return [done[place] for place in range(len(tasks))]

    def _homes(self) -> list[Any]:
        """Return references to what the workers hold; the first call places it there."""
        key = "homes", self._cluster
        if key not in self._memory:
            self._memory[key] = [self._place(part) for part in range(self._parts)]
        found: list[Any] = self._memory[key]
        return found

    def _place(self, part: int) -> Any:
        sites = list(self._sites.values())[part :: self._parts]
        home = Home([_node(site, self._first[site.label]) for site in sites], _public(sites))
        seen = traffic()
        if seen is not None:
            seen.tell("placed", home)
        return self._cluster.place(home, part)

    def _submit(self, home: Any, part: int, tasks: Sequence[Refit]) -> tuple[Any, Any]:
        """Send the changes, with references to the models that the worker has kept."""
        batches: dict[KeptBatch, int] = {}
        changes = [self._change(task, batches) for task in tasks]
        seen = traffic()
        if seen is not None:
            seen.tell("sent", changes)
        kept = [batch.reference for batch in batches]
        return self._cluster.submit(refit_part, part, home, changes, *kept)

    def _change(self, task: Refit, batches: dict[KeptBatch, int]) -> Change:
        site = self._sites[task.label]
        model: LocalModel | Kept | None = task.model
        if not task.continued:
            model = None  # it starts from scratch anyway
        elif isinstance(task.model, KeptModel) and task.model.batch.cluster is self._cluster:
            batch = batches.setdefault(task.model.batch, len(batches))
            model = Kept(batch, task.model.number)
        terms = [
            Term(_lies(site, t.X), _lies(site, t.target), _short(t.weight), t.loss)
            for t in task.terms
        ]
        inputs = {key: _lies(site, rows) for key, rows in task.inputs.items()}
        number = self._number[task.label] // self._parts
        return Change(number, model, terms, inputs, task.seed, task.continued)


def _node(site: Site, model: LocalModel) -> HomeNode:
    rows = {"own": site.node.X, "target": site.target}
    if site.node.validation is not None:
        rows["validation"] = site.node.validation[0]
    return HomeNode(site.label, model, rows)


def _public(sites: Sequence[Site]) -> dict[Label | None, AnyArray]:
    """Return all public rows on which the models of these sites will predict."""
    public = sites[0].public
    if public.common is not None:
        return {None: public.common}
    owners = {owner: None for site in sites for owner in (site.label, *site.neighbours)}
    return {owner: public.of(owner) for owner in owners}


def _lies(site: Site, rows: Any) -> Any:
    """Return a reference to rows that the worker holds, or the rows themselves if it does not."""
    if rows is site.node.X:
        return Lies(False, "own")
    if rows is site.target:
        return Lies(False, "target")
    if site.node.validation is not None and rows is site.node.validation[0]:
        return Lies(False, "validation")
    public = site.public
    if public.common is not None:
        return Lies(True, None) if rows is public.common else rows
    for owner in (site.label, *site.neighbours):
        if rows is public.of(owner):
            return Lies(True, owner)
    return rows


def _short(weight: FloatArray) -> FloatArray | float:
    """Return a single number if all weights are the same, else the weights."""
    same = len(weight) > 0 and weight.dtype == np.float64 and bool((weight == weight[0]).all())
    return float(weight[0]) if same else weight
