"""One draw of Hedera's loop in an experiment: nothing is pushed in advance, and the loop runs beside the jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from emulation.errors import LabError
from emulation.experiments.control import ExperimentController
from emulation.experiments.counters import snapshot
from emulation.experiments.evidence import Evidence
from emulation.experiments.hedera.flow_cache import FlowCache
from emulation.experiments.hedera.hedera_loop import JOB, HederaLoop, LargeFlows, large_flows_job, largest
from emulation.experiments.hedera.hedera_simulated import hedera_seconds
from emulation.experiments.hedera.packet_paths import uplinks
from emulation.experiments.job_times import cycles
from emulation.experiments.learned.learned_truth import Edge
from emulation.experiments.learned.own_ports import own_ports
from emulation.experiments.measure import Predictions, measure
from emulation.experiments.request import Draw, EmulatedScenario
from emulation.experiments.results import MeasuredDraw
from emulation.experiments.scale import Scale
from emulation.experiments.workload import collectives
from emulation.lab import Lab


class LabPlacer:
    """Places large flows by the controller of an experiment, and asks the switches whether they follow."""

    def __init__(self, lab: Lab, scenario: EmulatedScenario, controller: ExperimentController) -> None:
        """Connect the parts."""
        self._lab, self._controller = lab, controller
        fabric = scenario.fabric
        up = zip(fabric.link_ids[fabric.first_cable_link :: 2], fabric.cable_names, strict=True)
        self._link = {lab.wiring.wire(cable).a.interface: link for link, cable in up}

    def uplinks(self, flows: Sequence[Edge]) -> dict[Edge, str]:
        """Return the link by which packets of each flow leave their leaf now; flows within a leaf are left out."""
        return {flow: self._link[interface] for flow, interface in uplinks(self._lab, flows).items()}

    def place(self, flows: Sequence[Edge]) -> Mapping[str, Any]:
        """Push the flows, and wait until every switch has confirmed the plan (``hedera_loop.Placer``)."""
        self._controller.push(JOB, large_flows_job(flows))
        return self._controller.wait_active()

    def check(self, flows: Sequence[Edge]) -> tuple[Mapping[Edge, tuple[str, ...]], tuple[str, ...]]:
        """Compare the plan with the uplinks by which packets leave (``hedera_loop.Placer``)."""
        links = {}
        for host in sorted({src for src, _, _ in flows}):
            for flow in self._controller.routes(host)["flows"]:
                (piece,) = flow["pieces"]
                inner = tuple((piece["links"] or ())[1:-1])
                if inner:
                    links[host, flow["dst"], piece["udp_src"]] = inner
        taken = self.uplinks(flows)
        off_plan = tuple(
            f"{src}->{dst} from port {port}: leaves by {taken.get((src, dst, port))}; the planned uplink is {inner[0]}"
            for (src, dst, port), inner in links.items()
            if taken.get((src, dst, port)) != inner[0]
        )
        return links, off_plan


def run_hedera(
    lab: Lab, scenario: EmulatedScenario, scale: Scale, draw: Draw, controller: ExperimentController
) -> MeasuredDraw:
    """Run all jobs on hashed paths, with the loop beside them.

    Args:
        lab: the lab.
        scenario: the jobs.
        scale: its scale.
        draw: its seed is that of the source ports, which the switches hash, and of the placement.
        controller: runs with the placement as its policy; it has no jobs.

    Raises:
        LabError: no flow was large.
    """
    fabric, request = scenario.fabric, scenario.request
    specs = collectives(scenario, scale.bytes)
    counts = {(row.job, row.name): row.qps.count for row in scenario.traffic.collectives}
    ports = own_ports(fabric, specs, seed=draw.seed, qps=lambda spec: counts[spec.job, spec.name])
    edges = {
        key: tuple((piece.src or key[2], piece.dst or key[3], piece.udp_src) for piece in pieces)
        for key, pieces in ports.items()
    }
    placer = LabPlacer(lab, scenario, controller)
    hashed = placer.uplinks([edge for each in edges.values() for edge in each])
    first = {key: tuple(hashed.get(edge) for edge in each) for key, each in edges.items()}
    expected = Predictions(cycles(scenario, None, scale.time), hedera_seconds(scenario, scale, draw, first), {})
    rates = {host.name: host.gbps * scale.mbps_per_gbps * 1e6 / 8 for host in fabric.hosts}
    before = snapshot(lab, fabric)
    with HederaLoop(FlowCache(lab).read, LargeFlows(rates), placer, request.loop_period) as loop:
        measured, jobs = measure(lab, scenario, scale, specs, ports, expected)
    after = snapshot(lab, fabric)
    if not loop.placements:
        raise LabError(f"{draw.policy}: no flow was large in any of {loop.looks} periods; try a shorter --period")
    controller.delete(JOB)
    sent = {link: size - before.sent[link] for link, size in after.sent.items()}
    wrong = tuple(text for placement in loop.placements for text in placement.off_plan)
    plan = dict(largest(loop.placements).plan)
    return MeasuredDraw(draw, plan, tuple(measured), Evidence((), sent, wrong), tuple(jobs), tuple(loop.placements))
