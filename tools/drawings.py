"""Draws the two pictures of docs/what-is.md as SVG: ``python tools/drawings.py docs/images``.

They have a background of their own, so that they can be read on a light and on a dark page.
"""

from __future__ import annotations

import sys
from html import escape
from pathlib import Path

INK, SOFT, PAPER, TEAL, AMBER = "#24333a", "#5d6f77", "#ffffff", "#00796b", "#b26a00"
FONT = "font-family='system-ui, sans-serif'"
NODES = {
    "station A": (75, 115, "ridge", (0, 52)),
    "station B": (180, 55, "forest", (78, -2)),
    "station C": (190, 190, "ridge", (0, 52)),
    "station D": (365, 150, "neural net", (0, 52)),
    "station E": (475, 50, "ridge", (-80, -2)),
    "station F": (490, 190, "boosting", (0, 52)),
}
"""The position of each, its model, and the offset of its name."""
EDGES = [("A", "B"), ("A", "C"), ("B", "C"), ("C", "D"), ("D", "E"), ("D", "F"), ("E", "F")]
"""The last letters of the stations' names."""
Point = tuple[float, float]


def main(out: Path) -> None:
    """Write both pictures."""
    (out / "graph-of-models.svg").write_text(graph_of_models(), encoding="utf-8")
    (out / "one-round.svg").write_text(one_round(), encoding="utf-8")


def graph_of_models() -> str:
    """Draw nodes with rows and models of their own, and edges between those that are alike."""
    places = {name[-1]: (x, y) for name, (x, y, *_) in NODES.items()}
    parts = []
    for u, v in EDGES:
        weak = (u, v) == ("C", "D")
        parts.append(line(places[u], places[v], width=1.5 if weak else 3.5, dashed=weak))
    for name, (x, y, model, (right, down)) in NODES.items():
        parts += [
            f"<circle cx='{x}' cy='{y}' r='30' fill='{PAPER}' stroke='{TEAL}' stroke-width='3'/>",
            rows_of(x - 15, y - 13),
            text(x + right, y + down, name, weight=600),
            text(x + right, y + down + 19, model, colour=SOFT),
        ]
    title = "Six stations, each with rows and a model of its own; edges join those that are alike"
    return picture(560, 275, title, parts)


def one_round() -> str:
    """Draw what a node does in one round: predict on public rows, listen, refit."""
    parts = [
        card(12, "node i", "+ j's predictions"),
        card(382, "neighbour j", "+ i's predictions"),
        f"<rect x='205' y='85' width='150' height='90' rx='8' fill='{PAPER}' stroke='{AMBER}' "
        "stroke-width='2'/>",
        text(280, 113, "public rows", weight=600),
        text(280, 137, "inputs without", colour=SOFT),
        text(280, 157, "labels", colour=SOFT),
        arrow(377, 183, 60),
        text(280, 48, "1. j's predictions"),
        arrow(183, 377, 205),
        text(280, 230, "1. i's predictions"),
    ]
    title = (
        "One round: neighbours exchange predictions on public rows, then each refits its own model"
    )
    return picture(560, 270, title, parts)


def card(x: int, title: str, heard: str) -> str:
    """Return a node as a box: its rows, its model, and what it refits to."""
    middle = x + 83
    parts = [
        f"<rect x='{x}' y='20' width='166' height='230' rx='10' fill='{PAPER}' stroke='{TEAL}' "
        "stroke-width='3'/>",
        text(middle, 50, title, weight=600),
        rows_of(middle - 15, 66),
        text(middle, 122, "own labelled rows", colour=SOFT),
        text(middle, 143, "own model", colour=SOFT),
        text(middle, 190, "2. refit to", colour=TEAL, weight=600),
        text(middle, 211, "own rows", colour=TEAL, weight=600),
        text(middle, 232, heard, colour=TEAL, weight=600),
    ]
    return "\n".join(parts)


def rows_of(x: float, y: float) -> str:
    """Return a small table."""
    cells = [
        f"<rect x='{x + 11 * column}' y='{y + 7 * row}' width='9' height='5' "
        f"fill='{AMBER if column == 2 else TEAL}' opacity='{0.9 if column == 2 else 0.55}'/>"
        for row in range(4)
        for column in range(3)
    ]
    return "\n".join(cells)


def line(start: Point, end: Point, width: float, dashed: bool = False) -> str:
    """Return an edge."""
    (x1, y1), (x2, y2) = start, end
    dashes = " stroke-dasharray='5 5'" if dashed else ""
    return (
        f"<line x1='{x1}' y1='{y1}' x2='{x2}' y2='{y2}' stroke='{SOFT}' "
        f"stroke-width='{width}'{dashes}/>"
    )


def arrow(start: float, end: float, y: float) -> str:
    """Return a horizontal arrow."""
    back = -12 if end > start else 12
    return (
        f"<line x1='{start}' y1='{y}' x2='{end + back}' y2='{y}' stroke='{INK}' stroke-width='2'/>"
        f"<polygon points='{end},{y} {end + back},{y - 6} {end + back},{y + 6}' fill='{INK}'/>"
    )


def text(x: float, y: float, words: str, colour: str = INK, weight: int = 400) -> str:
    """Return words centred at a point."""
    return (
        f"<text x='{x:g}' y='{y:g}' text-anchor='middle' font-size='16' font-weight='{weight}' "
        f"fill='{colour}' {FONT}>{escape(words)}</text>"
    )


def picture(width: int, height: int, title: str, parts: list[str]) -> str:
    """Return a whole SVG file with a title for those who cannot see it."""
    head = (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' role='img' "
        f"width='{width}' height='{height}'>\n<title>{escape(title)}</title>\n"
        f"<rect width='{width}' height='{height}' rx='12' fill='#f3f7f7'/>"
    )
    return "\n".join([head, *parts, "</svg>\n"])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
