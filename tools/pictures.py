"""Draws the README's pictures of the report: ``python tools/pictures.py docs/images``.

Two results are computed for this: the demo, and the paper's benchmark of five hidden clusters, rewired.
Their reports are opened in Chromium. It takes about two minutes.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image

from fedrelax.cli.app import app
from fedrelax.datasets import clustered

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from browser import Page, find_program, running

WIDTH, COLOURS = 1240, 96


def main(out: Path) -> None:
    """Make both results, and copy or draw the three pictures."""
    program = find_program()
    if program is None:
        sys.exit("Chromium is needed to draw the pictures; apt-get install chromium")
    with tempfile.TemporaryDirectory() as place, running(program) as browser:
        demo, benchmark = Path(place, "demo"), Path(place, "benchmark")
        app(["demo", "--out", str(demo)], standalone_mode=False)
        fit_benchmark(Path(place), benchmark)
        shutil.copy(demo / "result.png", out / "demo.png")
        page = Page(browser)
        draw(page, demo / "report.html", out / "report.png", "answers")
        draw(page, benchmark / "report.html", out / "grid.png", "grid", GROUPS)


GROUPS = """
byId("grid-colour").value = "group";
byId("grid-colour").dispatchEvent(new Event("change"));
byId("show-dropped").click();
goToNode(0, false);
"""


def draw(page: Page, report: Path, picture: Path, section: str, script: str = "") -> None:
    """Save one section of a report as a small picture."""
    page.size(WIDTH, 1000)
    page.dark(False)
    page.open(report)
    page.js(f"{{ {script} }}")
    page.size(WIDTH, page.js("document.documentElement.scrollHeight"))
    page.js("new Promise((done) => setTimeout(done, 500))")
    box = page.js(
        f"(() => {{ const box = document.getElementById('{section}').getBoundingClientRect();"
        " return [box.left, box.top + window.scrollY, box.right, box.bottom + window.scrollY]; })()"
    )
    page.screenshot(picture)
    with Image.open(picture) as seen:
        part = seen.convert("RGB").crop(tuple(round(end) for end in box))
    part.quantize(COLOURS).save(picture, optimize=True)
    print(f"{picture}: {picture.stat().st_size / 1000:.0f} kB")


def fit_benchmark(place: Path, out: Path) -> None:
    """Write the paper's benchmark as a table and an edge list, and fit it with a rewired graph."""
    data = clustered((30,) * 5, m=10, d=50, m_val=20, random_state=0)
    X = np.concatenate([data.X, data.X_val], axis=1)
    y = np.concatenate([data.y, data.y_val], axis=1)
    n, rows, d = X.shape
    names = [f"node {k:03d}" for k in range(n)]
    table = pd.DataFrame(X.reshape(n * rows, d), columns=[f"x{k}" for k in range(d)])
    table.insert(0, "node", np.repeat(names, rows))
    table["y"] = y.ravel()
    table.to_csv(place / "benchmark.csv", index=False)
    edges = [(names[u], names[v], weight) for u, v, weight in data.graph.edges()]
    frame = pd.DataFrame(edges, columns=["source", "target", "weight"])
    frame.to_csv(place / "edges.csv", index=False)
    words = ["fit", place / "benchmark.csv", "--node", "node", "--target", "y", "--wiring", "auto",
             "--graph", f"edges:{place / 'edges.csv'}", "--test-share", "0.667", "--out", out]  # fmt: skip
    if app([str(word) for word in words], standalone_mode=False):
        sys.exit("the benchmark could not be fitted")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
