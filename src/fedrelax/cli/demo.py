"""``fedrelax example``, a table to try; ``fedrelax demo``, fourteen writers and eight kinds of models."""

from __future__ import annotations

import shlex
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedrelax.cli.config import command
from fedrelax.cli.console import Talk
from fedrelax.cli.fit import FitConfig

if TYPE_CHECKING:
    from fedrelax.cli.inputs import Inputs


@command
def example(
    talk: Talk, out: Annotated[Path, typer.Argument(metavar="CSV")], *, overwrite: bool = False
) -> None:
    """Write a small made-up table: the electricity load of 24 sites on a map, 12 rows each.

    [bold]Example:[/bold] fedrelax example my.csv

    out : File to write.
    overwrite : Replace the file.
    """
    from fedrelax.datasets.examples import example_table
    from fedrelax.storage.places import check_file

    check_file(out, (".csv",), overwrite)
    table = example_table()
    table.to_csv(out, index=False)
    talk.plain(f"Wrote {out}: {len(table)} rows of {table['site'].nunique()} sites. Next:")
    talk.command(f"fedrelax fit {out} --node site --target load --out result")


KINDS = ("logistic", "tree", "forest", "svm", "mlp", "knn", "boosting", "ridge")
LABELLED, PUBLIC, COMPONENTS = 20, 10, 20
STRENGTHS = (1.0, 3.0, 10.0)
"""alpha times the number of neighbours; validation on the labelled images chooses among them."""
ROUNDS, FOLDS = 2, 2
INTRODUCTION = (
    f"Fourteen people wrote digits. Each keeps {LABELLED} labelled images, trains a model of one of "
    f"{len(KINDS)} kinds, and makes {PUBLIC} images public, without labels.\n"
    "The models exchange nothing but predictions on the public images: every writer learns from all "
    "the others, whatever their kind of model."
)


@command
def demo(talk: Talk, *, out: Path = Path("demo-result"), jobs: int = 1) -> None:
    """Show a mixed network at work: handwritten digits, a node per writer. Works offline.

    An earlier result of fedrelax in --out is replaced; anything else is left alone.

    [bold]Example:[/bold] fedrelax demo --out demo-result

    out : Directory to write.
    jobs : Workers; -1 for all cores.
    """
    from fedrelax.cli.interruption import Interruption
    from fedrelax.cli.running import tell_report

    with Interruption().caught() as interruption:
        from fedrelax.cli.training import Run
        from fedrelax.report.terminal import evaluation_report
        from fedrelax.solvers import FedRelax
        from fedrelax.storage.places import check_directory

        check_directory(out, overwrite=True)
        talk.plain(INTRODUCTION)
        talk.activity.doing("Reading the digits")
        inputs = digits_inputs()
        config = FitConfig(
            data=Path("digits"),  # no file: the digits come with scikit-learn
            node="writer",
            target="digit",
            rounds=ROUNDS,
            public_rows=len(inputs.public),
            jobs=jobs,
            out=out,
            overwrite=True,
            keep_test_out=True,
        )
        alphas = [strength / (len(inputs.model_names) - 1) for strength in STRENGTHS]
        # each learns from what those before it have just learned
        solver = FedRelax(update="refit", order="sequential")
        run = Run(inputs, config, talk, interruption)
        outcome = run.train(alpha=alphas, folds=FOLDS, solver=solver)
        fitted = outcome.fitted
        settings = {
            "command": "fedrelax demo",
            "alpha": fitted.alpha_,
            "rounds": fitted.n_rounds_,
            "seed": config.seed,
        }
        comment = "made by fedrelax demo; the data come with scikit-learn"
        data = run.save(outcome, settings, comment, partial(_write_example, inputs))
        assert data.evaluation is not None
        talk.say("", evaluation_report(data), "")
        place = shlex.quote(str(out))
        picture = ", and a picture (result.png)" if (out / "result.png").exists() else ""
        talk.plain(f"Saved in {out}: the models and the numbers{picture}.")
        tell_report(out, talk)
        talk.plain("Next:")
        talk.command(f"fedrelax info {place}")
        talk.command(f"fedrelax predict {place} {place}/example.csv --out predictions.csv")


def digits_inputs() -> Inputs:
    """Return the digits by writer on the principal components of the public images."""
    from sklearn.decomposition import PCA

    from fedrelax.cli.inputs import Inputs
    from fedrelax.cli.splitting import Splitting
    from fedrelax.datasets import digits_by_writer, labelled_split
    from fedrelax.graph import Graph
    from fedrelax.threads import one_thread

    digits = digits_by_writer()
    public = labelled_split(digits.writers, per_node=PUBLIC, random_state=1)
    nodes = digits.writers[~public]
    # the last digits of sums depend on the number of threads, and trees on those
    with one_thread():
        components = PCA(COMPONENTS, random_state=0).fit(digits.X[public])
        X, shared = components.transform(digits.X[~public]), components.transform(digits.X[public])
    writers = list(dict.fromkeys(nodes.tolist()))
    names = {writer: KINDS[k % len(KINDS)] for k, writer in enumerate(writers)}
    train = labelled_split(nodes, per_node=LABELLED, random_state=0)
    return Inputs(
        X=X,
        y=digits.y[~public],
        nodes=nodes,
        train=train,
        test=~train,
        task="classification",
        feature_names=tuple(f"component {k + 1}" for k in range(COMPONENTS)),
        graph=Graph.complete(writers),
        model_names=names,
        public=shared,
        splitting=Splitting(share=0.0, seed=0),
    )


def _write_example(inputs: Inputs, draft: Path) -> None:
    """Write a few test images as a table, for ``fedrelax predict``."""
    import numpy as np
    import pandas as pd

    rows = np.flatnonzero(~inputs.train)[::30]
    frame = pd.DataFrame(inputs.X[rows], columns=list(inputs.feature_names))
    frame.insert(0, "digit", inputs.y[rows])
    frame.insert(0, "writer", inputs.nodes[rows])
    frame.to_csv(draft / "example.csv", index=False)
