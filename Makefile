# Everything sets itself up in .venv; all that is needed is Python 3.11 or newer and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: help demo test lint types unit index bench clean

help:
	@echo "make demo   run the main job on an example model"
	@echo "make test   lint, types, import layers and tests"
	@echo "make bench  benchmarks beside the peers"
	@echo "make index  rewrite the index of the collection"

$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

demo: $(READY)
	$(BIN)/onnx-passes demo

test: lint types unit

lint: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports

types: $(READY)
	$(BIN)/pyright

unit: $(READY)
	$(BIN)/pytest -n auto

index: $(READY)
	$(BIN)/python -m onnx_passes.testing.index

bench: $(READY)
	$(BIN)/python benchmarks/driver.py
	$(BIN)/python benchmarks/verification.py

clean:
	rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis .import_linter_cache dist
