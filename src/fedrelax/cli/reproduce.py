"""``fedrelax reproduce``: compute the paper's figures again."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from fedrelax.cli.console import Talk, speaking
from fedrelax.cli.flags import AsJson, Debug
from fedrelax.errors import FedRelaxError

MOST_LETTERS = 210


def reproduce(
    figure: Annotated[
        list[str],
        typer.Argument(help="fig1a, fig1b, fig1c, fig2a, fig2b, fig3, fig4, fig5a, fig5b or all."),
    ],
    out: Annotated[
        Path,
        typer.Option(help="Directory for tables and pictures; finished runs in it are reused."),
    ],
    runs: Annotated[int, typer.Option(min=1, help="Repetitions with new data.")] = 5,
    features: Annotated[
        str | None,
        typer.Option(
            help="Values of d for the panels over d/m, e.g. 2,10,50 (m = 10). Default: the paper's."
        ),
    ] = None,
    noise: Annotated[
        str | None,
        typer.Option(
            help="Values of sigma for the panels over noise, e.g. 0,1,5. Default: the paper's."
        ),
    ] = None,
    alpha: Annotated[
        str | None,
        typer.Option(help="Values of alpha, e.g. 0,0.01,0.05. Default: the paper's."),
    ] = None,
    first_exchange: Annotated[
        str,
        typer.Option(
            help="What neighbours hear before round 1: models (as the paper says) or zeros (as the "
            "authors' code does)."
        ),
    ] = "models",
    targets: Annotated[
        list[Path] | None,
        typer.Option(
            help="CSV of known values to compare with, or a directory of such files; can be repeated. "
            "A checkout has them in tests/data/targets."
        ),
    ] = None,
    jobs: Annotated[
        int, typer.Option(help="Workers; -1 for all cores. The result does not change.")
    ] = 1,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Reproduce the paper's experiments: tables, pictures, and which of its statements hold.

    fig1: clustered nodes, linear models (a: d/m, b: noise, c: benchmark against other methods);
    fig2: the same with decision trees; fig3, fig4: nodes that mix distributions, linear models and
    trees; fig5: variation within a cluster and its bound (a: noise, b: connectivity).
    The linear figures take a minute or two together, a tree figure minutes to hours (d = 50).

    [bold]Example:[/bold] fedrelax reproduce fig1a fig1c --runs 20 --jobs 2 --out paper
    """
    steps = {"runs": 10.0 * len(figure), "tables": 3.0 * len(figure)}
    with speaking(debug, quiet=as_json, steps=steps) as talk:
        from fedrelax.cli.interruption import start_workers
        from fedrelax.paper.catalog import USES, Choice, figures
        from fedrelax.paper.reproduce import draw_figures, markdown
        from fedrelax.paper.reproduce import reproduce as compute
        from fedrelax.runtime.workers import check_jobs
        from fedrelax.solvers.checks import check_choice

        check_choice("--first-exchange", first_exchange, ("models", "zeros"))
        check_jobs(jobs)
        ask = Choice(
            features=tuple(map(int, _numbers("--features", features, whole=True))) or None,
            noise=_numbers("--noise", noise) or None,
            alpha=_numbers("--alpha", alpha) or None,
            first_exchange=first_exchange,
        )
        names = list(dict.fromkeys(figure))
        wanted = [one.name for one in figures(names, ask)]
        for name, users in USES.items():
            if getattr(ask, name) is not None and not set(users) & set(wanted):
                talk.note(f"--{name} has no effect on {', '.join(wanted)}.")
        try:
            out.mkdir(parents=True, exist_ok=True)
            probe = out / ".try"
            probe.touch()
            probe.unlink()
        except OSError as error:
            raise FedRelaxError(
                f"--out {out} cannot be written ({error.strerror or error}); choose another directory"
            ) from error
        talk.activity.doing(f"Running {', '.join(wanted)}", step="runs")
        start_workers(jobs)

        def show(done: int, total: int, what: str) -> None:
            text = f"{done} of {total} runs of {', '.join(wanted)}"
            talk.activity.doing(text, step="runs", done=done, total=total)

        done = compute(
            names, out, runs=runs, jobs=jobs, ask=ask, targets=targets or [], progress=show
        )
        talk.activity.doing("Writing tables and drawing", step="tables")
        for name, frame in done.frames.items():
            frame.to_csv(out / f"{name}.csv", index=False, float_format="%.10g")
        if done.agreement is not None and len(done.agreement):
            done.agreement.to_csv(out / "targets.csv", index=False, float_format="%.6g")
        command = shlex.join(["fedrelax", *sys.argv[1:]])
        (out / "summary.md").write_text(markdown(done, runs, command), encoding="utf-8")
        try:
            pictures = draw_figures(done, out, runs)
        except ImportError:
            pictures = []
            talk.note("no pictures: matplotlib is missing; pip install 'fedrelax[report]' adds it.")
        if as_json:
            talk.json(_plain(done))
        else:
            _tell(done, out, runs, bool(pictures), talk)


def _numbers(flag: str, text: str | None, whole: bool = False) -> tuple[float, ...]:
    """Read a list such as 0,0.01,0.05 of numbers of at least 0."""
    if text is None:
        return ()
    kind = "whole numbers above 0" if whole else "numbers of at least 0"
    try:
        found = tuple((int if whole else float)(part) for part in text.split(","))
    except ValueError:
        found = (-1.0,)
    if not all((1 if whole else 0) <= value < float("inf") for value in found):
        example = "2,10,50" if whole else "0,1,5"
        raise FedRelaxError(f"{flag} {text!r} is not a list of {kind}, such as {example}")
    return tuple(dict.fromkeys(found))


def _plain(done: Any) -> dict[str, Any]:
    from fedrelax.paper.reproduce import agreement_counts

    return {
        "figures": [figure.name for figure in done.figures],
        "computed_runs": done.computed,
        "elapsed_seconds": done.elapsed,
        "core_seconds": done.core_seconds,
        "targets": [
            {"figure": name, "compared": compared, "within": within, "largest_gap": gap}
            for name, compared, within, gap in agreement_counts(done)
        ],
        "statements": [vars(finding) for finding in done.findings],
    }


def _tell(done: Any, out: Path, runs: int, pictures: bool, talk: Talk) -> None:
    from rich.padding import Padding
    from rich.text import Text

    from fedrelax.paper.reproduce import agreement_counts

    colours = {"confirmed": "green", "refuted": "red"}
    talk.say(f"[bold]What the paper says, checked by {runs} runs[/bold]")
    for one in done.findings:
        verdict = (f"{one.verdict}: ", f"bold {colours.get(one.verdict, 'yellow')}")
        talk.say(Text.assemble(f"{one.figure}  ", verdict, one.statement))
        numbers = one.numbers
        if len(numbers) > MOST_LETTERS:
            numbers = numbers[:MOST_LETTERS].rpartition(";")[0] + "; ... (all in summary.md)"
        talk.say(Padding(Text(numbers, style="dim"), (0, 0, 0, 7)))
    talk.say("")
    for name, compared, within, gap in agreement_counts(done):
        unit = "of the ratio" if " DT " in name else "standard errors"
        talk.plain(f"{name}: {within} of {compared} targets hold; largest gap {gap:.2g} {unit}")
    talk.plain(
        f"{done.computed} runs computed in {done.elapsed:.0f} s "
        f"({sum(done.core_seconds.values()):.0f} s of one core for all curves)."
    )
    kinds = "CSV, PNG and SVG" if pictures else "CSV"
    talk.plain(f"See {out / 'summary.md'}; {kinds} files of each figure are next to it.")
