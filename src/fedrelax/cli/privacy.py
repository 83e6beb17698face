"""``fedrelax fit --epsilon`` and ``--leakage``: differential privacy, and an attack that measures it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fedrelax.errors import FedRelaxError

if TYPE_CHECKING:
    from fedrelax.cli.fit import FitConfig
    from fedrelax.cli.inputs import Inputs
    from fedrelax.evaluation import Evaluation
    from fedrelax.runtime import Layer
    from fedrelax.solvers import FedRelax
    from fedrelax.storage.saving import Fitted

DELTA = 1e-5
NEEDS_MODEL = (
    "needs --model with a name: auto finds its settings from sums over the rows, without noise"
)


def check_private(config: FitConfig) -> None:
    """Refuse flags that would reveal more about the rows than is promised."""
    if config.epsilon is None:
        for name in ("delta", "range"):
            if getattr(config, name) is not None:
                raise FedRelaxError(f"--{name} needs --epsilon, which is not given")
        return
    if config.model == "auto":
        raise FedRelaxError(f"--epsilon {NEEDS_MODEL}")
    if config.alpha == "auto":
        raise FedRelaxError(
            "--epsilon needs --alpha as a number: every trial to choose it would reveal the rows once more"
        )
    if config.wiring not in (None, "fixed"):
        raise FedRelaxError(
            f"--wiring {config.wiring} looks at rows without noise; with --epsilon use --wiring fixed"
        )
    from fedrelax.public import DRAWS

    if config.public in DRAWS and config.public != "standard":
        raise FedRelaxError(
            f"--public {config.public} draws public rows from the inputs, which --epsilon does not cover; "
            "give a table of rows that may be seen, or --public standard"
        )


def check_leakage(config: FitConfig) -> None:
    """Refuse an attack on what was not sent or cannot be measured."""
    if config.leakage and config.model == "auto":
        raise FedRelaxError(f"--leakage {NEEDS_MODEL}")
    if config.leakage and config.test_share == 0:
        raise FedRelaxError(
            "--leakage compares training rows with test rows; give --test-share above 0"
        )


def private_layers(config: FitConfig) -> list[Layer]:
    """Return the noise that was asked for, without a seed: whoever knew it could subtract the noise."""
    from fedrelax.privacy import PrivateStatistics

    if config.epsilon is None:
        return []
    delta = DELTA if config.delta is None else config.delta
    layer = PrivateStatistics(
        epsilon=config.epsilon, delta=delta, range=config.range, random_state=None
    )
    return [layer]


def private_solver(config: FitConfig) -> FedRelax | None:
    """Return the solver with noise around the exchange, or None where none was asked for."""
    from fedrelax.solvers import FedRelax

    layers = private_layers(config)
    return FedRelax(exchange=layers, tol=0.0) if layers else None


def with_leakage(
    measured: Evaluation, fitted: Fitted, inputs: Inputs, config: FitConfig
) -> Evaluation:
    """Return the evaluation with the attack's AUC at every node under ``leaked``.

    The attack listens to a separate run on the training rows, with the settings that were measured; with
    ``--epsilon`` the noise in it is another draw of the same size.
    """
    found = aucs(fitted, inputs, config)
    column = [found.get(label) for label in measured.nodes["node"]]
    return replace(measured, nodes=measured.nodes.assign(leaked=column))


def aucs(fitted: Fitted, inputs: Inputs, config: FitConfig) -> dict[Any, float]:
    """Return the AUC with which a neighbour tells each node's training rows from its test rows."""
    from fedrelax.privacy.leakage import Listener, leakage
    from fedrelax.splits import group_rows
    from fedrelax.wiring import as_wiring

    first = () if inputs.graph is None else inputs.graph.labels
    groups = group_rows(inputs.nodes, len(inputs.nodes))
    groups = groups.arranged(inputs.X, inputs.y, inputs.task, first)
    train = {label: rows[inputs.train[rows]] for label, rows in groups.items()}
    train = {label: rows for label, rows in train.items() if len(rows)}
    held = {label: groups[label][inputs.test[groups[label]]] for label in train}
    X = fitted.common_rows(inputs.X, inputs.nodes)
    network = fitted.network_of(X, inputs.y, train, held, seed=config.seed)
    listener = Listener()
    solver = replace(
        fitted.settings(config.seed),
        alpha=fitted.alpha_,
        level=fitted.level_,
        wiring=as_wiring(fitted.wiring_),
        rounds=fitted.n_rounds_,
        tol=0.0,
        exchange=[*private_layers(config), listener],
    )
    models = solver.solve(network).local_models
    return {
        label: one.by_neighbour for label, one in leakage(network, listener.heard, models).items()
    }
