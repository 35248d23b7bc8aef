"""Experiments on Linux routers: agents of hosts follow the plan of a draw; under ``ecmp``, routers hash all flows.

Agents write the paths of flows into packets, or find the source ports by which the routers' hash sends them over their
paths; hosts then send from these ports.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from controller.southbound.enforcement.registry import ENFORCEMENTS
from emulation.experiments.control import ExperimentController
from emulation.experiments.evidence import Evidence, planned_units
from emulation.experiments.networks.kernel_ecmp import hashed_plan
from emulation.experiments.networks.network import ExperimentNetwork, FollowedPlan, Payload, check_reachable, following
from emulation.experiments.networks.router_counters import count_flows, router_snapshot
from emulation.experiments.networks.router_evidence import CARRIER_BYTES, judge_routers
from emulation.experiments.request import ROUTERS_OWN, Draw, EmulatedScenario
from emulation.experiments.scale import Scale
from emulation.lab.agents import LabAgents, port_agent_command
from emulation.lab.routers import RouterLab
from emulation.processes import Popen

AGENT_OPTIONS = ("--probe-ms", "200")
"""All agents share few processors with the endpoints: at the usual pace, probes of 16 hosts take half of one."""


class ProgramOptions(NamedTuple):
    """Options of port agents that choose ports for programs, and of their controller."""

    agent: tuple[str, ...] = ()
    controller: tuple[str, ...] = ()


class RouterNetwork(ExperimentNetwork):
    """A lab of routers for an experiment."""

    lab: RouterLab

    def __init__(
        self, scenario: EmulatedScenario, scale: Scale, popen: Popen, *, programs: ProgramOptions | None = None
    ) -> None:
        """Prepare the lab; nothing is created.

        Args:
            scenario: the experiment.
            scale: of rates.
            popen: starts controllers.
            programs: where port agents choose ports for programs; ``None``: hosts read them.
        """
        self._programs = programs or ProgramOptions()
        self._scenario, self._scale, self._popen = scenario, scale, popen
        self._finds_ports = ENFORCEMENTS.named(scenario.request.enforcement).learns_ports
        self.added_bytes = 0 if self._finds_ports else CARRIER_BYTES
        self.lab = RouterLab(scenario.fabric, out=scenario.request.folder, mbps_per_gbps=scale.mbps_per_gbps)

    def __enter__(self) -> RouterNetwork:
        """Start the lab, and let routers count flows."""
        super().__enter__()
        try:
            count_flows(self.lab)
            if self._programs.controller:
                self.lab.answer_probes()
        except BaseException:
            self.lab.stop()
            raise
        return self

    @contextmanager
    def applied(self, draw: Draw) -> Iterator[FollowedPlan]:
        """Have agents follow a controller with the policy of a draw, or routers hash the flows."""
        scenario, lab = self._scenario, self.lab
        if draw.policy == ROUTERS_OWN:
            lab.hash_by(draw.seed)
            check_reachable(lab, scenario)
            yield hashed_plan(lab, scenario, time.perf_counter)
            return
        with (
            ExperimentController(
                lab, scenario.request, draw, self._programs.controller, popen=self._popen
            ) as controller,
            self._agents() as agents,
        ):
            controller.wait_ready()
            for job, document in zip(scenario.jobs, scenario.documents, strict=True):
                controller.push(job.name, document)
            plan = controller.wait_active(agents.check)
            # Only now do agents take packets of others out of their carriers.
            check_reachable(lab, scenario)
            routes_of = {host.name: controller.routes(host.name) for host in scenario.fabric.hosts}
            mbps_per_gbps = self._scale.mbps_per_gbps if draw.paced else None
            yield FollowedPlan(plan, routes_of, following(controller, scenario.fabric, mbps_per_gbps))
            agents.check()
            for job in scenario.jobs:
                controller.delete(job.name)

    def _agents(self) -> LabAgents:
        if self._finds_ports:
            return LabAgents(self.lab, self._programs.agent, command=port_agent_command)
        return LabAgents(self.lab, AGENT_OPTIONS)

    @contextmanager
    def hashed(self, draw: Draw) -> Iterator[None]:
        """Have the kernels of routers hash all flows, by the seed of a draw."""
        self.lab.hash_by(draw.seed)
        check_reachable(self.lab, self._scenario)
        yield

    @contextmanager
    def learning(self, draw: Draw) -> Iterator[ExperimentController]:
        """Have agents follow a controller that plans what it learns; until then kernels hash all."""
        more = ["--learning", "act"]
        with (
            ExperimentController(self.lab, self._scenario.request, draw, more, popen=self._popen) as controller,
            self._agents() as agents,
        ):
            controller.wait_ready()
            check_reachable(self.lab, self._scenario)
            yield controller
            agents.check()

    def sent(self) -> dict[str, int]:
        """Read the counters of interfaces."""
        fabric, sent = self._scenario.fabric, self.lab.sent()
        return {fabric.link_ids[link]: sent[link] for link in range(fabric.first_cable_link, fabric.n_links)}

    def counting(self, applied: FollowedPlan) -> FlowCounting:
        """Read what routers have counted of each flow, and interfaces of all."""
        return FlowCounting(self.lab, applied)


class FlowCounting:
    """Counters of flows and links from before the jobs send."""

    def __init__(self, lab: RouterLab, applied: FollowedPlan) -> None:
        """Read them."""
        self._lab, self._applied = lab, applied
        self._before = router_snapshot(lab)

    def evidence(self, payload: Payload, *, retransmissions: int) -> Evidence:
        """Read them again, and compare them with the plan."""
        ips = {host.name: host.ip for host in self._lab.fabric.hosts}
        planned = planned_units(ips, self._applied.routes_of, payload)
        return judge_routers(planned, self._before, router_snapshot(self._lab), retransmissions=retransmissions)
