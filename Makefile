# fairspine: make setup, make test, make demo; 'make help' lists the rest.
# Everything is installed into .venv (and, as root, Debian packages that are missing).

SHELL := /bin/bash
VENV := .venv
BIN := $(VENV)/bin
FABRIC ?= examples/clos-4x4x4.yaml
MODE ?= per_flow
SEED ?= 1
ROUNDS ?= 30
comma := ,

.DEFAULT_GOAL := help
.PHONY: help setup setup-test test check format run demo bench bench-loop bench-active bench-polling bench-emulated faults \
  faults-night evaluation evaluation-emulated screenshots load constraints clean

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

setup: ## Debian packages and .venv with the commands fairspine and ryu-manager
	@scripts/setup.sh run

setup-test: ## setup, and what only the tests need
	@scripts/setup.sh test

test: setup-test ## every test, those on real switches included (as root)
	@$(BIN)/pytest

check: setup-test ## ruff, mypy, import borders
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

format: setup-test ## rewrite the code in the project's format
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

run: setup ## the controller, for FABRIC=file (default: examples/clos-4x4x4.yaml)
	@exec $(BIN)/ryu-manager --config-file etc/fairspine.conf --store sqlite:///$(CURDIR)/out/run.db \
	  $(if $(FABRIC),--fabric $(FABRIC)) controller.app

demo: setup ## two training jobs on packets: ECMP against fairspine, measured (as root); MODE= and POLICY= choose
	@$(BIN)/fairspine emulate --fabric $(FABRIC) --job examples/gpt3-a.json --job examples/llama-b.json \
	  --mode $(MODE) $(if $(POLICY),--policies ecmp$(comma)$(POLICY)) --name demo --expect-faster

bench: setup ## every policy: time, quality, memory, re-planning, growth; the contract of fair; the simulator and SimGrid
	@$(BIN)/python benchmarks/routing.py
	@$(BIN)/python benchmarks/contract.py
	@$(BIN)/python benchmarks/simulator.py

bench-loop: setup ## how long a large job holds the controller's event loop
	@$(BIN)/python benchmarks/event_loop.py

bench-active: setup ## from a PUT until the last switch has confirmed the plan (as root)
	@$(BIN)/python benchmarks/put_to_active.py

bench-polling: setup ## what it costs to poll 10,000 rules (as root)
	@$(BIN)/python benchmarks/polling.py

bench-emulated: setup ## failures, drains, mode switches, restarts on Mininet: gaps and losses, as tables (as root)
	@$(BIN)/python benchmarks/emulated.py

faults: setup ## seeded random faults on a running emulation, SEED=n ROUNDS=n; all is checked after each (as root)
	@$(BIN)/python -m emulation.faults --seed $(SEED) --rounds $(ROUNDS)

faults-night: setup ## the same, 500 rounds
	@$(BIN)/python -m emulation.faults --seed $(SEED) --rounds 500

evaluation: setup ## the paper's evaluation and more, simulated: out/evaluation/index.html; POLICIES=a,b chooses
	@$(BIN)/fairspine simulate $(foreach name,paper open ethereal,--scenario examples/scenarios/$(name).yaml) \
	  $(if $(POLICIES),--policies $(POLICIES)) --jobs 2 --out out/evaluation

evaluation-emulated: setup ## ecmp, greedy and fair on packets, beside the simulator's times for the same paths (as root)
	@$(BIN)/fairspine emulate --scenario examples/scenarios/emulated.yaml --seconds 3 --link-mbps 10 --name evaluation-emulated

screenshots: setup-test ## the dashboard on an emulated fabric: out/screenshots/, and the pictures in docs/ (as root)
	@$(BIN)/python -m tests.integration.screenshots

load: setup-test ## a minute of 50 mixed requests a second on the HTTP interface: latency and memory
	@$(BIN)/python benchmarks/load.py

constraints: ## resolve requirements/constraints.txt anew, on this Python
	@scripts/constraints.sh

clean: ## remove .venv and everything that was generated
	@rm -rf $(VENV) out build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
