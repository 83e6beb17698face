"""The documentation builds without a warning, needs no network, and no link in it leads nowhere."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests import browser

ROOT = Path(__file__).resolve().parents[1]
NEEDED = ("mkdocs", "material", "mkdocstrings", "mkdocstrings_handlers.python")
LOADS = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}
"""The elements that make a browser fetch something, and where they say what."""
SEARCH = "document.querySelector('[data-md-component=search-query]')"


def is_missing(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is None
    except ModuleNotFoundError:
        return True


class Links(HTMLParser):
    """What a page loads, where its links lead, and the places in it that links can name."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.leads: list[str] = []
        self.places: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.places |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.leads.append(given["href"])
        elif tag in LOADS and LOADS[tag] in given:
            self.loads.append(given[LOADS[tag]])


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    missing = [name for name in NEEDED if is_missing(name)]
    if missing:
        pytest.skip(f"the site needs {', '.join(missing)}: pip install 'fedrelax[docs]'")
    directory = tmp_path_factory.mktemp("site")
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(directory)]
    done = subprocess.run(words, cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
                          capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return directory


@pytest.fixture(scope="module")
def pages(site) -> dict[Path, Links]:
    return {path: Links(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}


@pytest.mark.slow
def test_every_document_is_a_page(site, pages):
    written = {path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")}
    built = {path.relative_to(site) for path in pages}
    assert {path.with_suffix(".html") for path in written} <= built


def test_no_page_loads_anything_from_the_network(site, pages):
    for path, links in pages.items():
        outside = [url for url in links.loads if urlsplit(url).scheme or url.startswith("//")]
        assert outside == [], path.relative_to(site)
    for style in site.rglob("*.css"):
        assert "url(http" not in style.read_text(encoding="utf-8").replace("'", "").replace('"', "")


def test_every_internal_link_leads_somewhere(site, pages):
    for path, links in pages.items():
        if path.name == "404.html":  # served in place of any page, so its links start at the root
            continue
        for url in [*links.leads, *links.loads]:
            target = urlsplit(url)
            if target.scheme or url in ("", "."):
                continue
            file = (path.parent / unquote(target.path)).resolve() if target.path else path
            assert file.exists(), f"{path.relative_to(site)} links to {url}"
            if target.fragment and file in pages:
                assert unquote(target.fragment) in pages[file].places, f"{path.name}: {url}"


def test_docstrings_become_pages(site):
    text = (site / "api" / "estimators.html").read_text(encoding="utf-8")
    assert "<strong>Parameters</strong>" in text and "----------" not in text
    assert "<code>public_rows</code>: how many public rows to draw." in text
    assert "<td>single values of single columns" in (site / "api" / "public.html").read_text()


def test_search_works_from_a_disk_and_asks_nobody(site):
    program = browser.find_program()
    if program is None:
        pytest.skip("needs a browser: no Chromium was found")
    with browser.running(program) as running:
        page = browser.Page(running)
        page.open(site / "index.html")
        page.js(f"{SEARCH}.focus()")
        page.write("rewire")
        # The page may still have been starting: a key is pressed again until it listens.
        pressed = f"{SEARCH}.dispatchEvent(new Event('keyup'))"
        found = "document.querySelectorAll('.md-search-result__link').length > 0"
        page.wait(f"({pressed}, {found})")
        found = page.js("document.querySelector('.md-search-result__link').href")
        assert found.startswith(site.as_uri())
        assert [
            url for url in page.requests if not url.startswith(("file:", "data:", "about:"))
        ] == []
