"""``fedrelax stress``: faults and attacks on the user's own network, and what they break."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from fedrelax.cli.config import command_with
from fedrelax.cli.console import Talk
from fedrelax.cli.flags import LEARNING, flag
from fedrelax.cli.settings import Alpha, LearningConfig
from fedrelax.errors import FedRelaxError
from fedrelax.typing import AnyArray, FloatArray

if TYPE_CHECKING:
    from fedrelax.cli.inputs import Inputs
    from fedrelax.network import Network

ROUNDS = 20
HOLDS, SUFFERS = 1.05, 1.2
"""The network holds, or suffers, up to these multiples of the undisturbed loss; above, it breaks."""
WAYS = ("mean", "median", "nearest")


@dataclass(frozen=True, kw_only=True)
class StressConfig(LearningConfig):
    """All settings of ``fedrelax stress``."""

    command: ClassVar[str] = "stress"
    steps: ClassVar[Mapping[str, float]] = {"reading": 0.5, "trouble": 10.0}

    alpha: Alpha = flag(
        LEARNING,
        "How much neighbours count, from 0 (each alone) upwards. Default: auto, with which "
        "neighbours weigh as much as a node's own rows.",
        default="auto",
        argument="alpha",
    )


@command_with(StressConfig)
def stress(config: StressConfig, talk: Talk) -> None:
    """Find out what faults and attacks would do to your network.

    Trains on each node's training rows while nodes are away, messages are lost, late or out of order, or
    a fifth of the nodes lie, and measures the honest nodes on their test rows: with the mean of the
    neighbours, as usual, and with their median or the nearest of them as a defence.

    [bold]Example:[/bold] fedrelax stress weather.csv --node station --target temp
    --graph knn:lat,lon:5 --model ridge
    """
    from fedrelax.cli.inputs import read_inputs

    unused = {
        "--wiring": config.wiring not in (None, "fixed"),
        "--quick": config.quick,
        "--minutes": config.minutes is not None,
        "--overwrite": config.overwrite,
    }
    for name in (name for name, used in unused.items() if used):
        raise FedRelaxError(
            f"fedrelax stress keeps the graph, chooses nothing and writes nothing, so {name} does not "
            "apply; leave it out"
        )
    talk.activity.doing(f"Reading {config.data.name}", step="reading")
    network, alpha = network_of(read_inputs(config, talk.note), config, talk)
    trials = [(name, way) for name in troubles() for way in WAYS]
    lines: dict[str, dict[str, Any]] = {}
    usual = None
    for done, (name, way) in enumerate(trials):
        what = f"Trouble: {name}, {way}"
        talk.activity.doing(what, step="trouble", done=done, total=len(trials))
        losses, honest = losses_of(network, config, alpha, name, way)
        usual = losses if usual is None else usual
        loss, undisturbed = (float(np.nanmean(values[honest])) for values in (losses, usual))
        line = lines.setdefault(name, {"trouble": name, "verdict": {}})
        line |= {way: loss, "undisturbed": undisturbed}
        hurt = "suffers" if loss <= SUFFERS * undisturbed else "breaks"
        line["verdict"][way] = "holds" if loss <= HOLDS * undisturbed else hurt
    findings = {"alpha": alpha, "nodes": len(network), "lines": list(lines.values())}
    if config.json:
        talk.json(findings)
    else:
        tell(findings, talk)


def network_of(inputs: Inputs, config: StressConfig, talk: Talk) -> tuple[Network, float]:
    """Return the network with the test rows held out at every node, and alpha."""
    from fedrelax.cli.training import estimator_of
    from fedrelax.splits import group_rows

    if not inputs.test.any():
        raise FedRelaxError("--test-share 0 leaves no test rows to measure on; give more than 0")
    groups = group_rows(inputs.nodes, len(inputs.nodes))
    train = {label: rows[inputs.train[rows]] for label, rows in groups.items()}
    held = {label: rows[inputs.test[rows]] for label, rows in groups.items()}
    estimator = estimator_of(inputs, config)
    X = estimator.prepare(inputs.X, inputs.nodes, inputs.train)
    network = estimator.network_of(X, inputs.y, train, held, seed=config.seed)
    if config.alpha != "auto":
        return network, float(config.alpha)
    degree = float(network.graph.adjacency.sum()) / max(len(network), 1)
    alpha = 1.0 / max(degree, 1e-12) if degree else 0.0
    talk.note(f"alpha is {alpha:.3g}, so that neighbours weigh as much as a node's own rows.")
    return network, alpha


def troubles() -> dict[str, Any]:
    """Return the faults and attacks: layers around the exchange, by a plain name."""
    from fedrelax import attacks
    from fedrelax.faults import Absent, Churn, Delayed, Lost, Reordered

    return {
        "none": None,
        "half of the nodes absent": Absent(0.5),
        "nodes come and go": Churn(),
        "20 % of messages lost": Lost(0.2),
        "delays of up to 3 rounds": Delayed(3),
        "messages out of order": Reordered(0.2),
        "absent, lost and late": [Absent(0.5), Lost(0.2), Delayed(3)],
        "20 % send a constant": attacks.Constant(value=100.0),
        "20 % send the opposite": attacks.SignFlipped(),
        "20 % send ten times too much": attacks.Scaled(),
        "20 % send noise": attacks.Random(),
        "20 % send no numbers": attacks.NotANumber(),
        "20 % collude": attacks.Colluding(),
        "20 % drift slowly": attacks.Drifting(),
        LABELS: None,
    }


LABELS = "20 % have flipped labels"


def losses_of(
    network: Network, config: StressConfig, alpha: float, name: str, way: str
) -> tuple[FloatArray, AnyArray]:
    """Return every node's loss on its test rows after all rounds, and which nodes are honest."""
    from fedrelax import attacks
    from fedrelax.models import adapt
    from fedrelax.selection.candidates import update_for
    from fedrelax.solvers import FedRelax

    update: str = config.update
    layer = troubles()[name]
    if update == "auto":  # as fit would choose
        models = (adapt(given, network.task) for given in network.distinct_models.values())
        update = update_for(config.alpha, models)
    attack = attacks.SignFlipped() if name == LABELS else layer
    liars = attack.attackers(network.labels) if isinstance(attack, attacks.Attack) else ()
    if name == LABELS:
        network = attacks.flip_labels(network, liars)
    solver = FedRelax(
        alpha=alpha,
        rounds=ROUNDS if config.rounds is None else config.rounds,
        tol=0.0,
        engine="sites",
        exchange=layer,
        combine=way,
        update=update,
        level=1.0 if config.level == "auto" else config.level,
        n_jobs=config.jobs,
        random_state=config.seed,
    )
    with np.errstate(all="ignore"):
        last = solver.solve(network).history.records[-1].node_validation_loss
    return last, np.array([label not in liars for label in network.labels])


def tell(findings: dict[str, Any], talk: Talk) -> None:
    """Show the table."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    table.add_column("trouble")
    table.add_column("usual", justify="right", no_wrap=True)
    for way in WAYS:
        table.add_column(way, justify="right", no_wrap=True)
        table.add_column("", no_wrap=True)
    for line in findings["lines"]:
        cells = [text for way in WAYS for text in (f"{line[way]:.4g}", line["verdict"][way])]
        table.add_row(line["trouble"], f"{line['undisturbed']:.4g}", *cells)
    talk.plain(
        "Loss on the test rows of the honest nodes: as usual, undisturbed, and by how they combine their "
        f"neighbours' answers (suffers: more than {HOLDS - 1:.0%} above, breaks: {SUFFERS - 1:.0%}):"
    )
    talk.say(table)
