# Two commands do everything on a fresh machine: make demo, make test.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
ALL := $(VENV)/.ready-all
SITE := $(VENV)/.ready-docs
SPREAD := $(VENV)/.ready-spread
FEDERATION ?= federation
THOROUGH ?= thorough
HERE := not thorough and not federation and not cluster and not wheel and not figures
CLUSTER ?= cluster
CORE := .venv-core
PIP := -m pip install --quiet --disable-pip-version-check
# One process per core, one file at a time, those with slow tests first; so each computes with one thread.
WORKERS := -n auto --dist loadfile --no-loadscope-reorder
PYTEST := OMP_NUM_THREADS=1 $(BIN)/pytest $(WORKERS)

# Without any extra: what models, storage, estimators and the command line do when a framework is missing.
# The other layers never import one, and `make test` has run them; so has it the slow tests.
CORE_TESTS := tests/models tests/storage/test_formats.py tests/storage/test_results.py \
	tests/test_estimators.py tests/test_frameworks.py tests/test_layers.py tests/test_documents.py tests/cli/test_fit.py

.PHONY: help setup demo test test-core test-fast test-thorough test-figures test-wheel test-federation test-clusters lint format docs bench pictures pages wheel clean
.DEFAULT_GOAL := help

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python $(PIP) --editable '.[dev]'
	@touch $@

# PyTorch comes first and by itself, in a version that is known to work; the rest then finds it there.
$(ALL): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python $(PIP) torch==2.13.0
	$(BIN)/python $(PIP) --editable '.[dev,all,docs,data,compare]'
	@touch $(READY) $@

$(SITE): $(READY)
	$(BIN)/python $(PIP) --editable '.[dev,docs,data]'
	@touch $@

$(CORE)/.ready: pyproject.toml
	$(PYTHON) -m venv $(CORE)
	$(CORE)/bin/python $(PIP) --editable '.[dev]'
	@touch $@

setup: $(READY)  ## make the virtual environment

demo: $(READY)  ## train a mixed network on handwritten digits and show the result
	$(BIN)/fedrelax demo --out demo-result

test: $(ALL)  ## lint, types and tests, with every framework
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(PYTEST) -m "$(HERE)"

# Flower's simulations name the version of Ray that they need, so both come together.
$(SPREAD): $(ALL)
	$(BIN)/python $(PIP) --editable '.[dask,ray]' 'flwr[simulation]>=1.41,<2'
	@touch $@

test-federation: $(SPREAD)  ## hub and sites as processes of Flower, with TLS (minutes)
	OMP_NUM_THREADS=1 $(BIN)/pytest -m "$(FEDERATION)" tests/federation

test-clusters: $(SPREAD)  ## simulations on local clusters of Dask and Ray (minutes)
	OMP_NUM_THREADS=1 $(BIN)/pytest -m "$(CLUSTER)" tests/runtime

test-core: $(CORE)/.ready  ## tests in an environment without PyTorch, Keras and the other extras
	OMP_NUM_THREADS=1 $(CORE)/bin/pytest $(WORKERS) -m "not slow and $(HERE)" $(CORE_TESTS)

test-fast: $(READY)  ## the tests that take seconds
	$(PYTEST) -m "not slow and $(HERE)"

test-thorough: $(ALL)  ## every framework's files, pages in a browser, federations against one process (minutes)
	$(PYTEST) -m "$(THOROUGH) and not federation" tests

test-figures: $(ALL)  ## the paper's figures against known values, over many draws (minutes)
	$(PYTEST) -m figures tests/reproduction tests/models

test-wheel: $(READY)  ## build the wheel and try it in an empty environment (a minute or two)
	$(BIN)/pytest -m wheel tests/test_wheel.py

lint: $(READY)  ## style and types only
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY)  ## put the code into the common form
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(SITE)  ## build the documentation into site/ and run every example in it
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	$(BIN)/pytest -q tests/test_documents.py tests/test_site.py
	@echo "open site/index.html"

bench: $(READY)  ## measure the speed and write benchmarks/RESULTS.md (about ten minutes)
	$(BIN)/python $(PIP) torch==2.13.0
	$(BIN)/python -m benchmarks.results benchmarks/RESULTS.md

pictures: $(READY)  ## draw the pictures of the README anew (needs Chromium)
	$(BIN)/python tools/pictures.py docs/images

pages: $(READY)  ## write what comes from the code: command-line reference, drawings, notebooks
	$(BIN)/python tools/reference.py docs/cli.md
	$(BIN)/python tools/drawings.py docs/images
	$(BIN)/python tools/notebooks.py docs/notebooks/*.ipynb

wheel: $(READY)  ## build a wheel into dist/
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .

clean:  ## remove what was made
	rm -rf $(VENV) $(CORE) demo-result site .pytest_cache .mypy_cache .ruff_cache .hypothesis
