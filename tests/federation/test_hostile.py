"""What comes from elsewhere is checked: bad letters are refused by name, and the others go on."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedrelax.errors import FedRelaxError
from fedrelax.federation.agreement import SiteManifest
from fedrelax.federation.boxes import (
    Address,
    SealedChannel,
    box_bytes,
    new_key,
    public_of,
    write_predictions,
)
from fedrelax.federation.hub import Hub
from fedrelax.federation.letters import Envelope, pack, unpack
from fedrelax.federation.participant import RUN, Participant
from fedrelax.files import Refused, from_npy
from fedrelax.storage.states import to_bytes
from tests.federation.sites import Federation, WithinProcess, hub_settings, make
from tests.fuzzed_files import HELLO

pytest.importorskip("cryptography", reason="sealing needs pip install 'fedrelax[flower]'")
THREE = ("ash", "birch", "cedar")


# Arrays and letters


def npy(array: np.ndarray) -> bytes:
    import io

    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=True)
    return buffer.getvalue()


BAD_ARRAYS = {
    "NaN": npy(np.array([[1.0], [np.nan]])),
    "infinite": npy(np.array([[1.0], [np.inf]])),
    "shape": npy(np.ones((3, 1))),
    "dtype": npy(np.ones((2, 1), dtype=np.float32)),
    "objects": npy(np.array([[1.0], [None]], dtype=object)),
    "order": npy(np.asfortranarray(np.ones((2, 2)))),
    "cut off": npy(np.ones((2, 1)))[:-1],
    "too long": npy(np.ones((2, 1))) + b"\0",
    "huge": npy(np.ones((2, 1))).replace(b"(2, 1)", b"(9**9,)"),
    "empty": b"",
    "no array": b"\x93NUMPY\x01\x00\xff\xff",
}


@pytest.mark.parametrize("name", BAD_ARRAYS)
def test_an_array_is_checked_before_it_is_used(name: str) -> None:
    with pytest.raises(Refused):
        from_npy(BAD_ARRAYS[name], "it", (2, 1), finite=True)


def test_a_letter_comes_back_as_it_was() -> None:
    letter = Envelope("relax", {"a": [1, 2.5, None]}, {"x": b"\0\1", "y": b""})
    assert unpack(pack(letter)) == letter


@pytest.mark.parametrize("cut", [0, 3, 8, 20, -1])
def test_a_letter_that_is_cut_off_is_refused(cut: int) -> None:
    data = pack(Envelope("relax", {"a": 1}, {"x": b"1234"}))
    with pytest.raises(Refused):
        unpack(data[:cut])


@pytest.mark.parametrize(
    "content", [7, ["relax", {}], [1, {}, {}], ["relax", [], {}], ["relax", {}, {"x": "text"}]]
)
def test_a_state_that_is_no_letter_is_refused(content: object) -> None:
    with pytest.raises(Refused, match="a letter"):
        unpack(to_bytes(content))


# Boxes


def boxes() -> tuple[SealedChannel, SealedChannel]:
    keys = {"a": new_key(), "b": new_key()}
    public = {name: public_of(key) for name, key in keys.items()}
    nonces = {"a": "1", "b": "2"}
    return SealedChannel(keys["a"], public, nonces), SealedChannel(keys["b"], public, nonces)


def test_only_the_receiver_of_this_run_and_round_opens_a_box() -> None:
    a, b = boxes()
    address = Address("run", "a", "b", 3)
    box = a.close(b"secret", address)
    assert b.open(box, address) == b"secret" and b"secret" not in box
    wrong = [
        replace(address, run="other"),
        replace(address, round=2),
        Address("run", "b", "a", 3),
    ]
    for other in wrong:
        with pytest.raises(Refused, match="seal does not fit"):
            b.open(box, other)
    for nonces in ({"a": "1", "b": "9"}, {"a": "9", "b": "2"}):
        with pytest.raises(Refused, match="seal does not fit"):
            replace(b, nonces=nonces).open(box, address)
    for changed in (box[:-1] + bytes([box[-1] ^ 1]), box[:20], b""):
        with pytest.raises(Refused):
            b.open(changed, address)
    with pytest.raises(Refused, match="seal does not fit"):
        b.open(replace(a, private=new_key()).close(b"secret", address), address)


def test_a_site_that_is_not_pinned_is_refused() -> None:
    a, b = boxes()
    box = a.close(b"secret", Address("run", "a", "b", 0))
    with pytest.raises(Refused, match="no key of site 'a' is pinned"):
        replace(b, keys={}).open(box, Address("run", "a", "b", 0))


# Sites that send rubbish


class Hostile:
    """A site whose answers are changed on the way out."""

    def __init__(self, honest: Participant, change: Callable[[Envelope], Envelope]) -> None:
        self.honest, self.change = honest, change
        self.site = honest.site

    def answer(self, letter: Envelope) -> Envelope:
        answer = self.honest.answer(letter)
        return self.change(answer) if answer.kind == "relaxed" else answer


def resealed(federation: Federation, content: Callable[[bytes], bytes]) -> Callable[..., Envelope]:
    """Return how the first site seals other predictions than its own for all that it writes to."""
    site = federation.site("ash")
    honest = Participant(site)

    def change(answer: Envelope) -> Envelope:
        known = honest.folder.read(RUN)
        nonces = {**known["plan"]["nonces"], "ash": known["nonce"]}
        seal = SealedChannel(site.path("site.key").read_text(), site.keys, nonces)
        parts = dict(answer.parts)
        for name in [name for name in parts if name.startswith("to ")]:
            other, round = name[3:], answer.head["round"] + 1
            address = Address(answer.head["run"], "ash", other, round)
            rows = content(write_predictions({0: [np.full((20, 1), 3.0)]}))
            parts[name] = seal.close(rows, address)
        return replace(answer, parts=parts)

    return change


BAD_BOXES = {
    "NaN": lambda rows: rows[:-8] + struct.pack("<d", np.nan),
    "cut off": lambda rows: rows[:-3],
    "shape": lambda rows: write_predictions({0: [np.ones((10, 1))]}),
    "dtype": lambda rows: rows.replace(b"'<f8'", b"'<i8'"),
    "another lane": lambda rows: write_predictions({7: [np.ones((20, 1))]}),
    "twice": lambda rows: rows + rows,
    "huge": lambda rows: rows * 200,
}


def run_with(federation: Federation, change: Callable[[Envelope], Envelope]) -> list[str]:
    sites = dict(federation.participants())
    sites["ash"] = Hostile(sites["ash"], change)  # type: ignore[assignment]
    found = Hub(hub_settings(federation), WithinProcess(sites)).run()
    assert set(found.reports) == set(THREE)
    assert np.isfinite(found.outcome.history["node_local_loss"]).all()
    return list(found.notes)


@pytest.mark.parametrize("name", BAD_BOXES)
def test_bad_predictions_are_refused_by_name_and_the_others_go_on(
    tmp_path: Path, name: str
) -> None:
    federation = make(tmp_path, names=THREE, models=("ridge",))
    notes = run_with(federation, resealed(federation, BAD_BOXES[name]))
    for other in ("birch", "cedar"):
        assert any(f"site 'ash': site {other!r} refused what came from it" in n for n in notes)
    assert all("site 'ash'" in note for note in notes)


def test_a_replayed_box_and_one_of_a_foreign_key_are_refused(tmp_path: Path) -> None:
    federation = make(tmp_path, names=THREE, models=("ridge",))
    first: dict[str, bytes] = {}

    def replay(answer: Envelope) -> Envelope:
        boxes = {name: box for name, box in answer.parts.items() if name.startswith("to ")}
        first.update({} if first else boxes)
        return replace(answer, parts={**answer.parts, **({} if not boxes else first)})

    assert any("seal does not fit" in note for note in run_with(federation, replay))
    other = make(tmp_path / "other", names=THREE, models=("ridge",))
    (other.home / "ash" / "site.key").write_text(new_key())
    sites = other.participants()
    with pytest.raises(FedRelaxError, match="what came from site 'ash' is refused"):
        Hub(hub_settings(other), WithinProcess(sites)).run()


BAD_REPORTS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "NaN": lambda report: {**report, "gtv": np.nan},
    "negative": lambda report: {**report, "change": -1.0},
    "cut off": lambda report: {k: v for k, v in report.items() if k != "size"},
    "another lane": lambda report: {**report, "lane": 7},
    "a stranger": lambda report: {**report, "discrepancies": {"zz": 1.0}},
    "no report": lambda report: [1.0],
}


@pytest.mark.parametrize("name", BAD_REPORTS)
def test_bad_numbers_are_refused_and_the_site_counts_as_missing(tmp_path: Path, name: str) -> None:
    def change(answer: Envelope) -> Envelope:
        reports = [BAD_REPORTS[name](report) for report in answer.head["reports"]]
        return replace(answer, head={**answer.head, "reports": reports})

    federation = make(tmp_path, names=THREE, models=("ridge",))
    notes = run_with_missing(federation, change)
    assert any("site 'ash', round 0: its report is refused" in note for note in notes)


def run_with_missing(
    federation: Federation, change: Callable[[Envelope], Envelope]
) -> tuple[str, ...]:
    sites = dict(federation.participants())
    sites["ash"] = Hostile(sites["ash"], change)  # type: ignore[assignment]
    found = Hub(hub_settings(federation), WithinProcess(sites)).run()
    assert found.missed == {"ash": [0, 1, 2, 3]}
    return found.notes


def test_an_answer_of_another_round_or_run_is_refused(tmp_path: Path) -> None:
    federation = make(tmp_path, names=THREE, models=("ridge",))
    for key, value in (("round", 0), ("run", "other"), ("name", "birch")):
        sites = dict(federation.participants())

        def change(answer: Envelope, key: str = key, value: object = value) -> Envelope:
            return replace(answer, head={**answer.head, key: value})

        sites["ash"] = Hostile(sites["ash"], change)  # type: ignore[assignment]
        found = Hub(hub_settings(federation), WithinProcess(sites)).run()
        assert found.missed["ash"][-1] == 3
        assert any("site 'ash'" in note for note in found.notes)


# What the hub sees


def test_the_hub_reads_no_prediction_and_no_row(tmp_path: Path) -> None:
    federation = make(tmp_path / "sites", names=THREE)
    seen: list[bytes] = []

    class Listening(WithinProcess):
        def send(self, letters, wait, late=()):  # type: ignore[no-untyped-def]
            answers = super().send(letters, wait, late)
            seen.extend(pack(letter) for letter in [*letters.values(), *answers.values()])
            return answers

    hub = Hub(hub_settings(federation), Listening(federation.participants()))
    hub.run()
    secrets = []
    for name in THREE:
        participant = federation.participants()[name]
        secrets += [value.tobytes() for value in participant.table.features.to_numpy().ravel()]
        secrets += [np.float64(value).tobytes() for value in participant.table.y]
        for round in participant.folder.rounds():
            for state in participant.folder.load(round).values():
                arrays = [*state.shared.values(), *state.answers.values()]
                secrets += [value.tobytes() for array in arrays for value in array.ravel()]
    everything = b"".join(seen)
    assert len(secrets) > 1000
    assert not [secret for secret in secrets if secret in everything]


def test_without_a_seal_the_hub_would_see_predictions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test above can fail."""
    federation = make(tmp_path, names=THREE)
    monkeypatch.setattr(SealedChannel, "close", lambda channel, content, address: content)
    monkeypatch.setattr(SealedChannel, "open", lambda channel, box, address: box)
    hub = Hub(hub_settings(federation), federation.transport())
    hub.run()
    shared = federation.participants()["ash"].folder.load(3)[0].shared["ash"]
    boxes = [box for (sender, _), (_, box) in hub.boxes.items() if sender == "ash"]
    assert all(shared.tobytes() in box for box in boxes)


def test_the_size_of_a_box_is_as_the_formula_says(tmp_path: Path) -> None:
    federation = make(tmp_path, names=THREE)
    hub = Hub(hub_settings(federation, alpha=(0.1, 0.3)), federation.transport())
    hub.run()
    lanes = 2 * 3 + 2
    assert {len(box) for _, box in hub.boxes.values()} == {box_bytes(lanes, 20, 1)}


def test_a_greeting_of_another_kind_is_refused() -> None:
    for head in ({}, {"name": 3}, {"name": "a\nb"}):
        with pytest.raises(Refused):
            SiteManifest.of(Envelope("hello", head))


@pytest.mark.parametrize("weight", [True, 0, -1.0, 1e12, float("nan"), "1"])
def test_a_greeting_has_weights_that_a_site_file_may_have(weight: object) -> None:
    letter = unpack(pack(HELLO.letter()))
    assert SiteManifest.of(letter) == HELLO
    letter.head["neighbours"] = {"Hamar": weight}
    with pytest.raises(Refused, match="under 'neighbours.Hamar'"):
        SiteManifest.of(letter)
