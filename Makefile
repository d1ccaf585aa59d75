# featlearn: `make demo` and `make test` work in a fresh clone with Python 3.11 or newer and nothing else installed.
#
# PYTHON=python3.12 picks the interpreter for .venv; otherwise the first of CANDIDATES that is new enough and complete.
# pip shows errors only.

CANDIDATES := python3 python3.14 python3.13 python3.12 python3.11
ifdef PYTHON
CANDIDATES := $(PYTHON)
endif

# Hundreds of processes of the tests load the package: none but the first is to compile it.
unexport PYTHONDONTWRITEBYTECODE

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --quiet --disable-pip-version-check

# What `make lowest` and `make newest` run: the tests that meet the dependencies, without works and long ones.
QUICK := --numprocesses 2 --dist loadfile -m "not slow" $(addprefix --ignore=tests/,works lab test_mutants.py test_package.py test_gates.py)
NEWEST := python3.14 python3.13 python3.12

.PHONY: help demo test claims fuzz lint types docs wheel wheel-test lowest newest mutants hooks clean

help:
	@echo "make demo    install into .venv, run emergence/table1 at preset small, print its table and page"
	@echo "make test    install with the development tools, then ruff, pyright and pytest"
	@echo "make docs    build the documentation into build/docs/"
	@echo "make wheel-test   build the wheel and use it in an empty environment"
	@echo "make lowest  quick tests with the lowest declared version of every dependency"
	@echo "make newest  quick tests with the newest Python that is installed"
	@echo "make mutants      every committed mutant (make test: a drawn tenth); ONLY=lab/trial those of some files"
	@echo "make claims  every typed claim, all of them traced (make test: a third)"
	@echo "make fuzz    100,000 damaged files and odd command lines, new ones each time (make test: a few hundred)"
	@echo "make hooks   ruff before each commit"
	@echo "make clean   remove .venv, caches and built documentation; runs/, site/ and evidence/ stay"

demo: $(VENV)/.installed
	@$(BIN)/featlearn run emergence/table1 --preset small

# A file's tests stay on one worker, since they share fixtures.
test: lint types
	@$(BIN)/python -m pytest --numprocesses auto --maxprocesses 8 --dist loadfile

lint: $(VENV)/.installed-dev
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --check .

types: $(VENV)/.installed-dev
	@$(BIN)/python scripts/types_ratchet.py

docs: $(VENV)/.installed-dev
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	@echo "build/docs/index.html"

wheel: $(VENV)/.installed-dev
	@rm -rf build/wheel
	@$(BIN)/python -m pip wheel --quiet --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir build/wheel .

wheel-test: wheel
	@$(BIN)/python scripts/wheel_test.py build/wheel/*.whl

mutants: $(VENV)/.installed-dev
	@FEATLEARN_MUTANTS=all $(BIN)/python -m pytest tests/test_mutants.py -k "$(ONLY)"

claims: $(VENV)/.installed-dev
	@FEATLEARN_CLAIMS=all $(BIN)/python -m pytest --numprocesses auto --maxprocesses 8 tests/works/test_typed_claims.py

fuzz: $(VENV)/.installed-dev
	@FEATLEARN_FUZZ=100000 $(BIN)/python -m pytest --numprocesses auto --maxprocesses 8 tests/fuzz

hooks: $(VENV)/.installed-dev
	@$(BIN)/pre-commit install

# Warnings of old releases about even newer ones are not ours to mend: they are no errors here.
lowest: $(VENV)/.installed-dev
	@$(BIN)/uv venv --quiet --clear --python $(BIN)/python build/lowest
	@$(BIN)/uv pip install --quiet --python build/lowest/bin/python --resolution lowest-direct --editable ".[dev]"
	@build/lowest/bin/python -m pytest -W default $(QUICK)

newest: $(VENV)/.installed-dev
	@for python in $(NEWEST); do if $$python -c "$(BARE)" 2>/dev/null; then found=$$python; break; fi; done; \
	if [ -z "$$found" ]; then \
	  echo "no newer Python here ($(NEWEST)): install one or name it (make newest NEWEST=python3.14)" >&2; \
	  exit 1; \
	fi; \
	$(BIN)/uv venv --quiet --clear --python "$$(command -v $$found)" build/newest && \
	$(BIN)/uv pip install --quiet --python build/newest/bin/python --editable ".[dev]" && \
	build/newest/bin/python --version && \
	build/newest/bin/python -m pytest -W default $(QUICK)

clean:
	@rm -rf $(VENV) build dist .pytest_cache .ruff_cache src/*.egg-info
	@find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamps make a second `make` start at once; a change of the dependencies installs again.

$(VENV)/.installed: $(VENV)/.made pyproject.toml
	@echo "Installing featlearn into $(VENV) (PyTorch is a large download the first time)"
	@$(PIP) --editable .
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.made pyproject.toml
	@echo "Installing featlearn and the development tools into $(VENV) (PyTorch is a large download the first time)"
	@$(PIP) --editable ".[dev]"
	@touch $@ $(VENV)/.installed

# One line says what is missing: a version check first, then venv and ensurepip, which some systems package apart.
OLD := import sys; sys.exit(sys.version_info < (3, 11))
BARE := import venv, ensurepip

$(VENV)/.made:
	@found=; old=; bare=; \
	for python in $(CANDIDATES); do \
	  $$python -c "" 2>/dev/null || continue; \
	  if ! $$python -c "$(OLD)"; then old=$$python; continue; fi; \
	  if ! $$python -c "$(BARE)" 2>/dev/null; then bare=$$python; continue; fi; \
	  found=$$python; break; \
	done; \
	if [ -z "$$found" ] && [ -n "$$bare" ]; then \
	  echo "$$bare has no venv module: install it (on Debian and Ubuntu: apt install python3-venv) and run make again" >&2; \
	  exit 1; \
	elif [ -z "$$found" ] && [ -n "$$old" ]; then \
	  echo "featlearn needs Python 3.11 or newer, $$old is $$($$old -c 'import platform; print(platform.python_version())'): install a newer one or name it (make PYTHON=python3.12)" >&2; \
	  exit 1; \
	elif [ -z "$$found" ]; then \
	  echo "no Python found ($(CANDIDATES)): install Python 3.11 or newer or name it (make PYTHON=python3.12)" >&2; \
	  exit 1; \
	fi; \
	if ! $(BIN)/python -c "import pip; $(OLD)" 2>/dev/null; then $$found -m venv --clear $(VENV); fi; \
	touch $@
