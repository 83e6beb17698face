"""The summary of a reproduction in Markdown: agreement, statements, times."""

from __future__ import annotations

from typing import Any

from fedrelax.paper.reproduce import Reproduction


def setting_text(line: Any) -> str:
    """Return the setting of one row of a table as text.

    >>> setting_text({"figure": "1a clustered d/m", "method": "fedrelax", "d": 2, "alpha": 0.01,
    ...     "sigma": 0.0, "p_in": 0.8})
    '1a clustered d/m: fedrelax, d=2, alpha=0.01, sigma=0, p_in=0.8'
    """
    parts = [f"d={line['d']}"]
    parts += [
        f"{name}={line[name]:g}" for name in ("alpha", "sigma", "p_in") if line[name] == line[name]
    ]
    return f"{line['figure']}: {line['method']}, {', '.join(parts)}"


def agreement_counts(done: Reproduction) -> list[tuple[str, int, int, float]]:
    """Return (figure, compared, within the tolerance, largest gap) for every figure that has targets."""
    table = done.agreement
    if table is None or not len(table):
        return []
    return [
        (str(name), len(part), int(part["holds"].sum()), float(part["apart"].max()))
        for name, part in table.groupby("figure", sort=True)
    ]


def markdown(done: Reproduction, runs: int, command: str) -> str:
    """Return the whole summary."""
    names = ", ".join(figure.name for figure in done.figures)
    lines = [f"# Reproduction of {names}", "", f"{runs} runs of every curve. Made by", ""]
    lines += [f"    {command}", ""]
    lines += _agreement(done) + _statements(done) + _times(done) + _values(done)
    return "\n".join(lines) + "\n"


def _agreement(done: Reproduction) -> list[str]:
    if done.agreement is None:
        return []
    counts = agreement_counts(done)
    lines = ["## Against the targets", ""]
    if not counts:
        return [*lines, "No target matches the settings of this run.", ""]
    lines += ["| figure | compared | within | largest gap |", "|---|---|---|---|"]
    units = dict(zip(done.agreement["figure"], done.agreement["unit"], strict=True))
    lines += [
        f"| {name} | {compared} | {within} | {gap:.2g} {units[name]} |"
        for name, compared, within, gap in counts
    ]
    lines += [
        "",
        "Means agree within three combined standard errors; ratios of trees within 0.05. "
        "Every comparison is in `targets.csv`; those of the last iteration:",
        "",
        "| setting | target | ours | apart | holds |",
        "|---|---|---|---|---|",
    ]
    table = done.agreement
    last = table[table["iteration"] == table.groupby("figure")["iteration"].transform("max")]
    for line in last.to_dict("records"):
        mark = "yes" if line["holds"] else "**no**"
        lines.append(
            f"| {setting_text(line)} | {line['target']:.4g} | {line['ours']:.4g} | "
            f"{line['apart']:.2g} | {mark} |"
        )
    missed = table[~table["holds"]]
    for line in missed.to_dict("records"):
        lines.append(
            f"\nNot within: {setting_text(line)}, iteration {line['iteration']}: target "
            f"{line['target']:.4g}, ours {line['ours']:.4g}."
        )
    return [*lines, ""]


def _statements(done: Reproduction) -> list[str]:
    if not done.findings:
        return []
    lines = ["## What the paper says", "", "| figure | statement | verdict | numbers |"]
    lines += ["|---|---|---|---|"]
    lines += [
        f"| {one.figure} | {one.statement} | **{one.verdict}** | {one.numbers} |"
        for one in done.findings
    ]
    lines += [
        "",
        "A comparison is called clear at two standard errors of the paired difference; `~` marks "
        "one that is not. Values are those of the last iteration unless another is named.",
        "",
    ]
    return lines


def _times(done: Reproduction) -> list[str]:
    lines = ["## Times", "", "| figure | seconds of one core, all runs |", "|---|---|"]
    lines += [f"| {name} | {seconds:.0f} |" for name, seconds in done.core_seconds.items()]
    shared = " (curves that two figures share count in both)" if len(done.figures) > 1 else ""
    lines += [
        "",
        f"This command computed {done.computed} missing runs in {done.elapsed:.0f} s{shared}.",
        "",
    ]
    return lines


def _values(done: Reproduction) -> list[str]:
    lines = ["## Last iteration of every curve", ""]
    lines += ["| curve | metric | mean | standard error | relative |", "|---|---|---|---|---|"]
    for frame in done.frames.values():
        last = frame[frame["iteration"] == frame["iteration"].max()]
        for line in last.to_dict("records"):
            lines.append(
                f"| {setting_text(line)} | {line['metric']} | {line['mean']:.4g} | "
                f"{line['sem']:.2g} | {_relative(line)} |"
            )
    return [*lines, ""]


def _relative(line: Any) -> str:
    names = {
        "normalised_by_oracle": "of the oracle's",
        "normalised_by_local": "of alone",
        "bound": "is the bound",
    }
    found = [f"{line[key]:.4g} {words}" for key, words in names.items() if line[key] == line[key]]
    return ", ".join(found)
