"""Plans of port agents: what is wrong is named."""

from __future__ import annotations

from ipaddress import IPv4Address
from typing import Any

import pytest

from agent.ports.port_plan import read_port_plan
from controller.model.errors import InputError
from tests.unit.rest.fake.hosts import PORT_PLAN


def test_a_plan_is_read() -> None:
    plan = read_port_plan(PORT_PLAN)
    assert plan.id == (1, PORT_PLAN["digest"])
    assert (plan.host, [(str(flow.dst), flow.number, flow.path) for flow in plan.flows]) == (
        "h1",
        [("10.0.2.1", 49152, 1)],
    )


FLOW = PORT_PLAN["flows"][0]
CONNECTED = PORT_PLAN["connections"][0]


def test_both_kinds_of_flows_share_the_budget_of_routers() -> None:
    plan = read_port_plan({**PORT_PLAN, "budget": {"burst": 6, "a_second": 1.0, "share": 0.5}})
    assert plan.task.budget == (3, 0.5, 0.25)
    assert plan.connections == {IPv4Address("10.0.2.1"): (0, True, None)}
    for alone in ({"flows": []}, {"connections": []}):
        assert read_port_plan({**PORT_PLAN, **alone}).task.budget == (6, 1.0, float("inf"))
    paced = {"flows": [{**FLOW, "wire_gbps": 12.5}], "connections": [{**CONNECTED, "wire_gbps": 50}]}
    plan = read_port_plan({**PORT_PLAN, **paced})
    assert (plan.flows[0].pace, plan.connections[IPv4Address("10.0.2.1")].pace) == (12.5e9, 50e9)
    # A controller of an earlier version knows of no connections.
    assert not read_port_plan({name: value for name, value in PORT_PLAN.items() if name != "connections"}).connections


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"epoch": "1"}, "epoch: '1': has the wrong type"),
        ({"flows": [{**FLOW, "path": 0}]}, "flows[0].path: 0: is no path for which ports are wanted"),
        ({"flows": [{**FLOW, "dst": "10.0.9.9"}]}, "flows[0].path: 1: is no path for which ports are wanted"),
        ({"flows": [{**FLOW, "number": 0}]}, "flows[0].number: 0: is not from 1 to 65535"),
        ({"flows": [{**FLOW, "wire_gbps": 0}]}, "flows[0].wire_gbps: 0: is not a rate"),
        ({"connections": [{**CONNECTED, "wire_gbps": "1"}]}, "connections[0].wire_gbps: '1': is not a rate"),
        ({"flows": [FLOW, FLOW]}, "flows: has a flow twice"),
        ({"connections": [{**CONNECTED, "dst": "10.0.9.9"}]}, "connections[0].dst: '10.0.9.9': is no destination"),
        ({"connections": [{**CONNECTED, "path": 9}]}, "connections[0].path: 9: is no path to this destination"),
        ({"connections": [{**CONNECTED, "comes_back": 1}]}, "connections[0].comes_back: 1: is not true or false"),
        ({"connections": [CONNECTED, CONNECTED]}, "connections: has a destination twice"),
        ({"check_seconds": -1}, "check_seconds: -1: is no number of seconds"),
        ({"check_seconds": None}, "check_seconds: is no number of seconds"),
    ],
)
def test_a_wrong_plan_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as refused:
        read_port_plan({**PORT_PLAN, **change})
    assert str(refused.value).startswith(message)
