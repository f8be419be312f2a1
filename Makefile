# Every target sets up what it needs; the second time that costs nothing. docs/development.md says more.

PYTHON := .venv/bin/python
# Parallel test processes; each has servers of its own, 600 MiB where tests need a cluster, 800 with a node.
# They wait for servers half of the time, and two of them for pods, so that it takes four to keep two cores busy.
JOBS ?= 4
IN_PARALLEL = -n $(JOBS) --dist loadfile
PYTEST = $(PYTHON) -m pytest $(IN_PARALLEL)
INSTALLED := .venv/.installed

# Scripts of this checkout import `hack` and each other from its root.
export PYTHONPATH := $(CURDIR)
# Without bytecode every test process compiles all tests again: a quarter of the unit tests' time.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test unit-of-all check check-types check-rest docs reference picture release format unit integration e2e coverage fuzz applications bench programs node-programs test-programs image cluster-up cluster-down lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "make %-14s %s\n", $$1, $$2}' Makefile

demo: programs ## back up and restore on a real cluster, in about a minute
	@$(PYTHON) examples/demo.py

# Unit tests need no program: they run while missing ones are built.
test: check ## check, then all tests; what CI runs
	@$(MAKE) --no-print-directory -j 2 unit-of-all test-programs
	@$(PYTHON) -m hack.all_tests $(IN_PARALLEL) tests/e2e tests/integration

unit-of-all: $(INSTALLED)
	@$(PYTHON) -m hack.unit_tests

# Half a minute of mypy on one core, and the rest on the other.
check: $(INSTALLED) ## lint, formatting, types, layers, parameters, imports of tests, types of the Python API, site
	@$(MAKE) --no-print-directory -j 2 check-types check-rest

check-types: $(INSTALLED)
	@.venv/bin/mypy

check-rest: $(INSTALLED)
	@.venv/bin/ruff check .
	@.venv/bin/ruff format --check .
	@.venv/bin/lint-imports
	@$(PYTHON) -m hack.checks.parameters
	@$(PYTHON) -m hack.checks.imports_of_tests
	@$(PYTHON) -m hack.checks.class_names
	@$(PYTHON) -m hack.checks.words
	@$(PYTHON) -m hack.checks.public_types
	@$(PYTHON) -m hack.reference --check
	@$(PYTHON) -m hack.site

docs: reference ## build the site into build/site; warnings are errors
	@$(PYTHON) -m hack.site

reference: $(INSTALLED) ## write the reference pages of the documentation from the code
	@$(PYTHON) -m hack.reference

picture: programs ## draw the README's terminal from the real program
	@$(PYTHON) -m hack.picture

format: $(INSTALLED) ## bring the code into the form that `check` wants
	@.venv/bin/ruff check --fix .
	@.venv/bin/ruff format .

unit: $(INSTALLED) ## tests without any server, in half a minute
	@$(PYTHON) -m hack.unit_tests

integration: test-programs ## tests against a real API server, S3 server or node
	@$(PYTEST) tests/integration

e2e: test-programs ## tests of the whole program
	@$(PYTEST) tests/e2e

# It takes three times as long as the tests alone, so that `make test` leaves it out.
coverage: $(INSTALLED) ## how much of each room the unit tests run; TESTS= for others
	@rm -rf build/coverage
	@$(PYTHON) -m coverage run -m $(if $(TESTS),pytest $(TESTS),hack.unit_tests)
	@$(PYTHON) -m coverage combine -q
	@$(PYTHON) -m coverage json -q -o build/coverage/measured.json
	@$(PYTHON) -m hack.coverage_by_room

fuzz: test-programs ## a server among 5,000 odd objects; PINNACE_ODD_SEED for others
	@PINNACE_ODD_OBJECTS=$${PINNACE_ODD_OBJECTS:-5000} $(PYTEST) -n 0 tests/e2e/test_odd_objects.py

applications: test-programs ## public projects, whole: backed up, restored into another cluster, compared
	@PINNACE_APPLICATIONS=all $(PYTEST) -s -n 0 tests/e2e/test_applications.py

bench: programs ## measure against the fastest client at hand
	@$(PYTHON) -m bench

programs: $(INSTALLED) ## build the cluster's programs into the cache, once a machine
	@hack/preflight.sh go
	@$(PYTHON) -m hack.cluster build >/dev/null

# Running pods needs root on Linux; elsewhere this says so, and the tests that need a node are skipped.
node-programs: programs ## as `programs`, and what a node needs
	@hack/preflight.sh node
	@$(PYTHON) -m hack.cluster build --node >/dev/null

# Tests also meet plugins, storage and snapshot drivers of others, and a chart.
test-programs: $(INSTALLED) ## as `node-programs`, and what only tests need
	@hack/preflight.sh go
	@hack/preflight.sh node
	@hack/preflight.sh shells
	@hack/preflight.sh promtool
	@nice $(PYTHON) -m hack.cluster build --node --tests >/dev/null

TAG ?= pinnace:dev
ARCHIVE ?= dist/pinnace-image.tar
image: $(INSTALLED) ## make a container image without a container engine; TAG=, ARCHIVE=, ARCH=arm64
	@$(PYTHON) -m deploy.image.build --tag $(TAG) $(if $(ARCH),--architecture $(ARCH)) $(ARCHIVE)

release: $(INSTALLED) ## make wheel, source archive, chart, image, SBOM and checksums in dist/release; RELEASE_FLAGS=
	@$(PYTHON) -m hack.release $(RELEASE_FLAGS)

cluster-up: $(if $(NODE),node-programs,programs) ## start a development cluster; NODE=1 with a node for pods
	@$(PYTHON) -m hack.cluster up $(if $(NODE),--node)

cluster-down: $(INSTALLED) ## stop and delete the development cluster
	@$(PYTHON) -m hack.cluster down

# `--require-hashes` covers the build backend too (it is in dev.txt), hence no build isolation.
$(INSTALLED): requirements/dev.txt pyproject.toml
	@$(PYTHON) -c "import pip" 2>/dev/null || \
		{ python=$$(hack/preflight.sh python) && rm -rf .venv && "$$python" -m venv .venv; }
	@echo "Installing what pinnace and its tests need into .venv: once, in one to five minutes"
	@$(PYTHON) -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	@$(PYTHON) -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

UV_COMPILE := .venv/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-emit-find-links --no-header $(LOCK_FLAGS) pyproject.toml

lock: $(INSTALLED) ## pin the dependencies anew; LOCK_FLAGS=--upgrade takes the newest
	@$(UV_COMPILE) -o requirements/runtime.txt
	@$(UV_COMPILE) --group dev -c requirements/runtime.txt -o requirements/dev.txt

clean: ## remove what make put into the checkout; the cache outside stays
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
