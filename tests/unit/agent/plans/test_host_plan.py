"""Plans as the controller sends them: read, or refused with the field and the value."""

from __future__ import annotations

import copy
from ipaddress import IPv6Address
from typing import Any

import pytest

from agent.plans.flow_keys import described
from agent.plans.host_plan import CODE_POINTS, read_plan
from controller.model.errors import InputError
from controller.model.packets.port_numbers import ROCE_PORT
from controller.model.priority import DSCP

DOCUMENT: dict[str, Any] = {
    "epoch": 7,
    "host": "h1",
    "mode": "planned",
    "source": "fd00:fab::20",
    "decapsulate": [{"segment": "fcbb:bb00:e001::/48", "inner": 4}, {"segment": "fcbb:bb00:f001::/48", "inner": 6}],
    "destinations": [
        {"dst": "10.0.2.1", "carrier": "fcbb:bb00:2:e001::"},
        {"dst": "10.0.2.2", "carrier": "fcbb:bb00:2:e002::", "backups": ["fcbb:bb00:c002:2:e002::"], "probe": None},
    ],
    "flows": [
        {
            "src": "10.0.1.1",
            "dst": "10.0.2.1",
            "protocol": "udp",
            "src_port": 4096,
            "dst_port": ROCE_PORT,
            "carrier": "fcbb:bb00:c001:2:e001::",
            "backups": ["fcbb:bb00:c002:2:e001::"],
            "probe": None,
            "rate_gbps": 12.5,
        }
    ],
}


def test_paces_are_rates_on_the_link_and_flows_without_have_none() -> None:
    (row,) = DOCUMENT["flows"]
    assert read_plan(DOCUMENT).paces == {}
    assert read_plan({**DOCUMENT, "flows": [{**row, "wire_gbps": None}]}).paces == {}
    plan = read_plan({**DOCUMENT, "flows": [{**row, "wire_gbps": 12.5, "pace_gbps": 12.2}]})
    assert plan.paces == dict.fromkeys(plan.flows, 12_500_000_000)


def test_the_dscp_of_a_flow_or_of_a_destination_is_that_of_a_class() -> None:
    assert CODE_POINTS == DSCP
    for priority, code_point in enumerate(CODE_POINTS):
        for name in ("flows", "destinations"):
            document = copy.deepcopy(DOCUMENT)
            document[name][0]["dscp"] = code_point
            plan = read_plan(document)
            read = plan.flows if name == "flows" else plan.destinations
            assert [choice.priority for choice in read.values()] == [priority, *[0] * (len(read) - 1)]


def test_a_plan_is_read() -> None:
    plan = read_plan(DOCUMENT)
    ((key, choice),) = plan.flows.items()
    assert described(key) == {name: DOCUMENT["flows"][0][name] for name in described(key)}
    assert choice.carriers == (IPv6Address("fcbb:bb00:c001:2:e001::"), IPv6Address("fcbb:bb00:c002:2:e001::"))
    assert [segment.inner for segment in plan.decapsulate] == [4, 6]
    assert [len(choice.carriers) for choice in plan.destinations.values()] == [1, 2]
    assert plan.probes == ()
    probes = ["fcbb:bb00:c001:1:f001::", "fcbb:bb00:c001:2:c001:1:f001::"]
    assert read_plan({**DOCUMENT, "probes": probes}).probes == tuple(map(IPv6Address, probes))
    assert plan.bypass_probes == ()
    assert read_plan({**DOCUMENT, "bypass_probes": probes}).bypass_probes == tuple(map(IPv6Address, probes))


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        (("epoch",), "7", "epoch"),
        (("epoch",), True, "epoch"),
        (("source",), "10.0.0.1", "source"),
        (("flows",), {}, "flows"),
        (("flows", 0), 3, "flows[0]"),
        (("flows", 0, "dst"), "fd00::1", "flows[0].dst"),
        (("flows", 0, "src"), "x", "flows[0].src"),
        (("flows", 0, "protocol"), "sctp", "flows[0].protocol"),
        (("flows", 0, "src_port"), 70000, "flows[0].src_port"),
        (("flows", 0, "backups", 0), "10.0.0.1", "flows[0].backups[0]"),
        (("flows", 0, "dscp"), 17, "flows[0].dscp"),
        (("flows", 0, "dscp"), "16", "flows[0].dscp"),
        (("destinations", 0, "dscp"), False, "destinations[0].dscp"),
        (("flows", 0, "wire_gbps"), "12", "flows[0].wire_gbps"),
        (("flows", 0, "wire_gbps"), True, "flows[0].wire_gbps"),
        (("flows", 0, "wire_gbps"), 0, "flows[0].wire_gbps"),
        (("flows", 0, "wire_gbps"), float("nan"), "flows[0].wire_gbps"),
        (("decapsulate", 1, "inner"), 5, "decapsulate[1].inner"),
        (("decapsulate", 0, "segment"), "fcbb::1/48", "decapsulate[0].segment"),
        (("destinations", 0, "carrier"), None, "destinations[0].carrier"),
        (("destinations", 1, "backups", 0), "x", "destinations[1].backups[0]"),
        (("report_seconds",), -1, "report_seconds"),
        (("report_seconds",), True, "report_seconds"),
        (("report_seconds",), 1e9, "report_seconds"),
        (("destinations", 1, "probe"), "x", "destinations[1].probe"),
    ],
)
def test_what_is_wrong_is_named(path: tuple[str | int, ...], value: object, field: str) -> None:
    document = copy.deepcopy(DOCUMENT)
    part: Any = document
    for each in path[:-1]:
        part = part[each]
    part[path[-1]] = value
    with pytest.raises(InputError) as error:
        read_plan(document)
    assert error.value.field == field


@pytest.mark.parametrize("name", DOCUMENT)
def test_what_is_missing_is_named(name: str) -> None:
    with pytest.raises(InputError) as error:
        read_plan({key: value for key, value in DOCUMENT.items() if key != name})
    assert (error.value.field, error.value.reason) == (name, "is missing")
