"""The live page's text: the report's own grid, colours and style, with curves that grow."""

from __future__ import annotations

import html
from importlib import resources

from fedrelax.report.writing import fill, part, policy, safe_json

FROM_REPORT = ("colours", "text", "paint", "grid", "legend")
OWN = ("curves", "live")


def live_page(unit: str = "") -> tuple[str, str]:
    """Return the page and its policy: its own scripts, no styles or pictures from elsewhere, and
    no connection but to where it came from.
    """
    scripts = {
        "theme": part("theme.js"),
        "script": "\n".join(
            [*(part(f"{name}.js") for name in FROM_REPORT), *(_own(f"{name}.js") for name in OWN)]
        ),
    }
    scripts = {name: text.replace("</script", "<\\/script") for name, text in scripts.items()}
    values = {
        "css": part("page.css") + _own("live.css"),
        "labels": safe_json(labels(unit)),
        "title": html.escape("fedrelax, live"),
        **scripts,
    }
    rules = f"{policy(scripts.values())}; connect-src 'self'; frame-ancestors 'none'"
    return fill(_own("live.html"), values), rules


def labels(unit: str) -> dict[str, str]:
    """Return the label of every quantity.

    >>> labels("log loss, nats")["validation"]
    'validation loss (log loss, nats)'
    """
    units = f" ({unit})" if unit else ""
    return {
        "validation": f"validation loss{units}",
        "loss": f"mean loss on own rows{units}",
        "disagreement": "disagreement with neighbours: weight x discrepancy",
        "local_loss": f"mean loss on own rows{units}",
        "gtv": "GTV: weight x discrepancy over all edges",
        "objective": "objective, sum over nodes",
        "validation_loss": f"validation loss{units}",
        "rows": "training rows",
        "weight": "edge weight (no unit)",
    }


def _own(name: str) -> str:
    return resources.files("fedrelax.live").joinpath("page", name).read_text(encoding="utf-8")
