"""The live page: the report's own grid, colours and style, with curves that grow."""

from __future__ import annotations

from importlib import resources

from fedrelax.report import palette
from fedrelax.report.data.axis_labels import axis_labels
from fedrelax.report.page.assembly import assemble, part, safe_json

FROM_REPORT = ("colours", "text", "paint", "grid", "legend")
OWN = ("curves", "live")


def live_page(unit: str = "") -> tuple[str, str]:
    """Return the page and its policy: only its own scripts, no styles or pictures from elsewhere, and
    no connection except to where it came from.
    """
    parts = [*(part(f"{name}.js") for name in FROM_REPORT), *(_own(f"{name}.js") for name in OWN)]
    scripts = {"theme": part("theme.js"), "script": palette.script() + "\n".join(parts)}
    values = {"labels": safe_json(axis_labels(unit)), "title": "fedrelax, live"}
    page, rules = assemble(_own("live.html"), part("page.css") + _own("live.css"), scripts, values)
    return page, f"{rules}; connect-src 'self'; frame-ancestors 'none'"


def _own(name: str) -> str:
    return resources.files(__package__).joinpath("static", name).read_text(encoding="utf-8")
