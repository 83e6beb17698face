"""A run that was stopped goes on as if nothing had happened: every engine, every layer, every setting."""

from __future__ import annotations

import errno
from functools import partial

import numpy as np
import pytest

from fedrelax import Distillation, FedRelax, FedRelaxError, FedRelaxWarning, GradientFedRelax
from fedrelax.attacks import Colluding
from fedrelax.faults import Absent, Churn, Delayed, Lost, Reordered
from fedrelax.privacy import PrivateStatistics
from fedrelax.storage import Checkpoint
from fedrelax.storage.checkpoints import Interrupted
from fedrelax.wiring import Rewire

from .interrupting import Plug, Stop, assert_same, network_of, stopped_and_resumed

FAULTS = [Absent(0.3), Churn(), Lost(0.2), Delayed(3), Reordered(0.3), Colluding(share=0.25)]
REWIRE = Rewire(every=1, shares=(0.6, 0.4), after=(0, 1), friends=1.0)
RUNS = {
    "linear": ("linear", dict(alpha=0.5)),
    "linear, damped": ("linear", dict(alpha=0.5, damping=0.3, objective="gtvmin")),
    "linear, in turn": ("linear", dict(alpha=0.5, order="sequential", damping=0.2)),
    "linear, level": ("linear", dict(alpha=2.0, level=0.3)),
    "linear, rewired": ("linear", dict(alpha=0.5, wiring=REWIRE)),
    "linear, rewired in turn": ("linear", dict(alpha=0.5, wiring=REWIRE, order="sequential")),
    "linear, zeros first": ("linear", dict(alpha=0.5, first_exchange="zeros")),
    "linear, patience": ("linear", dict(alpha=9.0, patience=9, wiring=REWIRE)),
    "softmax": ("softmax", dict(alpha=0.5, damping=0.1)),
    "softmax, rewired": ("softmax", dict(alpha=0.5, wiring=REWIRE)),
    "softmax, level": ("softmax", dict(alpha=3.0, level=0.5, patience=9)),
    "trees, rewired": ("trees", dict(alpha=1.0, wiring=REWIRE, patience=9)),
    "trees, level": ("trees", dict(alpha=1.0, level=0.4, damping=0.2)),
    "sites": ("mixed", dict(alpha=1.0)),
    "sites, gtvmin": ("mixed", dict(alpha=1.0, objective="gtvmin", damping=0.2)),
    "sites, in turn": ("mixed", dict(alpha=1.0, order="sequential")),
    "sites, median": ("mixed", dict(alpha=1.0, combine="median")),
    "sites, rewired": ("mixed", dict(alpha=1.0, wiring=REWIRE, patience=9)),
    "sites, distilled": ("mixed", dict(alpha=1.0, distillation=Distillation(rows=5))),
    "sites, uncollapsed": ("mixed", dict(alpha=1.0, collapse=False, level=0.5)),
    "sites, linear": ("linear", dict(alpha=0.5, engine="sites", loss="huber")),
    "sites, classes": ("mixed classes", dict(alpha=1.0, patience=9)),
    "sites, softmax": ("softmax", dict(alpha=1.0, engine="sites", order="sequential")),
    "trees": ("trees", dict(alpha=1.0)),
    "difference": ("mixed", dict(alpha=1.0, update="difference", wiring=REWIRE, patience=9)),
    "difference, lines": ("all linear", dict(alpha=0.1, update="difference")),
    "difference, classes": ("mixed classes", dict(alpha=1.0, update="difference", patience=9)),
    "difference, softmax": ("softmax", dict(alpha=0.5, update="difference")),
    "difference, faults": ("mixed", dict(alpha=1.0, update="difference", exchange=FAULTS)),
    "faults": ("mixed", dict(alpha=1.0, exchange=FAULTS)),
    "faults, in turn": ("mixed", dict(alpha=1.0, exchange=FAULTS, order="sequential")),
    "faults, classes": ("mixed classes", dict(alpha=1.0, exchange=FAULTS, wiring=REWIRE)),
}
ROUNDS = 7


@pytest.mark.parametrize("name", RUNS)
def test_a_stopped_run_ends_like_one_that_was_never_stopped(tmp_path, name):
    kind, given = RUNS[name]
    network, settings = network_of(kind), partial(FedRelax, rounds=ROUNDS, tol=0.0, **given)
    whole = settings().solve(network)
    again, plug = stopped_and_resumed(settings, network, tmp_path / "run", [1, 3, 6])
    assert_same(whole, again, network.public.common)
    assert plug.heard == list(range(ROUNDS + 1))  # callbacks hear of every round once, in order


@pytest.mark.parametrize("kind", ["linear", "mixed"])
@pytest.mark.parametrize("given", [{}, {"objective": "gtvmin"}, {"update": "difference"}], ids=str)
def test_nodes_with_public_rows_of_their_own(tmp_path, kind, given):
    network = network_of(kind, common=False)
    settings = partial(FedRelax, alpha=0.7, rounds=6, tol=0.0, wiring=REWIRE, **given)
    whole = settings().solve(network)
    again, _ = stopped_and_resumed(settings, network, tmp_path / "run", [2, 3, 5])
    assert_same(whole, again, network.nodes["n0"].X)


@pytest.mark.parametrize("step", ["plain", "rmsprop"])
def test_gradient_steps_go_on(tmp_path, step):
    network = network_of("linear")
    settings = partial(
        GradientFedRelax, rounds=6, tol=0.0, step=step, first_exchange="zeros", initial="uniform"
    )
    whole = settings().solve(network)
    again, _ = stopped_and_resumed(settings, network, tmp_path / "run", [1, 3])
    assert_same(whole, again, network.public.common)


@pytest.mark.parametrize("given", [{}, {"batch_size": 4}, {"warm_start": False}])
@pytest.mark.parametrize("order", ["simultaneous", "sequential"])
def test_nets_go_on_from_their_weights_and_optimiser(tmp_path, given, order):
    """Alike nets train as one stack, and are one again; a small batch size trains each by itself."""
    nn = pytest.importorskip("torch.nn", reason="nets need the extra torch")
    from fedrelax import TorchModel

    def net(shape, outputs):
        return nn.Sequential(nn.Linear(shape[0], 4), nn.ReLU(), nn.Linear(4, outputs))

    network = network_of("linear").with_models(TorchModel(net, steps=5, **given))
    settings = partial(FedRelax, alpha=1.0, rounds=4, tol=0.0, order=order, patience=9)
    whole = settings().solve(network)
    again, _ = stopped_and_resumed(settings, network, tmp_path / "run", [1, 3])
    assert_same(whole, again, network.public.common)


def test_the_best_round_is_found_again_after_a_stop(tmp_path):
    """The best round lies before the stop, and its models are those that are kept."""
    network = network_of("mixed")
    settings = partial(FedRelax, alpha=30.0, rounds=12, tol=0.0, patience=3)
    whole = settings().solve(network)
    assert whole.n_rounds < len(whole.history) - 1
    stop = whole.n_rounds + 2
    again, _ = stopped_and_resumed(settings, network, tmp_path / "run", [stop])
    assert_same(whole, again, network.public.common)


def test_a_run_without_a_number_of_rounds_goes_straight_again(tmp_path):
    network, settings = network_of("linear"), partial(FedRelax, alpha=0.5)
    whole = settings().solve(network)
    stop = int(whole.history["round"][-1])
    again, _ = stopped_and_resumed(settings, network, tmp_path / "run", [stop])
    assert_same(whole, again, network.public.common)


def test_a_private_run_sends_the_same_noise_again(tmp_path):
    """Without a seed no second run would draw the same noise; a second release would break the promise."""
    network = network_of("mixed")

    def settings() -> FedRelax:
        layer = PrivateStatistics(epsilon=8.0, range=(-5.0, 5.0), random_state=None)
        return FedRelax(alpha=1.0, rounds=6, tol=0.0, exchange=layer)

    with pytest.raises(Stop):
        settings().solve(network, [Checkpoint(tmp_path / "run"), Plug(2)])
    kept = (tmp_path / "run" / "rounds.state").read_bytes()
    results = []
    for _ in range(2):
        (tmp_path / "run" / "rounds.state").write_bytes(kept)
        results.append(settings().solve(network, [Checkpoint(tmp_path / "run")]))
    assert_same(*results, network.public.common)


def test_a_finished_run_is_not_repeated(tmp_path):
    network, settings = network_of("mixed"), partial(FedRelax, alpha=1.0, rounds=4, tol=0.0)
    whole, _ = stopped_and_resumed(settings, network, tmp_path / "run", [])
    before = (tmp_path / "run" / "rounds.state").read_bytes()
    again, plug = stopped_and_resumed(settings, network, tmp_path / "run", [])
    assert_same(whole, again, network.public.common)
    assert plug.heard == [0, 1, 2, 3, 4]
    assert (tmp_path / "run" / "rounds.state").read_bytes() == before


def test_states_are_written_every_so_many_rounds_and_at_the_end(tmp_path):
    network, written = network_of("linear"), []

    class Watching(Checkpoint):
        def keep(self, what, identity, state, round, ends):
            super().keep(what, identity, state, round, ends)
            written.extend([round] if self.saved == round else [])

    FedRelax(rounds=7, tol=0.0).solve(network, [Watching(tmp_path / "run", every=3)])
    assert written == [0, 3, 6, 7]


def test_the_graph_is_told_again_once_it_has_changed(tmp_path):
    network = network_of("linear")
    settings = partial(FedRelax, alpha=0.5, rounds=8, tol=0.0, wiring=REWIRE)
    _, plug = stopped_and_resumed(settings, network, tmp_path / "run", [7])
    assert len(plug.graphs) == 2 and plug.graphs[0] > plug.graphs[1]


@pytest.mark.parametrize(
    ("part", "change"),
    [
        ("settings", dict(alpha=0.6)),
        ("rows", dict(rows=True)),
        ("models", dict(kind="trees")),
    ],
)
def test_another_run_is_refused(tmp_path, part, change):
    FedRelax(alpha=0.5, rounds=2).solve(network_of("linear"), [Checkpoint(tmp_path / "run")])
    network = network_of(change.get("kind", "linear"))
    if "rows" in change:
        network.nodes["n3"].X[0, 0] += 1e-9
    with pytest.raises(FedRelaxError, match=f"another run: {part} differ"):
        settings = FedRelax(alpha=change.get("alpha", 0.5), rounds=2)
        settings.solve(network, [Checkpoint(tmp_path / "run")])


def test_models_that_remember_are_refused_before_work_starts(tmp_path):
    network, plug = network_of("mixed"), Plug(0)
    with pytest.raises(FedRelaxError, match="node 'n0': Ridge continues from its last fit"):
        FedRelax(continued=True).solve(network, [Checkpoint(tmp_path / "run"), plug])
    assert plug.heard == []


def test_a_run_without_a_seed_is_refused(tmp_path):
    with pytest.raises(FedRelaxError, match="random_state=None"):
        FedRelax(random_state=None).solve(network_of("mixed"), [Checkpoint(tmp_path / "run")])


def test_two_checkpoints_in_one_run_are_refused(tmp_path):
    both = [Checkpoint(tmp_path / "a"), Checkpoint(tmp_path / "b")]
    with pytest.raises(FedRelaxError, match="2 checkpoints"):
        FedRelax().solve(network_of("linear"), both)


def test_stopped_while_the_disk_refuses_it_does_not_claim_to_go_on(tmp_path, monkeypatch):
    def refuse(path, content):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("fedrelax.storage.states.write_whole", refuse)
    kept = Checkpoint(tmp_path)
    kept.stopping = "SIGINT"
    with (
        pytest.warns(FedRelaxWarning, match="the last is none, and the run stops"),
        pytest.raises(Interrupted),
    ):
        kept.keep("rounds", {}, dict, 3, False)
    assert kept.saved is None


def test_files_are_for_their_owner_only(tmp_path):
    FedRelax(rounds=1).solve(network_of("linear"), [Checkpoint(tmp_path / "run")])
    (file,) = (tmp_path / "run").iterdir()
    assert file.stat().st_mode & 0o077 == 0


def test_numbers_of_workers_do_not_matter(tmp_path):
    network = network_of("mixed")
    settings = partial(FedRelax, alpha=1.0, rounds=4, tol=0.0)
    whole = settings().solve(network)
    with pytest.raises(Stop):
        settings(n_jobs=2).solve(network, [Checkpoint(tmp_path / "run"), Plug(2)])
    again = settings().solve(network, [Checkpoint(tmp_path / "run")])
    assert_same(whole, again, network.public.common)
    assert np.isfinite(again.history["gtv"]).all()
