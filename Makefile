# Schemaquake, for whoever works on it. `make` says what there is.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

BIN := .venv/bin
SYSTEMS := cassandra:5.0.9 cassandra:6.0-alpha2
PYTEST := $(BIN)/python -m pytest

.PHONY: help setup demo test test-fast lint format bench matrix clean

help: ## what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

setup: .venv/fetched ## everything that is needed, into .venv and the user's cache
	@echo "Ready: $(BIN)/schemaquake"

demo: setup ## the same race on Cassandra 5.0 and 6.0, and the report
	$(BIN)/schemaquake demo

test: setup .venv/browser ## every test, on real clusters and in a browser too
	$(PYTEST) --cov --cov-report=term --durations=20 $(PYTEST_FLAGS)

test-fast: .venv/installed ## the tests that need neither Java nor root nor a browser
	$(PYTEST) -m "not cluster and not spark and not browser" $(PYTEST_FLAGS)

lint: .venv/installed ## style, types, and which package may import which
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	@if command -v shellcheck >/dev/null; then shellcheck scripts/* .ci/run; else echo "shellcheck is not installed: shell scripts unchecked"; fi

format: .venv/installed ## put the code into the one shape
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: setup ## how fast it records, analyses, boots and races, in one table
	$(BIN)/python -m benchmarks

matrix: setup ## racing DDL on every version that can be fetched here, one page
	$(BIN)/schemaquake matrix $(addprefix --system ,$(SYSTEMS)) --workload racing-ddl

clean: ## what make made; runs and the user's cache stay
	rm -rf .venv build dist *.egg-info .coverage .coverage.* htmlcov .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Each step leaves a stamp, so that the next `make` is instant. A machine that lacks something goes on without it and
# is asked again next time.

.venv/system: scripts/system-packages scripts/python
	@if scripts/system-packages base; then mkdir -p .venv && touch $@; fi

.venv/browser: scripts/system-packages | .venv/installed
	@if scripts/system-packages browser; then touch $@; fi

.venv/installed: pyproject.toml scripts/virtual-environment | .venv/system
	scripts/virtual-environment
	@touch $@

.venv/fetched: clusters/extra_jars.toml | .venv/installed
	$(BIN)/schemaquake fetch $(SYSTEMS)
	@touch $@
