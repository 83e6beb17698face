"""``fedrelax fit`` and ``resume``: from a table to one model per node."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import BeforeValidator, Field

from fedrelax.cli.config import command, command_with
from fedrelax.cli.console import Talk
from fedrelax.cli.flags import DATA, LEARNING, OUTPUT, Dir, TrustModel, flag, option_of
from fedrelax.cli.settings import LearningConfig, parts_of
from fedrelax.errors import FedRelaxError


@dataclass(frozen=True, kw_only=True)
class FitConfig(LearningConfig):
    """All settings of ``fedrelax fit``.

    out : Directory to write, completely or not at all.
    test_from : Test on all rows from this time on, by the column of --split-by or the only date column.
    keep_test_out : Save the models that were measured, trained without the test rows. Default: after
        measuring, train again on all rows with the same settings, and save those models.
    checkpoint_every : Save a checkpoint next to --out every N rounds, and when the run is stopped by
        Ctrl-C or SIGTERM; fedrelax resume continues from it.
    epsilon : Differential privacy for each row of a node: noise on the sums over its rows, released
        once. Implies --keep-test-out. Default: no noise.
    delta : Probability with which the promise of --epsilon may fail. Default: 1e-5.
    range : Smallest and largest possible target, for --epsilon: known beforehand, not taken from the
        rows. Not needed for classes.
    live : Show the run on a web page of this machine while it lasts; the address is printed.
    """

    command: ClassVar[str] = "fit"
    out: Path = flag(OUTPUT, needed="the directory to write", saved=False)
    test_from: str | None = flag(DATA, metavar="DATE")
    keep_test_out: bool = flag(OUTPUT, default=False)
    checkpoint_every: Annotated[int | None, Field(ge=1)] = flag(OUTPUT, metavar="N", saved=False)
    epsilon: Annotated[float | None, Field(gt=0, allow_inf_nan=False)] = flag(LEARNING)
    delta: Annotated[float | None, Field(gt=0, lt=1)] = flag(LEARNING)
    range: Annotated[tuple[float, float] | None, BeforeValidator(parts_of)] = flag(
        LEARNING, metavar="LOW,HIGH"
    )
    live: bool = flag(OUTPUT, default=False, saved=False)


@command_with(FitConfig)
def fit(config: FitConfig, talk: Talk) -> None:
    """Train one model per node and say whether learning together helped.

    A share of each node's rows is held out for testing. On these, three ways are compared: each node
    alone, one pooled model, and together over the graph. The saved models are then trained on all
    rows, with the settings that were measured.

    [bold]Example:[/bold] fedrelax fit weather.csv --node station --target temp
    --graph knn:lat,lon:5 --model-for Helsinki=forest --out result
    """
    from fedrelax.storage.places import check_directory

    check_directory(config.out, config.overwrite)
    check_privacy(config)
    talk.activity.doing(f"Reading {config.data.name}")
    from fedrelax.cli.running import run_fit

    run_fit(config, talk)


def check_privacy(config: FitConfig) -> None:
    """Refuse flags that would reveal more about the rows than is promised."""
    from fedrelax.public import DRAWS

    draw, wiring = config.public, config.wiring
    refused = {
        "--epsilon needs --model with a name: auto finds its settings from sums over the rows, without "
        "noise": config.model == "auto",
        "--epsilon needs --alpha as a number: every trial to choose it would reveal the rows once more": (
            config.alpha == "auto"
        ),
        f"--wiring {wiring} looks at rows without noise; with --epsilon use --wiring fixed": (
            wiring not in (None, "fixed")
        ),
        f"--public {draw} draws public rows from the inputs, which --epsilon does not cover; give a "
        "table of rows that may be seen, or --public standard": draw in DRAWS
        and draw != "standard",
    }
    if config.epsilon is None:
        needed = {"--delta": config.delta, "--range": config.range}
        refused = {
            f"{k} needs --epsilon, which is not given": v is not None for k, v in needed.items()
        }
    for sentence, holds in refused.items():
        if holds:
            raise FedRelaxError(sentence)


@command
def resume(
    talk: Talk,
    directory: Dir,
    *,
    trust: TrustModel = None,
    overwrite: Annotated[bool | None, option_of(FitConfig, "overwrite")] = None,
    backend: Annotated[str | None, option_of(FitConfig, "backend")] = None,
    address: Annotated[str | None, option_of(FitConfig, "address")] = None,
) -> None:
    """Continue a run that was stopped, as if nothing had happened.

    It needs only DIR, which holds settings and seeds, and the table in its old place. The result goes to
    the --out of the first command, and is that of a run that was never stopped, to the last digit.
    --trust, --overwrite, --backend and --address have to be typed again: DIR may come from elsewhere.

    [bold]Example:[/bold] fedrelax resume result.checkpoint

    directory : Checkpoint of fedrelax fit --checkpoint-every.
    """
    from fedrelax.cli.run_directory import RunDirectory
    from fedrelax.cli.running import run_fit
    from fedrelax.runtime.workers import using_backend
    from fedrelax.storage.places import check_directory

    typed = {"overwrite": overwrite, "backend": backend, "address": address}
    stopped = RunDirectory.find(directory, trust or (), **typed)
    config = stopped.config
    talk.out.quiet = config.json
    check_directory(config.out, config.overwrite)
    with using_backend(config.backend, config.address):
        run_fit(config, talk, stopped)
