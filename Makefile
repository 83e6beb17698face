# Two commands do everything on a fresh machine: make demo, make test.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

DOCUMENTED := estimators graph network solvers models losses public runtime selection evaluation baselines comparison theory wiring learned cv datasets linear storage

.PHONY: help setup demo test test-fast lint format docs bench pictures clean
.DEFAULT_GOAL := help

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

setup: $(READY)  ## make the virtual environment

demo: $(READY)  ## train a mixed network on handwritten digits and show the result
	$(BIN)/fedrelax demo --out demo-result

test: $(READY)  ## lint, types and all tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest

test-fast: $(READY)  ## the tests that take seconds
	$(BIN)/pytest -m "not slow"

lint: $(READY)  ## style and types only
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY)  ## put the code into the common form
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(READY)  ## write the API reference to site/ and run every example of the documents
	$(BIN)/pytest -q tests/test_documents.py src
	$(BIN)/pdoc --output-directory site $(DOCUMENTED:%=fedrelax.%)
	@echo "open site/index.html"

bench: $(READY)  ## measure the speed and write benchmarks/RESULTS.md (about ten minutes)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check torch==2.13.0
	$(BIN)/python -m fedrelax.bench.results benchmarks/RESULTS.md

pictures: $(READY)  ## draw the pictures of the README anew (needs Chromium)
	$(BIN)/python tools/pictures.py docs/images

clean:  ## remove what was made
	rm -rf $(VENV) demo-result site .pytest_cache .mypy_cache .ruff_cache .hypothesis
