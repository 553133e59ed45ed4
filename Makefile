# Everything one does with this repository. `make` alone lists the targets.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# tests.skips: with CI=true a skipped test is a failed one.
PYTEST := $(BIN)/python -m pytest -q -p no:cacheprovider -p tests.skips
OLD ?= 4.3.0
NEW ?= 4.4.0
SKIPPED := .build/skipped-tiers
FAILED := .build/failed-tiers
AT_ONCE ?= 2
KAFKA ?= 4.3.0
export PYTHONHASHSEED := 0
export GX_ANALYTICS_ENABLED := false
# Many images set it. Then each process that a test starts compiles all it imports: 6 s of CPU in place of 2.5 where that is Airflow or Streamlit.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help

help: ## List the targets
	@echo "Begin with make demo (needs Python alone) or make doctor. All targets:"
	@width=1000; if [ -t 1 ]; then width=$$(stty size 2>/dev/null | cut -d' ' -f2); fi; \
	grep -E '^[a-z][a-z-]*:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' -v width=$${width:-80} '{ \
	  line = sprintf("  make %-18s", $$1); count = split($$2, words, " "); \
	  for (i = 1; i <= count; i++) { \
	    if (length(line) + length(words[i]) >= width) { print line; line = sprintf("%25s", "") } \
	    line = line " " words[i] \
	  } \
	  print line \
	}'

$(STAMP): requirements/all.txt pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "Python 3.11 is needed: install it, or say make PYTHON=/path/to/python3.11"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	test -x $(BIN)/uv || $(BIN)/python -m pip install -q --disable-pip-version-check uv
	$(BIN)/uv pip sync -q --python $(BIN)/python requirements/all.txt
	$(BIN)/uv pip install -q --python $(BIN)/python --no-deps -e .
	touch $(STAMP)

setup: $(STAMP) ## Make the environment in .venv from the pinned requirements

requirements: ## Renew the pinned requirements on purpose
	$(BIN)/uv pip compile -q --no-header --no-annotate --no-emit-index-url --universal --python-version 3.11 --upgrade pyproject.toml --extra all --group dev -o requirements/all.txt
	$(BIN)/uv pip compile -q --no-header --no-annotate --no-emit-index-url --universal --python-version 3.11 pyproject.toml --extra collector --extra spark --extra ui -c requirements/all.txt -o requirements/base.txt

lint: $(STAMP) ## Style, types and import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# One tier: its name, its tests, the tools it needs (a|b: either), and pytest's own options. A tier without its tool is counted, and fails CI;
# a tier that finds no test fails by itself (pytest's status 5). To collect all tests takes pytest half a minute, so a tier with a mark of its
# own, the first word of its tests, is looked for only where that mark is set. Tests that call `make` do not belong to this one's jobs.
define tier
	@lacking=; \
	for tools in $(3); do \
	  found=; for tool in $$(echo $$tools | tr '|' ' '); do command -v $$tool >/dev/null && found=yes; done; \
	  [ -n "$$found" ] || lacking="$$lacking $$(echo $$tools | sed 's/|/ or /g')"; \
	done; \
	if [ -z "$$lacking" ]; then echo "== $(1) tests"; \
	  unset MAKEFLAGS MFLAGS; \
	  $(PYTEST) $(4) -m "$(2)" $$(grep -rlE 'mark\.$(firstword $(2))\b' tests --include='*.py' | sed 's|/conftest.py$$||') \
	    || { status=$$?; mkdir -p .build; echo "$(1)" >> $(FAILED); exit $$status; }; \
	else \
	  echo "== SKIPPED: the $(1) tests need$$lacking (see rebalance-audit doctor)"; \
	  mkdir -p .build; echo "$(1)" >> $(SKIPPED); [ "$$CI" != true ] || { echo "$(1)" >> $(FAILED); exit 1; }; \
	fi
endef

test-domain: $(STAMP) ## The tests that need neither a JVM, a broker, Airflow nor a browser
	$(call tier,quick,not (spark or broker or airflow or browser or differential or own),,-n auto --dist loadfile)

test-spark: $(STAMP) ## The stages on real Spark
	$(call tier,Spark,spark and not (broker or airflow or browser),java)

check-infra: ## infra/compose.yml by Compose's own loader, which Go fetches
	go run github.com/compose-spec/compose-go/v2/cmd@v2.16.2 -no-interpolation infra/compose.yml > /dev/null

ARCHIVE := .build/rebalance-audit.pex

archive: $(ARCHIVE) ## The environment as one file for the workers of a Spark cluster (.build/rebalance-audit.pex)

$(ARCHIVE): $(STAMP) $(shell find rebalance_audit spark_jobs -name '*.py')
	@mkdir -p .build
	$(BIN)/pex --venv-repository $(VENV) --inherit-path=fallback rebalance-audit pandas -o $(ARCHIVE)

COMPILED := .build/compiled

archive-compiled: $(COMPILED)/.made ## The archive with the compiled domain, for workers of this kind of machine (decision 0110)
	rm -rf .build/archived
	$(BIN)/uv venv -q --python $(BIN)/python .build/archived
	$(BIN)/uv pip install -q --python .build/archived/bin/python -c requirements/all.txt $(COMPILED)/*.whl pandas
	$(BIN)/pex --venv-repository .build/archived --inherit-path=fallback rebalance-audit pandas -o $(ARCHIVE)

compile: $(COMPILED)/.made ## The packages with the compiled domain, in .build/compiled, for PYTHONPATH (decision 0105)

$(COMPILED)/.made: $(STAMP) setup.py $(shell find rebalance_audit spark_jobs ingest -name '*.py')
	rm -rf $(COMPILED)
	@mkdir -p .build && touch .build/compile-began
	REBALANCE_AUDIT_COMPILE=1 $(BIN)/uv build -q --python $(BIN)/python --out-dir $(COMPILED)
	cd $(COMPILED) && $(CURDIR)/$(BIN)/python -m zipfile -e *.whl . && rm *.tar.gz
	touch -r .build/compile-began $@

# These read docstrings, which compiled functions do not have. The limits are for a compiled loop that does not end.
NO_DOCSTRINGS := not says_when_it_is_silent and not has_its_reason_under_it and not is_in_some_case_and_says_what_it_is

test-compiled: $(COMPILED)/.made ## The tests of the domain on the compiled form, and both forms' answers against each other
	ulimit -v 8000000 && PYTHONSAFEPATH=1 PYTHONPATH=$(COMPILED):. timeout 1800 $(PYTEST) --import-mode=append -n auto --dist loadfile \
		-k "$(NO_DOCSTRINGS)" tests/domain tests/test_compiled.py

cluster: $(STAMP) ## The stages on a Spark standalone cluster over an S3 server: tables equal to those of one process
	$(PYTEST) -v tests/spark_jobs/test_cluster.py

cluster-kills: $(STAMP) ## The same by spark-submit, a worker killed in each stage, speculation on (CAPTURES="FOLDER…", or --all)
	$(BIN)/python -m tests.spark_jobs.on_cluster $(CAPTURES)

cluster-scale: $(STAMP) ## First runs on such a cluster beside local[2], in turns (FLAGS="--sizes 20000 60000 --times 2 --store")
	$(BIN)/python -m bench.cluster $(FLAGS)

cluster-all: cluster cluster-kills cluster-scale ## All three: equality, faults, and the scale table

test-broker: $(STAMP) ## Live scenarios on real Kafka and Connect
	$(call tier,live cluster,broker and not (airflow or browser),java javac mvn)

test-differential: export DIFFERENTIAL_CASES ?= 500000
test-differential: $(STAMP) ## Half a million records, and 2,000 groups of each assignor: ours against Kafka's own classes
	$(call tier,differential,differential,java javac mvn)

score: $(STAMP) ## Every capture, golden and in captures/, against what its clients saw (FLAGS=--failures: what is wrong)
	$(BIN)/python -m tests.score $(FLAGS)
	$(BIN)/python -m tests.replay_pairs tests/pairs tests/pairs_unseen

unions: $(STAMP) ## All captures, as for score, in one warehouse: each group gets the rows it gets alone, in any order
	$(BIN)/python -m tests.spark_jobs.unions

support: $(STAMP) ## docs/support.md: the same counts by client library and version of the broker
	@mkdir -p .build
	$(BIN)/python -m tests.support > .build/support.md && mv .build/support.md docs/support.md

test-airflow: $(STAMP) ## The DAGs, and one real run
	$(call tier,Airflow,airflow and not browser,$(BIN)/airflow java)

test-browser: $(STAMP) ## The app in a real browser
	$(call tier,browser,browser,'chromium|chromium-browser|google-chrome')

test-collector: $(STAMP) ## Traces against the OpenTelemetry Collector itself, which Go builds (two minutes the first time)
	$(PYTEST) -m own tests/alerts/test_collector.py

pictures: $(STAMP) ## Every page of the app as a picture, into .build/pictures (FLAGS=--docs: renew those of the docs)
	$(BIN)/python -m tests.app.pictures $(FLAGS)

# The other tiers wait half of their time, for brokers, JVMs and pages, so two go at a time; the longest begin. What a tier says comes when it
# is over, as one block (a make that cannot, such as that of macOS, mixes them). Airflow goes alone: on SQLite a backfill that is created slowly
# meets the scheduler's own writes, and "database is locked" ends it.
test: $(STAMP) ## Every test: the quick ones, then the other tiers two at a time (AT_ONCE=1: one by one), Airflow alone
	@rm -f $(SKIPPED) $(FAILED)
	@$(MAKE) --no-print-directory test-domain
	@status=0; \
	$(MAKE) --no-print-directory --keep-going --jobs=$(AT_ONCE) $(if $(filter output-sync,$(.FEATURES)),--output-sync=target) \
	  test-broker test-browser test-spark test-differential || status=1; \
	$(MAKE) --no-print-directory test-airflow || status=1; \
	[ $$status -eq 0 ] || { echo "== FAILED: $$(paste -sd, $(FAILED))"; exit 1; }
	@if [ -f $(SKIPPED) ]; then echo "== $$(wc -l < $(SKIPPED)) kinds of tests were skipped: $$(paste -sd, $(SKIPPED))"; \
	  else echo "== all kinds of tests ran"; fi

site: $(STAMP) ## The docs as a site, into .build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict -q

tour: $(STAMP) ## docs/tour.md typed in a clean clone with an environment of its own
	$(BIN)/python -m tests.docs.tour

sbom: $(STAMP) ## What is installed, as CycloneDX, into .build/sbom.json; and what is known to be wrong with it
	@mkdir -p .build
	$(BIN)/uv tool run -q --from cyclonedx-bom cyclonedx-py environment $(VENV) --pyproject pyproject.toml --of JSON -o .build/sbom.json
	$(BIN)/uv tool run -q pip-audit --disable-pip --no-deps -r requirements/all.txt

matrix: $(STAMP) ## The wheel on every Python that uv can fetch: the same rows of captures of every Kafka version
	$(BIN)/python -m tests.matrix

demo: $(STAMP) ## Recorded evidence of real clusters through the whole path, then the app
	$(BIN)/rebalance-audit demo

live: $(STAMP) ## The same on a lab cluster started now, with rebalances happening while you watch
	$(BIN)/rebalance-audit demo --live

up: $(STAMP) ## The whole set on this machine: cluster, collectors, store, Spark, Airflow, app, Prometheus (FLAGS=--no-airflow)
	$(BIN)/python -m tests.up $(FLAGS)

test-up: $(STAMP) ## The same without Airflow: a consumer is killed, somebody is alerted, the page says who (two minutes)
	$(PYTEST) -s -m own -k "not airflow" tests/infra/test_up.py

test-up-airflow: $(STAMP) ## The same with Airflow: the DAG's own task alerts (twenty minutes)
	$(PYTEST) -s -m own -k airflow tests/infra/test_up.py

doctor: $(STAMP) ## What this machine lacks
	$(BIN)/rebalance-audit doctor

capture: $(STAMP) ## Make all captures of one version again, into captures/ (KAFKA=4.3.0)
	@for scenario in $$($(BIN)/python -m infra.lab list --kafka $(KAFKA) | grep '^[a-z]'); do \
	  $(BIN)/python -m infra.lab capture $$scenario --kafka $(KAFKA) || exit 1; \
	done

compare-versions: $(STAMP) ## What two Kafka versions differ in that we read (OLD=4.3.0 NEW=4.4.0): schemas, lines, assignors
	$(BIN)/python -m infra.lab.compare_versions $(OLD) $(NEW)

differential: $(STAMP) ## Ten million records, and 200,000 groups of each assignor: ours against Kafka's own classes
	$(BIN)/python -m tests.differential 10000000
	$(BIN)/python -m tests.differential.assignors 200000

faults: $(STAMP) ## Faults between broker and phone: 5,000 simulated runs, and 200 of real processes that are killed
	$(BIN)/python -m tests.faults.simulator 5000
	$(BIN)/python -m tests.faults.processes 200

FUZZ_VENV := .build/fuzz-venv

$(FUZZ_VENV)/.installed: tests/fuzz/requirements.txt
	$(PYTHON) -m venv $(FUZZ_VENV)
	$(FUZZ_VENV)/bin/python -m pip install -q -r tests/fuzz/requirements.txt
	touch $@

fuzz: $(FUZZ_VENV)/.installed ## Coverage-guided fuzzing of every decoder and line parser (EXECUTIONS=200000 each)
	$(FUZZ_VENV)/bin/python -m tests.fuzz $(or $(EXECUTIONS),200000)

bench: $(STAMP) ## Every benchmark
	@for file in bench/*.py; do \
	  name=$$(basename $$file .py); [ $$name = __init__ ] || { echo "== $$name"; $(BIN)/python -m bench.$$name || exit 1; }; \
	done

clean: ## Remove what builds and runs left behind (not .venv)
	rm -rf .build .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache build ./*.egg-info spark-warehouse

.PHONY: help setup requirements archive archive-compiled compile test-compiled cluster cluster-kills cluster-scale cluster-all check-infra lint test test-domain test-spark test-differential \
	test-broker test-airflow test-browser site tour sbom matrix demo live up test-up test-up-airflow doctor \
	capture pictures score unions compare-versions differential faults fuzz bench clean
