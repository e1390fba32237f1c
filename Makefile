# Two commands are enough: `make quickstart` and `make test`. Both set up first.
PYTHON ?= python3
BIN := .venv/bin

# .venv first, so that every job of the workflow runs the same Python.
export PATH := $(CURDIR)/$(BIN):$(PATH)
# Where bytecode files are forbidden, every job would compile all its imports again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup quickstart test lint format lock bench torture

help:        ## list the commands
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*##/\t/'

setup: .venv/.ok  ## install the pinned packages into .venv

quickstart: setup ## set up and regenerate the quickstart study
	snakemake --cores all

test: setup  ## set up, check format and lint, run all tests
	$(MAKE) --no-print-directory lint
	pytest

lint: setup  ## formatting and linting, nothing is changed
	ruff format --check .
	ruff check .
	snakefmt --check Snakefile workflow
	snakemake --lint

format: setup ## format and mend what can be mended
	ruff format .
	ruff check --fix .
	snakefmt Snakefile workflow

bench: setup  ## docs/performance.md, some tens of minutes on a quiet machine; QUICK=1: a try, printed
	python benchmarks/report.py $(if $(QUICK),--quick)

torture: setup ## kills, full disks and garbage, as a Markdown table: an hour; TORTURE="--minutes 10 --seed 3" for less
	python tests/torture.py $(TORTURE)

lock: setup  ## requirements.in -> requirements.txt, pinned and hashed
	uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --python-version 3.11 \
	  --custom-compile-command 'make lock' requirements.in -o requirements.txt

.venv/.ok: requirements.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.12 $(MAKECMDGOALS)")'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "$$(grep -oE '^uv==[0-9.]+' $<)"
	VIRTUAL_ENV="$(CURDIR)/.venv" $(BIN)/uv pip sync --require-hashes $<
	touch $@
