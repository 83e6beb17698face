"""A site's rounds where all sites learn one network of linear models: partial pooling by exchange.

Round 0 is every site alone. From then on a box holds, for every candidate, the answers of the site's model
on everybody's public rows and a few numbers about it, so that all sites know the same and choose the same.
It is the computation of ``pooling.network``, with every node on its own machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fedrelax.federation.agreement import Agreement
from fedrelax.federation.boxes import Predictions, read_predictions, write_predictions
from fedrelax.federation.letters import Envelope
from fedrelax.federation.settings import HubSettings
from fedrelax.federation.site_run import SiteRun
from fedrelax.files import Refused
from fedrelax.graph import Graph
from fedrelax.losses import usual_loss
from fedrelax.models import LocalModel, adapt
from fedrelax.pooling.columns import level_and_size
from fedrelax.pooling.exchange import Reply, Smooth, reply
from fedrelax.pooling.network import estimators_of, predictions
from fedrelax.pooling.search import ALONE, FEWEST_ROUNDS, ROUNDS, Design, PoolingSearch
from fedrelax.public import public_count
from fedrelax.runtime import SiteMeasure
from fedrelax.solvers import FedRelax
from fedrelax.solvers.pooling import MOST
from fedrelax.typing import AnyArray, FloatArray, Label

MOST_CANDIDATES = 100
"""More lines than any box holds."""


def pooled_rounds(agreement: Agreement, settings: HubSettings) -> int | None:
    """Return in how many rounds the sites learn by partial pooling; None where they cannot, or may not.

    It is for linear models at all sites, all of which hear all others and share more public rows than there
    are columns, and where nothing but the number of rounds is asked for.
    """
    method, hellos = settings.method, list(agreement.hellos.values())
    rounds = ROUNDS if method.rounds is None else method.rounds
    plain = FedRelax(
        rounds=method.rounds, tol=method.tol, random_state=method.random_state, update="difference"
    )
    scores = max(agreement.task.n_outputs - 1, 1)
    suits = (
        settings.alpha == "auto"
        and method == plain
        and rounds >= FEWEST_ROUNDS
        and all(hello.model in ("ridge", "logistic") for hello in hellos)
        and all(len(hello.neighbours) == len(hellos) - 1 for hello in hellos)
        and len(hellos) > 1
        and agreement.ready.encoded
        and not agreement.ready.lacks
        and not settings.validation_share
        and sum(plan_of_pooling(agreement)["public"].values()) > agreement.ready.width
        and len(hellos) * (agreement.ready.width + 1) ** 3 * scores <= MOST
    )
    return rounds if suits else None


def plan_of_pooling(agreement: Agreement) -> dict[str, Any]:
    """Return what the plan of such a run says to all sites."""
    hellos, graph = agreement.hellos, agreement.graph
    rows = np.array([hello.rows for hello in hellos.values()])
    level, size = level_and_size([hello.aim for hello in hellos.values()], rows)
    usual = public_count(rows)
    return {
        "public": {name: hello.public_rows or usual for name, hello in hellos.items()},
        "rows": {name: hello.rows for name, hello in hellos.items()},
        "level": level,
        "size": size,
        "edges": [] if graph.is_uniform else list(graph.edges()),
    }


class PooledSite:
    """One site in such a run: what it hears, reports and says in a round.

    ``state`` holds what the rounds have made of the candidates, and what the site answered last. A site
    that says nothing counts as one without rows.
    """

    def __init__(self, sites: SiteRun, state: dict[str, Any]) -> None:
        self.sites, self.state, plan = sites, state, sites.plan
        self.names, self.task = sorted(plan.rows), plan.task
        self.place = self.names.index(sites.site.name)
        self.X, self.y = sites.X[sites.train], sites.y[sites.train]
        public, owner = np.asarray(sites.public.common, dtype=float), None
        if sites.site.drawn:
            counts = [plan.public[name] for name in self.names]
            owner = np.repeat(np.arange(len(self.names)), counts)
        graph = Graph.from_edges(plan.edges, labels=self.names)
        self.design = design = Design.of(
            public,
            owner,
            np.array([plan.rows[name] for name in self.names]),
            level=plan.level,
            size=plan.size,
            classes=self.task.n_outputs if self.task.is_classification else 0,
            smooth=Smooth.of(graph.laplacian()) if plan.edges else None,
        )
        self.search = PoolingSearch(design, plan.settings.rounds or ROUNDS, state.get("search"))
        self.own = self._rows(self.X, self.y)
        places = 1 if design.smooth is None else design.smooth.values.shape[1]
        self.width = Reply.size(design.scores, design.answers.shape[1], places)

    def _rows(self, X: FloatArray, y: AnyArray) -> Any:
        """Return rows of this site as every candidate sees them."""
        classes = self.task.classes
        codes = y.astype(float) if classes is None else np.searchsorted(classes, y)
        rows = self.design.own_rows(X, codes, np.zeros(len(X), dtype=np.int64), 1)
        return self.search.own(rows, np.array([self.place]))

    def start(self) -> SiteMeasure:
        """Return the site's numbers before the first round."""
        self.state = {"search": self.search.state}
        return self._measured({self.sites.site.name: self._shown(self.model)}, None)

    def relax(self, letter: Envelope, round: int) -> tuple[SiteMeasure, dict[str, str]]:
        """Take what came from the others in a round, and learn from it."""
        search, site = self.search, self.sites.site.name
        said, refused = self._open(letter, round)
        said[site] = search.understood(search.messages(self._replies(self.own)))  # as others do
        replies = {}
        if any(set(search.candidates) - set(said.get(name, ())) for name in self.names):
            replies = self._replies(self._rows(self.X[:0], self.y[:0]))  # a site without rows
        every = [{**replies, **said.get(name, {})} for name in self.names]
        replies = {k: Reply.joined([one[k] for one in every]) for k in search.candidates}
        search.hear(replies, np.array([name in said for name in self.names]))
        mean = search.average(replies, search.shares)
        scores = np.einsum("ri,nci->nrc", self.design.answers, mean)
        shown = dict(zip(self.names, predictions(self.task, scores), strict=True))
        before = self.state.get("shown")
        self.state = {"search": search.state, "shown": shown[site]}
        return self._measured(shown, before), refused

    def boxes(self, round: int) -> dict[str, bytes]:
        """Return what the site says about every candidate, in a box for each of the others."""
        messages = self.search.messages(self._replies(self.own))
        content = write_predictions(
            {
                k: [answers.reshape(-1, 1), np.resize(numbers[0], (self.width, 1))]
                for k, (answers, numbers) in messages.items()
                if np.isfinite(answers).all() and np.isfinite(numbers).all()
            }
        )
        return self.sites.close(dict.fromkeys(self.sites.site.neighbours, content), round)

    @property
    def model(self) -> LocalModel:
        """The site's own model, as far as the rounds have come; before them, what it learns alone."""
        return self._model(self.search.shares) if "shown" in self.state else self.alone

    @property
    def alone(self) -> LocalModel:
        """The model that the site learns without the others."""
        return self._model(self.search.way(ALONE))

    def _model(self, shares: Mapping[int, float]) -> LocalModel:
        own = self.search.average(self._replies(self.own), shares)
        return adapt(estimators_of(self.task, self.design.columns, own)[0], self.task)

    def _replies(self, own: Any) -> dict[int, Reply]:
        asked = {k: one.at(np.array([self.place])) for k, one in self.search.asked.items()}
        return {k: reply(own[k], question) for k, question in asked.items()}

    def _open(
        self, letter: Envelope, round: int
    ) -> tuple[dict[str, Mapping[int, Reply]], dict[str, str]]:
        """Return what came from the others, and why some of it was refused."""
        said, refused = dict[str, Mapping[int, Reply]](), dict[str, str]()
        scores, answers = self.design.scores, len(self.design.public)
        for name in self.sites.site.neighbours:
            if f"from {name}" not in letter.parts:
                continue
            try:
                content = self.sites.open(name, letter, round)
                sizes = [answers * scores, self.width]
                lines: Predictions = read_predictions(content, sizes, 1, range(MOST_CANDIDATES))
            except Refused as error:
                refused[name] = str(error)
                continue
            said[name] = self.search.understood(
                {
                    k: (shown.reshape(1, scores, answers), numbers.T)
                    for k, (shown, numbers) in lines.items()
                    if k in self.search.candidates
                }
            )
        return said, refused

    def _shown(self, model: LocalModel) -> FloatArray:
        return np.asarray(model.predict(self.design.public))

    def _measured(self, shown: Mapping[str, FloatArray], before: FloatArray | None) -> SiteMeasure:
        """Return the site's numbers: how well its model fits its rows, and how it differs from others."""
        name, neighbours = self.sites.site.name, self.sites.site.neighbours
        own, loss = shown[name], usual_loss(self.task.kind)
        apart: dict[Label, float] = {
            other: float(loss.per_row(shown[other], own).mean())
            for other in neighbours
            if other in shown
        }
        gtv = sum(neighbours[str(other)] * value for other, value in apart.items())
        return SiteMeasure(
            local_loss=float(loss.mean(self.task.encode(self.y), self.model.predict(self.X))),
            gtv=gtv,
            pull=gtv,
            validation_loss=np.nan,
            validation_rows=0,
            change=np.inf if before is None else float(np.mean(np.square(own - before))),
            size=float(np.mean(np.square(own))),
            discrepancies=apart,
        )
