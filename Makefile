# Everything sets itself up in .venv; all that is needed is Python 3.11 or newer and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
CLIENTS := .venv-clients
ZOO_ENV := .venv-zoo
PEERS := .venv-peers
RELEASE := .venv-release
DOCS := .venv-docs
ZOO ?= out/zoo
REAL ?= out/real
MODELS ?= $(ONNX_PASSES_MODELS)
MINUTES ?= 30
JOBS ?= 0
FOUND ?= out/found
# One module of tests for each package, none of which takes long.
QUICK := tests/test_api.py tests/test_surface.py $(addprefix tests/, \
    analysis/test_streamlined.py backend/test_integer_network.py check/test_verdict.py cli/test_commands.py \
    core/test_pipeline.py datatypes/test_types.py debug/test_bisect.py docs/test_words.py drawing/test_draw.py \
    fragment/test_digest.py graph/test_load.py helpers/test_random_models.py history/test_lineage.py \
    house/test_limits.py legacy/test_authors.py mutants/test_running.py numbers/test_surds.py ops/test_quant.py \
    passes/streamline/test_streamline.py planted/test_rare.py plugins/test_plugins.py proofs/test_soundness.py \
    report/test_data.py rewrite/test_driver.py session/test_session.py testing/test_index.py \
    verify/comparison/test_compare.py workers/test_processes.py zoo/test_comparison.py)

.PHONY: help demo docs docs-check docs-outputs test check lint types unit quick models mutants index surface prove viewer viewer-check screenshots bench bench-publish bench-simplify bench-real fuzz release-check dist clients clients-hls4ml clients-openvino clients-qonnx clean

help:
	@echo "make demo   run the main job on an example model"
	@echo "make test   lint, types, import layers, documentation and tests"
	@echo "make check  lint, types, import layers and one module of tests for each package, in two minutes"
	@echo "make models  tests of models of others: ONNX_PASSES_MODELS=FOLDER"
	@echo "make docs   build the documentation: out/docs/index.html; make docs-outputs  run its blocks, write what they print"
	@echo "make bench  benchmarks beside the peers; make bench-simplify  simplifiers on exports of timm, transformers, …"
	@echo "make bench-real  verified commands on models that public packages ship"
	@echo "make clients  programs that use the passes, or what they export: FINN+, hls4ml, OpenVINO, QONNX"
	@echo "make fuzz   random models under random pipelines, then every rule: MINUTES=30 JOBS=0 FOUND=out/found"
	@echo "make mutants  run the tests of trusted packages on small changes of these, which they have to notice"
	@echo "make index  rewrite the index of the collection; make surface  rewrite the list of public names"
	@echo "make dist  build wheel and sdist; make release-check  try them in fresh environments"
	@echo "make prove  prove laws and rules whose source has changed, rewrite their certificates; ANEW=1 all; RULES='pass pass/rule …' just these"
	@echo "make viewer  build the page that shows reports (wants node); make screenshots  its pictures for the README"

$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

demo: $(READY)
	@mkdir -p out
	$(BIN)/onnx-passes demo --report out/report.html

# Checks that use one core run beside the tests.
test: $(READY)
	$(MAKE) --jobs=2 lint types viewer-check docs-check unit

lint: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports

types: $(READY)
	$(BIN)/pyright

unit: $(READY)
	$(BIN)/pytest -n auto --dist worksteal --durations 20 --durations-min 4

# For the impatient.
check: $(READY)
	$(MAKE) --jobs=2 lint types quick

quick: $(READY)
	$(BIN)/pytest -q -n 2 $(QUICK)

models: $(READY)
	@test -n "$(ONNX_PASSES_MODELS)" || { echo "ONNX_PASSES_MODELS=FOLDER names the models of others"; exit 2; }
	$(BIN)/pytest -n auto --dist worksteal -m models

mutants: $(READY)
	$(BIN)/python -m tests.mutants

index: $(READY)
	$(BIN)/python -m onnx_passes.testing.index

# Public names and their signatures, which a test holds the package to.
surface: $(READY)
	PYTHONPATH=docs:src $(BIN)/python -m generators.surface tests

# Sphinx needs nothing of ours, so its environment is small and is made in seconds.
$(DOCS)/.ready: pyproject.toml
	$(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/python docs/requirements.py | $(DOCS)/bin/python -m pip install --quiet --disable-pip-version-check --requirement /dev/stdin
	@touch $@

BUILDER := html
docs: $(DOCS)/.ready $(READY)
	$(BIN)/python docs/generate.py
	$(DOCS)/bin/sphinx-build --fail-on-warning --keep-going --quiet --fresh-env --builder $(BUILDER) docs out/docs
	@[ $(BUILDER) != html ] || echo "out/docs/index.html"

# Pages and references without writing them, which takes most of the time. Where Sphinx cannot be had, the tests of
# blocks and links still run.
docs-check:
	@if $(MAKE) --silent $(DOCS)/.ready > /dev/null 2>&1; then $(MAKE) --silent docs BUILDER=dummy; \
	else echo "the documentation is not built: Sphinx could not be installed"; fi

docs-outputs: $(READY)
	$(BIN)/python -m tests.docs.pages

# Certificates are in the package, since runs look them up; docs/reference/laws.md is their table.
prove: $(READY)
	$(BIN)/onnx-passes prove $(or $(RULES),--all) $(if $(ANEW)$(RULES),,--stale) --write --jobs 0
	$(BIN)/python -m onnx_passes.testing.prove.certify

# The page is in the package, so that users need no node; here it is made, and compared with what its source makes.
viewer:
	cd web && npm ci --silent --ignore-scripts && node_modules/.bin/tsc --noEmit && node build.mjs

viewer-check:
	@web/check.sh

screenshots: $(READY)
	$(BIN)/python web/screenshots.py docs/images
	@mkdir -p out
	$(BIN)/onnx-passes -q -o out/digits.onnx src/onnx_passes/examples/digits_mlp.onnx streamline
	$(BIN)/onnx-passes draw out/digits.onnx --before src/onnx_passes/examples/digits_mlp.onnx --around relu1/Quant/Quant \
	    --hops 1 -o docs/images/drawing.svg

# Half of the time for whole models, half for rules; again, it goes on where it ended, until all sources are the same.
fuzz: $(READY)
	-$(BIN)/onnx-passes fuzz --models all --cases 100 --minutes $$(( ($(MINUTES) + 1) / 2 )) -j $(JOBS) --corpus $(FOUND)/models
	$(BIN)/onnx-passes fuzz --all --minutes $$(( ($(MINUTES) + 1) / 2 )) -j $(JOBS) --corpus $(FOUND)/rules

bench: $(READY) bench-simplify
	$(BIN)/python benchmarks/start.py --peers $(PEERS)
	$(BIN)/python benchmarks/driver.py
	$(BIN)/python benchmarks/verification.py $(wildcard $(ZOO)/*.onnx)

# What the benchmarks wrote to out/results.json is what the documentation shows from now on.
bench-publish:
	mkdir -p docs/benchmarks
	cp out/results.json docs/benchmarks/results.json

# Models of the usual libraries, exported with random weights, simplified by us and by our peers: out/simplify.md.
bench-simplify: $(READY) $(ZOO_ENV)/.ready $(PEERS)/.ready
	-$(ZOO_ENV)/bin/python benchmarks/zoo.py $(ZOO)
	$(BIN)/python benchmarks/simplify.py $(ZOO) --peers $(PEERS)/bin/python --out out

# Models that public packages ship, listed in benchmarks/real_files.csv, simplified by whole commands: out/verified.md.
bench-real: $(READY) $(PEERS)/.ready
	-$(BIN)/python benchmarks/collect.py $(REAL)
	$(BIN)/python benchmarks/verified.py $(REAL) --peers $(PEERS)/bin/python --out out

$(ZOO_ENV)/.ready: benchmarks/zoo.txt
	$(PYTHON) -m venv $(ZOO_ENV)
	$(ZOO_ENV)/bin/python -m pip install --quiet --disable-pip-version-check --requirement $<
	@touch $@

$(PEERS)/.ready: benchmarks/peers.txt
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check --requirement $<
	@touch $@

# The programs of others want versions of their own.
$(CLIENTS)/.ready: tests/clients/finn_plus.txt
	$(PYTHON) -m venv $(CLIENTS)
	$(CLIENTS)/bin/python -m pip install --quiet --disable-pip-version-check --requirement $<
	$(CLIENTS)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps finn-plus==1.6.1 mip==1.17.0
	$(CLIENTS)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $@

$(CLIENTS)-%/.ready: tests/clients/%.txt
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --requirement $<
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $@

clients: $(CLIENTS)/.ready clients-hls4ml clients-openvino clients-qonnx
	$(CLIENTS)/bin/python tests/clients/finn_plus.py $(wildcard $(MODELS))

clients-hls4ml: $(CLIENTS)-hls4ml/.ready $(READY)
	$(CLIENTS)-hls4ml/bin/python tests/clients/hls4ml_client.py $(wildcard $(MODELS)) --exporter $(BIN)/onnx-passes

clients-openvino: $(CLIENTS)-openvino/.ready
	$(CLIENTS)-openvino/bin/python tests/clients/openvino_client.py $(wildcard $(MODELS))

clients-qonnx: $(CLIENTS)-qonnx/.ready
	$(CLIENTS)-qonnx/bin/python tests/clients/qonnx_client.py $(wildcard $(MODELS))

# Builds twice, installs in fresh environments of every Python that is found, with newest and lowest dependencies.
release-check: $(RELEASE)/.ready
	$(RELEASE)/bin/python release/check.py

dist: $(RELEASE)/.ready
	rm -rf dist
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(RELEASE)/bin/python -m hatchling build -d dist

$(RELEASE)/.ready: pyproject.toml
	$(PYTHON) -m venv $(RELEASE)
	$(RELEASE)/bin/python -m pip install --quiet --disable-pip-version-check 'hatchling>=1.26'
	@touch $@

clean:
	rm -rf $(VENV) $(RELEASE) $(CLIENTS) $(CLIENTS)-* $(ZOO_ENV) $(PEERS) $(DOCS) .pytest_cache .ruff_cache .hypothesis .import_linter_cache dist web/node_modules
