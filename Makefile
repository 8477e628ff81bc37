# Every target sets up what it needs in .venv, once, from a Python 3.11 or newer with its venv module.

# Hundreds of processes import the package: without bytecode each takes 2.5 s of a core more.
unexport PYTHONDONTWRITEBYTECODE

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

# make simulate SEEDS=100000 FROM=1 JOBS=4
SEEDS ?= 1000
FROM ?= 1
JOBS ?= 0

# The tests of the files with a clock, a disk, a socket, a thread.
OF_SHELLS := tests/unit/actors tests/unit/chaos tests/unit/client tests/unit/clusters tests/unit/links tests/contract tests/recipes

# MkDocs is quiet about its own future, and finds ruff, which wraps the signatures.
MKDOCS := NO_MKDOCS_2_WARNING=1 PATH="$(CURDIR)/$(BIN):$$PATH" timeout 300 $(BIN)/mkdocs

# The same package with the oldest Ray that pyproject.toml allows.
OLDEST := .venv-oldest-ray
OLDEST_RAY := $(shell sed -n 's/^ *"ray>=\([0-9.]*\)",$$/\1/p' pyproject.toml)

# The clients of ZooKeeper for Node; the tests of one that cannot be installed or built are skipped.
NODE_CLIENTS := build/node/.tried

# Interpreters for `make test-wheel`, when they are not found by their version.
PYTHON_OLDEST ?=
PYTHON_NEWEST ?=

.PHONY: demo test test-oldest-ray test-wheel shell-coverage simulate check docs bench format clean
.DELETE_ON_ERROR:

demo: $(READY)  ## Three servers, six workers, two kills: the job ends with the right counts.
	$(BIN)/raykeeper demo

test: $(READY) $(NODE_CLIENTS)  ## The whole test suite: without Ray on all cores, then with two Ray clusters at a time.
	$(BIN)/python -m pytest -q -n logical --ignore tests/ray
	$(BIN)/python -m pytest -q -n 2 --dist loadfile tests/ray
	$(MAKE) test-oldest-ray
	$(MAKE) test-wheel

test-oldest-ray: $(OLDEST)/.ready  ## The smoke tests with the oldest Ray, whose own warnings are no errors.
	$(OLDEST)/bin/python -m pytest -q -W default --disable-warnings -m smoke -n 2 --dist loadfile tests/ray

test-wheel: $(READY)  ## Installs the wheel with the oldest and the newest Python and Ray, and runs the first programs.
	PYTHON_OLDEST=$(PYTHON_OLDEST) PYTHON_NEWEST=$(PYTHON_NEWEST) \
		$(BIN)/python -m pytest -q -m wheel -n 2 --dist loadscope tests/wheel

simulate: $(READY)  ## SEEDS runs of the simulator from seed FROM in JOBS processes, 0 for all cores.
	$(BIN)/python -m tests.simulation simulate --seeds $(SEEDS) --from $(FROM) --jobs $(JOBS)

check: $(READY)  ## Linter, formatter, types, the rules of the architecture, branches of the pure rooms, the site.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/tidy
	$(BIN)/python -m tests.tidy.proofs --check
	$(BIN)/python -m tests.tidy.pure_coverage
	folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT && $(MKDOCS) build --quiet --strict --site-dir "$$folder"

docs: $(READY)  ## The documentation as a site: site/index.html, to be served by any web server.
	$(MKDOCS) build --quiet --strict

shell-coverage: $(READY)  ## What of the shells the tests without Ray execute, compared with the list of what they do not.
	$(BIN)/python -m tests.tidy.shell_coverage $(OF_SHELLS)

bench: $(READY)  ## Three pure servers in one thread, with a profile.
	$(BIN)/python bench/core.py --profile

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) $(OLDEST) build dist site *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis

$(READY): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[bench,dev,docs]'
	touch $(READY)

$(NODE_CLIENTS):
	mkdir -p $(@D)
	npm install --silent --no-audit --no-fund --prefix $(@D) node-zookeeper-client@1.1.3 || true
	npm install --silent --no-audit --no-fund --prefix $(@D) --ignore-scripts zookeeper@7.3.0 || true
	cd $(@D)/node_modules/zookeeper && node scripts/prepublish.js && timeout 300 npm run --silent build || true
	touch $@

$(OLDEST)/.ready: pyproject.toml $(READY)
	test -n "$(OLDEST_RAY)"
	$(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check -e '.[dev]' 'ray==$(OLDEST_RAY)'
	touch $@
