"""The report in a real browser: it works offline, asks for nothing, and runs no text of a user."""

from __future__ import annotations

import time

import numpy as np
import pytest

from fedrelax import Graph
from fedrelax.evaluation import MEASURES, Evaluation
from fedrelax.report import write_report
from fedrelax.storage import load_result, read_result, save_result

from .conftest import HOSTILE, save_network

pytest.importorskip("plotly", reason="needs plotly (the extra report)")

NAMES = (
    "[...document.querySelectorAll('#node-table td.name:first-child')].map((c) => c.textContent)"
)
GAINS = "[...document.querySelectorAll('#node-table td:last-child')].map((c) => c.textContent)"


def test_it_opens_from_a_file_without_a_complaint_and_asks_for_nothing_else(small, opened):
    file = write_report(small)
    page = opened(file)
    page.wait("document.querySelectorAll('.js-plotly-plot').length >= 5")
    assert page.complaints == []
    asked = [address for address in page.requests if not address.startswith("data:")]
    assert asked == [file.absolute().as_uri()]


def test_no_request_is_allowed_even_if_something_tries(small, opened):
    page = opened(write_report(small))
    answer = "fetch('http://127.0.0.1:9/x').then(() => 'sent', () => 'refused')"
    assert page.js(answer) == "refused"
    page.js("document.body.append(Object.assign(new Image(), {src: 'http://127.0.0.1:9/x.png'}))")
    assert any("Content Security Policy" in text for text in page.complaints)


def test_an_injected_script_does_not_run(small, opened):
    page = opened(write_report(small))
    page.js(
        "document.body.append(Object.assign(document.createElement('script'),"
        " {textContent: 'window.harmed = 1'}))"
    )
    page.js("document.body.insertAdjacentHTML('beforeend', '<svg onload=\"window.harmed = 2\">')")
    assert page.js("window.harmed") is None


def test_headers_sort_both_ways_and_say_so(small, opened):
    page = opened(write_report(small))
    header = "document.querySelector('#node-table th')"
    page.js(f"{header}.querySelector('button').click()")
    names = page.js(NAMES)
    assert names == sorted(names) and len(names) == 12
    assert page.js(f"{header}.getAttribute('aria-sort')") == "ascending"
    page.js(f"{header}.querySelector('button').click()")
    assert page.js(NAMES) == names[::-1]
    assert page.js(f"{header}.getAttribute('aria-sort')") == "descending"


def test_the_largest_gain_comes_first(small, opened):
    page = opened(write_report(small))
    shown = [float(text.replace("\N{MINUS SIGN}", "-").split()[0]) for text in page.js(GAINS)]
    assert shown == sorted(shown, reverse=True)


def test_search_leaves_what_fits(small, opened):
    page = opened(write_report(small))
    page.js("document.getElementById('node-search').focus()")
    page.write("SITE 07")
    assert page.js(NAMES) == ["site 07"]
    assert page.js("document.getElementById('node-count').textContent") == "1 of 12 nodes"


PIXELS = """(() => {
  const canvas = document.getElementById("grid-canvas");
  const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  let drawn = 0;
  for (let k = 3; k < data.length; k += 4) drawn += data[k] > 0;
  return drawn;
})()"""


def test_edges_can_be_hidden_and_dropped_ones_shown(small, opened):
    page = opened(write_report(small))
    kept = page.js(PIXELS)
    page.js("document.getElementById('show-dropped').click()")
    assert page.js(PIXELS) > kept
    page.js("document.getElementById('show-dropped').click()")
    assert page.js(PIXELS) == kept
    page.js("document.getElementById('show-kept').click()")
    assert page.js(PIXELS) < kept


def place_of(page, node: int) -> tuple[float, float]:
    """Scroll the grid into view and return where a node is in the window."""
    page.js("document.documentElement.style.scrollBehavior = 'auto'")
    page.js("document.getElementById('grid-frame').scrollIntoView({block: 'center'})")
    x, y = page.js(
        f"(() => {{ const box = document.getElementById('grid-canvas').getBoundingClientRect();"
        f" const [x, y] = page.grid.positionOf({node}); return [box.left + x, box.top + y]; }})()"
    )
    return x, y


CARD = "document.querySelector('#card h3').textContent"


def test_a_click_on_a_node_opens_its_card(small, opened):
    page = opened(write_report(small))
    page.click(*place_of(page, 4))
    page.wait(f"{CARD} === 'site 04'")
    text = page.js("document.getElementById('card').innerText")
    for part in ("6 training rows", "6 test rows", "alone", "pooled", "together", "Neighbours"):
        assert part in text
    page.wait("document.querySelectorAll('#card .js-plotly-plot').length === 2")
    page.js("document.querySelector('#card td button').click()")
    page.wait(f"{CARD} !== 'site 04'")
    assert page.complaints == []


def test_pointing_shows_a_tip_and_keys_work_the_grid(small, opened):
    page = opened(write_report(small))
    x, y = place_of(page, 2)
    page.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
    page.wait("!document.getElementById('tip').hidden")
    assert page.js("document.getElementById('tip').textContent").startswith("site 02\n")
    before = page.js("page.grid.positionOf(2)")
    page.js("document.getElementById('grid-canvas').focus()")
    page.press("ArrowRight")
    assert page.js("page.grid.positionOf(2)")[0] == pytest.approx(before[0] - 60)
    page.call("Input.dispatchKeyEvent", type="keyDown", key="0")
    assert page.js("page.grid.positionOf(2)") == pytest.approx(before)


def test_a_node_is_found_by_name_from_the_keyboard(small, opened):
    page = opened(write_report(small))
    page.js("document.getElementById('grid-search').focus()")
    page.write("site 09")
    page.press("Enter")
    page.wait(f"{CARD} === 'site 09'")


@pytest.mark.parametrize("dark", [False, True])
def test_the_system_and_the_button_choose_the_colours(small, opened, dark):
    page = opened(write_report(small), dark)
    paper = "getComputedStyle(document.body).backgroundColor"
    first = page.js(paper)
    brightness = sum(int(part) for part in first[4:-1].split(","))
    assert brightness < 200 if dark else brightness > 600
    page.js("document.getElementById('theme').click()")
    assert page.js(paper) != first
    page.js("document.getElementById('theme').click()")
    assert page.js(paper) == first


@pytest.mark.parametrize("width", [420, 1400])
def test_nothing_is_wider_than_the_window(small, opened, width):
    page = opened(write_report(small))
    page.size(width, 900)
    page.wait(f"document.documentElement.scrollWidth <= {width}")


def test_it_prints_in_light_colours_and_goes_back(small, opened, tmp_path):
    page = opened(write_report(small), dark=True)
    theme = "document.documentElement.dataset.theme"
    page.js(f"window.addEventListener('beforeprint', () => {{ window.paper = {theme}; }})")
    page.pdf(tmp_path / "page.pdf")
    assert (tmp_path / "page.pdf").read_bytes().startswith(b"%PDF")
    assert page.js("window.paper") == "light"
    assert page.js(theme) == "dark"


def test_names_of_nodes_are_text_wherever_they_stand(hostile, opened):
    page = opened(write_report(hostile))
    page.wait("document.querySelectorAll('.js-plotly-plot').length >= 4")
    for node, name in enumerate(HOSTILE):
        page.js(f"goToNode({node}, false)")
        assert page.js(CARD) == name
    assert set(page.js(NAMES)) == set(HOSTILE)
    x, y = place_of(page, 0)
    page.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
    assert page.js("window.harmed") is None
    assert page.js("document.querySelectorAll('main script, main img').length") == 0
    assert page.js("document.querySelectorAll('#answers b, #gains-charts a').length") == 0
    assert page.complaints == []


@pytest.mark.slow
def test_two_thousand_nodes_and_twenty_thousand_edges(opened, tmp_path, record_property):
    rng = np.random.default_rng(0)
    places = {f"site {k}": tuple(p) for k, p in enumerate(rng.uniform(0, 10, (2000, 2)))}
    graph = Graph.from_coordinates(places, k=18)
    assert graph.n_edges >= 20_000
    directory = save_network(tmp_path / "out", graph, rows=4)
    start = time.perf_counter()
    file = write_report(directory)
    numbers = {"seconds to make": time.perf_counter() - start}
    numbers["MB"] = file.stat().st_size / 1e6
    assert numbers["MB"] < 12
    page = opened(file)
    paint = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
    page.wait("performance.getEntriesByName('first-contentful-paint').length > 0")
    numbers["ms to first paint"] = page.js(paint)
    loaded = "performance.getEntriesByType('navigation')[0].loadEventEnd"
    numbers["ms until all charts are drawn"] = page.js(loaded)
    page.wait("document.querySelectorAll('#gains-charts .main-svg').length > 1")
    assert page.js(
        "[...document.querySelectorAll('.chart-box .main-svg')].every((drawing) =>"
        " drawing.getBoundingClientRect().right <="
        " drawing.closest('.chart-box').getBoundingClientRect().right + 1)"
    ), "a chart reaches into its neighbour"
    x, y = place_of(page, 1234)
    page.js(
        "window.took = null; addEventListener('pointerdown', () => { const start = performance.now();"
        " requestAnimationFrame(function look() {"
        f" if ({CARD} === 'The network') requestAnimationFrame(look);"
        " else window.took = performance.now() - start; }); }, true)"
    )
    page.click(x, y)
    page.wait(f"{CARD}.startsWith('site ')")
    page.wait("window.took !== null")
    numbers["ms from click to card"] = page.js("window.took")
    page.js(
        "const start = performance.now(); page.grid.draw(); window.drawn = performance.now() - start"
    )
    numbers["ms to draw all edges"] = page.js("window.drawn")
    for name, value in numbers.items():
        record_property(name, value)
        print(f"{name}: {value:.1f}")
    assert page.complaints == []


@pytest.mark.slow
def test_a_page_of_very_many_edges_shows_the_strongest_of_each_node(opened, tmp_path):
    labels = [f"s{k}" for k in range(300)]
    directory = save_network(tmp_path / "out", Graph.complete(labels), rows=4)
    page = opened(write_report(directory))
    drawn = page.js("page.data.edges.source.length")
    assert drawn <= 40_000 < page.js("page.data.edges.total") == 300 * 299 / 2
    assert "strongest" in page.js("document.getElementById('grid-lead').textContent")


# Narrow screens

OUTSIDE = """[...document.querySelectorAll(
  '.top a:not(.skip), .top button, h1, .tiles dd, #intervals-chart text, #gains-charts text, '
  + '#node-table th, #node-table td, #choice-table th, #choice-table td')]
  .map((one) => [one, one.getBoundingClientRect()])
  .filter(([_, box]) => box.width && (box.left < 0 || box.right > document.documentElement.clientWidth))
  .map(([one]) => one.tagName + ' ' + one.textContent)"""


@pytest.mark.slow
@pytest.mark.parametrize("which", ["small", "hostile", "federated"])
def test_a_narrow_screen_shows_everything_without_scrolling_sideways(which, request, opened):
    page = opened(write_report(request.getfixturevalue(which)))
    page.size(420, 900)
    page.js("new Promise((done) => setTimeout(done, 300))")  # charts follow the new width
    assert page.js("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    assert page.js(OUTSIDE) == []
    assert page.js("document.querySelectorAll('#node-table td.of-together').length") > 0
    words = "[...document.querySelectorAll('#intervals-chart text')].map((t) => t.textContent)"
    names = {"against each node alone", "against one pooled model"} if which == "small" else set()
    assert names <= set(page.js(words))


def test_errors_of_a_federation_have_three_digits(federated, opened):
    page = opened(write_report(federated))
    cells = "[...document.querySelectorAll('#node-table td.of-together')].map((c) => c.textContent)"
    shown, errors = page.js(cells), read_result(federated).nodes["together"]
    assert sorted(map(float, shown)) == pytest.approx(sorted(errors), rel=0.02)


def test_an_error_that_grew_from_nothing_is_the_largest_loss(small, tmp_path, opened):
    fitted, saved = load_result(small), read_result(small)
    nodes = saved.nodes.drop(columns=["gain"])
    nodes.loc[nodes["node"] == "site 03", "alone"] = 0.0
    found = Evaluation.of(MEASURES["RMSE"], nodes, saved.metrics["errors"])
    save_result(tmp_path / "out", fitted, evaluation=found)
    page = opened(write_report(tmp_path / "out"))
    assert page.js(NAMES)[-1] == "site 03" and page.js(GAINS)[-1] == "from 0"
    page.wait("document.querySelectorAll('#gains-charts .ytick').length === 12")
    assert page.complaints == []
