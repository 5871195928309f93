# Two commands are enough on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help setup demo test slow check fix docs bench serve clean

help: ## List the targets
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-7s %s\n", $$1, $$2}'

setup: $(READY) ## Create the environment and install unmask with everything its tests need

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "unmask needs Python 3.11 or newer; set PYTHON=python3.11"; exit 1; }
	@echo "installing unmask and what its tests need into $(VENV): some minutes, in which pip says nothing"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $(READY)

demo: $(READY) ## Harvest the installed documentation, train on it, show what was learned
	$(BIN)/unmask demo -o demo-out

test: $(READY) ## Run the tests (under ten minutes on two cores)
	$(BIN)/python -m pytest -n 2 --dist worksteal

slow: $(READY) ## Run the slow tests: faults, clean installs, many families
	$(BIN)/python -m pytest -m slow

check: $(READY) ## Lint, format and types, without changing anything
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

fix: $(READY) ## Mend what lint and format can mend by themselves, and write the reference anew
	$(BIN)/python tools/reference.py
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

docs: $(READY) ## Build the documentation into site/, warnings as errors
	$(BIN)/mkdocs build --strict --quiet

ASKED := common encoders hf_mlm hybrid search sizes  # they need to be told what to do
bench: $(READY) ## Run the benchmarks and write benchmarks/results/ (needs the real data, see benchmarks/README.md)
	for script in $(filter-out $(ASKED:%=benchmarks/%.py),$(wildcard benchmarks/*.py)); do $(BIN)/python $$script || exit 1; done

serve: $(READY) ## Serve the documentation on http://127.0.0.1:8000
	$(BIN)/mkdocs serve --strict

clean: ## Remove the environment and everything that was built
	rm -rf $(VENV) demo-out site dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis
