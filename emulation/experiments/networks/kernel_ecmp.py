"""The plan that routers make themselves: the paths on which their kernels hash the flows of all jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import orjson

from controller.model.assignment import Assignment
from controller.model.traffic import ANY_PORT, FIRST_PORT, LAST_PORT, Traffic
from controller.planning.make_plan import appraise
from controller.planning.plan_document import plan_document, routes_document
from controller.routing import Result
from controller.southbound.enforcement.flow_encoding import kept_ports
from emulation.experiments.networks.network import FollowedPlan
from emulation.experiments.request import ROUTERS_OWN, EmulatedScenario
from emulation.experiments.simulated import paths_by_links
from emulation.lab.routers import RoutedFlow


class FlowRouting(Protocol):
    """Says which links the packets of flows take."""

    def routed(self, flows: Iterable[RoutedFlow]) -> Mapping[RoutedFlow, Sequence[int]]:
        """Return the directed links, from the source host to the destination."""


def hashed_plan(lab: FlowRouting, scenario: EmulatedScenario, clock: Callable[[], float]) -> FollowedPlan:
    """Return the plan that is what routers do at present, which their kernels are asked for.

    Raises:
        LabError: a router has no route for a flow.
    """
    fabric, began = scenario.fabric, clock()
    traffic = with_ports(scenario.traffic)
    names = fabric.host_names
    ends = zip(traffic.src.tolist(), traffic.dst.tolist(), traffic.udp_src.tolist(), strict=True)
    flows = [(names[src], names[dst], port) for src, dst, port in ends]
    routed = lab.routed(flows)
    links = {
        traffic.flow_id(number): tuple(fabric.link_ids[link] for link in routed[flow][1:-1])
        for number, flow in enumerate(flows)
    }
    result = Result(Assignment.single(paths_by_links(fabric, traffic, links)))
    plan = appraise(fabric, traffic, result, policy=ROUTERS_OWN, seconds=clock() - began)
    ports = kept_ports(fabric, traffic, plan.assignment)
    documents = {name: routes_document(fabric, traffic, plan, ports, name) for name in names}
    # The flows of both are encoded already.
    read = orjson.loads(orjson.dumps({"plan": plan_document(fabric, traffic, plan), "routes": documents}))
    return FollowedPlan(read["plan"], read["routes"])


def with_ports(traffic: Traffic) -> Traffic:
    """Return a traffic whose flows without a known port have the lowest ones that no flow of the same hosts has."""
    ports, taken = traffic.udp_src.copy(), dict[tuple[int, int], set[int]]()
    pairs = list(zip(traffic.src.tolist(), traffic.dst.tolist(), strict=True))
    for pair, port in zip(pairs, ports.tolist(), strict=True):
        taken.setdefault(pair, set()).add(port)
    for flow, pair in enumerate(pairs):
        if ports[flow] == ANY_PORT:
            ports[flow] = next(port for port in range(FIRST_PORT, LAST_PORT + 1) if port not in taken[pair])
            taken[pair].add(int(ports[flow]))
    return replace(traffic, udp_src=ports)
