# featlearn: `make demo` and `make test` work in a fresh clone with Python 3.11 or newer and nothing else installed.
#
# PYTHON=python3.12 picks the interpreter for .venv; otherwise the first of CANDIDATES that is new enough and complete.
# pip shows errors only.

CANDIDATES := python3 python3.14 python3.13 python3.12 python3.11
ifdef PYTHON
CANDIDATES := $(PYTHON)
endif

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --quiet --disable-pip-version-check

.PHONY: help demo test lint types docs clean

help:
	@echo "make demo    install into .venv, run emergence/table1 at preset small, print its table and page"
	@echo "make test    install with the development tools, then ruff, pyright and pytest"
	@echo "make docs    build the documentation into build/docs/"
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
	@PYRIGHT_PYTHON_IGNORE_WARNINGS=1 $(BIN)/pyright > $(VENV)/pyright.txt || { cat $(VENV)/pyright.txt; exit 1; }

docs: $(VENV)/.installed-dev
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	@echo "build/docs/index.html"

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
