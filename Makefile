# fairspine: make setup, make test, make demo; 'make help' lists the rest.
# Everything is installed into .venv (and, as root, Debian packages that are missing).

SHELL := /bin/bash
VENV := .venv
BIN := $(VENV)/bin
# MODE= is the former name.
ENFORCEMENT ?= $(MODE)
FABRIC ?= examples/$(if $(filter srv6 probed_port,$(ENFORCEMENT)),routers,clos)-4x4x4.yaml
QPS ?= 1
QP_MODE ?= split
FEEDERS ?= host,sflow,watch
SEED ?= 1
ROUNDS ?= 30
PARALLEL ?= 1
comma := ,
# MkDocs Material announces another program at each build.
DOCS := NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build
# Each worker is in a network namespace of its own, and waits for switches and processes for much of the time. With more
# workers, those of a slow machine take as long and wait for each other.
INTEGRATION_TESTS := $(BIN)/pytest tests/integration -n 4 --dist loadfile --no-loadscope-reorder --durations=30
UNIT_TESTS := $(BIN)/pytest tests/unit -n logical --dist worksteal

# Unit tests that draw more if FAIRSPINE_LAWS is long (tests/unit/laws.py).
LAWS = $(shell grep -rlE 'laws import (examples|LONG)|import .*patient' tests/unit --include='test_*.py')

TRAINING_SCRIPT = examples/training/mlp$(if $(FRAMEWORK),_$(FRAMEWORK)).py

.DEFAULT_GOAL := help
.PHONY: help setup setup-test setup-referee setup-training referee verbs tcp ebpf test test-unit test-torch check format docs run demo screenshots load soak constraints clean
.PHONY: demo-topology demo-training demo-learned demo-replans demo-times demo-qps demo-hedera
.PHONY: laws bench bench-qps bench-learned bench-learning bench-watch bench-loop bench-active bench-polling bench-emulated bench-paced bench-port-down bench-full-queues bench-agent bench-probed-ports bench-port-search bench-verbs bench-scale
.PHONY: bench-topology bench-start bench-readback
.PHONY: faults dead-controller faults-night faults-cluster faults-routers cluster-demo kills attack attack-as-host attack-as-router evaluation evaluation-emulated

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 22

setup: ## install missing Debian packages (as root) and .venv with fairspine and ryu-manager
	@scripts/setup.sh run

setup-test: ## the same, and what tests and checks need
	@scripts/setup.sh test

setup-referee: ## the same as setup, and what fairspine referee needs: ns-3 (Debian packages, as root) and the compiled packet engine
	@scripts/setup.sh referee

setup-training: ## the same as setup, and JAX (620 MB) and OpenMPI (25 MB), with which the scripts of examples/training train on CPUs
	@scripts/setup.sh training

verbs: ## compile libfairspine-verbs, which gives RDMA programs the ports of plans: out/verbs/libibverbs.so.1; REAL=the real library
	@$(MAKE) --no-print-directory -C verbs OUT=$(CURDIR)/out/verbs $(if $(REAL),REAL=$(REAL))

tcp: ## compile libfairspine-tcp, with which TCP programs connect from the ports of plans: out/tcp/libfairspine-tcp.so
	@$(MAKE) --no-print-directory -C tcp OUT=$(CURDIR)/out/tcp

ebpf: ## compile the program by which agents steer with --steering ebpf (clang and libbpf-dev): out/ebpf/steering.o
	@$(MAKE) --no-print-directory -C ebpf OUT=$(CURDIR)/out/ebpf

referee: setup-referee ## compare plans with sprayings on packets, at 1:1, 2:1 and 4:1, ten placements each: out/referee; QUICK=1
	@status=0; for ratio in 1to1 2to1 4to1; do \
	  $(BIN)/fairspine referee --scenario examples/scenarios/packets-$$ratio.yaml --out out/referee/$$ratio $(if $(QUICK),--quick) || status=1; done; exit $$status

# The first line compiles the kernels (tests/conftest.py), which all parts share. Unit tests come last: beside them,
# switches and controllers of a slow machine would wait for the processor.
test: setup-test ## run all tests, also those on real switches (as root)
	@status=0; $(BIN)/pytest --collect-only --quiet tests/package > /dev/null || status=1; \
	$(INTEGRATION_TESTS) || status=1; \
	$(BIN)/pytest tests/package || status=1; \
	$(UNIT_TESTS) || status=1; exit $$status

test-unit: setup-test ## run the unit tests in parallel; they need no switch, browser, database or root
	@$(UNIT_TESTS)

test-torch: setup-test ## run the test of the example script for PyTorch, which must be installed (pip install torch); no other test needs it
	@$(BIN)/python -c "import torch" 2> /dev/null || { echo "PyTorch is not installed: $(BIN)/pip install torch"; exit 2; }
	@$(BIN)/pytest -n0 tests/integration/programs/test_torch_script.py

check: setup-test ## check the code (ruff, vulture, mypy, import borders) and the documentation (links, pages)
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/vulture
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(DOCS)

docs: setup-test ## build the documentation as a site: out/site/index.html
	@$(DOCS)

format: setup-test ## format the code and apply automatic fixes
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

run: setup ## run the controller with FABRIC=file (default: examples/clos-4x4x4.yaml; empty: discover)
	@exec $(BIN)/ryu-manager --config-file etc/fairspine.conf --store sqlite:///$(CURDIR)/out/run.db \
	  $(if $(FABRIC),--fabric $(FABRIC)) controller.app

demo: setup ## measure two training jobs on packets under ECMP and fairspine (as root); ENFORCEMENT= (srv6, probed_port: on Linux routers) POLICY= QPS= QP_MODE= LEARN=sflow|host|watch
	@$(BIN)/fairspine emulate --fabric $(FABRIC) --job examples/gpt3-a.json --job examples/llama-b.json \
	  $(if $(ENFORCEMENT),--enforcement $(ENFORCEMENT)) --qps $(QPS) --qp-mode $(QP_MODE) $(if $(POLICY),--policies ecmp$(comma)$(POLICY)) --name demo$(if $(LEARN),-$(LEARN)) --expect-faster \
	  $(if $(LEARN),--learn $(LEARN))

demo-training: setup-training ## train two real models (JAX, 16 processes, 5 GB of memory; FRAMEWORK=mpi: OpenMPI) on the emulated fabric under ECMP and fairspine (as root); LEARN=host: and learned; ENFORCEMENT= (srv6, probed_port: on Linux routers) STEPS= LAUNCHES=
	@$(BIN)/fairspine emulate-training --fabric $(FABRIC) $(foreach job,gpt3-a llama-b,--job examples/training/$(if $(FRAMEWORK),$(FRAMEWORK)/)$(job).json) \
	  $(foreach model,0 1,--script "$(TRAINING_SCRIPT) --width $(if $(filter 1,$(model)),600,500) --seed $(model)$(if $(LEARN), --compute 1)") $(if $(LEARN),--learn $(LEARN)) \
	  $(if $(ENFORCEMENT),--enforcement $(ENFORCEMENT)) $(if $(STEPS),--steps $(STEPS)) $(if $(LAUNCHES),--launches $(LAUNCHES)) \
	  --name demo-training$(if $(FRAMEWORK),-$(FRAMEWORK))$(if $(LEARN),-$(LEARN)) --expect-faster

demo-learned: setup ## measure what each feeder alone lets the controller learn, against hashed and pushed jobs; FEEDERS=host,watch (as root)
	@$(BIN)/fairspine emulate --fabric $(FABRIC) --job examples/gpt3-a.json --job examples/llama-b.json \
	  $(if $(ENFORCEMENT),--enforcement $(ENFORCEMENT)) --name demo-learned --expect-faster --learn $(FEEDERS)

demo-replans: setup ## plan learned jobs REPLANS= times (default: 20) in idle times and amid bursts, count NAKs; FEEDER= (as root)
	@$(BIN)/fairspine emulate --fabric examples/oversubscribed-4x4x1.yaml --job examples/ring-4.json \
	  --learn $(or $(FEEDER),host) --replans $(or $(REPLANS),20) --seconds 1.5 --name replans-$(or $(FEEDER),host)

demo-times: setup ## measure jobs that compute and share links, with and without shifts, and simulate the same (as root)
	@$(BIN)/fairspine emulate --scenario examples/scenarios/times-one-link.yaml --seconds 2 --name times-one-link
	@$(BIN)/fairspine emulate --scenario examples/scenarios/times-fabric.yaml --seconds 3 --link-mbps 10 --name times-fabric

demo-hedera: setup ## measure Hedera's loop on jobs that nobody pushes, beside ecmp and fair; PERIOD=seconds ENFORCEMENT= (as root)
	@$(BIN)/fairspine emulate --fabric $(FABRIC) --job examples/gpt3-a.json --job examples/llama-b.json \
	  --policies ecmp,hedera-first_fit,hedera-annealing,fair $(if $(ENFORCEMENT),--enforcement $(ENFORCEMENT)) $(if $(PERIOD),--period $(PERIOD)) --name demo-hedera

demo-topology: setup ## measure planned circuits of 12 servers on packets, beside the ideal switch and a fat tree of equal cost; ARGS= (as root)
	@$(BIN)/python -m emulation.isolate $(BIN)/python -m emulation.circuits.demo $(ARGS)

demo-qps: setup ## measure 1, 4 and 16 QPs per connection in both modes, and simulate the same (as root)
	@$(BIN)/fairspine emulate --scenario examples/scenarios/qps-emulated.yaml --seconds 12 --link-mbps 4 --name qps

bench: setup-test ## measure every policy (time, quality, memory, re-planning), the contract of fair, iteration times, three layers, slow cables, plans on packets, and the simulator
	@$(BIN)/python -m benchmarks.plans.routing
	@$(BIN)/python -m benchmarks.plans.qps
	@$(BIN)/python -m benchmarks.plans.contract
	@$(BIN)/python -m benchmarks.plans.shared_links
	@$(BIN)/python -m benchmarks.plans.overlap
	@$(BIN)/python -m benchmarks.plans.arrivals
	@$(BIN)/python -m benchmarks.plans.classes
	@$(BIN)/python -m benchmarks.plans.three_layers
	@$(BIN)/python -m benchmarks.plans.uneven
	@$(BIN)/python -m benchmarks.simulation.packets
	@$(BIN)/python -m benchmarks.simulation.unpaced --kinds rings-2to1 short-rings-2to1 dead-spine-qps two-jobs-half-apart
	@$(BIN)/python -m benchmarks.simulation.simulator

bench-learned: setup-test ## compare plans from learned traffic with those from pushed jobs (2,048 hosts, sampled); FILES=folder
	@$(BIN)/python -m benchmarks.learning.learned $(if $(FILES),--files $(FILES))

bench-watch: setup-test ## measure GET /healthz while leaves send ten times the packets that watch windows may; REALTIME=1 on a busy machine (as root)
	@$(BIN)/python -m benchmarks.running.watch_flood $(if $(REALTIME),--realtime)

bench-learning: setup-test ## measure what learning 100,000 QPs costs: sightings a second, seconds of each inference, memory; QPS= HOSTS=
	@$(BIN)/python -m benchmarks.learning.learning_cost $(if $(filter command environment,$(origin QPS)),--qps $(QPS)) $(if $(HOSTS),--hosts $(HOSTS))

bench-qps: setup ## compare hashed and planned QPs in each cell of the evaluation; fail where planning is slower
	@$(BIN)/python -m benchmarks.plans.qps_cells $(foreach name,paper open,examples/scenarios/$(name).yaml) --plans --seeds 1
	@$(BIN)/python -m benchmarks.plans.qps_cells $(foreach name,shared shared-4to1 shared-1to1 shared-8to1,examples/scenarios/$(name).yaml) \
	  --seeds 2 --epochs 8

laws: setup-test ## try laws of plans, rules, documents and discovery on many more drawn examples than make test does
	@FAIRSPINE_LAWS=long $(BIN)/pytest -q $(LAWS) -n 2 --dist worksteal

bench-loop: setup ## measure how long a large job blocks the controller's event loop
	@$(BIN)/python -m benchmarks.running.event_loop

bench-topology: setup-test ## compare circuits by search with TotientPerms, a fat tree of equal cost and the ideal switch; FILES=folder of task graphs LARGE=1
	@$(BIN)/python -m benchmarks.plans.topology $(if $(FILES),--files $(FILES)) $(if $(LARGE),--large)

bench-active: setup ## measure the time from a PUT until the last switch has confirmed the plan (as root)
	@$(BIN)/python -m benchmarks.running.put_to_active

bench-polling: setup ## measure the cost of polling 10,000 rules (as root)
	@$(BIN)/python -m benchmarks.running.polling

bench-scale: setup ## measure start, restart, refill and 20,000 flows on 24 to 514 fake switches; LEAVES= SPINES=
	@$(BIN)/python -m benchmarks.running.scale $(if $(LEAVES),$(LEAVES)x$(SPINES)$(if $(HOSTS),x$(HOSTS))) $(if $(LIMIT),--limit $(LIMIT))

bench-start: setup ## measure start, memory and answers of the controller with a large fabric file; HOSTS= (default: 131072)
	@$(BIN)/python -m benchmarks.running.start $(if $(HOSTS),--hosts $(HOSTS))

bench-readback: setup-test ## measure how fast a new leader re-checks 2.5 million rules on 1,122 fake switches; SIZE=leavesxspinesxhosts FLOWS=
	@$(BIN)/python -m benchmarks.running.readback $(SIZE) $(if $(FLOWS),--flows $(FLOWS))

bench-emulated: setup ## measure gaps and losses in failures, drains, mode changes and restarts on Mininet (as root)
	@$(BIN)/python -m benchmarks.running.emulated

bench-paced: setup ## measure README's jobs on packets at 2:1, with hosts that keep paces or windows and without; PLACEMENTS= (as root)
	@$(BIN)/python -m benchmarks.running.paced_hosts $(if $(PLACEMENTS),--placements $(PLACEMENTS))

bench-port-down: setup ## measure where the time goes from 200 port-downs to the controller's reports; BUSY= (as root)
	@$(BIN)/python -m benchmarks.running.port_down $(if $(BUSY),--busy $(BUSY))

bench-full-queues: setup ## count good cables reported as failed while packets wait BURST= seconds in queues of LABS= labs (as root)
	@$(BIN)/python -m benchmarks.running.full_queues $(if $(LABS),--labs $(LABS)) $(if $(BURST),--burst $(BURST))

bench-probed-ports: setup ## measure new ports after a failed cable, and new starts of controller and agent, on routers with BGP; ROUNDS= (as root)
	@$(BIN)/python -m benchmarks.running.probed_ports $(if $(ROUNDS),--rounds $(ROUNDS))

bench-port-search: setup ## simulate the search for the ports of 16,384 flows at the ICMP limits of 32 spines, some minutes
	@$(BIN)/python -m benchmarks.running.port_search_scale

bench-agent: setup-test ebpf ## measure losses, changes of plans and the cost of a packet with the agent on a host of routers; ROUNDS= (as root)
	@$(BIN)/python -m benchmarks.running.agent $(if $(ROUNDS),--rounds $(ROUNDS))

bench-verbs: setup-test ## measure what libfairspine-verbs costs: connecting 10,000 QPs, and sending, on a device of the tests
	@$(BIN)/python -m benchmarks.running.verbs

faults: setup ## inject random faults into a running emulation, check after each; SEED= ROUNDS= PARALLEL= FABRIC= (as root)
	@$(BIN)/python -m tests.campaigns.faults --seed $(SEED) --rounds $(ROUNDS) --parallel $(PARALLEL) \
	  $(if $(filter command environment,$(origin FABRIC)),--fabric $(FABRIC))

faults-cluster: setup-test ## inject faults into three replicas under requests, check what clients were told; SEED= ROUNDS= KINDS= LEASE= FABRIC= (as root)
	@$(BIN)/python -m tests.campaigns.cluster --seed $(SEED) --rounds $(ROUNDS) $(if $(KINDS),--kinds "$(KINDS)") $(if $(LEASE),--lease $(LEASE)) \
	  $(if $(filter command environment,$(origin FABRIC)),--fabric $(FABRIC))

faults-routers: setup-test ## inject faults into Linux routers, agents, the controller, its PostgreSQL and BGP daemons, check after each; SEED= ROUNDS= KINDS= BGP=1 (as root)
	@$(BIN)/python -m tests.rig.routers.router_faults --seed $(SEED) --rounds $(ROUNDS) $(if $(KINDS),--kinds "$(KINDS)") $(if $(BGP),--bgp)

cluster-demo: setup-test ## kill the leader of three replicas while two jobs send; one table; FABRIC= (as root)
	@$(BIN)/python -m tests.campaigns.cluster.demo $(if $(FABRIC),--fabric $(FABRIC))

dead-controller: setup-test ## no packet is lost on routers while the controller is dead for DEAD_SECONDS= (default: 600), nor by changes (as root)
	@DEAD_SECONDS=$(or $(DEAD_SECONDS),600) $(BIN)/pytest -n0 --timeout $$(($(or $(DEAD_SECONDS),600) + 900)) \
	  tests/integration/agent/test_running_controller.py

kills: setup-test ## kill the controller and the store's writer KILLS= times each (default: 50) amid changes
	@KILLS=$(or $(KILLS),50) $(BIN)/pytest tests/integration/controller/test_kill.py tests/integration/store/test_store_kill.py

faults-night: setup ## the same with 500 rounds
	@$(BIN)/python -m tests.campaigns.faults --seed $(SEED) --rounds 500 --parallel $(PARALLEL)

attack: setup attack-as-host attack-as-router ## attack a controller that has honest switches, and one with honest agents; SEED= ROUNDS= ROUND=n KEEP_GOING=1 (as root)
	@$(BIN)/python -m tests.campaigns.attacks --seed $(SEED) --rounds $(ROUNDS) $(if $(ROUND),--round $(ROUND)) \
	  $(if $(KEEP_GOING),--keep-going) $(if $(DISCOVER),--discover)

attack-as-host: setup ## attack a controller of routers with the token of one host's agent; SEED=
	@$(BIN)/python -m tests.rig.attack_as_host --seed $(SEED)

attack-as-router: setup-test ## attack a controller of routers by the BGP sessions of one of them; ROUNDS= (as root)
	@$(BIN)/python -m tests.rig.routers.attack_as_router $(if $(filter command line,$(origin ROUNDS)),--rounds $(ROUNDS))

evaluation: setup ## simulate the paper's evaluation and more: out/evaluation/index.html; POLICIES=a,b QUICK=1
	@$(BIN)/fairspine simulate $(foreach name,paper open ethereal shared shared-4to1 shared-1to1 shared-8to1 qps fat-tree fat-tree-qps pods-7to1,--scenario examples/scenarios/$(name).yaml) \
	  $(if $(POLICIES),--policies $(POLICIES)) --workers 2 --out out/evaluation$(if $(QUICK),-quick --quick)

evaluation-emulated: setup ## measure ecmp, greedy and fair on packets and compare with the simulator (as root)
	@$(BIN)/fairspine emulate --scenario examples/scenarios/emulated.yaml --seconds 3 --link-mbps 10 --name evaluation-emulated

screenshots: setup-test ## renew the pictures of the dashboard: out/screenshots/, docs/images/ (as root)
	@$(BIN)/python -m tests.rig.page.screenshots

load: setup-test ## send 50 mixed HTTP requests a second for a minute; measure latency and memory
	@$(BIN)/python -m benchmarks.running.load

soak: setup-test ## change jobs, drains and cables for DURATION= seconds (default: six hours); print how the controller's memory grows
	@$(BIN)/python -m benchmarks.running.soak --seconds $(or $(DURATION),21600) $(if $(RATE),--rate $(RATE)) --fabric $(FABRIC)

constraints: ## resolve requirements/constraints.txt again, on this Python
	@scripts/constraints.sh

clean: ## remove .venv and all generated files
	@rm -rf $(VENV) out build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
