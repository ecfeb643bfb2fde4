# Every target only calls a tool or the tallystick command.
.DEFAULT_GOAL := help
SHELL := /bin/sh
VENV := .venv
BIN := $(VENV)/bin
LOCKS := dev service
# Older libraries, each in its own environment, that the client is tested with; and the last mypy
# that supports the client's oldest Python.
LIBRARIES := openai-1.109 openai-2.8 openai-2.54 anthropic-0.60 anthropic-0.125 anthropic-1.0 \
	mypy-1.19
# The second price book that ours is compared with: tests/detectors/prices/drift.toml has its day.
LITELLM := 1.110.2
# The tests start hundreds of processes, and without bytecode each would compile the code again.
unexport PYTHONDONTWRITEBYTECODE
# The tests' servers write gigabytes; in memory, where there is enough, their disk writes cost nothing.
MEMORY := $(shell df --output=avail /dev/shm 2>/dev/null | \
	awk 'NR > 1 && $$1 > 8000000 { print "TMPDIR=/dev/shm" }')
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input --quiet --quiet
# pip compiles on one processor, this on all; what can't be compiled is left as it is.
COMPILE := $(BIN)/python -m compileall -qq -j 0 $(VENV)/lib || true

# The first Python 3.11 or later, unless PYTHON is set.
PYTHON ?= $(shell for name in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$name -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$name && break; \
	done)

# An installation creates a stamp file; it is outdated when its requirements are newer.
SERVICE := $(VENV)/.service-installed
DEV := $(VENV)/.dev-installed
TOOLS := $(VENV)/.tools-unpacked
# Collecting the tests creates another, outdated when a test is newer.
COMPILED := $(VENV)/.tests-compiled

# Vendored from npm, so that pages load nothing from other servers.
HTMX := 4.0.1
INTER := 5.3.0
# What the pages use of Inter: Latin-1 and some signs. fontTools cuts them out.
FONTTOOLS := 4.68.0
INTER_SIGNS := U+20-7E,U+A0-FF,U+131,U+152-153,U+2013-2014,U+2018-201A,U+201C-201E,U+2022,U+2026,U+2032,U+20AC,U+2190-2193,U+2212,U+2318,U+2264,U+2265,U+2715
DEJAVU := 2.37.3
# From Debian, because npm has neither.
WAREE := 1:0.7.3-1
MICROHEI := 0.2.0-beta-3.1
VENDORED := service/web/static/vendor
USAGE := client/tallystick/reading/usage
FONTS := service/reports/pdf/fonts

.PHONY: help install demo test test-fast check format bench size stress spans lock vendor pictures sample sources usage usage-drift usage-doors \
	usage-libraries price-drift \
	clean

help: ## Show this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(SERVICE) ## Install what a server needs, with the hashes of the lock, into .venv

demo: $(SERVICE) ## Audit the sample log with the real service; ONCE=1 stops after the report
	@$(BIN)/tallystick demo $(if $(ONCE),--once)

# Four processes on two processors, because some tests mostly wait; six take a minute longer.
# Tests that share a server share a process, the long groups first (tests/groups.toml).
# The tests start beside the types, which take one processor half a minute longer than the other
# checks take the other; what is wrong with them is printed last. The wording, the locks of
# migrations and the names of usage are among the tests.
test: $(DEV) ## Run the checks and the whole suite; list skipped tests and the 30 slowest
	@found=$$(mktemp); trap 'rm -f $$found' EXIT; \
	$(BIN)/mypy > $$found 2>&1 & types=$$!; \
	$(CHECKS) && \
	  $(MEMORY) $(BIN)/python -m pytest -m "not stress" -n 4 --no-loadscope-reorder --durations=30; \
	others=$$?; wait $$types; checked=$$?; echo "mypy:"; cat $$found; \
	[ $$others = 0 ] && [ $$checked = 0 ]

# No live servers, Spark, browser or subprocesses; the time budget is in docs/testing.md.
test-fast: $(DEV) ## Run the fast tests
	$(MEMORY) $(BIN)/python -m pytest -m "not stress and not slow" -n 2 --no-loadscope-reorder -q

CHECKED_BY_TESTS := tests/meta/test_words.py tests/meta/test_migration_locks.py
CHECKS := $(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/lint-imports && \
	$(MAKE) --no-print-directory $(COMPILED)

# Collecting all tests compiles them once, before several processes would each compile them.
$(COMPILED): $(shell find tests -name '*.py') | $(BIN)/python
	@$(BIN)/python -m pytest -qq --collect-only > $@.log || { cat $@.log; exit 1; }
	@touch $@

check: $(DEV) ## Check style, types, imports between packages, wording, locks of migrations, deploy/
	@$(BIN)/mypy & types=$$!; \
	$(CHECKS) && $(MAKE) --no-print-directory usage-drift && \
	  $(BIN)/python -m pytest -q -m "not stress" $(CHECKED_BY_TESTS) tests/deploy; \
	others=$$?; wait $$types && exit $$others

format: $(DEV) ## Format the code and fix lint errors
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(DEV) ## Run the benchmarks against their limits
	$(BIN)/python benchmarks/audit.py
	$(BIN)/python -m benchmarks.growth 10000 100000 1000000
	$(BIN)/python benchmarks/scrub.py
	$(BIN)/python -m benchmarks.intake.ingest
	$(BIN)/python -m benchmarks.intake.otlp
	$(BIN)/python -m benchmarks.client
	$(BIN)/python benchmarks/pdf.py
	$(BIN)/python -m benchmarks.intake.upload
	$(BIN)/python benchmarks/read.py
	$(BIN)/python benchmarks/pages.py
	$(BIN)/python -m benchmarks.account
	$(BIN)/python -m benchmarks.load.drain
	$(BIN)/python -m benchmarks.load
	$(BIN)/python -m benchmarks.corpus
	$(BIN)/python -m benchmarks.paint

# Prints one line per test as it starts; failures include the servers' logs.
stress: $(DEV) ## Run the reliability tests at full count; takes minutes
	SCREENSHOTS=1 $(BIN)/python -m pytest -m stress -v -o console_output_style=times

spans: $(DEV) ## Record the spans of real frameworks for the tests again; installs them first
	$(BIN)/python -m tests.service.otlp.frameworks.recording

# The service's lock file uses the same versions as the developers', so we ship what we test.
lock: $(DEV) ## Update the lock files of all dependencies, with hashes, and the SBOM
	for name in $(LOCKS); do \
	  extras="--extra build --extra service --extra embedded"; \
	  [ $$name = dev ] && extras="$$extras --extra dev" \
	    || extras="$$extras --constraint requirements/dev.lock"; \
	  $(BIN)/uv pip compile --quiet pyproject.toml $$extras --universal --python-version 3.11 \
	    --generate-hashes --no-emit-index-url --no-header --no-annotate \
	    --output-file requirements/$$name.lock || exit 1; \
	done
	$(BIN)/python requirements/make_sbom.py

	for one in $(LIBRARIES); do \
	  name=$$(echo $$one | sed 's/-.*//; s/anthropic/anthropic[bedrock]/'); \
	  for python in 3.9 3.10; do \
	    echo "$$name==$${one##*-}.*" | $(BIN)/uv pip compile --quiet - --universal \
	      --python-version $$python --generate-hashes --no-emit-index-url --no-header \
	      --no-annotate --output-file requirements/libraries/$$one.lock 2>/dev/null && break; \
	  done || exit 1; \
	done

	$(BIN)/uv pip compile --quiet --no-deps requirements/deploy/tools.in --universal \
	  --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate \
	  --output-file requirements/deploy/tools.lock
	$(BIN)/uv pip compile --quiet requirements/deploy/traces.in --universal --python-version 3.11 \
	  $(addsuffix .lock,$(addprefix --constraint requirements/,$(LOCKS))) --generate-hashes \
	  --no-emit-index-url --no-header --no-annotate --output-file requirements/deploy/traces.lock
	for one in requirements/libraries/*/*.in requirements/otlp/*.in; do \
	  $(BIN)/uv pip compile --quiet $$one --universal --python-version 3.11 --generate-hashes \
	    --no-emit-index-url --no-header --no-annotate --output-file $${one%.in}.lock || exit 1; \
	done

vendor: ## Fetch htmx and the fonts again, at the versions above
	rm -rf var/vendor && mkdir -p var/vendor
	cd var/vendor && npm pack --silent @fontsource-variable/inter@$(INTER) htmx.org@$(HTMX) \
	  dejavu-fonts-ttf@$(DEJAVU) && for one in *.tgz; do mkdir $${one%.tgz} && tar xzf $$one \
	  -C $${one%.tgz} --strip-components 1; done
	cd var/vendor && apt-get download -qq fonts-tlwg-waree-ttf=$(WAREE) \
	  fonts-wqy-microhei=$(MICROHEI) && for one in *.deb; do dpkg-deb -x $$one debian; done
	rm -f $(VENDORED)/* $(FONTS)/* && mkdir -p $(VENDORED) $(FONTS)
	cd var/vendor && uv() { $(CURDIR)/$(BIN)/uv tool run --from "fonttools[woff]==$(FONTTOOLS)" "$$@"; } \
	  && uv fonttools varLib.instancer --quiet --output inter.ttf wght=400:700 \
	    fontsource-variable-inter-$(INTER)/files/inter-latin-wght-normal.woff2 \
	  && uv pyftsubset inter.ttf --unicodes=$(INTER_SIGNS) --layout-features=kern,tnum,ccmp,locl,mark,case,calt \
	    --no-hinting --desubroutinize --flavor=woff2 \
	    --output-file=$(CURDIR)/$(VENDORED)/inter-$(INTER)-latin.woff2
	cp var/vendor/fontsource-variable-inter-$(INTER)/LICENSE $(VENDORED)/inter-LICENSE
	cp var/vendor/htmx.org-$(HTMX)/dist/htmx.min.js $(VENDORED)/htmx-$(HTMX).min.js
	cp var/vendor/htmx.org-$(HTMX)/LICENSE $(VENDORED)/htmx-LICENSE
	cp var/vendor/dejavu-fonts-ttf-$(DEJAVU)/ttf/DejaVuSansCondensed.ttf $(FONTS)
	cp var/vendor/dejavu-fonts-ttf-$(DEJAVU)/ttf/DejaVuSansCondensed-Bold.ttf $(FONTS)
	cp var/vendor/dejavu-fonts-ttf-$(DEJAVU)/LICENSE $(FONTS)/DejaVu-LICENSE
	cp var/vendor/debian/usr/share/fonts/truetype/tlwg/Waree.ttf $(FONTS)
	cp var/vendor/debian/usr/share/doc/fonts-tlwg-waree-ttf/copyright $(FONTS)/Waree-LICENSE
	cp var/vendor/debian/usr/share/fonts/truetype/wqy/wqy-microhei.ttc \
	  $(FONTS)/WenQuanYiMicroHei.ttc
	cat var/vendor/debian/usr/share/doc/fonts-wqy-microhei/copyright \
	  /usr/share/common-licenses/Apache-2.0 > $(FONTS)/WenQuanYiMicroHei-LICENSE
	rm -rf var/vendor

pictures: $(DEV) ## Take the pictures of the README: dashboard, report and terminal
	$(BIN)/python -m tests.browser.pictures

sample: $(DEV) ## Update the sample report that /sample shows
	$(BIN)/python examples/make_sample_report.py

sources: $(DEV) ## Update what docs/sources.md says about adapters
	$(BIN)/python -m examples.make_source_guide

usage: $(DEV) ## Write the names of usage fields from genai-prices and our own
	$(BIN)/python -m examples.make_usage_tables > $(USAGE)/tables.py.new || \
	  { rm -f $(USAGE)/tables.py.new; exit 1; }
	mv $(USAGE)/tables.py.new $(USAGE)/tables.py

usage-drift: $(DEV) ## Compare the names of usage fields with those of providers' libraries
	@$(BIN)/python -m tests.detectors.formats.usage.drift

usage-libraries: $(DEV) ## Write the names of usage fields of libraries that aren't installed, from their locks
	$(BIN)/python -m tests.detectors.formats.usage.drift --write

price-drift: $(DEV) ## Compare our prices with LiteLLM's, downloaded from PyPI into a temporary folder
	@folder=$$(mktemp -d); trap 'rm -rf "$$folder"' EXIT; \
	$(PIP) download --no-deps --dest "$$folder" litellm==$(LITELLM) && \
	$(BIN)/python -m tests.detectors.prices.drift "$$folder"/*.whl

size: $(DEV) ## Count lines, modules, settings, tables, functions used once and test lines
	@$(BIN)/python -m benchmarks.size

usage-doors: $(DEV) ## Print what each door makes of each exchange in the usage corpus
	@$(BIN)/python -m examples.show_usage_doors

clean: ## Remove the environment and the caches; keep the data in var
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis build dist

$(BIN)/python:
	@[ -n "$(PYTHON)" ] || { echo "Tallystick requires Python 3.11 or later, and none was found:" \
	  "install it, or run: make PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "$(PYTHON) can't create virtual" \
	  "environments: install its venv package (on Debian: apt install python3-venv)" >&2; exit 1; }
	@echo "Installing into $(VENV); this takes a minute the first time."
	@$(PYTHON) -m venv $(VENV)

$(SERVICE): requirements/service.lock pyproject.toml client/pyproject.toml | $(BIN)/python
	@$(PIP) install --no-deps --no-compile --require-hashes -r requirements/service.lock
	@$(COMPILE)
	@$(PIP) install --no-deps --no-build-isolation -e . -e client
	@touch $@

# What checks deploy/: see requirements/deploy/tools.in.
$(TOOLS): requirements/deploy/tools.lock requirements/deploy/unpack.py | $(BIN)/python
	@$(PIP) download --no-deps --require-hashes --dest $(VENV)/deploy -r $<
	@$(BIN)/python requirements/deploy/unpack.py $(VENV)
	@rm -r $(VENV)/deploy
	@touch $@

$(DEV): requirements/dev.lock pyproject.toml client/pyproject.toml $(TOOLS) | $(BIN)/python
	@$(PIP) install --no-deps --no-compile --require-hashes -r requirements/dev.lock
	@$(COMPILE)
	@$(PIP) install --no-deps --no-build-isolation -e . -e client
	@touch $(SERVICE) $@
