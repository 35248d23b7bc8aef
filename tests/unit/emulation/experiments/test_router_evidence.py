"""On routers, counters that do not fit the plan are detected; and what their kernels do is a plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.model.files.clos import clos
from controller.model.files.pod_clos import pod_clos
from controller.model.packets.port_numbers import ROCE_PORT
from controller.model.traffic import ANY_PORT, FIRST_PORT, Traffic
from emulation.experiments.counters import Unit
from emulation.experiments.evidence import Evidence, Planned, planned_units
from emulation.experiments.networks.kernel_ecmp import hashed_plan, with_ports
from emulation.experiments.networks.network import FollowedPlan
from emulation.experiments.networks.router_counters import PacketCount, RouterSnapshot
from emulation.experiments.networks.router_evidence import CARRIER_BYTES, judge_routers
from emulation.experiments.request import EmulatedScenario
from emulation.lab.routers import RoutedFlow
from tests.unit.emulation.experiments.made import FRAME, PACKETS, ring, scenario_of_routers

FABRICS = {"two layers": clos(3, 2, 3, parallel=2), "three layers": pod_clos(2, 2, 2, 2, 2)}
SIZE = FRAME + CARRIER_BYTES
OWN = PacketCount(PACKETS, PACKETS * SIZE)


class Drawn:
    """Routers whose hash is drawn by a seed."""

    def __init__(self, scenario: EmulatedScenario, seed: int) -> None:
        self.fabric, self._random = scenario.fabric, np.random.default_rng(seed)
        self.flows: dict[RoutedFlow, tuple[int, ...]] = {}

    def routed(self, flows: Iterable[RoutedFlow]) -> Mapping[RoutedFlow, Sequence[int]]:
        fabric = self.fabric
        for flow in flows:
            src, dst = (fabric.host_index[name] for name in flow[:2])
            leaves = [int(fabric.host_leaf[end]) for end in (src, dst)]
            if leaves[0] == leaves[1]:
                self.flows[flow] = (src, fabric.n_hosts + dst)
            else:
                path = int(self._random.choice(fabric.live_paths(*leaves)))
                self.flows[flow] = tuple(fabric.flow_links(src, dst, path))
        return self.flows


@pytest.fixture(scope="module", params=FABRICS)
def scenario(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> EmulatedScenario:
    fabric = FABRICS[request.param]
    names = [*fabric.host_names[::2], *fabric.host_names[1::2]]
    return scenario_of_routers(fabric, tmp_path_factory.mktemp("s"), [ring("a", names)])


def applied(scenario: EmulatedScenario, seed: int) -> tuple[FollowedPlan, Drawn]:
    drawn = Drawn(scenario, seed)
    return hashed_plan(drawn, scenario, lambda: 0.0), drawn


def units(scenario: EmulatedScenario, plan: FollowedPlan) -> list[Planned]:
    every = {
        (host, flow["dst"], piece["udp_src"]): PACKETS * 4096
        for host, document in plan.routes_of.items()
        for flow in document["flows"]
        for piece in flow["pieces"]
    }
    return planned_units({host.name: host.ip for host in scenario.fabric.hosts}, plan.routes_of, every)


def counters(scenario: EmulatedScenario, planned: Sequence[Planned], times: int = 1) -> RouterSnapshot:
    """What honest routers show when each unit has been sent so many times, and acknowledged over its first link."""
    links = scenario.fabric.link_ids[scenario.fabric.first_cable_link :]
    arrived = {
        link: {one.unit: PacketCount(OWN.packets * times, OWN.bytes * times) for one in planned if link in one.links}
        for link in links
    }
    sent = {link: sum(count.bytes for count in row.values()) for link, row in arrived.items()}
    return RouterSnapshot(arrived, sent)


def with_count(counted: RouterSnapshot, link: str, unit: Unit, packets: int) -> RouterSnapshot:
    """The same with so many packets more of a unit on a link."""
    row = counted.arrived[link]
    more = {**row, unit: row.get(unit, PacketCount()).plus(PacketCount(packets, packets * SIZE))}
    sent = {**counted.sent, link: counted.sent[link] + packets * SIZE}
    return RouterSnapshot({**counted.arrived, link: more}, sent)


def verdict(scenario: EmulatedScenario, planned: Sequence[Planned], after: RouterSnapshot, resent: int = 0) -> Evidence:
    return judge_routers(planned, counters(scenario, planned, 0), after, retransmissions=resent)


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 1000))
def test_what_routers_do_is_the_plan_and_their_counters_prove_it(scenario: EmulatedScenario, seed: int) -> None:
    plan, drawn = applied(scenario, seed)
    names, ids = {host.ip: host.name for host in scenario.fabric.hosts}, scenario.fabric.link_ids
    planned = units(scenario, plan)
    for one in planned:
        src, dst, port = one.unit
        taken = drawn.flows[names[str(src)], names[str(dst)], int(port or 0)]
        assert one.links == tuple(ids[link] for link in taken[1:-1])
    between = [flow for flow, links in drawn.flows.items() if len(links) > 2]
    assert len(planned) == len(between)
    assert plan.plan["policy"] == "ecmp"
    fullest = max(np.bincount([link for links in drawn.flows.values() for link in links]))
    assert plan.plan["min_speed"] == pytest.approx(1 / fullest)
    evidence = verdict(scenario, planned, counters(scenario, planned))
    assert evidence.wrong == ()
    assert {(one.packets, one.bytes, one.elsewhere) for one in evidence.flows} == {(*OWN, 0)}


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 1000), which=st.integers(0, 1000))
def test_packets_that_went_elsewhere_or_did_not_come_are_detected(
    scenario: EmulatedScenario, seed: int, which: int
) -> None:
    planned = units(scenario, applied(scenario, seed)[0])
    one, honest = planned[which % len(planned)], counters(scenario, planned)
    others = [link for link in honest.sent if link not in one.links]
    stray = with_count(honest, others[which % len(others)], one.unit, 1)
    (line,) = verdict(scenario, planned, stray).wrong
    assert line.startswith(f"{one.flows[0]}: 1 packets came over other links")
    last = one.links[-1]
    lost = with_count(honest, last, one.unit, -1)
    (line,) = verdict(scenario, planned, lost).wrong
    assert line.startswith(f"{one.flows[0]}: {PACKETS - 1} packets came over {last}")
    assert verdict(scenario, planned, lost, resent=1).wrong == ()
    first = with_count(honest, one.links[0], one.unit, -1)
    assert verdict(scenario, planned, first, resent=1).wrong != ()


def test_data_of_no_plan_and_bytes_of_no_flow_are_detected_and_acknowledgements_are_not(
    scenario: EmulatedScenario,
) -> None:
    planned = units(scenario, applied(scenario, 1)[0])
    honest = counters(scenario, planned)
    link = next(iter(honest.sent))
    src, dst, _ = planned[0].unit
    assert verdict(scenario, planned, with_count(honest, link, (dst, src, ROCE_PORT), 5000)).wrong == ()
    (line,) = verdict(scenario, planned, with_count(honest, link, ("10.9.9.9", dst, 50000), 1)).wrong
    assert line.startswith(f"{link}: 1 packets came of no planned flow")
    busy = replace(honest, sent={**honest.sent, link: honest.sent[link] + 10**7})
    (line,) = verdict(scenario, planned, busy).wrong
    assert line.startswith(f"{link} sent ")


def test_a_flow_whose_port_is_unknown_is_all_data_between_its_hosts() -> None:
    link = "leaf1->spine1"
    unit = ("10.0.1.1", "10.0.2.1", None)
    one = Planned(unit, unit, ("a/c/0",), "leaf1", (link,), 0, PACKETS * 4096)
    rows: dict[Unit, PacketCount] = {("10.0.1.1", "10.0.2.1", port): OWN for port in (50000, 50001)}
    before = RouterSnapshot({}, {link: 0})
    after = RouterSnapshot({link: rows}, {link: 2 * OWN.bytes})
    evidence = judge_routers([one], before, after, retransmissions=0)
    assert (evidence.wrong, evidence.flows[0].packets) == ((), 2 * PACKETS)


@given(
    st.lists(
        st.tuples(
            st.integers(0, 2), st.integers(3, 5), st.sampled_from([ANY_PORT, *range(FIRST_PORT, FIRST_PORT + 9)])
        ),
        unique_by=lambda flow: flow if flow[2] != ANY_PORT else object(),
        max_size=20,
    )
)
def test_flows_without_a_port_get_ones_of_their_own_and_others_keep_theirs(flows: list[tuple[int, int, int]]) -> None:
    src, dst, port = (np.array([flow[i] for flow in flows], np.int32) for i in range(3))
    none = np.zeros(len(flows), np.int32)
    given = Traffic(src, dst, np.ones(len(flows), np.int64), none, none, port, ())
    ports = with_ports(given).udp_src
    assert (ports[port != ANY_PORT] == port[port != ANY_PORT]).all()
    assert (ports >= FIRST_PORT).all()
    keys = list(zip(src.tolist(), dst.tolist(), ports.tolist(), strict=True))
    assert len(set(keys)) == len(keys)
