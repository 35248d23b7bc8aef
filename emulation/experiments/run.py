"""The experiment itself: lab, controller, jobs, collectives on packets, counters; draw after draw."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from controller.model.plan import Plan
from controller.planning.make_plan import make_plan
from emulation.errors import LabError
from emulation.experiments.job_times import computing_of
from emulation.experiments.measure import measure, predictions
from emulation.experiments.networks.network import ExperimentNetwork, switches_in_words
from emulation.experiments.networks.openflow_network import OpenFlowNetwork
from emulation.experiments.networks.router_network import RouterNetwork
from emulation.experiments.request import Draw, EmulatedScenario
from emulation.experiments.results import ExperimentOutcome, MeasuredDraw
from emulation.experiments.scale import Scale, longest_job, scale_for
from emulation.experiments.workload import collectives, paced_flows, ports_of, routes
from emulation.processes import Popen
from emulation.roce.collectives.spec import CollectiveSpec
from emulation.roce.run import FlowKey, PortShare

Say = Callable[[str], None]


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


def run(scenario: EmulatedScenario, say: Say, popen: Popen = subprocess.Popen) -> ExperimentOutcome:
    """Run every draw on one lab, which is always removed afterwards.

    Args:
        scenario: the checked request.
        say: called with a line of text on progress.
        popen: starts controllers, called as ``subprocess.Popen`` is.

    Raises:
        LabError: a part did not start, or the logs contain errors.
        EmulationError: a collective did not finish.
    """
    scale = prepare(scenario)
    fabric = scenario.fabric
    begun = time.monotonic()
    ports = f" with {fabric.planes.ports.shape[1]} ports" if ports_of(fabric) else ""
    say(f"{fabric.size_in_words}, {len(fabric.nic_names)} hosts{ports} on {switches_in_words(fabric)} ...")
    with _network(scenario, scale, popen) as network:
        runs = []
        for number, draw in enumerate(scenario.draws, start=1):
            runs.append(_run(network, scenario, scale, draw, say, f"[{number}/{len(scenario.draws)}]"))
        problems = network.lab.problems()
    if problems:
        raise LabError("errors in the logs:\n" + "\n".join(problems))
    return ExperimentOutcome(scenario, scale, tuple(runs), time.monotonic() - begun)


def _network(scenario: EmulatedScenario, scale: Scale, popen: Popen) -> ExperimentNetwork:
    if scenario.fabric.routers:
        return RouterNetwork(scenario, scale, popen)
    return OpenFlowNetwork(scenario, scale, popen)


def _run(
    network: ExperimentNetwork, scenario: EmulatedScenario, scale: Scale, draw: Draw, say: Say, mark: str
) -> MeasuredDraw:
    request = scenario.request
    name = (
        f"{draw.policy}, seed {draw.seed}" if sum(d.policy == draw.policy for d in scenario.draws) > 1 else draw.policy
    )
    if draw.loop:
        # No other network is asked for one (``request.load``).
        assert isinstance(network, OpenFlowNetwork)
        say(f"{mark} {name}: nothing pushed; a look each {request.loop_period:g} s; collectives on packets ...")
        done = network.run_loop(draw)
        say(f"{mark} {name}: {_times(done)}; {len(done.placements)} placements")
        return done
    with network.applied(draw) as applied:
        plan = applied.plan
        say(f"{mark} {name}: plan active (min speed {plan['min_speed']:.3f}); collectives on packets ...")
        specs = collectives(scenario, scale.bytes)
        ports = routes(scenario.fabric, specs, applied.routes_of, scale.mbps_per_gbps if draw.paced else None)
        counting = network.counting(applied)
        predicted = predictions(scenario, plan, specs, scale)
        measured, jobs = measure(
            network.lab,
            scenario,
            scale,
            specs,
            ports,
            predicted,
            applied.follow,
            added_bytes=network.added_bytes,
            pace_window=request.pace_window if draw.windows else 0.0,
        )
        resent = sum(row.retransmissions for row in measured)
        evidence = counting.evidence(_payload(specs, ports, applied.routes_of), retransmissions=resent)
    done = MeasuredDraw(
        draw, plan, tuple(measured), evidence, tuple(jobs), paces=paced_flows(ports, scale.mbps_per_gbps)
    )
    say(f"{mark} {name}: {_times(done)}; {len(evidence.flows)} flows counted, {len(evidence.wrong)} not as planned")
    return done


def _times(done: MeasuredDraw) -> str:
    return ", ".join(f"{row.job} {row.mean:.2f} s" for row in done.jobs)


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


def _check_routable(scenario: EmulatedScenario, plan: Plan) -> None:
    if len(plan.unroutable):
        first = scenario.traffic.flow_id(int(plan.unroutable[0]))
        raise LabError(
            f"{len(plan.unroutable)} of {scenario.traffic.n_flows} flows have no live path, the first is {first}"
        )
