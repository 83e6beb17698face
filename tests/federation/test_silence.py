"""Sites that die, are slow or come back, and a hub that is started again."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedrelax.errors import FedRelaxError
from fedrelax.federation.hub import Hub
from fedrelax.federation.letters import Envelope
from fedrelax.federation.state import HUB, Folder
from fedrelax.solvers import FedRelax
from tests.federation.sites import (
    Federation,
    WithinProcess,
    hub_settings,
    make,
    networks,
    same_history,
    same_models,
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


def stopped(federation: Federation, where: Path, stop: int, **more: Any) -> None:
    """Run until a hub is killed while it asks for a round."""
    transport = Unreliable(federation.participants(), {}, stop)
    with pytest.raises(KeyboardInterrupt):
        Hub(hub_settings(federation, **more), transport, where).run()


def test_a_hub_that_is_started_again_goes_on(federation: Federation, tmp_path: Path) -> None:
    where, two = tmp_path / "hub", {"alpha": (0.0, 0.5)}
    stopped(federation, where, 2, **two)
    kept = Folder(where).read(HUB)
    assert len(kept["reports"]) == 2
    transport = federation.transport()
    found = Hub(hub_settings(federation, wait=20.0, **two), transport, where).run()
    assert transport.letters == 2 * 3 * (1 + 2 + 1)  # hello, rounds 2 and 3, finish
    whole = make(tmp_path / "again", names=THREE, models=("ridge", "tree"))
    same = Hub(hub_settings(whole, **two), whole.transport()).run()
    same_history(found.outcome.history, same.outcome.history)
    assert found.alpha == same.alpha and found.largest_box == same.largest_box
    assert Folder(where).read(HUB) is None


def test_with_one_alpha_the_restarted_run_is_that_of_one_process(
    federation: Federation, tmp_path: Path
) -> None:
    for stop in (0, 3):
        stopped(federation, tmp_path / "hub", stop, method=FIVE)  # the second time it goes on
    found = Hub(
        hub_settings(federation, method=FIVE), federation.transport(), tmp_path / "hub"
    ).run()
    result = FedRelax(alpha=0.5, rounds=5, tol=0.0).solve(networks(federation, FIVE)[0])
    same_history(found.outcome.history, result.history)
    same_models(federation, result)


def test_a_round_that_sites_had_answered_before_the_hub_stopped_is_asked_for_again(
    federation: Federation, tmp_path: Path
) -> None:
    class Answered(WithinProcess):
        def send(self, letters: Any, wait: float, late: Collection[Any] = ()) -> Any:
            answers = super().send(letters, wait, late)
            if any(one.head.get("round") == 2 for one in answers.values()):
                raise KeyboardInterrupt
            return answers

    given = hub_settings(federation, method=FIVE)
    with pytest.raises(KeyboardInterrupt):
        Hub(given, Answered(federation.participants()), tmp_path / "hub").run()
    found = Hub(given, federation.transport(), tmp_path / "hub").run()
    result = FedRelax(alpha=0.5, rounds=5, tol=0.0).solve(networks(federation, FIVE)[0])
    same_history(found.outcome.history, result.history)
    same_models(federation, result)


def test_a_site_that_comes_back_while_the_hub_is_down_takes_part_again(
    federation: Federation, tmp_path: Path
) -> None:
    given = hub_settings(federation, method=FIVE)
    with pytest.raises(KeyboardInterrupt):
        transport = Unreliable(federation.participants(), {"birch": (1, 2)}, stop=3)
        Hub(given, transport, tmp_path / "hub").run()
    found = Hub(given, federation.transport(), tmp_path / "hub").run()
    assert found.missed == {"birch": [1, 2]}
    assert "site 'birch' is back in round 3" in found.notes


def test_other_settings_begin_another_run(federation: Federation, tmp_path: Path) -> None:
    stopped(federation, tmp_path / "hub", 2)
    hub = Hub(hub_settings(federation, alpha=0.7), federation.transport(), tmp_path / "hub")
    assert hub.id != Folder(tmp_path / "hub").read(HUB)["run"]
    assert hub.run().outcome.n_rounds == 3


def test_a_run_goes_on_without_a_site_that_does_not_come_back(
    federation: Federation, tmp_path: Path
) -> None:
    stopped(federation, tmp_path / "hub", 2)
    transport = federation.transport()
    del transport.sites["birch"]
    found = Hub(hub_settings(federation, join=0.5), transport, tmp_path / "hub").run()
    assert found.missed == {"birch": [2, 3]} and set(found.reports) == {"ash", "cedar"}


def test_a_site_that_lost_its_state_stays_out_of_a_run_that_goes_on(
    federation: Federation, tmp_path: Path
) -> None:
    stopped(federation, tmp_path / "hub", 2)
    federation.participants()["birch"].folder.begin()
    found = Hub(hub_settings(federation), federation.transport(), tmp_path / "hub").run()
    assert "site 'birch' is back without the state of this run and stays out of it" in found.notes
    assert found.missed == {"birch": [2, 3]}


def test_a_hub_refuses_a_damaged_state(federation: Federation, tmp_path: Path) -> None:
    stopped(federation, tmp_path / "hub", 2)
    path = tmp_path / "hub" / HUB
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(FedRelaxError, match=r"hub.bin does not match its checksum; delete it"):
        Hub(hub_settings(federation), federation.transport(), tmp_path / "hub")


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
    monkeypatch.setattr("fedrelax.federation.protocol.AGAIN", 0.1)

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
            seen.append(self._state.progress["words"])
            return told

    with Seen(hub) as view:
        hub.run([view])
    assert seen[1] == "Round 1 of 3." and seen[2] == "Round 2 of 3. Missing: birch."
