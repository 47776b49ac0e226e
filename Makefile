# Schemaquake, for whoever works on it. `make` says what there is.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules
# Tests start hundreds of interpreters, and each would translate every module anew.
unexport PYTHONDONTWRITEBYTECODE

BIN := .venv/bin
SYSTEMS := cassandra:5.0.9 cassandra:6.0-alpha2
QUICK_SYSTEMS := cassandra:1.0.12 cassandra:1.2.19 cassandra:3.11.19 $(SYSTEMS)
PYTEST := $(BIN)/python -m pytest
ALONE := cluster|spark|browser
# Many tests wait for something: three times as many at once as there are cores, and no more than memory has room for.
WORKERS := $(shell cores=$$(nproc 2>/dev/null || echo 2); echo $$((cores < 3 ? 3 * cores : 8)))
SHARED := -n $(WORKERS) --dist loadscope --no-loadscope-reorder

.PHONY: help setup demo test test-fast test-long test-setup fuzz coverage lint lock sbom audit mutants format bench matrix docs-site site clean

help: ## what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

setup: ## everything that is needed, into .venv and the user's cache
	@$(MAKE) --no-print-directory --jobs=3 .venv/system .venv/fetched .venv/compiled .venv/spark-archive
	@echo "Ready: $(BIN)/schemaquake"

demo: setup ## the same race on Cassandra 5.0 and 6.0, and the report
	$(BIN)/schemaquake demo

test: test-setup ## every test, on real clusters, in containers and in a browser too
	@# Tests that wait for clusters, browsers and Spark begin first, and the others fill the cores (tests/conftest.py).
	$(PYTEST) $(SHARED) -m "not long" --durations=30 $(PYTEST_FLAGS)

test-long: test-setup .venv/further ## further cases of what `make test` shows, half a minute and more each
	$(PYTEST) -m long --durations=30 --hypothesis-profile=searching $(PYTEST_FLAGS)
	$(PYTEST) $(SHARED) -m "hypothesis and not long and not $(subst |, and not ,$(ALONE))" --hypothesis-profile=searching $(PYTEST_FLAGS)

test-setup:  # what tests need of the system is installed beside the virtual environment
	@$(MAKE) --no-print-directory --jobs=4 .venv/system .venv/fetched .venv/compiled .venv/spark-archive .venv/tests .venv/translated .venv/debian-base

fuzz: test-setup ## hostile files for every reader, 20 s each; what crashes one is kept in tests/fuzz/corpus
	$(BIN)/python tests/fuzz/fuzz.py $(FUZZ_FLAGS)

coverage: test-setup ## which lines the tests of one process reach; they take twice as long so
	$(PYTEST) $(SHARED) -m "not $(subst |, and not ,$(ALONE))" --cov --cov-report=term $(PYTEST_FLAGS)

mutants: .venv/installed ## do tests notice a changed line of a checker? Hours; MODULES="checkers/run/faults.py" LIMIT_S=3600
	$(BIN)/python scripts/mutants.py $(if $(LIMIT_S),--limit-s $(LIMIT_S)) $(if $(GROWN),--grown) $(MODULES)

test-fast: .venv/installed ## the tests that need neither Java nor root nor a browser
	$(PYTEST) $(SHARED) -m "not $(subst |, and not ,$(ALONE))" $(PYTEST_FLAGS)

lint: .venv/installed .venv/tests ## style, types, and which package may import which
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	@if command -v shellcheck >/dev/null; then shellcheck --severity=warning $$(grep -lE "^#!.*(/| )(ba|da)?sh$$" scripts/*) clusters/nodes/*.sh clusters/docker/image/*.sh .ci/run; else echo "shellcheck is not installed: shell scripts unchecked"; fi

format: .venv/installed ## put the code into the one shape
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: setup ## how fast it records, analyses, boots and races, in one table
	$(BIN)/python -m benchmarks

soak: test-setup ## ten minutes of killed harnesses and guards, full disks and held locks on hosts behind SSH (MINUTES=60)
	$(BIN)/python -m benchmarks.soak --minutes $(or $(MINUTES),10)

matrix: setup ## the same races on five versions from 1.0 to 6.0, one page (all fifteen: schemaquake matrix)
	$(BIN)/schemaquake fetch $(QUICK_SYSTEMS)
	$(BIN)/schemaquake matrix --quick || [ $$? -eq 1 ]  # 1: something broke, which is what it is looking for

docs-site: .venv/further ## the pages of docs/ as a site, links checked, into build/docs-site
	.venv/further/bin/sphinx-build --fail-on-warning --keep-going --quiet --builder html --conf-dir docs/sphinx . build/docs-site
	@echo build/docs-site/index.html

site: .venv/installed ## the project's own site, from the runs in docs/site/recorded.zip, into build/site
	$(BIN)/python docs/publish_site.py build/site

clean: ## what make made; runs and the user's cache stay
	rm -rf .venv build dist *.egg-info .coverage .coverage.* htmlcov .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

lock: .venv/installed ## the newest versions that pyproject.toml allows, into the two locks
	$(BIN)/uv pip compile pyproject.toml --all-extras --group dev --universal --upgrade --generate-hashes --no-header --no-annotate --quiet --output-file requirements.lock
	$(BIN)/uv pip compile --group pyproject.toml:further --universal --upgrade --generate-hashes --no-header --no-annotate --quiet --output-file requirements-further.lock

sbom: ## the bill of materials of packages and jars, as CycloneDX, into build/sbom.json
	@mkdir -p build
	@scripts/sbom > build/sbom.json
	@echo build/sbom.json

audit: .venv/installed ## the locked packages beside the advisories of pip-audit, where these can be asked
	@scripts/audit

# Each step leaves a stamp, so that the next `make` is instant. A machine that lacks something goes on without it and
# is asked again next time.

.venv/python: scripts/system-packages scripts/python
	@if scripts/timed 'Python' scripts/system-packages python; then mkdir -p .venv && touch $@; fi

.venv/system: scripts/system-packages | .venv/python
	@if scripts/timed 'system packages' scripts/system-packages base; then touch $@; fi

.venv/tests: scripts/system-packages | .venv/system
	@if scripts/timed 'system packages of tests' scripts/system-packages tests browser docker; then touch $@; fi

.venv/installed: pyproject.toml requirements.lock scripts/virtual-environment | .venv/python
	@scripts/timed 'virtual environment' scripts/virtual-environment
	@touch $@

.venv/further: requirements-further.lock scripts/virtual-environment | .venv/python
	@scripts/timed 'further tools' scripts/virtual-environment further
	@touch $@

.venv/translated: $(shell find tests -name '*.py') | .venv/installed
	@# Every process that runs tests would rewrite all of them otherwise; what cannot be collected is told by the tests themselves.
	@scripts/timed 'bytecode of tests' bash -c '$(PYTEST) --collect-only --quiet >/dev/null' || true
	@touch $@

.venv/debian-base: clusters/docker/debian_base.py scripts/debian_base.py | .venv/installed .venv/tests
	@# The tests make it themselves where this could not.
	@if scripts/timed 'Debian base of images' $(BIN)/python scripts/debian_base.py $@.tar; then touch $@; fi

.venv/fetched: clusters/systems/extra_jars.toml | .venv/installed .venv/system
	@scripts/timed 'Cassandra' $(BIN)/schemaquake fetch $(SYSTEMS)
	@touch $@

.venv/spark-archive: results/engines/jvm_archive.py results/engines/jvm_archiving.py | .venv/fetched
	@# Fetching comes first: it looks for Java, too.
	@if scripts/timed 'archive for Spark' $(BIN)/python -m schemaquake.results.engines.jvm_archiving; then touch $@; fi

.venv/compiled: $(shell find checkers results/formats -name '*.py') | .venv/installed
	@scripts/timed 'compiled searches' scripts/compiled
	@touch $@
