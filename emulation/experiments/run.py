"""The experiment itself: lab, controller, jobs, collectives on packets, counters; draw after draw."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from controller.model.fabric import Fabric
from controller.model.plan import Plan
from controller.planning.make_plan import make_plan
from controller.southbound.enforcement.registry import ENFORCEMENTS
from emulation.errors import LabError
from emulation.experiments.control import ExperimentController
from emulation.experiments.counters import Snapshot, snapshot
from emulation.experiments.evidence import Planned, arrived, at_rules, judge, planned_units
from emulation.experiments.hedera.hedera_run import run_hedera
from emulation.experiments.job_times import computing_of
from emulation.experiments.measure import measure, predictions
from emulation.experiments.request import Draw, EmulatedScenario
from emulation.experiments.results import ExperimentOutcome, MeasuredDraw
from emulation.experiments.scale import Scale, longest_job, scale_for
from emulation.experiments.workload import collectives, ports_of, routes, ways_of_pieces
from emulation.lab import Lab
from emulation.roce.collectives.spec import CollectiveSpec
from emulation.roce.run import FlowKey, Follow, PortShare
from emulation.socket_buffers import enlarge_packet_buffers

Say = Callable[[str], None]

COUNTERS_SECONDS = 5.0
_POLL_SECONDS = 0.3


def prepare(scenario: EmulatedScenario) -> Scale:
    """Return the scale of the experiment.

    Raises:
        LabError: some flow has no live path, so its job would never end.
        InputError: the scale is not possible.
    """
    plan = make_plan(scenario.fabric, scenario.traffic, policy="greedy", clock=time.perf_counter)
    _check_routable(scenario, plan)
    computing = computing_of(scenario.fabric, scenario.traffic)
    request = scenario.request
    return scale_for(
        scenario.fabric,
        longest_job(scenario.traffic, plan, {job: sum(s for _, s in phases) for job, phases in computing.items()}),
        seconds=request.seconds,
        link_mbps=request.link_mbps,
    )


def run(scenario: EmulatedScenario, say: Say) -> ExperimentOutcome:
    """Run every draw on one lab, which is always removed afterwards.

    Args:
        scenario: the checked request.
        say: called with a line of text on progress.

    Raises:
        LabError: a part did not start, or the logs contain errors.
        EmulationError: a collective did not finish.
    """
    scale = prepare(scenario)
    fabric, request = scenario.fabric, scenario.request
    begun = time.monotonic()
    ports = f" with {fabric.planes.ports.shape[1]} ports" if ports_of(fabric) else ""
    say(f"{fabric.size_in_words}, {len(fabric.nic_names)} hosts{ports} on Open vSwitch ...")
    with Lab(fabric, out=request.folder, mbps_per_gbps=scale.mbps_per_gbps) as lab:
        runs = []
        for number, draw in enumerate(scenario.draws, start=1):
            runs.append(_run(lab, scenario, scale, draw, say, f"[{number}/{len(scenario.draws)}]"))
        problems = lab.problems()
    if problems:
        raise LabError("errors in the logs:\n" + "\n".join(problems))
    return ExperimentOutcome(scenario, scale, tuple(runs), time.monotonic() - begun)


def _run(lab: Lab, scenario: EmulatedScenario, scale: Scale, draw: Draw, say: Say, mark: str) -> MeasuredDraw:
    request, fabric = scenario.request, scenario.fabric
    name = (
        f"{draw.policy}, seed {draw.seed}" if sum(d.policy == draw.policy for d in scenario.draws) > 1 else draw.policy
    )
    with ExperimentController(lab, request, draw) as controller:
        controller.wait_ready()
        check_reachable(lab, scenario)
        if draw.loop:
            say(f"{mark} {name}: nothing pushed; a look each {request.loop_period:g} s; collectives on packets ...")
            done = run_hedera(lab, scenario, scale, draw, controller)
            say(f"{mark} {name}: {_times(done)}; {len(done.placements)} placements")
            return done
        for job, document in zip(scenario.jobs, scenario.documents, strict=True):
            controller.push(job.name, document)
        plan = controller.wait_active()
        routes_of = {host.name: controller.routes(host.name) for host in fabric.hosts}
        say(f"{mark} {name}: plan active (min speed {plan['min_speed']:.3f}); collectives on packets ...")
        specs = collectives(scenario, scale.bytes)
        ports = routes(fabric, specs, routes_of)
        before = snapshot(lab, fabric)
        predicted = predictions(scenario, plan, specs, scale)
        measured, jobs = measure(lab, scenario, scale, specs, ports, predicted, following(controller, fabric))
        rule_port = ENFORCEMENTS.named(request.enforcement).rule_port
        units = planned_units(
            {h.name: h.ip for h in fabric.hosts},
            routes_of,
            _payload(specs, ports, routes_of),
            None if rule_port is None else partial(rule_port, fabric),
        )
        planned = at_rules(units, before)
        after = _settled(lab, scenario, planned, before)
        resent = sum(row.retransmissions for row in measured)
        evidence = judge(planned, _uplink_ports(lab, scenario), before, after, retransmissions=resent)
        for job in scenario.jobs:
            controller.delete(job.name)
    done = MeasuredDraw(draw, plan, tuple(measured), evidence, tuple(jobs))
    say(f"{mark} {name}: {_times(done)}; {len(evidence.flows)} flows counted, {len(evidence.wrong)} not as planned")
    return done


def _times(done: MeasuredDraw) -> str:
    return ", ".join(f"{row.job} {row.mean:.2f} s" for row in done.jobs)


def check_reachable(lab: Lab, scenario: EmulatedScenario) -> None:
    """Check that hosts that communicate reach each other, and prepare the switches for their traffic.

    Raises:
        LabError: some do not.
    """
    lost = lab.ping_all(_neighbours(scenario))
    if lost:
        raise LabError(f"{len(lost)} pairs of hosts cannot reach each other; the first is {' and '.join(lost[0])}")
    # Only now has every switch sent something, and so opened the socket by which it sends.
    enlarge_packet_buffers(lab.ovs.daemon.pid)


class PlanSource(Protocol):
    """A source of plans: the controller of an experiment."""

    def active_epoch(self) -> int:
        """Return the epoch of the plan that every switch has confirmed last."""
        ...

    def routes(self, host: str) -> Mapping[str, Any]:
        """Return the routes of a host."""
        ...


def following(controller: PlanSource, fabric: Fabric) -> Follow | None:
    """Return what tells queue pairs where the plan moves their flows; ``None`` where it moves none.

    A flow has other ends only where NICs have several ports: its stripes go to other planes if theirs fails.
    """
    if not ports_of(fabric):
        return None
    known: dict[str, tuple[str, str, int | None]] = {}
    epochs: list[int] = []

    def changes() -> dict[str, tuple[str, str, int | None]]:
        epoch = controller.active_epoch()
        if epochs and epoch == epochs[-1]:
            return {}
        now = ways_of_pieces({host.name: controller.routes(host.name) for host in fabric.hosts})
        changed = {name: way for name, way in now.items() if known.get(name) != way}
        known.update(changed)
        epochs.append(epoch)
        return changed

    return changes


def _payload(
    specs: Sequence[CollectiveSpec],
    ports: Mapping[FlowKey, tuple[PortShare, ...]],
    routes_of: Mapping[str, Mapping[str, Any]],
) -> dict[tuple[str, str, int | None], int]:
    """Bytes that each unit of the plan certainly sends: (source, destination, UDP source port or None for any).

    A QP over which messages take turns may be one message behind its share.
    """
    known = {
        (host, flow["dst"], piece["udp_src"])
        for host, document in routes_of.items()
        for flow in document["flows"]
        for piece in flow["pieces"]
    }
    sizes: dict[tuple[str, str, int | None], int] = {}
    for spec in specs:
        for (a, b), size in spec.flows().items():
            src, dst = spec.ranks[a], spec.ranks[b]
            for piece in ports[spec.job, spec.name, src, dst]:
                ends = (piece.src or src, piece.dst or dst)
                key = (*ends, piece.udp_src if (*ends, piece.udp_src) in known else None)
                behind = spec.message_bytes if spec.qp_mode == "round_robin" else 0
                sizes[key] = sizes.get(key, 0) + max(0, int(size * spec.iterations * piece.share) - behind)
    return sizes


def _settled(lab: Lab, scenario: EmulatedScenario, planned: Sequence[Planned], before: Snapshot) -> Snapshot:
    """Return the counters when they no longer change, since Open vSwitch updates rule counters with a delay."""
    deadline = time.monotonic() + COUNTERS_SECONDS
    last = snapshot(lab, scenario.fabric)
    while time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
        now = snapshot(lab, scenario.fabric)
        if arrived(planned, before, now) and (now.rules, now.groups) == (last.rules, last.groups):
            return now
        last = now
    return last


def _neighbours(scenario: EmulatedScenario) -> list[tuple[str, str]]:
    """Return the communicating pairs of hosts in both directions, whose addresses are resolved beforehand."""
    hosts = [host.name for host in scenario.fabric.hosts]
    ends = zip(scenario.traffic.src.tolist(), scenario.traffic.dst.tolist(), strict=True)
    pairs = {(hosts[a], hosts[b]) for a, b in ends}
    return sorted(pairs | {(b, a) for a, b in pairs})


def _uplink_ports(lab: Lab, scenario: EmulatedScenario) -> dict[str, int]:
    fabric = scenario.fabric
    uplinks = fabric.link_ids[fabric.first_cable_link :: 2]
    return {link: lab.wiring.wire(name).a.port for link, name in zip(uplinks, fabric.cable_names, strict=True)}


def _check_routable(scenario: EmulatedScenario, plan: Plan) -> None:
    if len(plan.unroutable):
        first = scenario.traffic.flow_id(int(plan.unroutable[0]))
        raise LabError(
            f"{len(plan.unroutable)} of {scenario.traffic.n_flows} flows have no live path, the first is {first}"
        )
