"""The rules of a fall-back: an earlier plan's planned rules on the network of now."""

from __future__ import annotations

from typing import Any

import pytest

from controller.core.controller_state import ControllerState
from controller.core.fallback_task import fallback_task
from controller.model.files.clos import clos
from controller.model.packets.port_numbers import ROCE_PORT
from controller.southbound.enforcement.registry import rule_enforcements
from controller.southbound.rollout.desired_rules import is_enforcement, without
from controller.southbound.rules.interpreter import RuleInterpreter
from tests.unit.service.lives import rules_equal
from tests.unit.service.world import ANN, World, flow, rules_of
from tests.unit.southbound.cabling.networks import seen

FABRIC = clos(3, 3, 2)
SMALL = [flow("h1", "h3"), flow("h2", "h5"), flow("h6", "h1")]
LARGE = [flow(a.name, b.name) for a in FABRIC.hosts for b in FABRIC.hosts if a.leaf != b.leaf]


def started(enforcement: str, policy: str) -> World:
    world = World(FABRIC, seen(FABRIC), enforcement=enforcement, policy=policy).planned()
    world.put("small", SMALL)
    return world.planned()


def fall_back(world: World, state: ControllerState) -> Any:
    assert state.applied is not None
    return world.southbound.compiler(fallback_task(world.service.state, False, state.applied))


@pytest.mark.parametrize("policy", ["fair", "ethereal"])
@pytest.mark.parametrize("enforcement", rule_enforcements())
def test_on_an_unchanged_network_the_earlier_rules_are_what_they_were_whatever_job_came(
    enforcement: str, policy: str
) -> None:
    world = started(enforcement, policy)
    earlier = world.service.state
    assert rules_equal(fall_back(world, earlier), rules_of(earlier))
    world.put("large", LARGE)
    assert rules_equal(fall_back(world, earlier), rules_of(earlier))


@pytest.mark.parametrize("enforcement", rule_enforcements())
def test_after_a_failure_base_rules_are_the_newest_and_no_flow_is_led_over_what_is_dead(
    enforcement: str,
) -> None:
    world = started(enforcement, "fair")
    earlier = world.service.state
    world.put("large", LARGE)
    dead = ["leaf1-spine1", "leaf2-spine3"]
    world.show(
        seen(FABRIC.without_links(dead)), lambda state: state.fabric is not None and not state.fabric.link_up.all()
    )
    state, rules = world.service.state, fall_back(world, earlier)
    assert state.fabric is not None
    for dpid in rules_of(state):
        assert without(rules[dpid], is_enforcement) == without(rules_of(state)[dpid], is_enforcement)
        assert len(rules[dpid]) <= len(rules_of(state)[dpid])
    network = RuleInterpreter(state.fabric)
    ip = {host.name: host.ip for host in FABRIC.hosts}
    for each in SMALL:
        for port in (49152, 50001, 4242):
            packet: dict[str, int | str] = {
                "eth_type": 0x800,
                "ip_proto": 17,
                "ipv4_src": ip[each["src"]],
                "ipv4_dst": ip[each["dst"]],
                "udp_src": port,
                "udp_dst": ROCE_PORT,
            }
            assert network.walk(rules, packet, source=each["src"]).host == each["dst"]


def test_flows_of_deleted_jobs_have_no_rules_and_mode_ecmp_has_base_rules_alone() -> None:
    world = started("per_flow", "fair")
    world.put("large", LARGE)
    earlier = world.service.state
    world.delete("large")
    world.planned()
    now = world.service.state
    assert {dpid: len(rules_of(now)[dpid]) for dpid in rules_of(now)} == {
        dpid: len(rules) for dpid, rules in fall_back(world, earlier).switches.items()
    }
    world.service.set_mode("ecmp", None, ANN)
    ecmp = world.planned().service.state
    assert rules_equal(fall_back(world, earlier), rules_of(ecmp))
