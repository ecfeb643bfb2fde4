# Every target only calls a tool or the tallystick command; the work is theirs.
.DEFAULT_GOAL := help
SHELL := /bin/sh
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
LOCKS := service dev

.PHONY: help demo test check format bench stress lock clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

lock: ## Pin every dependency anew, with hashes, for every platform
	for name in $(LOCKS); do \
	  extras="--extra build --extra service --extra embedded"; \
	  [ $$name = dev ] && extras="$$extras --extra dev"; \
	  $(BIN)/uv pip compile --quiet pyproject.toml $$extras --universal --python-version 3.11 \
	    --generate-hashes --no-emit-index-url --no-header --no-annotate \
	    --output-file requirements/$$name.lock || exit 1; \
	done
