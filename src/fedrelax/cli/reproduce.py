"""``fedrelax reproduce``: compute the paper's figures again."""

from __future__ import annotations

import math
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

import typer

from fedrelax.cli.config import command
from fedrelax.cli.console import Talk
from fedrelax.errors import FedRelaxError

if TYPE_CHECKING:
    from fedrelax.paper.reproduce import Reproduction

Number = TypeVar("Number", int, float)


@command
def reproduce(
    talk: Talk,
    figure: list[str],
    *,
    out: Path,
    runs: Annotated[int, typer.Option(min=1)] = 5,
    features: str | None = None,
    noise: str | None = None,
    alpha: str | None = None,
    first_exchange: Literal["models", "zeros"] = "models",
    jobs: int = 1,
) -> None:
    """Reproduce the paper's experiments: tables, pictures, and which of its statements hold.

    fig1: clustered nodes, linear models (a: d/m, b: noise, c: benchmark against other methods);
    fig2: the same with decision trees; fig3, fig4: nodes that mix distributions, linear models and
    trees; fig5: variation within a cluster and its bound (a: noise, b: connectivity).
    The linear figures take a minute or two together, a tree figure minutes to hours (d = 50).

    [bold]Example:[/bold] fedrelax reproduce fig1a fig1c --runs 20 --jobs 2 --out paper

    figure : fig1a, fig1b, fig1c, fig2a, fig2b, fig3, fig4, fig5a, fig5b or all.
    out : Directory for tables and pictures; finished runs in it are reused.
    runs : Repetitions with new data.
    features : Values of d for the panels over d/m, e.g. 2,10,50 (m = 10). Default: the paper's.
    noise : Values of sigma for the panels over noise, e.g. 0,1,5. Default: the paper's.
    alpha : Values of alpha, e.g. 0,0.01,0.05. Default: the paper's.
    first_exchange : What neighbours hear before round 1: models (as the paper says) or zeros (as the
        authors' code does).
    jobs : Workers; -1 for all cores. The result does not change.
    """
    from fedrelax.cli.interruption import start_workers
    from fedrelax.paper.catalog import Choice, figures
    from fedrelax.paper.reproduce import draw_figures, markdown
    from fedrelax.paper.reproduce import reproduce as compute
    from fedrelax.runtime.workers import check_jobs

    check_jobs(jobs)
    ask = Choice(
        features=_numbers("--features", features, int),
        noise=_numbers("--noise", noise, float),
        alpha=_numbers("--alpha", alpha, float),
        first_exchange=first_exchange,
    )
    wanted = [one.name for one in figures(figure, ask)]
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FedRelaxError(
            f"--out {out} cannot be written ({error.strerror or error}); choose another directory"
        ) from error
    talk.activity.doing(f"Running {', '.join(wanted)}")
    start_workers(jobs)

    def show(done: int, total: int, what: str) -> None:
        text = f"{done} of {total} runs of {', '.join(wanted)}"
        talk.activity.doing(text, done=done, total=total)

    done = compute(figure, out, runs=runs, jobs=jobs, ask=ask, progress=show)
    talk.activity.doing("Writing tables and drawing")
    for name, frame in done.frames.items():
        frame.to_csv(out / f"{name}.csv", index=False, float_format="%.10g")
    command = shlex.join(["fedrelax", *sys.argv[1:]])
    (out / "summary.md").write_text(markdown(done, runs, command), encoding="utf-8")
    kinds = "CSV, PNG and SVG"
    try:
        draw_figures(done, out, runs)
    except ImportError:
        kinds = "CSV"
        talk.note("no pictures: matplotlib is missing; pip install 'fedrelax[report]' adds it.")
    _tell(done, runs, talk)
    talk.plain(f"See {out / 'summary.md'}; {kinds} files of each figure are next to it.")


def _numbers(flag: str, text: str | None, kind: type[Number]) -> tuple[Number, ...] | None:
    """Read a list such as 0,0.01,0.05: whole numbers above 0, or numbers of at least 0."""
    if text is None:
        return None
    least, words = (1, "whole numbers above 0, such as 2,10,50")
    if kind is float:
        least, words = (0, "numbers of at least 0, such as 0,1,5")
    try:
        numbers = tuple(dict.fromkeys(kind(part) for part in text.split(",")))
        if all(least <= number < math.inf for number in numbers):
            return numbers
    except ValueError:
        pass
    raise FedRelaxError(f"{flag} {text!r} is not a list of {words}")


def _tell(done: Reproduction, runs: int, talk: Talk) -> None:
    from rich.padding import Padding
    from rich.text import Text

    colours = {"confirmed": "green", "refuted": "red"}
    talk.say(f"[bold]What the paper says, checked by {runs} runs[/bold]")
    for one in done.findings:
        verdict = (f"{one.verdict}: ", f"bold {colours.get(one.verdict, 'yellow')}")
        talk.say(Text.assemble(f"{one.figure}  ", verdict, one.statement))
        talk.say(Padding(Text(one.numbers, style="dim"), (0, 0, 0, 7)))
    talk.say("")
    talk.plain(f"{done.computed} runs computed in {done.elapsed:.0f} s.")
