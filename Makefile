# Every target sets up what it needs in .venv from Python 3.11 alone.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV   := .venv
BIN    := $(VENV)/bin
# pip would compile on one processor, and as many tests of packages, which nothing imports
PIP     := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile
COMPILE := $(BIN)/python -m compileall -qq -j 0 -x '/tests?/' $(VENV)/lib

# mkdocs-material prints a notice about another project; it is no warning of ours
export NO_MKDOCS_2_WARNING := 1

# tests start many processes of Python, which compile the package again and again if they may not keep what they compiled
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test proof systems test-all durations test-bare test-lowest test-fast search notebooks wheel fuzz lint docs bench clean
.DEFAULT_GOAL := help

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# one rule for each extra that a target needs
$(VENV)/%.stamp: pyproject.toml | $(BIN)/python
	@echo "setting up $(VENV) for $* (once)" >&2
	$(PIP) -e '.[$*]'
	@$(COMPILE) || true
	@touch $@

demo: $(VENV)/demo.stamp  ## a private naive Bayes classifier of a real survey, from cost to model file
	$(BIN)/python examples/demo.py

# One BLAS thread for each worker: threads that wait spin, and would count as processor seconds of a test.
ONE := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1
TESTS := $(BIN)/python -m pytest -n auto --dist worksteal -p tests.durations --durations-to .durations

test: $(VENV)/test.stamp  ## laws, contracts, oracles, refusals, doctests, README: five minutes
	$(ONE) $(TESTS)/test --hypothesis-profile=first

proof: $(VENV)/proof.stamp  ## full crossings, enumerations, calibrations, long chains, planted faults
	$(ONE) $(BIN)/python -m tests.compiling  # faults are planted first, in copies that take the compiled loops
	$(ONE) $(TESTS)/proof -m '(proof or planted or hypothesis) and not systems' $(BUT) tests dpgraph

systems: $(VENV)/systems.stamp  ## Spark, Dask, DuckDB, PostgreSQL, the browser, kills, memory, packaging, notebooks, lowest versions
	tests/programs.sh
	$(ONE) $(BIN)/python -m tests.installed bare lowest -- $(TESTS)/systems -m systems tests

test-all:  ## test, proof and systems, each to its end
	@failed=0; for part in test proof systems; do $(MAKE) $$part || failed=1; done; exit $$failed

durations:  ## the sum and the slowest tests of each tier, of the last run
	@for part in test proof systems; do echo "$$part:"; $(BIN)/python -m tests.durations .durations/$$part 10; done

test-bare: $(VENV)/systems.stamp  ## the wheel alone, without any extra: the tests that need none
	$(BIN)/python -m tests.installed bare

test-lowest: $(VENV)/systems.stamp  ## the wheel with the lowest versions that pyproject.toml allows
	$(BIN)/python -m tests.installed lowest

FOLDER ?= privacy
test-fast: $(VENV)/test.stamp  ## the tests and doctests of one folder: make test-fast FOLDER=privacy
	$(BIN)/python -m pytest -n auto $(wildcard tests/$(FOLDER) dpgraph/$(FOLDER))

search: $(VENV)/test.stamp  ## property tests on new random examples, ten times as many
	$(BIN)/python -m pytest --hypothesis-profile=search -n auto --dist loadfile tests

notebooks: $(VENV)/systems.stamp  ## run each tutorial: its outputs, its picture, its notebook
	$(BIN)/python docs/tutorials/notebooks.py

wheel: $(VENV)/systems.stamp  ## build wheel and sdist into dist/
	$(BIN)/python -m hatchling build -t sdist -t wheel

SECONDS ?= 600
fuzz: $(VENV)/test.stamp  ## each reader of files fed with mutated files for ten minutes: make fuzz SECONDS=600
	$(BIN)/python -m tests.fuzz --reader all --seconds $(SECONDS)

# types of engines are known where the engines are installed
lint: $(VENV)/lint.stamp $(VENV)/systems.stamp  ## style, types and import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports

docs: $(VENV)/docs.stamp  ## build the site of docs/ into site/; a warning is an error
	$(BIN)/python -m mkdocs build --strict

bench: $(VENV)/bench.stamp  ## measured errors, accuracies, calibration and speed, beside peers; takes hours
	for script in benchmarks/*.py; do $(BIN)/python $$script || exit 1; done

clean:  ## remove what the targets made
	rm -rf $(VENV) .durations demo-output datasets/rows site
