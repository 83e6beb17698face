"""Sites that die, are slow or come back."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedrelax.errors import FedRelaxError
from fedrelax.federation.hub import Hub
from fedrelax.federation.letters import Envelope
from fedrelax.solvers import FedRelax
from tests.federation.sites import (
    Federation,
    WithinProcess,
    hub_settings,
    make,
    same_history,
)

pytest.importorskip("cryptography", reason="sealing needs pip install 'fedrelax[flower]'")
THREE = ("ash", "birch", "cedar")
FIVE = FedRelax(rounds=5, tol=0.0)


class Unreliable(WithinProcess):
    """Loses the letters of some rounds to some sites, or stops at one."""

    def __init__(self, sites: Any, lost: Mapping[str, Collection[int]], stop: int = 99) -> None:
        super().__init__(sites)
        self.lost, self.stop = lost, stop

    def send(self, letters: Any, wait: float, late: Collection[Any] = ()) -> Any:
        def arrives(name: Any, letter: Envelope) -> bool:
            if letter.kind == "relax" and letter.head["round"] >= self.stop:
                raise KeyboardInterrupt
            return letter.kind != "relax" or letter.head["round"] not in self.lost.get(name, ())

        kept = {name: letter for name, letter in letters.items() if arrives(name, letter)}
        return super().send(kept, wait, late)


@pytest.fixture
def federation(tmp_path: Path) -> Federation:
    return make(tmp_path / "sites", names=THREE, models=("ridge", "tree"))


def test_others_go_on_without_a_site_and_it_catches_up(federation: Federation) -> None:
    transport = Unreliable(federation.participants(), {"birch": (1, 2)})
    found = Hub(hub_settings(federation, method=FIVE), transport).run()
    assert found.missed == {"birch": [1, 2]}
    assert "site 'birch' is missing from round 1 on" in found.notes
    assert "site 'birch' is back in round 3" in found.notes
    local = found.outcome.history["node_local_loss"][:, 1]
    assert local[0] == local[1] == local[2] and local[4] != local[2]
    assert set(found.reports) == set(THREE)


def test_a_site_that_is_never_there_again_is_named(federation: Federation) -> None:
    class Dead(Unreliable):
        def send(self, letters: Any, wait: float, late: Collection[Any] = ()) -> Any:
            kinds = {letter.kind for letter in letters.values()}
            if kinds & {"relax", "finish"}:
                letters = {name: one for name, one in letters.items() if name != "birch"}
            return super().send(letters, wait, late)

    found = Hub(hub_settings(federation), Dead(federation.participants(), {})).run()
    assert found.missed == {"birch": [0, 1, 2, 3]} and set(found.reports) == {"ash", "cedar"}
    assert "site 'birch' did not answer at the end; it may have saved no model" in found.notes


def test_a_letter_that_comes_twice_changes_nothing(federation: Federation) -> None:
    class Twice(WithinProcess):
        def send(self, letters: Any, wait: float, late: Collection[Any] = ()) -> Any:
            super().send(letters, wait, late)
            return super().send(letters, wait, late)

    found = Hub(hub_settings(federation), Twice(federation.participants())).run()
    whole = Hub(hub_settings(federation), federation.transport()).run()
    same_history(found.outcome.history, whole.outcome.history)


def test_a_site_that_could_not_answer_a_greeting_is_greeted_again(
    federation: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedrelax.federation.hub.AGAIN", 0.1)

    class Late(WithinProcess):
        greeted = 0

        def send(self, letters: Any, wait: float, late: Collection[Any] = ()) -> Any:
            answers = super().send(letters, wait, late)
            if "birch" in answers and answers["birch"].kind == "hello" and self.greeted < 2:
                self.greeted += 1
                answers["birch"] = Envelope("failure", {"reason": "no answer was made"})
            return answers

    transport = Late(federation.participants())
    assert set(Hub(hub_settings(federation), transport).run().reports) == set(THREE)
    assert transport.greeted == 2


def test_nobody_answers(federation: Federation) -> None:
    lost = dict.fromkeys(THREE, range(2, 9))
    with pytest.raises(FedRelaxError, match="no site answered in round 2"):
        Hub(hub_settings(federation), Unreliable(federation.participants(), lost)).run()


def test_a_site_that_lost_its_state_stays_out(federation: Federation) -> None:
    class Reinstalled(Unreliable):
        """Birch misses two rounds, and comes back at another address without its files."""

        moved = False

        def addresses(self) -> Collection[Any]:
            return [*super().addresses(), *(["birch again"] if self.moved else [])]

        def send(self, letters: Any, wait: float, late: Collection[Any] = ()) -> Any:
            if any(letter.head.get("round") == 2 for letter in letters.values()):
                if not self.moved:
                    self.sites["birch"].folder.begin()
                    self.sites["birch again"] = self.sites["birch"]
                self.moved = True
            return super().send(letters, wait, late)

    found = Hub(
        hub_settings(federation), Reinstalled(federation.participants(), {"birch": (1, 2)})
    ).run()
    assert "site 'birch' is back without the state of this run and stays out of it" in found.notes
    assert found.missed == {"birch": [1, 2, 3]}
    assert np.isfinite(found.outcome.history["local_loss"]).all()


def test_the_live_page_names_who_is_missing(federation: Federation) -> None:
    pytest.importorskip("uvicorn")
    from fedrelax.federation.writing import FederationView

    hub = Hub(hub_settings(federation), Unreliable(federation.participants(), {"birch": (2,)}))
    seen: list[str] = []

    class Seen(FederationView):
        def after_round(self, record: Any) -> str | None:
            told = super().after_round(record)
            seen.append(self._state.progress.words)
            return told

    with Seen(hub) as view:
        hub.run([view])
    assert seen[1] == "Round 1 of 3." and seen[2] == "Round 2 of 3. Missing: birch."
