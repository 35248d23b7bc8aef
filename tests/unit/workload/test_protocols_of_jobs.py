"""Jobs of several protocols: what documents say, the flows of them, and what is refused."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.model.choices.protocol import PROTOCOLS
from controller.model.errors import InputError
from controller.model.files.clos import clos
from controller.model.packets.flow_ports import flow_ports
from controller.model.packets.port_numbers import ROCE_PORT
from controller.model.queue_pairs import QueuePairs
from controller.workload.expand import combine, expand
from controller.workload.job_document import document_of
from controller.workload.job_file import parse_job
from tests.unit.workload.documents import FABRIC, HOSTS, PAIRED, jobs

RING = {"name": "r", "op": "all_reduce", "ranks": [0, 1], "bytes": 100}
PAIR = ["h1", "h4"]


def flow(**members: Any) -> dict[str, Any]:
    return {"flows": [{"src": "h1", "dst": "h4", "bytes": 5, **members}]}


@st.composite
def jobs_of_protocols(draw: st.DrawFn) -> dict[str, Any]:
    """Jobs in which some parts state a protocol, and some flows a port."""
    document = draw(jobs())
    protocols = st.none() | st.sampled_from(PROTOCOLS)
    rows = [document, *document.get("collectives", ()), *document.get("flows", ())]
    for row in rows:
        protocol = draw(protocols)
        if "udp_src" in row:
            protocol = "roce"
        if protocol is not None:
            row["protocol"] = protocol
        if protocol in ("tcp", "udp") and "src" in row and "ports" not in document and draw(st.booleans()):
            row["dst_port"] = draw(st.integers(5000, 5002))
    return document


@given(document=jobs_of_protocols())
def test_a_job_of_several_protocols_reads_back_as_the_same_job_and_flows(document: dict[str, Any]) -> None:
    job = parse_job(document)
    again = parse_job(orjson.loads(orjson.dumps(document_of(job))))
    assert repr(again) == repr(job)
    assert np.array_equal(expand(PAIRED, job).udp_src, expand(PAIRED, again).udp_src)


@given(document=jobs_of_protocols())
def test_flows_have_the_protocol_of_their_entry_their_collective_or_their_job(document: dict[str, Any]) -> None:
    job = parse_job(document)
    of_job = document.get("protocol", "roce")
    described = {row["name"]: row.get("protocol", of_job) for row in document.get("collectives", ())}
    possible = {name: {protocol} for name, protocol in described.items()}
    for row in document.get("flows", ()):
        name = row.get("collective", "all")
        possible.setdefault(name, set()).add(row.get("protocol", described.get(name, of_job)))
    if "matrix" in document:
        possible.setdefault(document["matrix"].get("collective", "all"), set()).add(of_job)
    traffic = expand(FABRIC, job)
    for k, code in zip(traffic.collective.tolist(), traffic.udp_src.tolist(), strict=True):
        assert flow_ports(code).protocol in possible[traffic.collectives[k].name]


@given(document=jobs())
def test_rocev2_is_the_protocol_of_jobs_that_state_none(document: dict[str, Any]) -> None:
    silent, stated = (expand(FABRIC, parse_job({**document, **more})) for more in ({}, {"protocol": "roce"}))
    assert combine([silent]).version == combine([stated]).version


def test_connections_of_other_protocols_have_no_queue_pairs() -> None:
    rows = [RING | {"protocol": "tcp"}, RING | {"name": "s"}]
    job = parse_job({"name": "j", "hosts": PAIR, "collectives": rows, "qps": 2})
    traffic = expand(FABRIC, job)
    assert [traffic.flow_id(i) for i in range(traffic.n_flows)] == [
        *("j/r/0", "j/r/1"),
        *("j/s/0.0", "j/s/0.1", "j/s/1.0", "j/s/1.1"),
    ]
    by_default = expand(FABRIC, parse_job({"name": "j", **flow(protocol="any")}), default_qps=QueuePairs(4))
    assert by_default.n_flows == 1


def test_flows_of_one_job_share_a_connection_where_they_state_its_port() -> None:
    row = flow(protocol="tcp", dst_port=5000)["flows"][0]
    job = parse_job({"name": "j", "flows": [row, row | {"collective": "x"}]})
    first = expand(FABRIC, job)
    traffic = combine([first])
    assert (traffic.n_flows, traffic.n_units) == (2, 1)
    assert np.array_equal(expand(FABRIC, job, ports=first.udp_src).udp_src, first.udp_src)


@pytest.mark.parametrize(
    ("document", "field", "value", "reason"),
    [
        (flow(protocol="sctp"), "flows[0].protocol", "sctp", "should be 'roce', 'tcp', 'udp' or 'any'"),
        ({"protocol": "ip", **flow()}, "protocol", "ip", "should be 'roce', 'tcp', 'udp' or 'any'"),
        (flow(protocol="tcp", dst_port=ROCE_PORT), "flows[0].dst_port", ROCE_PORT, "this port is RoCEv2's"),
        (flow(protocol="tcp", src_port=ROCE_PORT), "flows[0].src_port", ROCE_PORT, "this port is RoCEv2's"),
        (flow(protocol="udp", dst_port=ROCE_PORT), "flows[0].dst_port", ROCE_PORT, "this port is RoCEv2's"),
        (flow(protocol="any", dst_port=80), "flows[0].dst_port", 80, "any do not state it"),
        (flow(protocol="udp", src_port=80), "flows[0].src_port", 80, "udp do not state it"),
        (flow(protocol="tcp", udp_src=50000), "flows[0].udp_src", 50000, "tcp do not state it"),
        (flow(dst_port=80), "flows[0].dst_port", 80, f"packets go to UDP port {ROCE_PORT}"),
        (flow(protocol="tcp", src_port=7, dst_port=8), "flows[0].src_port", 7, "the end that listens"),
        (flow(protocol="tcp", dst_port=0), "flows[0].dst_port", 0, "greater than or equal to 1"),
        ({"ports": "unknown", **flow(protocol="tcp", dst_port=80)}, "flows[0].dst_port", 80, "ports of the job are"),
        ({"protocol": "tcp", "qps": 2, **flow()}, "qps", 2, "tcp have no queue pairs"),
        (
            {"hosts": PAIR, "collectives": [RING | {"protocol": "udp", "qps": 2}]},
            "collectives[0].qps",
            2,
            "udp have no queue pairs",
        ),
        (
            {"protocol": "tcp", "flows": [flow(dst_port=80)["flows"][0], flow(src_port=81)["flows"][0]]},
            "flows[1].src_port",
            81,
            "flows[0] from h1 to h4 states 'dst_port'",
        ),
    ],
)
def test_a_document_that_contradicts_its_protocol_is_refused(
    document: dict[str, Any], field: str, value: object, reason: str
) -> None:
    with pytest.raises(InputError) as error:
        parse_job({"name": "j", **document})
    assert (error.value.field, error.value.value) == (field, value)
    assert reason in str(error.value)


@pytest.mark.parametrize(
    ("member", "reason"),
    [
        ("dst_port", "one/all/0 from h1 to h4 already has this port"),
        ("src_port", "one/all/0 from h1 to h4 states the port of the other end"),
    ],
)
def test_tcp_flows_of_two_jobs_that_no_switch_could_tell_apart_are_refused(member: str, reason: str) -> None:
    one = expand(FABRIC, parse_job({"name": "one", **flow(protocol="tcp", dst_port=5000)}))
    two = parse_job({"name": "two", **flow(protocol="tcp", **{member: 5000})})
    with pytest.raises(InputError) as error:
        expand(FABRIC, two, [one])
    assert (error.value.field, error.value.value) == (f"flows[0].{member}", 5000)
    assert reason in str(error.value)
    for beside in (flow(protocol="tcp", dst_port=5001), flow(protocol="udp", dst_port=5000), flow(protocol="tcp")):
        assert expand(FABRIC, parse_job({"name": "two", **beside}), [one]).n_flows == 1


def test_nics_with_several_ports_need_the_port_that_sends_a_connection() -> None:
    fabric = clos(2, 2, 2, planes=2)
    job = parse_job({"name": "j", "protocol": "tcp", "hosts": ["h1", "h3"], "collectives": [RING]})
    with pytest.raises(InputError) as error:
        expand(fabric, job)
    assert (error.value.field, error.value.value) == ("protocol", "tcp")
    assert "r must name the ports" in str(error.value)
    named = {"src": "h1.p2", "dst": "h3.p2", "bytes": 5, "protocol": "tcp"}
    traffic = expand(fabric, parse_job({"name": "j", "flows": [named]}))
    assert [fabric.hosts[traffic.src[0]].name, fabric.hosts[traffic.dst[0]].name] == ["h1.p2", "h3.p2"]


def test_jobs_between_two_hosts_keep_their_protocol_when_the_ranks_are_moved() -> None:
    job = parse_job({"name": "j", "hosts": HOSTS[:2], "protocol": "udp", "collectives": [RING]})
    moved = dataclasses.replace(job, hosts=tuple(HOSTS[3:5]))
    assert {flow_ports(code).protocol for code in expand(FABRIC, moved).udp_src.tolist()} == {"udp"}
