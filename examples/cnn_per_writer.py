"""A convolutional net for every writer of digits, from 20 labelled images each.

``python examples/cnn_per_writer.py`` trains 14 nets together and prints every writer's error alone and
together. The public rows are 20 further images of every writer that nobody has labelled. It needs
``pip install 'fedrelax[torch]'`` and takes about half a minute.
"""

from __future__ import annotations

import numpy as np
from torch import nn

from fedrelax import FedRelax, Graph, Network, TorchModel
from fedrelax.datasets import digits_by_writer, labelled_split
from fedrelax.solvers import Result

digits = digits_by_writer()
images = digits.X.reshape(-1, 1, 8, 8)
known = labelled_split(digits.writers, per_node=20)
rest = np.flatnonzero(~known)
public = rest[labelled_split(digits.writers[rest], per_node=20)]
test = np.setdiff1d(rest, public)


def cnn() -> nn.Module:
    """Two layers of 3 x 3 filters and a linear one."""
    filters = nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Conv2d(8, 16, 3), nn.ReLU(), nn.MaxPool2d(2)
    return nn.Sequential(*filters, nn.Flatten(), nn.Linear(64, 10))


def train(alpha: float, rounds: int, steps: int) -> Result:
    """Give every writer a net and let them learn; alpha 0 means everybody alone."""
    writers = sorted(set(digits.writers))
    network = Network(Graph.complete(writers), "classification", public=images[public])
    net = TorchModel(cnn, steps=steps, first=steps, options={"weight_decay": 0.001})
    for writer in writers:
        own = known & (digits.writers == writer)
        network.add(writer, images[own], digits.y[own], net)
    return FedRelax(alpha=alpha, rounds=rounds, tol=0.0).solve(network)


def errors(result: Result) -> dict[str, float]:
    """Return the share of each writer's test images that its net gets wrong."""
    found = {}
    for writer, model in result.models.items():
        own = test[digits.writers[test] == writer]
        found[writer] = float(np.mean(model.predict(images[own]) != digits.y[own]))
    return found


def main() -> None:
    """Train, and print a line per writer."""
    alone, together = errors(train(0.0, 1, 50)), errors(train(1 / 13, 40, 5))
    for writer, error in alone.items():
        print(f"{writer}: {error:6.1%} alone, {together[writer]:6.1%} together")
    mean = [np.mean(list(found.values())) for found in (alone, together)]
    print(f"mean:      {mean[0]:6.1%} alone, {mean[1]:6.1%} together")


if __name__ == "__main__":
    main()
