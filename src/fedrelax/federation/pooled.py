"""A site's rounds where all sites learn one network of linear models: partial pooling by exchange.

Round 0 is every site alone. From then on a box holds, for every candidate, the answers of the site's model
on everybody's public rows and a few numbers about it, so that all sites know the same and choose the same.
It is the computation of ``pooling.network``, with every node on its own machine. Where there are rows
enough, rounds of boosted differences follow: see ``federation.boosted``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fedrelax.federation.agreement import Agreement
from fedrelax.federation.boosted import BOOSTING_ROUNDS, BoostedSite, Lines
from fedrelax.federation.boxes import Predictions, read_predictions, write_predictions
from fedrelax.federation.letters import Envelope
from fedrelax.federation.settings import HubSettings
from fedrelax.federation.site_run import SiteRun
from fedrelax.files import Refused
from fedrelax.graph import Graph
from fedrelax.losses import usual_loss
from fedrelax.models import LocalModel, adapt
from fedrelax.pooling.boosting import NUMBERS, folds_for
from fedrelax.pooling.columns import level_and_size
from fedrelax.pooling.exchange import Reply, Smooth, reply
from fedrelax.pooling.network import estimators_of, predictions
from fedrelax.pooling.search import (
    ALONE,
    FEWEST_ROUNDS,
    MOST_CANDIDATES,
    ROUNDS,
    Design,
    PoolingSearch,
)
from fedrelax.public import public_count
from fedrelax.runtime import SiteMeasure
from fedrelax.selection.default import MANY_CLASSES
from fedrelax.selection.search import TRIES
from fedrelax.solvers import FedRelax
from fedrelax.solvers.pooling import MOST
from fedrelax.splits import group_rows
from fedrelax.typing import AnyArray, FloatArray, Label


def pooled_rounds(agreement: Agreement, settings: HubSettings) -> int | None:
    """Return in how many rounds the sites learn by partial pooling and boost differences.

    None where they cannot, or may not.

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
        and sum(plan_of_pooling(agreement, settings)["public"].values()) > agreement.ready.width
        and len(hellos) * (agreement.ready.width + 1) ** 3 * scores <= MOST
    )
    if not suits:
        return None
    return rounds + BOOSTING_ROUNDS * bool(_boosting_folds(agreement, settings))


def _boosting_folds(agreement: Agreement, settings: HubSettings) -> int:
    """Return on how many folds sites try boosted differences: none if few rounds are asked for."""
    rows = np.array([hello.rows for hello in agreement.hellos.values()])
    outputs, graph = agreement.task.n_outputs, agreement.graph
    if settings.method.rounds is not None or not graph.is_uniform or outputs > MANY_CLASSES:
        return 0
    return folds_for(rows, outputs if outputs > 2 else 1, min(settings.folds, TRIES))


def plan_of_pooling(agreement: Agreement, settings: HubSettings) -> dict[str, Any]:
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
        "boosting": _boosting_folds(agreement, settings),
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
        rounds = plan.settings.rounds or ROUNDS
        self.rounds = rounds - BOOSTING_ROUNDS * bool(plan.boosting)
        self.search = PoolingSearch(design, self.rounds, state.get("search"))
        self.own = self.rows_in(self.search, self.X, self.y)
        self.linear_answers: FloatArray = state.get("linear", np.empty(0))
        """What all sites' linear models answer (n, m, k), once there has been a round."""
        self.boosted: BoostedSite | None = None
        if plan.boosting and self.search.round >= self.rounds:
            self.boosted = BoostedSite(self, state.get("boosted", {}))

    @property
    def arranged(self) -> tuple[FloatArray, AnyArray]:
        """The site's training rows in the order in which ``fit`` takes them."""
        coded = self.sites.coded[self.sites.train]
        groups = group_rows(np.zeros(len(coded), dtype=np.int64), len(coded))
        order = groups.arranged(coded, self.y, self.task.kind).order
        return self.X[order], self.y[order]

    def rows_in(self, search: PoolingSearch, X: FloatArray, y: AnyArray) -> Any:
        """Return rows of this site as every candidate of a search sees them."""
        classes = self.task.classes
        codes = y.astype(float) if classes is None else np.searchsorted(classes, y)
        rows = search.design.own_rows(X, codes, np.zeros(len(X), dtype=np.int64), 1)
        return search.own(rows, np.array([self.place]))

    def replies_of(self, search: PoolingSearch, own: Any) -> dict[int, Reply]:
        """Return what the site says to every candidate of a search, from rows of its own."""
        asked = {k: one.at(np.array([self.place])) for k, one in search.asked.items()}
        return {k: reply(own[k], question) for k, question in asked.items()}

    def hear_in(
        self, search: PoolingSearch, lines: Mapping[str, Lines], nothing: Any
    ) -> dict[int, Reply]:
        """Let the candidates of a search learn from what sites said; return the replies of all sites.

        A site that said nothing counts like ``nothing``: as one without rows.
        """
        said = {
            name: search.understood(
                {k: (shown, numbers) for k, (shown, numbers) in own.items() if k in search.asked}
            )
            for name, own in lines.items()
        }
        empty = {}
        if any(set(search.candidates) - set(said.get(name, ())) for name in self.names):
            empty = self.replies_of(search, nothing)
        every = [{**empty, **said.get(name, {})} for name in self.names]
        replies = {k: Reply.joined([one[k] for one in every]) for k in search.candidates}
        search.hear(replies, np.array([name in said for name in self.names]))
        return replies

    def start(self) -> SiteMeasure:
        """Return the site's numbers before the first round."""
        self.state = {"search": self.search.state}
        return self._measured({self.sites.site.name: self._shown(self.model)}, None)

    def relax(self, letter: Envelope, round: int) -> tuple[SiteMeasure, dict[str, str]]:
        """Take what came from the others in a round, and learn from it."""
        site = self.sites.site.name
        lines, refused = self._open(letter, round)
        lines[site] = self._lines()  # as others read them
        before = self.state.get("shown")
        if self.boosted is None:
            replies = self.hear_in(
                self.search, lines, self.rows_in(self.search, self.X[:0], self.y[:0])
            )
            mean = self.search.average(replies, self.search.shares)
            scores = np.einsum("ri,nci->nrc", self.design.answers, mean)
            self.linear_answers = predictions(self.task, scores)
            if self.sites.plan.boosting and round >= self.rounds:
                self.boosted = BoostedSite(self, {})
        else:
            self.boosted.hear(lines)
        shown = self.linear_answers
        if self.boosted is not None:
            shown = self.boosted.shown(shown)
        own = shown[self.place]
        self.state = {"search": self.search.state, "shown": own}
        if self.boosted is not None:
            self.state |= {"linear": self.linear_answers, "boosted": self.boosted.state}
        return self._measured(dict(zip(self.names, shown, strict=True)), before), refused

    def boxes(self, round: int) -> dict[str, bytes]:
        """Return what the site says about every candidate, in a box for each of the others."""
        width = self._widths(round)[1]
        content = write_predictions(
            {
                k: [answers.reshape(-1, 1), np.resize(numbers[0], (width, 1))]
                for k, (answers, numbers) in self._lines().items()
                if np.isfinite(answers).all() and np.isfinite(numbers).all()
            }
        )
        return self.sites.close(dict.fromkeys(self.sites.site.neighbours, content), round)

    def _lines(self) -> Lines:
        """Return what the site says next."""
        if self.boosted is not None:
            return self.boosted.lines()
        return self.search.messages(self.own_replies)

    def _widths(self, round: int) -> tuple[int, int]:
        """Return how many answers and numbers a line of a round has."""
        scores = self.design.scores
        if self.boosted is not None and self.boosted.chained:
            return len(self.design.public) * scores, NUMBERS
        return len(self.design.telling) * scores, self.design.told

    @property
    def model(self) -> LocalModel:
        """The site's own model, as far as the rounds have come; before them, what it learns alone."""
        if self.boosted is not None:
            return self.boosted.model
        return adapt(self.linear, self.task) if "shown" in self.state else self.alone

    @property
    def alone(self) -> LocalModel:
        """The model that the site learns without the others."""
        return adapt(self._averaged(self.search.way(ALONE)), self.task)

    @property
    def linear(self) -> Any:
        """The estimator that partial pooling leads to."""
        return self._averaged(self.search.shares)

    @property
    def own_replies(self) -> dict[int, Reply]:
        """What the site says to every candidate."""
        return self.replies_of(self.search, self.own)

    @property
    def alpha(self) -> float:
        """The strength of the coupling so far."""
        choice = None if self.boosted is None else self.boosted.choice
        return (
            self.search.alpha
            if choice is None
            else choice.alpha(self.search.alpha, len(self.names))
        )

    @property
    def words(self) -> str:
        """What has been chosen so far."""
        choice = None if self.boosted is None else self.boosted.choice
        return self.search.words if choice is None else choice.reason

    def _averaged(self, shares: Mapping[int, float]) -> Any:
        return self.estimator(self.search.average(self.own_replies, shares))

    def estimator(self, models: FloatArray) -> Any:
        """Return the estimator of this site with the model (1, c, d)."""
        return estimators_of(self.task, self.design.columns, models)[0]

    def _open(self, letter: Envelope, round: int) -> tuple[dict[str, Lines], dict[str, str]]:
        """Return what came from the others, and why some of it was refused."""
        said, refused, scores = dict[str, Lines](), dict[str, str](), self.design.scores
        widths = self._widths(round)
        for name in self.sites.site.neighbours:
            if f"from {name}" not in letter.parts:
                continue
            try:
                content = self.sites.open(name, letter, round)
                lanes = range(MOST_CANDIDATES * max(self.sites.plan.boosting, 1))
                lines: Predictions = read_predictions(content, widths, 1, lanes)
            except Refused as error:
                refused[name] = str(error)
                continue
            said[name] = {
                k: (shown.reshape(1, scores, -1), numbers.T)
                for k, (shown, numbers) in lines.items()
            }
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
