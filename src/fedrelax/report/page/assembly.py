"""The report: one HTML file that needs nothing else, made from a saved result.

Everything that a user named (nodes, columns, models) is text: escaped where it stands in the page, and
data where the script reads it. The page's policy allows only its own scripts, known by their hashes,
and no requests.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Iterable, Mapping
from functools import partial
from importlib import resources
from pathlib import Path

from fedrelax.errors import FedRelaxError, counted
from fedrelax.evaluation import ALONE, POOLED, TOGETHER, WAYS
from fedrelax.evaluation.evaluation import percent
from fedrelax.report import palette
from fedrelax.report.data import ReportData, report_data
from fedrelax.report.data.report_data import target_of
from fedrelax.report.data.sharing import sharing_of
from fedrelax.report.page import texts
from fedrelax.report.page.script_data import script_data
from fedrelax.storage import SavedResult, read_result
from fedrelax.storage.places import whole_file

REPORT = "report.html"
SCRIPTS = (
    "colours.js",
    "text.js",
    "table.js",
    "paint.js",
    "grid.js",
    "card.js",
    "legend.js",
    "main.js",
)
STORY_LINE = '<tr><td>{}</td><td class="name">{}</td><td class="number">{}</td></tr>'
TONES = {1: "good", 0: "", -1: "bad"}
SUBJECTS = {TOGETHER: "learning together", POOLED: "one model for all", ALONE: "staying alone"}
INTERVALS = (
    "Reduction in error by {subject}, mean over nodes with 95 % intervals; right of 0: {subject} "
    "is better"
)


def write_report(
    result: ReportData | SavedResult | str | Path,
    path: str | Path | None = None,
    overwrite: bool = True,
) -> Path:
    """Write the report of a saved result and return its path; by default, into the result's directory.

    The page is made only from what the directory holds, so that it is the same, byte for byte, whenever
    it is made. No model is loaded. Needs plotly (the extra ``report``).
    """
    source = read_result(result) if isinstance(result, str | Path) else result
    saved = source if isinstance(source, SavedResult) else source.saved
    assert saved is not None
    target = saved.directory / REPORT if path is None else Path(path)
    page = report_html(source)
    with whole_file(target, overwrite) as draft:
        draft.write_text(page, encoding="utf-8", newline="\n")
    return target


def report_html(source: ReportData | SavedResult) -> str:
    """Return the report of a saved result as the text of an HTML page."""
    data = report_data(source) if isinstance(source, SavedResult) else source
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        raise FedRelaxError(
            "the report needs plotly, which is not installed; pip install 'fedrelax[report]' brings it"
        ) from None
    scripts = {
        "theme": part("theme.js"),
        "script": palette.script() + part(*SCRIPTS),
        "plotly": str(get_plotlyjs()),
        "charts": part("charts.js"),
    }
    values = {"data": safe_json(script_data(data)), **_texts(data)}
    return assemble(part("page.html"), part("page.css"), scripts, values)[0]


def assemble(
    template: str, style: str, scripts: Mapping[str, str], values: Mapping[str, str]
) -> tuple[str, str]:
    """Return a page in the common colours, and the policy that allows only its own scripts."""
    safe = {name: text.replace("</script", "<\\/script") for name, text in scripts.items()}
    rules = policy(safe.values())
    css = palette.css() + style
    return fill(template, {"css": css, "policy": rules, **safe, **values}), rules


def fill(template: str, values: Mapping[str, str]) -> str:
    """Put values in place of {{names}}, once: what looks like a name inside a value stays.

    >>> fill("<p>{{a}}</p>", {"a": "{{a}}"})
    '<p>{{a}}</p>'
    """
    return re.sub(r"\{\{(\w+)\}\}", lambda name: values[name[1]], template)


def policy(scripts: Iterable[str]) -> str:
    """Return the content security policy: these scripts, inline styles, and nothing from elsewhere."""
    digests = (hashlib.sha256(text.encode()).digest() for text in scripts)
    hashes = " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def safe_json(value: object) -> str:
    """Return JSON that no HTML parser can mistake for a tag.

    >>> print(safe_json({"name": "</script>"}))
    {"name":"\\u003c/script\\u003e"}
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def static(package: str, *names: str) -> str:
    """Return the texts of files of a page, one after the other."""
    folder = resources.files(package) / "static"
    return "\n".join((folder / name).read_text(encoding="utf-8") for name in names)


part = partial(static, __package__)


def _texts(data: ReportData) -> dict[str, str]:
    """Return every sentence of the page, escaped."""
    evaluation, saved = data.evaluation, data.saved
    assert saved is not None
    about, told, settings = saved.about, texts.told_by_sites(saved), texts.settings_text(saved)
    title, tone, way = "Not measured", "", TOGETHER
    tiles = []
    if evaluation is not None:
        title, tone, way = evaluation.headline, TONES[evaluation.sign], evaluation.way
        show, errors = evaluation.measure.show, evaluation.errors
        tiles = [(f"{evaluation.measure.name} {way}", show(errors[way])) for way in WAYS]
        tiles.append(("gain against alone", percent(evaluation.gain)))
    tiles += [
        ("nodes", f"{len(saved.models):,}"),
        ("edges", f"{len(saved.edges):,}"),
        texts.coupling_tile(saved),
        ("rounds", f"{about['rounds']:,}"),
    ]
    helped = texts.did_it_help(evaluation)
    places = texts.where(evaluation, saved.metrics.get("clusters", []))
    if told is not None:
        title, (helped, places) = "Measured at the sites", texts.at_the_sites(told)
    again = "These settings were saved with it."
    if "data" in saved.config:
        again = (
            "With these settings in a file, fedrelax fit --config FILE --out DIR reproduces it; the same "
            "seed and versions give the same numbers."
        )
    made = str(about["made"])[:16].replace("T", " ")
    subject = f"{target_of(saved)} at {counted(len(data.models), 'node')}"
    plain = {
        "title": f"{title}: {subject} - fedrelax report",
        "eyebrow": f"fedrelax report · predicting {subject} · {made} UTC",
        "headline": title,
        "tone": tone,
        "intervals_title": INTERVALS.format(subject=SUBJECTS[way]),
        "intervals_alt": " ".join(helped[1:]),
        "nodes_lead": texts.nodes_lead(evaluation, told),
        "grid_lead": texts.grid_lead(saved),
        "rounds_lead": texts.rounds_lead(saved),
        "choice_lead": texts.choice_lead(saved),
        "again": again,
        "version": about["versions"].get("fedrelax", ""),
    }
    events = [
        (when[:16].replace("T", " "), text, "" if error is None else f"{error:.4g}")
        for when, text, error in texts.events_of(saved)
    ]
    lines = "".join(STORY_LINE.format(*map(html.escape, event)) for event in events)
    return {
        **{name: html.escape(text) for name, text in plain.items()},
        "help": _paragraphs(helped),
        "where": _paragraphs(places),
        "left": _paragraphs(texts.what_left(sharing_of(saved))),
        "tiles": "".join(f"<div>{_pairs([tile])}</div>" for tile in tiles),
        "sharing": _pairs(texts.sharing_details(saved)),
        "command": f"<pre>{html.escape(settings)}</pre>" if settings else "",
        "settings": _pairs(texts.facts(saved).items()),
        "story": fill(part("story.html"), {"lines": lines}) if events else "",
        "story_link": '<a href="#story">Story</a>' if events else "",
    }


def _paragraphs(sentences: Iterable[str]) -> str:
    return "".join(f"<p>{_escaped(text)}</p>" for text in sentences)


def _pairs(pairs: Iterable[tuple[str, str]]) -> str:
    return "".join(f"<dt>{html.escape(name)}</dt><dd>{_escaped(text)}</dd>" for name, text in pairs)


def _escaped(text: str) -> str:
    """Escape text, and keep percentages on one line."""
    return html.escape(text).replace(" %", "&nbsp;%")
