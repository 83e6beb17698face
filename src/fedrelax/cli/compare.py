"""``fedrelax compare``: federate, pool or stay alone, on repeated splits of a table."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np
from pydantic import BeforeValidator, Field

from fedrelax.cli.config import command_with
from fedrelax.cli.console import Talk
from fedrelax.cli.flags import DATA, LEARNING, OUTPUT, flag
from fedrelax.cli.settings import Alpha, LearningConfig, parts_of

if TYPE_CHECKING:
    from fedrelax.baselines import Baseline
    from fedrelax.cli.inputs import Inputs
    from fedrelax.comparison import Comparison
    from fedrelax.storage.saving import Fitted

FEW_TEST_ROWS = 30
FILES = "comparison.csv, nodes.csv, comparison.json, config.toml"


@dataclass(frozen=True, kw_only=True)
class CompareConfig(LearningConfig):
    """All settings of ``fedrelax compare``.

    splits : How many random splits, at least 2. Default: 5.
    ways : Ways to compare besides alone and together, as a,b,c: pooled, pooled+node, mixed-model,
        federation, fedmd, fedavg, fedprox, ditto, ifca, network-lasso. Default: all that the models
        allow.
    test_share : Share of each node's rows held out for testing in every split. Default: 0.2.
    alpha : How much neighbours count in FedRelax, from 0 (each alone) upwards. Default: auto, which
        chooses it by cross-validation on the training rows.
    rounds : Maximum number of rounds of FedRelax and FedMD; cross-validation on the training rows
        chooses how many to run. Default: 20; 200 for linear models.
    out : Directory to write, completely or not at all. Default: none; the table is only shown.
    """

    command: ClassVar[str] = "compare"

    splits: Annotated[int, Field(ge=2)] = flag(DATA, default=5)
    ways: Annotated[tuple[str, ...] | None, BeforeValidator(parts_of)] = flag(LEARNING)
    test_share: Annotated[float, Field(gt=0, lt=1)] = flag(DATA, default=0.2)
    alpha: Alpha = flag(LEARNING, default="auto")  # no argument: the compared way takes it
    out: Path | None = flag(OUTPUT, saved=False)


@command_with(CompareConfig)
def compare(config: CompareConfig, talk: Talk) -> None:
    """Find out whether to federate, pool or stay alone, before you decide.

    On several random splits of each node's rows, every way of learning chooses its settings on
    the training rows, trains, and is measured on the test rows: each node alone, one pooled model
    (without and with a column per node), a mixed model, FedRelax over the graph, what its federation
    would give, and other federated methods. The table has 95 % intervals, and the advice says how
    certain it is.

    [bold]Example:[/bold] fedrelax compare weather.csv --node station --target temp
    --graph knn:lat,lon:5 --splits 10
    """
    from fedrelax.cli.inputs import read_inputs
    from fedrelax.estimators import FedRelaxRegressor
    from fedrelax.files import dump_toml
    from fedrelax.storage.places import check_directory, whole_directory
    from fedrelax.storage.saving import write_json

    if config.out is not None:
        check_directory(config.out, config.overwrite, "comparison")
    talk.activity.doing(f"Reading {config.data.name}")
    ways_of(config, FedRelaxRegressor())  # refuses an unknown name before the table is read
    inputs = read_inputs(config, talk.note)
    if inputs.test.sum() < FEW_TEST_ROWS:
        talk.note(
            f"every split has only {inputs.test.sum()} test rows in all, which makes the intervals rough; "
            "a larger --test-share helps."
        )
    comparison = measure(config, inputs, talk)
    talk.activity.doing("Writing the tables")
    if config.out is not None:
        settings = config.to_file(task=inputs.task, features=list(inputs.feature_names))
        comment = "written by fedrelax compare; run it again with --config"
        with whole_directory(config.out, config.overwrite, "comparison") as draft:
            comparison.to_frame().to_csv(draft / "comparison.csv", index=False)
            comparison.nodes_to_frame().to_csv(draft / "nodes.csv", index=False)
            write_json(draft / "comparison.json", comparison.to_dict())
            (draft / "config.toml").write_text(dump_toml(settings, comment), encoding="utf-8")
    if config.json:
        answer = {
            "out": None if config.out is None else str(config.out),
            **comparison.to_dict(),
            "per_split": comparison.to_frame().to_dict("records"),
            "per_node": comparison.nodes_to_frame().to_dict("records"),
            "notes": talk.notes,
        }
        talk.json(answer)
        return
    from fedrelax.report.terminal import comparison_report

    talk.say("", comparison_report(comparison))
    if config.out is not None:
        talk.plain(f"\nSaved in {config.out}: {FILES}")


def ways_of(config: CompareConfig, estimator: Fitted) -> list[Baseline]:
    """Return the ways to compare; FedRelax has the settings, models and graph of the estimator."""
    from fedrelax.comparison import usual_ways, ways_by_name
    from fedrelax.evaluation import ALONE, TOGETHER

    ways = usual_ways(estimator, None if config.alpha == "auto" else config.alpha)
    if config.ways is None:
        return ways
    return ways_by_name([ALONE, *config.ways, TOGETHER], ways)


def measure(config: CompareConfig, inputs: Inputs, talk: Talk) -> Comparison:
    """Run all ways on all splits, with a progress bar; Ctrl-C keeps the splits that are complete."""
    from fedrelax.cli.interruption import start_workers
    from fedrelax.comparison import compare_ways

    done, estimator = 0, partial(inputs.estimator, config)
    everything = np.ones(
        len(inputs.nodes), dtype=bool
    )  # for the kinds of models and the graph only
    ways = ways_of(config, estimator(everything))
    start_workers(config.jobs, config.backend)

    def show(finished: int, total: int, what: str) -> None:
        nonlocal done
        done = finished * config.splits // total
        talk.activity.doing(f"Comparing, {what}", done=finished, total=total)

    try:
        return compare_ways(
            estimator,
            *inputs.rows(everything),
            ways=ways,
            splits=config.splits,
            test_share=config.test_share,
            groups=inputs.splitting.values,
            seed=config.seed,
            n_jobs=config.jobs,
            progress=show,
        )
    except KeyboardInterrupt:
        talk.note(f"stopped with {done} of {config.splits} splits complete; a table needs two.")
        raise
