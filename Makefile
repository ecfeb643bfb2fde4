# Every target only calls a tool or the tallystick command; the work is theirs.
.DEFAULT_GOAL := help
SHELL := /bin/sh
VENV := .venv
BIN := $(VENV)/bin
LOCKS := service dev
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input --quiet --quiet

# Python 3.11 or later; the first that fits, unless PYTHON names one.
PYTHON ?= $(shell for name in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$name -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$name && break; \
	done)

# Each stamp is made by an installation and older than nothing that it was made from.
SERVICE := $(VENV)/.service-installed
DEV := $(VENV)/.dev-installed

.PHONY: help demo test check format bench stress lock clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(SERVICE) ## Audit the sample log through the real service; ONCE=1 stops after the report
	@$(BIN)/tallystick demo $(if $(ONCE),--once)

test: check ## Check, then run the whole suite; what cannot run here is named at the end
	$(BIN)/python -m pytest -m "not stress" -n 2

check: $(DEV) ## Lint, types and the borders between packages
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(DEV) ## Bring the code into form
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(DEV) ## Measure against the bars
	$(BIN)/python benchmarks/audit.py
	$(BIN)/python benchmarks/ingest.py

stress: $(DEV) ## Break things at full count, minutes long; prints promise, tries, losses
	$(BIN)/python -m pytest -m stress -s

lock: $(DEV) ## Pin every dependency anew, with hashes, for every platform
	for name in $(LOCKS); do \
	  extras="--extra build --extra service --extra embedded"; \
	  [ $$name = dev ] && extras="$$extras --extra dev"; \
	  $(BIN)/uv pip compile --quiet pyproject.toml $$extras --universal --python-version 3.11 \
	    --generate-hashes --no-emit-index-url --no-header --no-annotate \
	    --output-file requirements/$$name.lock || exit 1; \
	done

clean: ## Remove the environment and the caches; the data under var stays
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis build dist

$(BIN)/python:
	@[ -n "$(PYTHON)" ] || { echo "Tallystick needs Python 3.11 or later, and no python3 here is:" \
	  "install one, or name it: make PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "$(PYTHON) cannot make virtual" \
	  "environments: install its venv package (on Debian: apt install python3-venv)" >&2; exit 1; }
	@echo "Installing into $(VENV); this takes a minute the first time."
	@$(PYTHON) -m venv $(VENV)

$(SERVICE): requirements/service.lock pyproject.toml | $(BIN)/python
	@$(PIP) install --require-hashes -r requirements/service.lock
	@$(PIP) install --no-deps --no-build-isolation -e .
	@touch $@

$(DEV): requirements/dev.lock pyproject.toml | $(BIN)/python
	@$(PIP) install --require-hashes -r requirements/dev.lock
	@$(PIP) install --no-deps --no-build-isolation -e .
	@touch $(SERVICE) $@
