"""Draws the live page of a federation with one site down: ``python tools/federation_picture.py OUT``.

A hub and five sites run as processes of Flower on this machine; one site is killed after the second round.
It takes about three minutes.
"""

from __future__ import annotations

import re
import sys
import tempfile
import time
from pathlib import Path

from PIL import Image

from fedrelax.federation.state import read_status
from fedrelax.federation.trial import Deployment, made_up, prepare

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from browser import Page, find_program, running

SITES, DOWN, LIMIT = 5, "site-3", 600.0
HUB = {"alpha": 0.3, "rounds": 8, "tol": 0.0, "live": True, "wait": 30.0, "staleness": 2}


def main(out: Path) -> None:
    """Run the federation, kill a site, and save the picture."""
    program = find_program()
    if program is None:
        sys.exit("Chromium is needed to draw the picture; apt-get install chromium")
    with tempfile.TemporaryDirectory() as place, running(program) as browser:
        home = Path(place, "federation")
        tables = made_up(SITES)
        prepare(home, tables, "y", models=["ridge", "forest", "tree"], hub=HUB)
        with Deployment(home) as machines:
            machines.start_hub()
            for name in tables:
                machines.register(name)
                machines.start_site(name)
            machines.submit()
            reach(home, 2)
            machines.kill(DOWN)
            reach(home, 4)
            said = read_status(home / "hub" / "state")
            address = None if said is None else re.search(r"http://\S+", said.live)
            assert address is not None
            page = Page(browser)
            page.size(1240, 900)
            page.dark(False)
            page.visit(address[0].rstrip("."))
            page.wait(f"document.body.innerText.includes('Missing: {DOWN}')")
            page.js("new Promise((done) => setTimeout(done, 1500))")
            page.screenshot(out / "federation.png")
    with Image.open(out / "federation.png") as seen:
        seen.convert("RGB").quantize(96).save(out / "federation.png", optimize=True)
    print(out / "federation.png")


def reach(home: Path, round: int) -> None:
    """Wait until the hub has finished a round."""
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        said = read_status(home / "hub" / "state")
        if said is not None and said.round >= round:
            return
        time.sleep(0.5)
    sys.exit(f"round {round} was not reached within {LIMIT:g} seconds")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
