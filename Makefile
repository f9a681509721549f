# Every target sets up what it needs (scripts/setup); a second run does none of that again.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

BIN := .venv/bin
# Two at a time, a file as a whole, since fixtures of a file are dear.
PYTEST_ARGS ?= -n 2 --dist loadfile --no-loadscope-reorder

# Templates, mirrors, run logs and the audit of this checkout.
DRYDOCK_STATE_DIR ?= $(CURDIR)/.drydock/state
export DRYDOCK_STATE_DIR

# What scripts/setup found out about this host. An operator's own choice wins.
PROVIDER = DRYDOCK_PROVIDER="$${DRYDOCK_PROVIDER:-$$(cat .drydock/provider)}"

.PHONY: help setup setup-test demo test bench up lint format lock clean

help: ## show this
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## prepare this machine: packages, virtual environment, template
	@scripts/setup

setup-test:
	@scripts/setup test

demo: setup ## a labelled issue on a local GitHub becomes a pull request (KEEP=1 keeps it serving)
	@$(PROVIDER) $(BIN)/drydock demo

test: setup-test ## lint, types and every test (PYTEST_ARGS="-k word" for some)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(PROVIDER) $(BIN)/python -m pytest $(PYTEST_ARGS)

bench: setup ## measure, and compare with what each figure is held against
	@$(PROVIDER) $(BIN)/drydock bench

up: setup ## serve: web, worker and beat together
	@$(BIN)/drydock up

lint: setup-test ## only lint and types
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

format: setup-test ## format the sources
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

lock: ## write the locks again (scripts/lock --upgrade takes the newest)
	@scripts/lock

clean: ## remove what setup and the tests made; .drydock/state (templates, runs, audit) stays
	rm -rf .venv node_modules build dist *.egg-info .drydock/demo .drydock/tools .drydock/bench.json
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -not -path './.drydock/*' -prune -exec rm -rf {} +
