# Everything one does with this repository. `make` alone lists the targets.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PYTEST := $(BIN)/python -m pytest -p no:cacheprovider
export PYTHONHASHSEED := 0
export GX_ANALYTICS_ENABLED := false

.DEFAULT_GOAL := help

help: ## List the targets
	@grep -E '^[a-z][a-z-]*:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

$(STAMP): requirements/all.txt pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "Python 3.11 is needed: install it, or say make PYTHON=/path/to/python3.11"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --upgrade pip uv
	$(BIN)/uv pip sync -q --python $(BIN)/python requirements/all.txt
	$(BIN)/uv pip install -q --python $(BIN)/python --no-deps --no-build-isolation -e . || $(BIN)/python -m pip install -q --no-deps -e .
	touch $(STAMP)

setup: $(STAMP) ## Make the environment in .venv from the pinned requirements

requirements: ## Renew the pinned requirements on purpose
	$(BIN)/uv pip compile -q --no-header --no-annotate --no-emit-index-url --universal --python-version 3.11 --upgrade pyproject.toml -o requirements/base.txt
	$(BIN)/uv pip compile -q --no-header --no-annotate --no-emit-index-url --universal --python-version 3.11 pyproject.toml --extra airflow --group dev -c requirements/base.txt -o requirements/all.txt

lint: $(STAMP) ## Style, types and import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test-domain: $(STAMP) ## The tests that need neither a JVM, a broker, Airflow nor a browser
	$(PYTEST) -q -m "not (spark or broker or airflow or browser)"

test: test-domain ## Every test, the fast ones first
	$(PYTEST) -q -m spark
	$(PYTEST) -q -m broker
	$(PYTEST) -q -m airflow
	$(PYTEST) -q -m browser

demo: $(STAMP) ## Recorded evidence of real clusters through the whole path, then the app
	$(BIN)/rebalance-audit demo

live: $(STAMP) ## The same on a lab cluster started now, with rebalances happening while you watch
	$(BIN)/rebalance-audit demo --live

clean: ## Remove what builds and runs left behind (not .venv)
	rm -rf .build .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache build ./*.egg-info spark-warehouse

.PHONY: help setup requirements lint test-domain test demo live clean
