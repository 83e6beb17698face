"""What a notebook shows: true numbers, no scripts, and names that stay text."""

from __future__ import annotations

from html.parser import HTMLParser

import numpy as np
from sklearn import config_context
from sklearn.linear_model import Ridge

from fedrelax import FedRelaxRegressor

from .conftest import HOSTILE, ring

ALLOWED = {
    "div", "style", "p", "table", "thead", "tbody", "tr", "th", "td", "details", "summary", "pre",
}  # fmt: skip


class Reader(HTMLParser):
    """Collects tags, attributes and texts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags, self.open, self.attributes, self.text = [], [], [], ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.open.append(tag)
        self.attributes += attrs

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def checked(text: str) -> Reader:
    """Read a fragment and check that it is whole and can do nothing."""
    found = Reader(text)
    assert found.open == [] and set(found.tags) <= ALLOWED
    assert not [name for name, _ in found.attributes if name.startswith("on") or name == "href"]
    return found


def fitted(labels, **settings):
    rng = np.random.default_rng(0)
    n = len(labels)
    X = rng.normal(size=(n * 10, 2))
    nodes = np.empty(n * 10, dtype=object)
    nodes[:] = [label for label in labels for _ in range(10)]
    y = X @ [1.0, -1.0] + 0.5 * rng.normal(size=len(X))
    chosen = {"alpha": 0.3, "rounds": 3, **settings}
    return FedRelaxRegressor(Ridge(), ring(list(labels)), **chosen).fit(X, y, nodes=nodes)


def test_hostile_names_stay_text():
    model = fitted(HOSTILE, validation_share=0.2)
    for text in (model._repr_mimebundle_()["text/html"], model.result_._repr_html_()):
        found = checked(text)
        assert "<script>window.harmed = 1</script>" in found.text


def test_a_browser_runs_nothing_of_it(tmp_path, browser):
    from tests.browser import Page

    file = tmp_path / "page.html"
    text = fitted(HOSTILE)._repr_mimebundle_()["text/html"]
    file.write_text(f"<!doctype html><meta charset=utf-8><body>{text}", encoding="utf-8")
    page = Page(browser)
    page.open(file)
    assert page.js("window.harmed") is None and page.complaints == []
    assert page.js("document.querySelectorAll('.fedrelax tr').length") > len(HOSTILE)
    assert page.requests == [file.as_uri()]


def test_the_summary_says_what_came_out():
    labels = [f"site {k}" for k in range(14)]
    model = fitted(labels, validation_share=0.3, wiring="rewire", rounds=12)
    found = checked(model._repr_mimebundle_()["text/html"])
    curve = model.history_["validation_loss"]
    result = model.result_
    assert f"the validation loss is {curve[result.n_rounds]:.3g}" in found.text
    assert f"{result.kept.n_edges} of {result.graph.n_edges} edges kept" in found.text
    assert "alpha 0.3, wiring rewire" in found.text and result.reason in found.text
    assert "site 9" in found.text and "and 4 more" in found.text
    assert found.tags.count("tr") == 11
    assert "alpha" not in checked(result._repr_html_()).text  # a result does not know it


def test_before_the_fit_and_as_text_it_is_scikit_learns():
    assert 'class="fedrelax"' not in FedRelaxRegressor(alpha=0.1)._repr_mimebundle_()["text/html"]
    model = fitted(["a", "b", "c", "d", "e"])
    with config_context(display="text"):
        assert set(model._repr_mimebundle_()) == {"text/plain"}


def test_what_was_chosen_is_said():
    rng = np.random.default_rng(0)
    X, nodes = rng.normal(size=(40, 2)), np.repeat(list("abcd"), 10)
    model = FedRelaxRegressor(Ridge(), alpha=[0, 0.1], rounds=2)
    model.fit(X, X[:, 0], nodes=nodes)
    assert "(chosen on training rows)" in checked(model._repr_mimebundle_()["text/html"]).text
