"""Plans of port agents: what is wrong is named."""

from __future__ import annotations

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


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"epoch": "1"}, "epoch: '1': has the wrong type"),
        ({"flows": [{**FLOW, "path": 0}]}, "flows[0].path: 0: is no path for which ports are wanted"),
        ({"flows": [{**FLOW, "dst": "10.0.9.9"}]}, "flows[0].path: 1: is no path for which ports are wanted"),
        ({"flows": [{**FLOW, "number": 0}]}, "flows[0].number: 0: is not from 1 to 65535"),
        ({"flows": [FLOW, FLOW]}, "flows: has a flow twice"),
        ({"check_seconds": -1}, "check_seconds: -1: is no number of seconds"),
        ({"check_seconds": None}, "check_seconds: is no number of seconds"),
    ],
)
def test_a_wrong_plan_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as refused:
        read_port_plan({**PORT_PLAN, **change})
    assert str(refused.value).startswith(message)
