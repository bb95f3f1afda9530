# Every target sets up what it needs in .venv from Python 3.11 alone.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check

# mkdocs-material prints a notice about another project; it is no warning of ours
export NO_MKDOCS_2_WARNING := 1

.PHONY: demo test test-all test-planted test-long test-bare test-lowest test-fast search notebooks wheel fuzz lint docs bench rows clean
.DEFAULT_GOAL := help

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/demo.stamp: pyproject.toml | $(BIN)/python
	@echo "setting up $(VENV) (once)" >&2
	$(PIP) -e '.[demo]'
	@touch $@

$(VENV)/test.stamp: pyproject.toml | $(BIN)/python
	@echo "setting up $(VENV) (once)" >&2
	$(PIP) -e '.[test]'
	@touch $@ $(VENV)/demo.stamp

demo: $(VENV)/demo.stamp  ## a private naive Bayes classifier of a real survey, from cost to model file
	$(BIN)/python examples/demo.py

rows: $(VENV)/demo.stamp  ## write the data sets of datasets/ to datasets/rows
	$(BIN)/python datasets/export.py

test: $(VENV)/test.stamp  ## prove it: laws, contracts, oracles, doctests, README; minutes
	$(BIN)/python -m pytest -n auto --dist worksteal

test-planted: $(VENV)/test.stamp  ## the planted faults: each must be noticed
	$(BIN)/python -m pytest -m planted -n auto --dist load tests

test-long: $(VENV)/test.stamp  ## the rest of the proof: planted faults and the long statistical runs
	$(BIN)/python -m pytest -m 'slow or planted' -n auto --dist load --durations 20 tests

test-bare: $(VENV)/test.stamp  ## the wheel alone, without any extra: the tests that need none
	$(BIN)/python -m tests.installed bare

test-lowest: $(VENV)/test.stamp  ## the wheel with the lowest versions that pyproject.toml allows
	$(BIN)/python -m tests.installed lowest

test-all:  ## test, test-long, test-bare and test-lowest, each to its end
	@failed=0; for part in test test-long test-bare test-lowest; do $(MAKE) $$part || failed=1; done; exit $$failed

FOLDER ?= privacy
test-fast: $(VENV)/test.stamp  ## the tests and doctests of one folder: make test-fast FOLDER=privacy
	$(BIN)/python -m pytest -n auto $(wildcard tests/$(FOLDER) dpgraph/$(FOLDER))

search: $(VENV)/test.stamp  ## property tests on new random examples, ten times as many
	$(BIN)/python -m pytest --hypothesis-profile=search -n auto --dist loadfile tests

notebooks: $(VENV)/test.stamp  ## make the notebook of each tutorial again from its page
	$(BIN)/python docs/tutorials/notebooks.py

wheel: $(VENV)/test.stamp  ## build wheel and sdist into dist/
	$(BIN)/python -m hatchling build -t sdist -t wheel

SECONDS ?= 600
fuzz: $(VENV)/test.stamp  ## each reader of files fed with mutated files for ten minutes: make fuzz SECONDS=600
	$(BIN)/python -m tests.fuzz --reader all --seconds $(SECONDS)

lint: $(VENV)/test.stamp  ## style, types and import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports

$(VENV)/docs.stamp: pyproject.toml | $(BIN)/python
	@echo "setting up $(VENV) (once)" >&2
	$(PIP) -e '.[docs]'
	@touch $@ $(VENV)/demo.stamp

docs: $(VENV)/docs.stamp  ## build the site of docs/ into site/; a warning is an error
	$(BIN)/python -m mkdocs build --strict

$(VENV)/bench.stamp: pyproject.toml | $(BIN)/python
	@echo "setting up $(VENV) (once)" >&2
	$(PIP) -e '.[dask,demo,fast,pld,plot,spark]' duckdb hmmlearn polars
	@touch $@ $(VENV)/demo.stamp

bench: $(VENV)/bench.stamp  ## measured errors, accuracies, calibration and speed, beside peers; takes hours
	for script in benchmarks/*.py; do $(BIN)/python $$script || exit 1; done

clean:  ## remove what the targets made
	rm -rf $(VENV) demo-output datasets/rows site
