# Every target sets up what it needs in .venv from Python 3.11 alone.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: demo test test-slow lint bench rows clean
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

test: $(VENV)/test.stamp  ## prove it: every test but the slow statistical ones
	$(BIN)/python -m pytest -n auto --dist loadfile

test-slow: $(VENV)/test.stamp  ## the slow statistical runs
	$(BIN)/python -m pytest -m slow -n auto --dist load

lint: $(VENV)/test.stamp  ## style, types and import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports

$(VENV)/bench.stamp: pyproject.toml | $(BIN)/python
	@echo "setting up $(VENV) (once)" >&2
	$(PIP) -e '.[dask,demo,fast,pld,plot,spark]' duckdb hmmlearn polars
	@touch $@ $(VENV)/demo.stamp

bench: $(VENV)/bench.stamp  ## measured errors, accuracies, calibration and speed, beside peers; takes hours
	for script in benchmarks/*.py; do $(BIN)/python $$script || exit 1; done

clean:  ## remove what the targets made
	rm -rf $(VENV) demo-output datasets/rows
