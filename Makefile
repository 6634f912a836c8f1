# make demo, make test: the two commands of the README. They set up what they need in .venv.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# Most tests wait for something: more of them than there are cores find room side by side.
JOBS   ?= 4
PYTEST_ARGS ?=

.PHONY: help setup demo test test-all test-full check docs bench bench-quick clean
.DEFAULT_GOAL := help

help:
	@echo "make demo       sell seats with and without the lock, on a private server"
	@echo "make test       set up and run the quick tests: every kind, sync and async, on a real server"
	@echo "make test-all   the other tests: faults, clusters, sentinels, frameworks, Redisson, more servers"
	@echo "make test-full  all tests at the full volumes (much longer)"
	@echo "make check      ruff, mypy, pyright, structure, parity, documentation"
	@echo "make docs       build the documentation into docs/_build/html"
	@echo "make bench      the benchmarks, side by side with other clients (half an hour)"
	@echo "make bench-quick  the same figures with fewer rounds, without those that need Java"

$(VENV)/.ready: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { echo "Python 3.10 or newer is needed; set PYTHON=..."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	# Its requirements exclude today's redis-py, with which it works.
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps 'redlock-ng>=2.0,<3'
	@touch $@

setup: $(VENV)/.ready

demo: setup
	$(BIN)/pyredisson demo

test: setup
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal --part quick $(PYTEST_ARGS)

test-all: setup
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal --part rest $(PYTEST_ARGS)

test-full: setup
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal --volume 1 $(PYTEST_ARGS)

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/python -m pytest -q tests/unit/test_structure.py tests/test_parity.py tests/typing/test_completeness.py
	$(BIN)/sphinx-build -q -W --keep-going -b html docs docs/_build/html

docs: setup
	$(BIN)/sphinx-build -W -b html docs docs/_build/html

bench: setup
	$(BIN)/python -m benchmarks

bench-quick: setup
	$(BIN)/python -m benchmarks --quick

clean:
	rm -rf $(VENV) docs/_build .pytest_cache .mypy_cache .ruff_cache
