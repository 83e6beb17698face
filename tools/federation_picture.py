"""Draws the live page of a federation with one site down: ``python tools/federation_picture.py OUT``.

A hub and five sites run in this process; one site is silent after the second round. The run waits in its
fifth round until the picture is taken.
"""

from __future__ import annotations

import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

from PIL import Image

from fedrelax.federation.hub import Hub
from fedrelax.federation.participant import Participant
from fedrelax.federation.settings import read_hub, read_site
from fedrelax.federation.trial import WithinProcess, made_up, prepare
from fedrelax.federation.writing import FederationView

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from browser import Page, find_program, running

SITES, DOWN, LAST, SHOWN = 5, "site-3", 2, 5
HUB = {"alpha": 0.3, "rounds": 8, "tol": 0.0}


class OneDown(WithinProcess):
    """Carries no letters to one site after round ``LAST``, and waits in round ``SHOWN``."""

    def __init__(self, sites: dict[str, Participant]) -> None:
        super().__init__(sites)
        self.there, self.taken = threading.Event(), threading.Event()

    def send(self, letters: Any, wait: float, late: Any = ()) -> Any:
        """Let every site answer but the one that is down."""
        round = max(letter.head.get("round", 0) for letter in letters.values())
        if round > LAST:
            letters = {name: letter for name, letter in letters.items() if name != DOWN}
        if round == SHOWN:
            self.there.set()
            self.taken.wait()
        return super().send(letters, wait, late)


def main(out: Path) -> None:
    """Run the federation, silence a site, and save the picture."""
    program = find_program()
    if program is None:
        sys.exit("Chromium is needed to draw the picture; apt-get install chromium")
    with tempfile.TemporaryDirectory() as place, running(program) as browser:
        home = Path(place, "federation")
        tables = made_up(SITES)
        prepare(home, tables, "y", models=["ridge", "forest", "tree"], hub=HUB)
        files = {name: home / "sites" / name / "site.toml" for name in tables}
        transport = OneDown({name: Participant(read_site(path)) for name, path in files.items()})
        hub = Hub(read_hub(home / "hub" / "hub.toml"), transport)
        with FederationView(hub) as view:
            thread = threading.Thread(target=hub.run, args=([view],))
            thread.start()
            transport.there.wait()
            page = Page(browser)
            page.size(1240, 900)
            page.dark(False)
            page.visit(view.url)
            page.wait(f"document.body.innerText.includes('Missing: {DOWN}')")
            page.js("new Promise((done) => setTimeout(done, 1500))")
            page.screenshot(out / "federation.png")
            transport.taken.set()
            thread.join()
    with Image.open(out / "federation.png") as seen:
        seen.convert("RGB").quantize(96).save(out / "federation.png", optimize=True)
    print(out / "federation.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
