# Each target sets up .venv by itself: a machine with Python >= 3.11, make and a network is enough.
PYTHON ?= python3
VENV   := .venv
PY     := $(VENV)/bin/python
READY  := $(VENV)/ready
WORKERS ?= 2

.DEFAULT_GOAL := help
.PHONY: help report test checks full formal bench browser docs lint readme readme-check clean

help:            ## what there is
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## *' '{printf "  make %-8s %s\n", $$1, $$2}'

$(READY): pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { echo "make: no $(PYTHON) found; install Python 3.11 or newer, or say make PYTHON=/path/to/python"; exit 2; }
	@$(PYTHON) -c 'import sys; v = sys.version_info; v >= (3, 11) or sys.exit(f"make: Python {v[0]}.{v[1]} is too old, 3.11 or newer is needed; say make PYTHON=/path/to/python3.11")'
	@test -x $(PY) || { echo "creating $(VENV)"; $(PYTHON) -m venv $(VENV); }
	@echo "installing pinned versions into $(VENV) (once; a few minutes)"
	@$(PY) -m pip install --quiet --constraint constraints.txt pip
	@$(PY) -m pip install --quiet --constraint constraints.txt --editable '.[torch,testing,training,plot]' --group dev
	@touch $@

report: $(READY) ## prove, check, run the quick experiments, render report/build/index.html and bayesgrad.tex
	-@$(PY) -m derivations --evidence
	-@$(PY) -m checks --mutants
	-@$(PY) -m checks
	-@$(PY) -m bayesgrad.training run --size quick
	@$(PY) -m report --pdf --strict

test: $(READY)   ## proof validation (checks/) and the tests of our own machinery (tests/)
	@$(PY) -m pytest -n $(WORKERS) --dist worksteal checks/ tests/

checks: $(READY) ## proof validation alone, with its ledger
	@$(PY) -m pytest checks/

formal: $(READY) ## compile the Coq proofs from clean, audit them, write their evidence
	@$(PY) -m derivations.formal --force

lint: $(READY)   ## ruff, mypy (strict for the core), who may import whom, generated files are current
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy
	@PYTHONPATH=. $(VENV)/bin/lint-imports --no-cache
	@$(PY) -m docs.generated --check

full: $(READY)   ## run the experiments at full size (hours) and write report/records/
	@$(PY) -m bayesgrad.training run --size full

docs: $(READY)   ## write every generated file: the catalogue, the book of claims, the API page
	@$(PY) -m docs.generated

bench: $(READY)  ## speed, memory, import time, sampling, training and accuracy beside their budgets; writes docs/benchmarks.md
	@$(PY) -m benchmarks --write docs/benchmarks.md

browser: $(READY) ## fetch what tests/browser/ drives a system Chromium with (playwright, axe-core; needs npm)
	@$(PY) -m pip install --quiet --constraint constraints.txt --group browser
	@npm ci --prefix tests/browser --no-audit --no-fund --silent

readme-check: $(READY)
	@$(PY) -m report --readme --check

readme: $(READY) ## write the status table of README.md from the evidence
	@$(PY) -m report --readme

clean:           ## remove what was built (not .venv, not runs/)
	rm -rf report/build derivations/formal/build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
