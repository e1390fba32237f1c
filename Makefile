# `make quickstart` and `make test` are all you need. Both install the packages first.
PYTHON ?= python3
BIN := .venv/bin

# .venv comes first, so that every job of the workflow runs the same Python.
export PATH := $(CURDIR)/$(BIN):$(PATH)
# Without bytecode files every job would compile all of its imports again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup quickstart test check repeat lint format lock docs fidelity gpu containers bench torture

help:        ## list these commands
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*##/\t/'

setup: .venv/.ok  ## install the pinned packages into .venv

quickstart: setup ## run the quickstart study
	snakemake --cores all

test: setup  ## check format and lint, then run all tests
	$(MAKE) --no-print-directory lint
	pytest

check: setup ## check format and lint, run the fast tests: under two minutes on two cores
	$(MAKE) --no-print-directory lint
	pytest tests/unit tests/golden tests/repository -m 'not slow'

N ?= 10
TESTS ?= tests/faults tests/workflow
repeat: setup ## run TESTS N times, stop at the first failure; one log per repetition in logs/tests
	@mkdir -p logs/tests
	@set -e; for i in $$(seq $(N)); do \
	  echo "$$i of $(N): logs/tests/$$i.log"; \
	  pytest --exitfirst $(TESTS) > logs/tests/$$i.log 2>&1 || { tail -n 20 logs/tests/$$i.log; exit 1; }; \
	done

lint: setup  ## check format and lint without changing files
	ruff format --check .
	ruff check .
	snakefmt --check Snakefile workflow
	snakemake --lint

format: setup ## format the code and fix what the linter can fix
	ruff format .
	ruff check --fix .
	snakefmt Snakefile workflow

docs: setup ## build the manual into manual/, which opens without a server: manual/index.html
	NO_MKDOCS_2_WARNING=1 mkdocs build --quiet

fidelity: setup ## list what the tests compare with the original programs, write docs/fidelity.md
	PYTHONPATH=tests:workflow/scripts python -m support.golden.fidelity

gpu: setup ## count what every row does on a simulated GPU, write tests/golden/gpu_counts.csv
	PYTHONPATH=tests:workflow/scripts python -m support.golden.gpu_counts

containers: setup ## write Dockerfile and apptainer.def from envs/
	PYTHONPATH=tests python -m support.project.containers

bench: setup  ## measure performance, write docs/performance.md (tens of minutes, idle machine); QUICK=1: shortened, only printed
	python benchmarks/report.py $(if $(QUICK),--quick)

torture: setup ## try kills, full disks and corrupt files for an hour, print a table; TORTURE="--minutes 10 --seed 3": shorter
	python tests/torture.py $(TORTURE)

lock: setup  ## pin and hash requirements.in into requirements.txt
	uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --python-version 3.11 \
	  --custom-compile-command 'make lock' requirements.in -o requirements.txt

.venv/.ok: requirements.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Recheck needs Python 3.11 or newer. Name one: make PYTHON=python3.12 $(MAKECMDGOALS)")'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "$$(grep -oE '^uv==[0-9.]+' $<)"
	VIRTUAL_ENV="$(CURDIR)/.venv" $(BIN)/uv pip sync --require-hashes $<
	touch $@
