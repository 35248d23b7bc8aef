"""Experiments on Open vSwitch: a controller installs the plan of a draw, and rules and groups count its flows."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from controller.southbound.enforcement.registry import ENFORCEMENTS
from emulation.experiments.control import ExperimentController
from emulation.experiments.counters import Snapshot, sent_over_cables, snapshot
from emulation.experiments.evidence import Evidence, Planned, arrived, at_rules, judge, planned_units
from emulation.experiments.hedera.hedera_run import run_hedera
from emulation.experiments.networks.network import ExperimentNetwork, FollowedPlan, Payload, check_reachable, following
from emulation.experiments.request import Draw, EmulatedScenario
from emulation.experiments.results import MeasuredDraw
from emulation.experiments.scale import Scale
from emulation.lab import Lab
from emulation.processes import Popen

COUNTERS_SECONDS = 5.0
_POLL_SECONDS = 0.3


class OpenFlowNetwork(ExperimentNetwork):
    """A lab of OpenFlow switches for an experiment."""

    lab: Lab

    def __init__(self, scenario: EmulatedScenario, scale: Scale, popen: Popen) -> None:
        """Prepare the lab, and keep ``popen``, which starts controllers; nothing is created."""
        self._scenario, self._scale, self._popen = scenario, scale, popen
        self.lab = Lab(scenario.fabric, out=scenario.request.folder, mbps_per_gbps=scale.mbps_per_gbps)

    @contextmanager
    def applied(self, draw: Draw) -> Iterator[FollowedPlan]:
        """Have a controller with the policy of a draw install the plan of all jobs."""
        scenario, fabric = self._scenario, self._scenario.fabric
        with ExperimentController(self.lab, scenario.request, draw, popen=self._popen) as controller:
            controller.wait_ready()
            check_reachable(self.lab, scenario)
            for job, document in zip(scenario.jobs, scenario.documents, strict=True):
                controller.push(job.name, document)
            plan = controller.wait_active()
            routes_of = {host.name: controller.routes(host.name) for host in fabric.hosts}
            mbps_per_gbps = self._scale.mbps_per_gbps if draw.paced else None
            yield FollowedPlan(plan, routes_of, following(controller, fabric, mbps_per_gbps))
            for job in scenario.jobs:
                controller.delete(job.name)

    @contextmanager
    def hashed(self, draw: Draw) -> Iterator[None]:
        """Have a controller install the rules that every fabric has, which hash TCP and UDP by ports, too."""
        with ExperimentController(self.lab, self._scenario.request, draw, popen=self._popen) as controller:
            controller.wait_ready()
            check_reachable(self.lab, self._scenario)
            yield

    @contextmanager
    def learning(self, draw: Draw) -> Iterator[ExperimentController]:
        """Have a controller plan what it learns; until then all is hashed."""
        more = ["--learning", "act"]
        with ExperimentController(self.lab, self._scenario.request, draw, more, popen=self._popen) as controller:
            controller.wait_ready()
            check_reachable(self.lab, self._scenario)
            yield controller

    def sent(self) -> dict[str, int]:
        """Read the counters of ports."""
        return sent_over_cables(self.lab, self._scenario.fabric)

    def counting(self, applied: FollowedPlan) -> RuleCounting:
        """Read rules, groups and ports."""
        return RuleCounting(self.lab, self._scenario, applied)

    def run_loop(self, draw: Draw) -> MeasuredDraw:
        """Run all jobs beside Hedera's loop."""
        with ExperimentController(self.lab, self._scenario.request, draw, popen=self._popen) as controller:
            controller.wait_ready()
            check_reachable(self.lab, self._scenario)
            return run_hedera(self.lab, self._scenario, self._scale, draw, controller)


class RuleCounting:
    """Counters of rules, groups and ports from before the jobs send."""

    def __init__(self, lab: Lab, scenario: EmulatedScenario, applied: FollowedPlan) -> None:
        """Read them."""
        self._lab, self._scenario, self._applied = lab, scenario, applied
        self._before = snapshot(lab, scenario.fabric)

    def evidence(self, payload: Payload, *, retransmissions: int) -> Evidence:
        """Read them again when they no longer change, and compare them with the plan."""
        fabric = self._scenario.fabric
        rule_port = ENFORCEMENTS.named(self._scenario.request.enforcement).rule_port
        units = planned_units(
            {h.name: h.ip for h in fabric.hosts},
            self._applied.routes_of,
            payload,
            None if rule_port is None else partial(rule_port, fabric),
        )
        planned = at_rules(units, self._before)
        after = self._settled(planned)
        return judge(planned, self._uplink_ports(), self._before, after, retransmissions=retransmissions)

    def _settled(self, planned: Sequence[Planned]) -> Snapshot:
        """Return the counters when they no longer change, since Open vSwitch updates rule counters with a delay."""
        deadline = time.monotonic() + COUNTERS_SECONDS
        last = snapshot(self._lab, self._scenario.fabric)
        while time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
            now = snapshot(self._lab, self._scenario.fabric)
            if arrived(planned, self._before, now) and (now.rules, now.groups) == (last.rules, last.groups):
                return now
            last = now
        return last

    def _uplink_ports(self) -> dict[str, int]:
        fabric = self._scenario.fabric
        uplinks = fabric.link_ids[fabric.first_cable_link :: 2]
        wiring = self._lab.wiring
        return {link: wiring.wire(name).a.port for link, name in zip(uplinks, fabric.cable_names, strict=True)}
