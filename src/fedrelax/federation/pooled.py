"""A site's rounds where all sites learn one network of linear models: partial pooling by exchange.

Round 0 is every site alone. From then on a box holds, for every candidate, the answers of the site's model
on everybody's public rows and a few numbers about it, so that all sites know the same and choose the same.
It is the computation of ``pooling.network``, with every node on its own machine. Where there are rows
enough, a box also holds what chains of boosted differences answer: see ``federation.boosted``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fedrelax.federation.agreement import Agreement
from fedrelax.federation.boosted import BOOSTING_ROUNDS, STARTS, BoostedSite, Said
from fedrelax.federation.boxes import Predictions, read_tables, write_tables
from fedrelax.federation.letters import Envelope
from fedrelax.federation.settings import HubSettings
from fedrelax.federation.site_run import SiteRun
from fedrelax.files import Refused
from fedrelax.graph import Graph
from fedrelax.losses import usual_loss
from fedrelax.models import LocalModel, adapt
from fedrelax.pooling.boosting import NUMBERS, BoostingChoice, folds_for
from fedrelax.pooling.columns import level_and_size
from fedrelax.pooling.design import Design
from fedrelax.pooling.exchange import Reply, Smooth, reply
from fedrelax.pooling.network import estimators_of, predictions
from fedrelax.pooling.rows import OwnRows
from fedrelax.pooling.search import (
    ALONE,
    FEWEST_ROUNDS,
    MOST_CANDIDATES,
    ONE,
    ROUNDS,
    Message,
    PoolingSearch,
    State,
)
from fedrelax.public import public_count
from fedrelax.runtime import SiteMeasure
from fedrelax.selection.default import MANY_CLASSES
from fedrelax.selection.search import TRIES
from fedrelax.solvers import FedRelax
from fedrelax.solvers.pooling import MOST
from fedrelax.splits import group_rows
from fedrelax.typing import AnyArray, FloatArray, Label


def pooling_plan(agreement: Agreement, settings: HubSettings) -> dict[str, Any] | None:
    """Return what is planned where sites learn by partial pooling and boost differences.

    None where they cannot, or may not. It is for linear models at all sites, all of which hear all others
    and share more public rows than there are columns, and where nothing but the number of rounds is asked
    for. Differences are boosted if there are rows enough, and no number of rounds is given.
    """
    method, graph, hellos = settings.method, agreement.graph, agreement.hellos
    rounds = ROUNDS if method.rounds is None else method.rounds
    plain = FedRelax(
        rounds=method.rounds, tol=method.tol, random_state=method.random_state, update="difference"
    )
    width, outputs = agreement.ready.width, agreement.task.n_outputs
    rows = np.array([hello.rows for hello in hellos.values()])
    usual = public_count(rows)
    public = {name: hello.public_rows or usual for name, hello in hellos.items()}
    suits = (
        settings.alpha == "auto"
        and method == plain
        and rounds >= FEWEST_ROUNDS
        and all(hello.model in ("ridge", "logistic") for hello in hellos.values())
        and all(len(hello.neighbours) == len(hellos) - 1 for hello in hellos.values())
        and len(hellos) > 1
        and agreement.ready.encoded
        and not agreement.ready.lacks
        and sum(public.values()) > width
        and len(hellos) * (width + 1) ** 3 * max(outputs - 1, 1) <= MOST
    )
    if not suits:
        return None
    boosting = 0
    if method.rounds is None and graph.is_uniform and outputs <= MANY_CLASSES:
        boosting = folds_for(rows, outputs if outputs > 2 else 1, min(settings.folds, TRIES))
    level, size = level_and_size([hello.aim for hello in hellos.values()], rows)
    return {
        "method": replace(method, rounds=rounds + BOOSTING_ROUNDS * bool(boosting)),
        "public": public,
        "rows": {name: hello.rows for name, hello in hellos.items()},
        "level": level,
        "size": size,
        "edges": [] if graph.is_uniform else list(graph.edges()),
        "boosting": boosting,
    }


MOST_REPORTED = 1e100
"""The largest mean loss that a site reports."""


class SiteSearch(PoolingSearch):
    """The candidates as one site takes part in the rounds; ``names`` are those of all sites."""

    def __init__(
        self,
        design: Design,
        rounds: int,
        learned: Mapping[int, State] | None,
        names: Sequence[str],
        name: str,
        X: FloatArray,
        y: AnyArray,
    ) -> None:
        """Begin with the site's rows (X, y), where ``y`` are numbers or codes of classes."""
        super().__init__(design, rounds, learned)
        self._names, self._place = names, np.array([names.index(name)])
        self._own, self._nothing = self._rows(X, y), self._rows(X[:0], y[:0])

    def _rows(self, X: FloatArray, y: AnyArray) -> dict[int, OwnRows]:
        rows = self.design.own_rows(X, y, np.zeros(len(X), dtype=np.int64), 1)
        return self.own(rows, self._place)

    def said(self, rows: Mapping[int, OwnRows] | None = None) -> dict[int, Reply]:
        """Return what the site says to every candidate, from its own rows unless others are given."""
        rows = self._own if rows is None else rows
        return {k: reply(rows[k], one.at(self._place)) for k, one in self.asked.items()}

    def learn(self, lines: Mapping[str, Mapping[int, Message]]) -> dict[int, Reply]:
        """Let the candidates learn from what sites said; return the replies of all sites.

        A site that said nothing counts as one without rows.
        """
        said = {
            name: self.understood({k: line for k, line in own.items() if k in self.asked})
            for name, own in lines.items()
        }
        complete = all(self.candidates.keys() <= said.get(name, {}).keys() for name in self._names)
        nothing = {} if complete else self.said(self._nothing)
        every = [{**nothing, **said.get(name, {})} for name in self._names]
        replies = {k: Reply.joined([one[k] for one in every]) for k in self.candidates}
        self.hear(replies, np.array([name in said for name in self._names]))
        return replies


class PooledSite:
    """One site in such a run: what it hears, reports and says in a round.

    ``state`` holds what the rounds have made of the candidates, and what all sites' linear models answer
    (n, m, k): from these the site reports how far it is from its neighbours.
    """

    def __init__(self, sites: SiteRun, state: dict[str, Any]) -> None:
        self.sites, self.state, plan = sites, state, sites.plan
        self.names, self.task = sorted(plan.rows), plan.task
        self.place = self.names.index(sites.site.name)
        self.X, self.y = sites.X[sites.train], sites.y[sites.train]
        public = np.asarray(sites.public.common, dtype=float)
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
        self.search = self.searching(design, state.get("search"), self.X, self.y)
        self.boosted = BoostedSite(self, state.get("boosted", {})) if plan.boosting else None
        self._written: tuple[int, bytes] | None = None

    def searching(self, design: Design, learned: Any, X: FloatArray, y: AnyArray) -> SiteSearch:
        """Return a search in which this site takes part with these of its rows."""
        classes = self.task.classes
        codes = y.astype(float) if classes is None else np.searchsorted(classes, y)
        name = self.sites.site.name
        return SiteSearch(design, self.rounds, learned, self.names, name, X, codes)

    @property
    def arranged(self) -> tuple[FloatArray, AnyArray]:
        """The site's training rows in the order in which ``fit`` takes them."""
        coded = self.sites.coded[self.sites.train]
        groups = group_rows(np.zeros(len(coded), dtype=np.int64), len(coded))
        order = groups.arranged(coded, self.y, self.task.kind).order
        return self.X[order], self.y[order]

    def start(self) -> SiteMeasure:
        """Return the site's numbers before the first round."""
        self.state = {"search": self.search.state}
        own = np.asarray(self.model.predict(self.design.public))
        return self._measured({self.sites.site.name: own}, None)

    def relax(self, letter: Envelope, round: int) -> tuple[SiteMeasure, dict[str, str]]:
        """Take what came from the others in a round, and learn from it."""
        said, refused = self._open(letter, round)
        said[self.sites.site.name] = self._read(self._content(round))  # as others read it
        before = self.state["linear"][self.place] if "linear" in self.state else None
        if round <= self.rounds:
            lines = {name: one.of_candidates(0) for name, one in said.items()}
            replies = self.search.learn({name: line for name, line in lines.items() if line})
            mean = self.search.average(replies, self.search.shares)
            scores = np.einsum("ri,nci->nrc", self.design.answers, mean)
            self.state["linear"] = predictions(self.task, scores)
        if round == 1:
            one = self.search.average(self.search.said(), self.search.way(ONE))
            self.state["first"] = one[0]
        self.state["search"] = self.search.state
        if self.boosted is not None:
            self.boosted.hear(round, said)
            self.state["boosted"] = self.boosted.state
        shown = dict(zip(self.names, self.state["linear"], strict=True))
        return self._measured(shown, before), refused

    def boxes(self, round: int) -> dict[str, bytes]:
        """Return what the site says in a round, in a box for each of the others."""
        content = self._content(round)
        return self.sites.close(dict.fromkeys(self.sites.site.neighbours, content), round)

    def _content(self, round: int) -> bytes:
        """Return what the site says in a round; it is asked for once more when that round is heard."""
        if self._written is None or self._written[0] != round:
            said, width = (
                Said() if self.boosted is None else self.boosted.say(round),
                self.design.told,
            )
            if round <= self.rounds:
                said.candidates |= self.search.messages(self.search.said())
            tables: list[Predictions] = [
                {
                    k: [answers.reshape(-1, 1), np.resize(numbers[0], (width, 1))]
                    for k, (answers, numbers) in said.candidates.items()
                },
                {lane: [answers.reshape(-1, 1)] for lane, answers in said.answers.items()},
                {fold: [numbers[:, None]] for fold, numbers in said.numbers.items()},
            ]
            self._written = round, write_tables(tables)
        return self._written[1]

    @property
    def model(self) -> LocalModel:
        """The site's own model, as far as the rounds have come; before them, what it learns alone."""
        if self.boosted is not None:
            return self.boosted.model
        return adapt(self.linear, self.task) if "linear" in self.state else self.alone

    @property
    def alone(self) -> LocalModel:
        """The model that the site learns without the others."""
        return adapt(self._averaged(self.search.way(ALONE)), self.task)

    @property
    def linear(self) -> Any:
        """The estimator that partial pooling leads to."""
        return self._averaged(self.search.shares)

    @property
    def alpha(self) -> float:
        """The strength of the coupling so far."""
        choice, alpha = self._choice, self.search.alpha
        return alpha if choice is None else choice.alpha(alpha, len(self.names))

    @property
    def words(self) -> str:
        """What has been chosen so far."""
        return self.search.words if self._choice is None else self._choice.reason

    @property
    def _choice(self) -> BoostingChoice | None:
        return None if self.boosted is None else self.boosted.choice

    def _averaged(self, shares: Mapping[int, float]) -> Any:
        return self.estimator(self.search.average(self.search.said(), shares))

    def estimator(self, models: FloatArray) -> Any:
        """Return the estimator of this site with the model (1, c, d)."""
        return estimators_of(self.task, self.design.columns, models)[0]

    def _open(self, letter: Envelope, round: int) -> tuple[dict[str, Said], dict[str, str]]:
        """Return what came from the others, and why some of it was refused."""
        said, refused = dict[str, Said](), dict[str, str]()
        for name in self.sites.site.neighbours:
            if f"from {name}" not in letter.parts:
                continue
            try:
                said[name] = self._read(self.sites.open(name, letter, round))
            except Refused as error:
                refused[name] = str(error)
        return said, refused

    def _read(self, content: bytes) -> Said:
        """Return what the content of a box says."""
        design, folds, outputs = self.design, self.sites.plan.boosting, self.task.n_outputs
        scores = outputs if outputs > 2 else 1
        candidates, answers, numbers = read_tables(
            content,
            [
                ((len(design.telling) * design.scores, design.told), MOST_CANDIDATES * (folds + 1)),
                ((len(design.public) * scores,), len(STARTS) * (folds + 1)),
                ((NUMBERS,), folds),
            ],
        )
        return Said(
            {
                k: (shown.reshape(1, design.scores, -1), line.T)
                for k, (shown, line) in candidates.items()
            },
            {lane: shown.reshape(scores, -1) for lane, (shown,) in answers.items()},
            {fold: line[:, 0] for fold, (line,) in numbers.items()},
        )

    def _measured(self, shown: Mapping[str, FloatArray], before: FloatArray | None) -> SiteMeasure:
        """Return the site's numbers: how well its model fits its rows, and how it differs from others."""
        name, neighbours = self.sites.site.name, self.sites.site.neighbours
        own, loss = shown[name], usual_loss(self.task.kind)
        with np.errstate(over="ignore"):  # of absurd numbers, which sites may send
            apart: dict[Label, float] = {
                other: _bounded(np.mean(loss.per_row(shown[other], own)))
                for other in neighbours
                if other in shown
            }
            size = _bounded(np.mean(np.square(own)))
            change = np.inf if before is None else _bounded(np.mean(np.square(own - before)))
        gtv = sum(neighbours[str(other)] * value for other, value in apart.items())
        return SiteMeasure(
            local_loss=float(loss.mean(self.task.encode(self.y), self.model.predict(self.X))),
            gtv=gtv,
            pull=gtv,
            validation_loss=np.nan,
            validation_rows=0,
            change=change,
            size=size,
            discrepancies=apart,
        )


def _bounded(value: np.floating[Any]) -> float:
    """Return a mean of losses without what rounding and absurd numbers make of it."""
    return float(np.nan_to_num(np.clip(value, 0.0, MOST_REPORTED), nan=MOST_REPORTED))
