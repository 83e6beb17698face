"""A site's rounds where all sites learn one network of linear models: partial pooling by exchange.

Round 0 is every site alone. From then on a box holds, for every candidate, the answers of the site's model
on everybody's public rows and a few numbers about it, so that all sites know the same and choose the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fedrelax.engines.whole.found import estimators_of
from fedrelax.federation.agreement import Agreement
from fedrelax.federation.boxes import Predictions, read_predictions, write_predictions
from fedrelax.federation.letters import Envelope
from fedrelax.federation.settings import HubSettings
from fedrelax.federation.site_run import SiteRun, fit
from fedrelax.files import Refused
from fedrelax.linear.pooling import Moments, Reply, reply
from fedrelax.models import LocalModel, adapt
from fedrelax.runtime import SiteMeasure
from fedrelax.selection.pooling import FEWEST_ROUNDS, ROUNDS, Design, Message, PoolingSearch
from fedrelax.solvers import FedRelax
from fedrelax.solvers.whole import MOST
from fedrelax.typing import FloatArray, Label

MOST_CANDIDATES = 100
"""More lines than any box holds."""


def pooled_rounds(agreement: Agreement, settings: HubSettings) -> int | None:
    """Return in how many rounds the sites learn by partial pooling; None where they cannot, or may not.

    It is for numbers, linear models at all sites, all of which hear all others alike and draw public rows,
    more than there are columns, and where nothing but the number of rounds is asked for.
    """
    method, hellos = settings.method, list(agreement.hellos.values())
    rounds = ROUNDS if method.rounds is None else method.rounds
    plain = FedRelax(
        rounds=method.rounds, tol=method.tol, random_state=method.random_state, update="difference"
    )
    suits = (
        settings.alpha == "auto"
        and method == plain
        and rounds >= FEWEST_ROUNDS
        and not agreement.task.is_classification
        and all(hello.model == "ridge" and hello.common is None for hello in hellos)
        and len(hellos) > 1
        and agreement.graph.is_uniform
        and agreement.ready.encoded
        and not agreement.ready.lacks
        and not settings.validation_share
        and sum(hello.public_rows for hello in hellos) > agreement.ready.width
        and len(hellos) * (agreement.ready.width + 1) ** 3 <= MOST
    )
    return rounds if suits else None


class PooledSite:
    """One site in such a run: what it hears, reports and says in a round.

    ``state`` holds the level and size of the target, what the rounds have made of the candidates, and what
    the site answered last. A site that says nothing counts as one without rows.
    """

    def __init__(self, sites: SiteRun, state: dict[str, Any]) -> None:
        self.sites, self.state, self.names = sites, state, sorted(sites.plan.rows)
        self.place = self.names.index(sites.site.name)
        self.X, self.y = sites.X[sites.train], sites.y[sites.train].astype(float)
        if "search" in state:
            self._restore()

    def _restore(self) -> None:
        plan, run, state = self.sites.plan, self.sites.run, self.state
        assert run.public is not None
        counts = plan.public | {self.sites.site.name: len(run.public)}
        owner = np.repeat(np.arange(len(self.names)), [counts[name] for name in self.names])
        rows = np.array([plan.rows[name] for name in self.names])
        public = np.asarray(self.sites.public.common, dtype=float)
        design = Design.of(public, owner, rows, state["level"], state["size"])
        self.search = PoolingSearch(design, plan.settings.rounds or ROUNDS)
        if state["search"] is not None:
            self.search.restore(state["search"])
        self.own = design.moments(self.X, self.y, np.zeros(len(self.y), dtype=np.int64), 1)
        self.width = Reply.size(design.answers.shape[1])

    def start(self, letter: Envelope, answers: FloatArray) -> tuple[SiteMeasure, dict[str, str]]:
        """Take everybody's answers before the first round: they tell the level and size of the target."""
        lines, refused = self._open(letter, 0, [len(answers)])
        heard = {name: line[0][0][:, 0] for name, line in lines.items()}
        shown = {**heard, self.sites.site.name: answers[:, 0]}
        every = np.concatenate([shown[name] for name in self.names if name in shown])
        size = float(every.std()) or 1.0
        self.state = {"level": float(every.mean()), "size": size, "search": None}
        self._restore()
        alone = self.sites.of(0)
        fit(alone, alone.local_problem(), 0)
        return self._measured(shown, None, alone.model), refused

    def relax(self, letter: Envelope, round: int) -> tuple[SiteMeasure, dict[str, str]]:
        """Take what came from the others in a round, and learn from it."""
        search, site = self.search, self.sites.site.name
        lines, refused = self._open(letter, round, [len(search.design.public), self.width])
        said = {
            name: {k: (parts[0].T, parts[1].T) for k, parts in line.items()}
            for name, line in lines.items()
        }
        said[site] = search.messages(self._replies())
        messages = {k: self._joined(said, k) for k in search.candidates}
        search.hear(messages, np.array([name in said for name in self.names]))
        scale, shares = search.design.scale, search.shares
        mean = sum(share * messages[k][0] for k, share in shares.items())
        shown = dict(zip(self.names, scale.level + scale.size * np.asarray(mean), strict=True))
        before = self.state.get("shown")
        self.state |= {"search": search.state, "shown": shown[site]}
        return self._measured(shown, before, self.model), refused

    def boxes(self, round: int) -> dict[str, bytes]:
        """Return what the site says about every candidate, in a box for each of the others."""
        content = write_predictions(
            {
                k: [answers.T, np.pad(numbers[0], (0, self.width - numbers.shape[1]))[:, None]]
                for k, (answers, numbers) in self.search.messages(self._replies()).items()
                if np.isfinite(answers).all() and np.isfinite(numbers).all()
            }
        )
        return self.sites.close(dict.fromkeys(self.sites.site.neighbours, content), round)

    @property
    def model(self) -> LocalModel:
        """The site's own model, as far as the rounds have come."""
        own = self.search.average({k: said.models for k, said in self._replies().items()})
        return adapt(estimators_of(self.search.design.scale, own)[0], self.sites.plan.task)

    def _replies(self) -> dict[int, Reply]:
        return self.search.replies(self.own, np.array([self.place]))

    def _joined(self, said: Mapping[str, Mapping[int, Message]], k: int) -> Message:
        """Return what all sites said about a candidate; a silent one says what a site without rows says."""
        one, asked = self.search.candidates[k], self.search.asked[k]
        d = len(one.columns)
        nothing = reply(Moments(np.zeros((1, d, d)), np.zeros((1, d)), np.zeros(1)), asked)
        silent = self.search.messages({k: nothing})[k]
        parts = [said.get(name, {}).get(k, silent) for name in self.names]
        answers, numbers = zip(*parts, strict=True)
        size = Reply.size(d)
        return np.concatenate(answers), np.concatenate([line[:, :size] for line in numbers])

    def _open(
        self, letter: Envelope, round: int, rows: list[int]
    ) -> tuple[dict[str, Predictions], dict[str, str]]:
        """Return what came from the others, and why some of it was refused."""
        lines, refused = dict[str, Predictions](), dict[str, str]()
        for name in self.sites.site.neighbours:
            if f"from {name}" not in letter.parts:
                continue
            try:
                content = self.sites.open(name, letter, round)
                lines[name] = read_predictions(content, rows, 1, range(MOST_CANDIDATES))
            except Refused as error:
                refused[name] = str(error)
        return lines, refused

    def _measured(
        self, shown: Mapping[str, FloatArray], before: FloatArray | None, model: LocalModel
    ) -> SiteMeasure:
        """Return the site's numbers: how well its model fits its rows, and how it differs from others."""
        name, neighbours = self.sites.site.name, self.sites.site.neighbours
        own = shown[name]
        apart: dict[Label, float] = {
            other: float(np.mean(np.square(own - shown[other])))
            for other in neighbours
            if other in shown
        }
        gtv = sum(neighbours[str(other)] * value for other, value in apart.items())
        return SiteMeasure(
            local_loss=float(np.mean(np.square(self.y - model.predict(self.X)[:, 0]))),
            gtv=gtv,
            pull=gtv,
            validation_loss=np.nan,
            validation_rows=0,
            change=np.inf if before is None else float(np.mean(np.square(own - before))),
            size=float(np.mean(np.square(own))),
            discrepancies=apart,
        )
