"""What ``fit --live`` adds: a page that shows the run, and then where the result is."""

from __future__ import annotations

from pathlib import Path

from fedrelax.cli.console import Talk
from fedrelax.cli.inputs import Inputs
from fedrelax.errors import counted
from fedrelax.extras import need
from fedrelax.live import LiveView
from fedrelax.models.names import short_name
from fedrelax.report.data.axis_labels import USUAL, loss_unit
from fedrelax.report.data.rounding import short
from fedrelax.report.page import REPORT
from fedrelax.solvers import Result
from fedrelax.splits import group_rows


def check_live() -> None:
    """Refuse, before any work starts, if packages of the extra ``live`` are missing."""
    for module in ("starlette", "uvicorn"):
        need(module, "live")


def live_view(inputs: Inputs, target: str, talk: Talk) -> LiveView:
    """Return the view of a run; its address goes to stderr, as all notes do."""
    nodes = inputs.nodes[inputs.train]
    rows = {label: len(index) for label, index in group_rows(nodes, len(nodes)).items()}
    return LiveView(
        inputs.graph,
        rows=rows,
        models={label: short_name(name) for label, name in inputs.model_names.items()},
        unit=loss_unit(USUAL[inputs.task], short(target, 28)),
        say=lambda text: talk.err.print(text, markup=False, soft_wrap=True),
    )


def tell_end(view: LiveView, out: Path, result: Result) -> None:
    """Say on the page where the result is saved, and stop its server."""
    report = out / REPORT
    where = f"report at {report.absolute()}" if report.exists() else f"saved in {out.absolute()}"
    view.close(f"Finished after {counted(result.n_rounds, 'round')} ({result.reason}): {where}")
