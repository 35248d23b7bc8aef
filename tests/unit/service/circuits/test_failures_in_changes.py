"""Circuits that fail, and servers that are late, while jobs change circuits: in virtual time, with real plans."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from controller.circuits.control.job_plans import NamedJob
from controller.circuits.control.panel_rules import circuit_of, rules_of
from controller.circuits.fabric.optical_fabric import Circuit
from controller.circuits.fabric.optical_file import parse_optical_fabric
from controller.circuits.southbound.addresses import nic_address
from controller.core.desired_state import AdmittedJob
from controller.core.ports.enforcer import Target
from controller.model.network_state import NetworkState, PortId
from controller.service.circuits.conductor import ROUND_SECONDS, Conductor
from controller.service.circuits.server_agents import ServerAgents
from controller.service.tasks.vital_tasks import VitalTasks
from controller.southbound.rules.rule import Rule
from controller.workload.job_file import parse_job
from tests.unit.service.circuits.virtual_time import VirtualTime

SERVERS, NICS = 6, 3
PANEL_SECONDS = 0.2
"""For a panel to confirm its rules, and to count a packet."""
ANSWER_SECONDS = 0.05
"""For a server to set up a table."""
AT_ONCE = 1.0
"""Issue: a dead circuit is routed around in a second."""
PATIENCE = 600.0


class SlowPanels:
    """Panels that confirm after a while; circuits count discovery packets while both of their ports are up."""

    def __init__(self, runtime: VirtualTime, fabric: Any) -> None:
        self.fabric, self._runtime = fabric, runtime
        self.network_changed, self.switches_changed = runtime.signal(), runtime.signal()
        self.observer = self.enforcer = self
        self.rules = rules_of(fabric, ())
        self.down: set[PortId] = set()
        self._epoch = -1
        self._counts: dict[tuple[int, Rule], int] = {}

    def held(self) -> Any:
        return rules_of(self.fabric, ())

    def observe(self) -> NetworkState:
        ports = {
            PortId(dpid, server + 1): PortId(dpid, server + 1) not in self.down
            for dpid in self.fabric.dpids
            for server in range(self.fabric.n_servers)
        }
        return NetworkState(switches=frozenset(self.fabric.dpids), ports=ports)  # type: ignore[call-arg]

    def install(self, target: Target) -> None:
        def confirm() -> None:
            self._runtime.sleep(PANEL_SECONDS)
            self.rules, self._epoch = target.compiled, target.epoch  # type: ignore[assignment]
            self.switches_changed.set()

        self._runtime.spawn(confirm)

    def switches(self) -> list[SimpleNamespace]:
        return [SimpleNamespace(key=dpid, epoch=self._epoch) for dpid in self.fabric.dpids]

    def send(self, dpid: int, port: int, frames: object) -> None:
        def count() -> None:
            self._runtime.sleep(PANEL_SECONDS)
            name = self.fabric.switch_names[self.fabric.dpids.index(dpid)]
            for rule in self.rules[dpid].rules.values():
                circuit = circuit_of(name, rule)
                assert circuit is not None
                ends = {PortId(dpid, circuit.in_port), PortId(dpid, circuit.out_port)}
                if circuit.in_port == port and ends.isdisjoint(self.down):
                    self._counts[dpid, rule] = self._counts.get((dpid, rule), 0) + 1

        self._runtime.spawn(count)

    def counted(self) -> dict[int, dict[Rule, int]]:
        return {
            dpid: {rule: self._counts.get((dpid, rule), 0) for rule in self.rules[dpid].rules.values()}
            for dpid in self.fabric.dpids
        }


class Server:
    """An agent: what its server sends by, and whether it does not confirm."""

    def __init__(self, runtime: VirtualTime, agents: ServerAgents, number: int) -> None:
        self.table: dict[str, Any] = {"routes": [], "neighbours": []}
        self.late = False
        self._runtime, self._agents, self._number = runtime, agents, number
        runtime.spawn(self._follow)

    def _follow(self) -> None:
        has = ""
        while True:
            document = self._agents.document(self._number, has, 15.0, lambda: False)
            self._runtime.sleep(ANSWER_SECONDS)
            while self.late:
                # It is heard, and does not have the newest table.
                self._agents.document(self._number, has, 0.0, lambda: False)
                self._runtime.sleep(ANSWER_SECONDS)
            if document is not None:
                self.table = json.loads(document)
                has = self.table["step"]


class Changing:
    """Six servers that do the first job and are given the second one."""

    def __init__(self) -> None:
        self.runtime = VirtualTime()
        document = {"servers": SERVERS, "nics": NICS, "reconfigure_seconds": 5.0}
        self.fabric = parse_optical_fabric({"optical": document})
        self.panels = SlowPanels(self.runtime, self.fabric)
        self.agents = ServerAgents(self.fabric, self.runtime)
        self.events: list[str] = []
        self.desired: list[int] = []
        self.servers = [Server(self.runtime, self.agents, number) for number in range(SERVERS)]
        self.conductor = Conductor(
            self.fabric,
            self.runtime,
            self.panels,  # type: ignore[arg-type]
            self.agents,
            SimpleNamespace(append=lambda kind, **_: self.events.append(kind)),  # type: ignore[arg-type]
            lambda admitted: NamedJob(admitted.revision, parse_job(json.loads(admitted.document))),
            {"seed": 0, "effort": 0.02, "paths": 1},
            (),
            PATIENCE,
        )
        self.conductor.start(VitalTasks(self.runtime))
        self.desire(1)
        self.settle()
        self.desire(2)

    def desire(self, step: int) -> None:
        """A job that sends most bytes between two servers that are so far apart."""
        names = [f"h{i + 1}" for i in range(SERVERS)]
        flows = [{"src": names[i], "dst": names[(i + step) % SERVERS], "bytes": 10**6} for i in range(SERVERS)]
        ring = {"name": "dp", "op": "all_reduce", "ranks": list(range(SERVERS)), "bytes": 1000}
        body = json.dumps({"name": "a", "hosts": names, "flows": flows, "collectives": [ring]}).encode()
        job: Any = SimpleNamespace(name="a", revision=str(step), document=body)
        jobs: tuple[AdmittedJob, ...] = (job,)
        self.desired.append(step)
        self.conductor.desire(jobs)

    def settle(self) -> float:
        """The seconds until the newest job has its circuits, and servers their routes."""
        return self.runtime.run_until(lambda: self.events.count("plan") == len(self.desired), PATIENCE)

    def doing(self, what: str) -> Callable[[], bool]:
        """Whether a stage does this now."""
        return lambda: self.conductor.state.stage is not None and what in self.conductor.state.stage.doing

    def fail(self) -> Circuit:
        """Take the port of a circuit down by which some server sends now, or will once it is verified."""
        table = self.conductor.state.served[0]
        circuit = next(each for each in table.circuits if each in (self.conductor.state.lit or ()))
        dpid = self.fabric.dpids[self.fabric.switch_names.index(circuit.switch)]
        self.panels.down.add(PortId(dpid, circuit.in_port))
        self.panels.network_changed.set()
        return circuit

    def uses(self, circuit: Circuit) -> bool:
        """Whether the server at the begin of a circuit still sends by it."""
        (server, nic), (after, receiving) = self.fabric.ends(circuit)
        address = nic_address(after, receiving)
        routes = self.servers[server].table["routes"]
        return any(row["nic"] == nic and row["via"] == address for row in routes)


DOING = [
    "servers get the routes of the stage",
    "circuits fall silent",
    "circuits are taken away",
    "circuits are dark",
    "circuits are set",
    "circuits are verified",
]


@pytest.mark.parametrize("doing", DOING)
def test_a_circuit_that_fails_in_a_stage_is_routed_around_at_once(doing: str) -> None:
    changing = Changing()
    changing.runtime.run_until(changing.doing(doing), PATIENCE)
    failed = changing.fail()
    assert changing.runtime.run_until(lambda: not changing.uses(failed), PATIENCE) <= AT_ONCE
    changing.settle()
    assert not any(changing.uses(each) for each in changing.conductor.state.faults)
    assert changing.conductor.state.cut_off == ()


def test_a_circuit_that_fails_while_circuits_are_planned_is_routed_around_at_once() -> None:
    changing = Changing()
    changing.settle()
    changing.runtime.offload_seconds = {"_planned": 30.0}
    changing.desire(1)
    changing.runtime.run_for(1.0)
    failed = changing.fail()
    assert changing.uses(failed)
    assert changing.runtime.run_until(lambda: not changing.uses(failed), PATIENCE) <= AT_ONCE
    changing.settle()
    assert not any(changing.uses(each) for each in changing.conductor.state.faults)


def test_a_server_that_is_late_is_waited_for_once_in_a_change() -> None:
    times = []
    for late in (False, True):
        changing = Changing()
        changing.servers[3].late = late
        times.append(changing.settle())
    assert 0 < times[1] - times[0] <= ROUND_SECONDS


def test_a_server_that_was_late_is_waited_for_again_once_it_has_confirmed_something() -> None:
    changing = Changing()
    changing.servers[3].late = True
    changing.runtime.run_until(changing.doing("circuits are dark"), PATIENCE)
    changing.servers[3].late = False
    changing.runtime.run_until(changing.doing("circuits are set"), PATIENCE)
    changing.servers[3].late = True
    began = changing.runtime.clock()
    changing.runtime.run_until(changing.doing("fall silent"), PATIENCE)
    assert changing.runtime.clock() - began >= ROUND_SECONDS
