# Everything a contributor runs. Each target sets up what it needs: a fresh machine needs git, make and Python 3.11.

PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python
STAMP := $(VENV)/.installed
PYTEST_ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help setup demo test check lint types pytest format bench chaos soak clean

help:
	@echo "make demo    a command, five watchers, every byte: the main job, shown"
	@echo "make test    ruff, mypy and all tests"
	@echo "make check   ruff and mypy only"
	@echo "make format  apply ruff's fixes and format"
	@echo "make bench   measure against plain subprocess"
	@echo "make chaos   random faults under load, ten minutes"
	@echo "make soak    long fuzzing and load"
	@echo "make clean   remove what these targets made"

setup: $(STAMP)

$(STAMP): pyproject.toml scripts/bootstrap.py
	$(PYTHON) scripts/bootstrap.py $(VENV) $(STAMP)

demo: $(STAMP)
	$(RUN) docs/tutorial/demo.py

test: check pytest

check: lint types

lint: $(STAMP)
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .

types: $(STAMP)
	$(RUN) -m mypy

pytest: $(STAMP)
	$(RUN) -m pytest $(PYTEST_ARGS)

format: $(STAMP)
	$(RUN) -m ruff check --fix .
	$(RUN) -m ruff format .

bench: $(STAMP)
	$(RUN) -m pytest tests/benchmarks tests/notebook tests/browser -m bench -s -o timeout=900 -o faulthandler_timeout=900 $(PYTEST_ARGS)

chaos: $(STAMP)
	$(RUN) -m pytest tests/chaos -m chaos -s -o timeout=900 -o faulthandler_timeout=900 $(PYTEST_ARGS)

soak: $(STAMP)
	$(RUN) -m pytest tests -m soak -o timeout=3600 -o faulthandler_timeout=3600 $(PYTEST_ARGS)

clean:
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find execzmq tests docs scripts -name __pycache__ -type d -prune -exec rm -rf {} +
