"""States on the disk: what was written comes back, and nothing else is taken for a state."""

from __future__ import annotations

import hashlib
import json
import os
from functools import partial

import numpy as np
import pytest
from scipy import sparse

from fedrelax import FedRelax, FedRelaxError
from fedrelax.files import Refused, to_npy
from fedrelax.runtime import Message
from fedrelax.storage import Checkpoint
from fedrelax.storage.states import MAGIC, from_bytes, to_bytes
from fedrelax.wiring import Rewire

from .interrupting import Plug, Stop, assert_same, network_of

FILE = "rounds.state"


def test_what_goes_in_comes_out():
    answer = np.array([[0.1], [np.nan], [-np.inf]])
    letter, matrix = Message("a", "b", 3, answer), sparse.csr_array(np.eye(3))
    state = {"x": [1, 2.5, None, True, "é"], ("a", 1): (letter, letter), 7: answer, "m": matrix}
    found = from_bytes(to_bytes(state))
    assert found["x"] == state["x"]
    one, other = found["a", 1]
    assert one is other and (one.sender, one.owner, one.round) == ("a", "b", 3)
    assert one.predictions is found[7]
    np.testing.assert_array_equal(found[7], answer)
    np.testing.assert_array_equal(found["m"].toarray(), np.eye(3))


@pytest.mark.parametrize(
    "array",
    [
        np.arange(24.0).reshape(2, 3, 4).transpose(2, 0, 1),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.arange(10)[::3],
        np.empty((0, 4)),
        np.array(3.5),
        np.array([True, False]),
        np.arange(4, dtype=np.float32),
        np.arange(5.0)[::-1],
    ],
)
def test_arrays_come_back_with_their_order_in_memory(array):
    found = from_bytes(to_bytes(array))
    np.testing.assert_array_equal(found, array)
    assert found.dtype == array.dtype
    if array.size:
        assert np.argsort(found.strides).tolist() == np.argsort(array.strides).tolist()


def test_what_has_no_plain_form_is_refused():
    for value in (object(), np.array(["a"], dtype=object), {1, 2}):
        with pytest.raises(FedRelaxError, match="cannot be saved"):
            to_bytes(value)


def again_sealed(tree: object, numbers: bytes = b"") -> bytes:
    """Return bytes with a right checksum, whatever they hold."""
    text = json.dumps(tree).encode()
    body = text + b"\n" + numbers
    return MAGIC + hashlib.sha256(body).digest() + body


ONE = to_npy(np.ones(1))


@pytest.mark.parametrize(
    ("tree", "block"),
    [
        (None, b""),
        ([], b""),
        ([1], b""),
        ([{"array": [0, [0]]}, []], b""),
        ([{"array": [-1, [0]]}, [len(ONE)]], ONE),
        ([{"array": [0, [0]]}, [len(ONE) + 1]], ONE),
        ([{"array": [0, [0]]}, [len(ONE) - 1]], ONE[:-1]),
        ([{"array": [0, [0]]}, [-1]], b""),
        ([{"array": [0, [0]]}, [len(ONE)]], ONE.replace(b"(1,)", b"(9,)")),
        ([{"array": [0, [0]]}, [len(ONE)]], ONE.replace(b"<f8", b"|O8")),
        ([{"array": [0, [0]]}, [len(ONE)]], ONE.replace(b"<f8", b"<M8")),
        ([{"bytes": "x"}, [1]], b"x"),
        ([{"same": 5}, []], b""),
        ([{"same": True}, []], b""),
        ([{"pickle": "x"}, []], b""),
        ([{"a": 1, "b": 2}, []], b""),
        ([{"dict": [[[1], 2]]}, []], b""),
        ([{"dict": [[1]]}, []], b""),
        ([{"message": [1, 2, "x", 4]}, []], b""),
        ([{"csr": [[1, 1], 2, 3, 4]}, []], b""),
        ([{"csr": [[10**15, 10**15], *[{"array": [0, [0]]}] * 3]}, [len(ONE)]], ONE),
    ],
)
def test_a_right_checksum_does_not_make_a_state(tree, block):
    with pytest.raises(Refused):
        from_bytes(again_sealed(tree, block))


def test_lists_in_lists_in_lists_are_refused():
    body = b"[" * 100_000 + b"\n"
    with pytest.raises(Refused):
        from_bytes(MAGIC + hashlib.sha256(body).digest() + body)


@pytest.fixture
def run(tmp_path):
    """The directory of a finished run, and a call that goes on with it."""
    network, home = network_of("mixed"), tmp_path / "run"

    def solve():
        return FedRelax(alpha=1.0, rounds=2).solve(network, [Checkpoint(home)])

    solve()
    return home, solve


def test_damaged_bytes_are_told_in_one_sentence(run):
    home, _ = run
    whole = (home / FILE).read_bytes()
    rng = np.random.default_rng(0)
    for _ in range(300):
        data = bytearray(whole)
        kind = rng.integers(4)
        if kind == 0:
            data[rng.integers(len(data))] ^= 1 << rng.integers(8)
        elif kind == 1:
            data = data[: rng.integers(len(data))]
        elif kind == 2:
            data += bytes(rng.integers(0, 256, rng.integers(1, 9)).tolist())
        else:
            place = rng.integers(len(data))
            data[place : place + 8] = rng.bytes(8)
        if bytes(data) == whole:
            continue
        with pytest.raises(Refused):
            from_bytes(bytes(data))


def test_a_damaged_file_is_named(run):
    home, solve = run
    with open(home / FILE, "r+b") as file:
        file.seek(200)
        file.write(b"\x00\x01\x02")
    with pytest.raises(
        FedRelaxError, match=rf"this checkpoint is damaged: .*{FILE} does not match its"
    ):
        solve()


def changed(state, *path, to):
    """Return a state with another value at some place."""
    if not path:
        return to
    first, *rest = path
    if isinstance(state, tuple):
        return tuple(changed(v, *rest, to=to) if k == first else v for k, v in enumerate(state))
    copy = dict(state) if isinstance(state, dict) else list(state)
    copy[first] = changed(copy[first], *rest, to=to)
    return copy


@pytest.mark.parametrize(
    ("path", "to"),
    [
        ((), None),
        (("round",), "x"),
        (("round",), 7),
        (("records",), {}),
        (("records", "gtv"), np.zeros(9)),
        (("best",), 3),
        (("engine",), []),
        (("engine", "models"), (None, [])),
        (("engine", "models", 0), sparse.csr_array((2, 2))),
        (("engine", "models", 1, 0), {"memory": {}}),
        (("engine", "models", 1, 0, "terms", 0), (-1, np.zeros((3, 1)), 1.0, True)),
        (("engine", "models", 1, 0, "terms", 0), (-1, None, float("nan"), True)),
        (("engine", "models", 1, 0, "terms", 0), (99, None, 1.0, True)),
        (("engine", "words"), []),
        (("engine", "words", 0, 0), {0: np.zeros((1, 1))}),
        (("engine", "words", 0, 1), {(10**6, 0): np.zeros((1, 1))}),
        (("engine", "words", 0, 1), {(-1, 0): np.zeros((1, 1))}),
        (("engine", "words", 0, 2), np.zeros(3)),
        (("engine", "exchange"), []),
        (("engine", "exchange"), [["x"]]),
    ],
)
def test_a_state_of_another_form_is_told_in_one_sentence(run, path, to):
    home, solve = run
    kept = from_bytes((home / FILE).read_bytes())
    kept["state"] = changed(kept["state"], *path, to=to)
    (home / FILE).write_bytes(to_bytes(kept))
    with pytest.raises(FedRelaxError, match=f"this checkpoint is damaged: .*{FILE} "):
        solve()


def disturbed(value, rng):
    """Return a state in which something, somewhere, is another number, shape or kind of thing."""
    if isinstance(value, dict) and value:
        key = list(value)[rng.integers(len(value))]
        return {**value, key: disturbed(value[key], rng)}
    if isinstance(value, list | tuple) and len(value):
        place = rng.integers(len(value))
        return type(value)(disturbed(v, rng) if k == place else v for k, v in enumerate(value))
    others = [None, -1, 10**20, "x", [], {}, np.nan, np.zeros((2, 2)), np.arange(3)]
    if isinstance(value, np.ndarray) and value.size:
        spoiled = value.copy()
        spoiled[tuple(rng.integers(size) for size in value.shape)] = -7
        others += [spoiled, value[:-1] if value.ndim else value, value.astype(np.float32), -value]
    return others[rng.integers(len(others))]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["linear", "softmax", "trees", "mixed", "mixed classes"])
def test_any_change_gives_a_sentence_or_a_result(tmp_path, kind):
    """States with a right checksum that nobody has written: none of them crashes or hangs."""
    network, home, told = network_of(kind), tmp_path / "run", 0
    settings = partial(
        FedRelax,
        alpha=1.0,
        rounds=3,
        tol=0.0,
        patience=9,
        wiring=Rewire(every=1, shares=(0.6, 0.4), after=(1, 0)),
    )
    with pytest.raises(Stop):
        settings().solve(network, [Checkpoint(home), Plug(3)])
    kept = from_bytes((home / FILE).read_bytes())
    for seed in range(25):
        state = disturbed(kept["state"], np.random.default_rng(seed))
        (home / FILE).write_bytes(to_bytes({**kept, "state": state}))
        try:
            settings().solve(network, [Checkpoint(home)])
        except FedRelaxError as error:
            told += str(error).startswith("this checkpoint is damaged: ")
    assert told > 12


@pytest.mark.parametrize("kind", ["pipe", "link", "directory", "device"])
def test_what_is_no_file_is_not_opened(run, tmp_path, kind):
    home, solve = run
    (home / FILE).unlink()
    if kind == "pipe":
        os.mkfifo(home / FILE)
    elif kind == "directory":
        (home / FILE).mkdir()
    else:
        (tmp_path / "other").write_bytes(b"x")
        (home / FILE).symlink_to("/dev/zero" if kind == "device" else tmp_path / "other")
    with pytest.raises(FedRelaxError, match=f"this checkpoint is damaged: .*{FILE} "):
        solve()


@pytest.mark.parametrize("reason", ["all rounds done", "predictions converged", ""])
def test_why_a_run_ended_is_not_read_from_its_checkpoint(tmp_path, reason):
    """A file that says "the end" after three of six rounds, or none after the last, changes nothing."""
    settings, network = partial(FedRelax, alpha=0.5, rounds=6, tol=0.0), network_of("mixed")
    whole = settings().solve(network)
    for last in (3, 6):
        run = tmp_path / f"run{last}"
        if last == 3:
            with pytest.raises(Stop):
                settings().solve(network, [Checkpoint(run), Plug(4)])
        else:
            settings().solve(network, [Checkpoint(run)])
        whole_state = from_bytes((run / FILE).read_bytes())
        assert whole_state["state"]["round"] == last
        whole_state["state"] |= {"reason": reason, "first": None}
        (run / FILE).write_bytes(to_bytes(whole_state))
        assert_same(whole, settings().solve(network, [Checkpoint(run)]), network.public.common)


def test_a_best_round_that_is_not_the_best_is_damage(tmp_path):
    settings = partial(FedRelax, alpha=30.0, rounds=12, tol=0.0, patience=3)
    settings().solve(network_of("mixed"), [Checkpoint(tmp_path)])
    state = from_bytes((tmp_path / FILE).read_bytes())
    loss, when, models = state["state"]["best"]
    state["state"]["best"] = (loss, when + 1, models)
    (tmp_path / FILE).write_bytes(to_bytes(state))
    with pytest.raises(FedRelaxError, match="its best round is not the best of its records"):
        settings().solve(network_of("mixed"), [Checkpoint(tmp_path)])
