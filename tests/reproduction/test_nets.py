"""The comparison of a convolutional net per writer: what is shown to whom, and a small run of it."""

import numpy as np
import pytest

from benchmarks import nets

pytest.importorskip("torch", reason="nets need PyTorch")


def test_no_image_plays_two_parts():
    split = nets.Split.draw(7)
    labelled, test = (np.concatenate(list(rows.values())) for rows in (split.labelled, split.test))
    assert len(labelled) == len(split.unseen) == 14 * nets.LABELLED
    assert not set(labelled) & set(test)
    assert len(labelled) + len(split.unseen) + len(test) == len(split.X)
    shown = {image.tobytes() for image in split.unseen}
    assert not shown & {split.X[row].tobytes() for row in (*labelled, *test)}


@pytest.mark.parametrize("name", ["FedRelax, seen", "FedRelax, unseen"])
def test_held_out_images_are_not_public(name):
    split = nets.Split.draw(7)
    own = {writer: rows[4:] for writer, rows in split.labelled.items()}
    held = {writer: rows[:4] for writer, rows in split.labelled.items()}
    public = {image.tobytes() for image in split.network(name, {}, own, held).public.common}
    assert not public & {split.X[row].tobytes() for rows in held.values() for row in rows}
    mine = {split.X[row].tobytes() for rows in own.values() for row in rows}
    assert (public == mine) == (name == "FedRelax, seen")


@pytest.mark.slow
@pytest.mark.parametrize("name", nets.WAYS)
def test_every_way_chooses_and_is_measured(monkeypatch, name):
    small = {
        "DECAYS": (0.001,), "LENGTHS": (5, 20), "RATES": (0.01,), "STRENGTHS": (1.0, 3.0),
        "ROUNDS": 3, "AVERAGING_ROUNDS": 3, "TRIES": 1,
    }  # fmt: skip
    for constant, value in small.items():
        monkeypatch.setattr(nets, constant, value)
    error, (way, net) = nets.Split.draw(7).error(name)
    assert 0.0 < error < 0.9
    assert net["options"] == {"weight_decay": 0.001}
    assert getattr(way, "rounds", 3) <= 3
