# Every target sets up what it needs: a fresh clone needs only `make serve` or `make test`.
.DEFAULT_GOAL := help
SHELL := /bin/sh
PYTHON ?= python3
BIN := .venv/bin
unexport PYTHONDONTWRITEBYTECODE  # what pytest makes of a test is kept for the next run
MODEL ?= Qwen/Qwen3-32B
GPU ?= RTX 4090
EXAMPLES ?= 2000
SEED ?= 1
TARGET ?= gguf
CASES ?= 100000
NAME ?= fitgauge
NAMESPACE ?= default

.PHONY: help setup serve ask test lint types unit contract system hosts nightly soak fuzz audit openapi chart release questions accuracy formulas docs hunt agents slack calibrate bench clean pictures vectors

help:  ## list the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup: .venv/.service  ## make the .venv with the command fitgauge

.venv/bin/python:
	@sh tools/venv.sh "$(PYTHON)"

.venv/.service: requirements.txt pyproject.toml | .venv/bin/python
	@$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps --require-hashes -r requirements.txt
	@$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
	@$(BIN)/python -m compileall -q service plugin  # half a start, where Python may not write it itself
	@touch $@

.venv/.tools: requirements-dev.txt .venv/.service
	@$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps --require-hashes -r requirements-dev.txt
	@touch $@

serve: .venv/.service  ## run the service on http://127.0.0.1:8000
	@$(BIN)/fitgauge serve

ask: .venv/.service  ## make ask MODEL=Qwen/Qwen3-32B GPU="2x4090"
	@$(BIN)/fitgauge check "$(MODEL)" "$(GPU)" || test $$? != 2  # the other codes are answers too

test: lint types unit contract  ## everything, the fast tests first

lint: .venv/.tools  ## style, and which package may import which
	@$(BIN)/ruff check -q . && $(BIN)/ruff format -q --check . && $(BIN)/lint-imports

types: .venv/.tools  ## mypy, strict
	@$(BIN)/mypy

unit: .venv/.tools  ## every test but those of the contract, browsers and servers
	@# One process more than two cores: the attacks and the soak wait for clocks and servers
	@$(BIN)/pytest -n 3 --dist loadfile --ignore tests/contract --ignore tests/browser

contract: .venv/.tools  ## made-up requests against the OpenAPI document; EXAMPLES=2000
	@FITGAUGE_EXAMPLES=$(EXAMPLES) $(BIN)/pytest -n 2 tests/contract

system: .venv/.system .venv/.docs .engines/.done .helm/helm  ## what needs Chromium, Redis, promtool, gateways, engines, helm; fails where one is missing
	@FITGAUGE_SYSTEM=1 $(BIN)/pytest -n 2 --dist loadfile tests/system
	@FITGAUGE_SYSTEM=1 $(BIN)/pytest -n 2 --dist loadfile tests/browser  # apart: Playwright's event loop runs on in its process

.helm/helm: tools/helm.sh | .venv/bin/python
	@sh tools/helm.sh

.venv/.system: requirements-system.txt .venv/.release
	@$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps --require-hashes -r requirements-system.txt
	@touch $@

release: .venv/.release  ## render the chart into dist/release.yaml, validated; VALUES=file, NAME, NAMESPACE
	@PYTHONPATH=tools $(BIN)/python tools/release.py "$(VALUES)" "$(NAME)" "$(NAMESPACE)"

.venv/.release: requirements-release.txt .venv/.tools
	@$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps --require-hashes -r requirements-release.txt
	@touch $@

chart: .venv/.tools  ## write the chart's values.schema.json and the table of its README
	@$(BIN)/python tools/chart.py

.engines/.done: tests/system/engines.txt | .venv/bin/python
	@$(PYTHON) -m venv .engines
	@.engines/bin/python -m pip install -q --disable-pip-version-check --no-deps --require-hashes -r tests/system/engines.txt
	@.engines/bin/python -m pip install -q --disable-pip-version-check torch==2.13.0
	@touch $@

hosts: .venv/.system .hosts/.done  ## hosts' own code and the suite of MCP, in environments of their own
	@FITGAUGE_HOSTS=1 $(BIN)/pytest -n 2 --dist loadfile tests/hosts tests/browser/test_mcp_app.py

.hosts/.done: tests/hosts/package.json $(wildcard tests/hosts/requirements/*.txt) | .venv/bin/python
	@sh tools/hosts.sh "$(PYTHON)"
	@touch $@

nightly: .venv/.tools  ## the contract tests with ten times the examples
	@$(MAKE) contract EXAMPLES=20000

soak: .venv/.tools  ## faults, restarts and load; writes docs/RELIABILITY.md (20 minutes)
	@PYTHONPATH=tests:tools $(BIN)/python -m soak.run

fuzz: .venv/.fuzz  ## fuzz a parser by coverage; TARGET=gguf CASES=1000000
	@PYTHONPATH=tests $(BIN)/python -m fuzz.run $(TARGET) $(CASES)

.venv/.fuzz: requirements-fuzz.txt .venv/.tools
	@$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps --require-hashes -r requirements-fuzz.txt
	@touch $@

audit: .venv/.service  ## ask for known holes of locked packages; needs a network
	@$(BIN)/python -m pip install -q --disable-pip-version-check pip-audit==2.10.1
	@$(BIN)/pip-audit --disable-pip -r requirements-image.txt

openapi: .venv/.service  ## write the committed OpenAPI artefacts anew
	@$(BIN)/python -m fitgauge.api.export openapi

accuracy: .venv/.tools  ## recompute docs/ACCURACY.md from the posted runs, offline; TRUTH=file adds runs of your own
	@PYTHONPATH=tools $(BIN)/python -m accuracy.run
	@$(if $(TRUTH),PYTHONPATH=tools $(BIN)/python -m accuracy.local "$(TRUTH)")

formulas: .venv/.service  ## write docs/FORMULAS.md, SETTINGS.md, api.md, command.md and variables.md from the code
	@$(BIN)/python tools/formulas.py
	@$(BIN)/python tools/ladders.py
	@$(BIN)/python tools/reference.py

docs: .venv/.docs  ## build the documentation, which the service then shows at /docs
	@$(BIN)/zensical build --strict

.venv/.docs: requirements-docs.txt .venv/.service
	@$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps --require-hashes -r requirements-docs.txt
	@touch $@

hunt: .venv/.tools  ## ask an installed vLLM or SGLang drawn configs and write docs/HUNT.md; ENGINE=sglang SEED=1
	@PYTHONPATH=tools:tests $(BIN)/python -m hunt.run $(or $(ENGINE),vllm) $(SEED)

pictures: .venv/.tools  ## draw docs/answer.svg anew from the service's own answer
	@$(BIN)/python tools/pictures.py

vectors: .venv/.tools  ## write docs/vectors/ anew: questions with answers for other calculators
	@$(BIN)/python tools/vectors.py

questions: .venv/.tools  ## write docs/questions.md anew from what the service answers
	@PYTHONPATH=tests $(BIN)/python tests/shared_questions.py

slack: .venv/.tools  ## write the conversation of docs/SLACK.md anew
	@PYTHONPATH=tests $(BIN)/python -m slack_stand_in.page docs/SLACK.md

agents: .venv/.tools  ## write docs/AGENTS.md: how agents' first calls are read
	@PYTHONPATH=tests $(BIN)/python tests/first_calls.py docs/AGENTS.md

calibrate: .venv/.tools  ## fit the catalog's coefficients of vLLM and of training to the fit part of the posted runs
	@PYTHONPATH=tools $(BIN)/python -m accuracy.calibrate
	@PYTHONPATH=tools $(BIN)/python -m accuracy.training_calibrate

bench: .venv/.tools $(if $(PEERS),.peers/.done)  ## speed and memory, as ratios of one run; PEERS=1 asks other calculators too
	@$(BIN)/python tests/bench/run.py

.peers/.done: $(wildcard tests/bench/requirements/*.txt) | .venv/bin/python
	@sh tools/peers.sh "$(PYTHON)"
	@touch $@

clean:  ## remove the .venv and caches
	@rm -rf .venv .peers .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache .hosts .helm .cache service/fitgauge/site
