"""Jobs whose connections have several QPs."""

from __future__ import annotations

from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.model.errors import InputError
from controller.model.queue_pairs import MESSAGE_BYTES, QueuePairs
from controller.workload.expand import JobTraffic, combine, expand
from controller.workload.job_document import document_of
from controller.workload.job_file import parse_job
from controller.workload.source_ports.ports import FIRST, LAST
from tests.unit.workload.documents import FABRIC, PAIRED, jobs

MODES = st.sampled_from(["split", "round_robin"])
PAIR = {"src": "h1", "dst": "h4", "bytes": 9}
CALL = {"name": "c", "op": "all_reduce", "ranks": [0], "bytes": 9}


def without_ports(document: dict[str, Any]) -> dict[str, Any]:
    rows = [{key: value for key, value in row.items() if key != "udp_src"} for row in document["flows"]]
    return {key: value for key, value in document.items() if key != "ports"} | {"flows": rows}


def sent(traffic: JobTraffic) -> dict[tuple[int, int, int, int], int]:
    """Bytes by collective, connection and ends."""
    total: dict[tuple[int, int, int, int], int] = {}
    for f in range(traffic.n_flows):
        k = int(traffic.collective[f])
        edge = int(traffic.number[f]) // traffic.collectives[k].qps.count
        key = k, edge, int(traffic.src[f]), int(traffic.dst[f])
        total[key] = total.get(key, 0) + int(traffic.bytes[f])
    return total


@given(jobs(), st.integers(1, 9), MODES)
def test_qps_carry_what_their_connection_carried_each_by_a_port_of_its_own(
    document: dict[str, Any], qps: int, mode: str
) -> None:
    plain = without_ports(document)
    one = expand(PAIRED, parse_job(plain))
    many = expand(PAIRED, parse_job(plain | {"qps": qps, "qp_mode": mode}))
    assert sent(many) == sent(one)
    flows = list(zip(many.src.tolist(), many.dst.tolist(), many.udp_src.tolist(), strict=True))
    assert len(set(flows)) == len(flows)
    traffic = combine([many])
    assert len({traffic.flow_id(f) for f in range(traffic.n_flows)}) == traffic.n_flows
    shares = QueuePairs(qps, mode).shares(one.bytes)  # type: ignore[arg-type]
    assert sorted(many.bytes.tolist()) == sorted(shares[shares > 0].tolist())
    by_connection = np.bincount(traffic.connection, weights=many.bytes) if many.n_flows else np.zeros(0)
    assert sorted(by_connection.tolist()) == sorted(one.bytes.tolist())


@given(jobs(), st.integers(1, 9), MODES)
def test_a_default_counts_where_the_job_does_not_say_and_is_written_nowhere(
    document: dict[str, Any], qps: int, mode: str
) -> None:
    plain = without_ports(document)
    default = QueuePairs(qps, mode)  # type: ignore[arg-type]
    by_default = expand(PAIRED, parse_job(plain), default_qps=default)
    said = parse_job(plain | {"qps": qps, "qp_mode": mode})
    by_job = expand(PAIRED, said, default_qps=QueuePairs(2))
    assert by_default.bytes.tolist() == by_job.bytes.tolist()
    assert by_default.udp_src.tolist() == by_job.udp_src.tolist()
    assert "qps" not in document_of(parse_job(plain))
    assert repr(parse_job(orjson.loads(orjson.dumps(document_of(said))))) == repr(said)


def test_a_flow_that_states_one_port_is_one_qp_whatever_the_default() -> None:
    job = parse_job({"name": "a", "flows": [PAIR | {"udp_src": 50000}, PAIR]})
    traffic = expand(FABRIC, job, default_qps=QueuePairs(3))
    assert traffic.bytes.tolist() == [9, 3, 3, 3]
    assert traffic.udp_src[0] == 50000
    assert [traffic.flow_id(f) for f in range(4)] == ["a/all/0.0", "a/all/1.0", "a/all/1.1", "a/all/1.2"]


def test_a_collective_has_its_own_qps_and_takes_the_mode_from_its_job() -> None:
    ring = {"op": "all_reduce", "ranks": [0, 1], "bytes": MESSAGE_BYTES}
    job = parse_job(
        {
            "name": "a",
            "hosts": ["h1", "h4"],
            "qps": 2,
            "qp_mode": "round_robin",
            "collectives": [
                ring | {"name": "x"},
                ring | {"name": "y", "qps": 4},
                ring | {"name": "z", "qp_mode": "split"},
            ],
        }
    )
    traffic = expand(FABRIC, job)
    assert [row.qps for row in traffic.collectives] == [
        QueuePairs(2, "round_robin"),
        QueuePairs(4, "round_robin"),
        QueuePairs(2, "split"),
    ]
    # One message: round robin uses one QP of each of the two connections.
    assert np.bincount(traffic.collective).tolist() == [2, 2, 4]


def test_stated_ports_and_ports_of_linux_are_those_of_the_qps() -> None:
    flows = [PAIR | {"qp_ports": [50001, 50000]}, PAIR | {"qp_numbers": [[17, 18], [19, 20]]}]
    traffic = expand(FABRIC, parse_job({"name": "a", "qps": 2, "flows": flows}))
    assert traffic.udp_src.tolist() == [50001, 50000, 0xC000 | 17 * 18, 0xC000 | 19 * 20]
    again = expand(FABRIC, parse_job(document_of(parse_job({"name": "a", "qps": 2, "flows": flows}))))
    assert again.udp_src.tolist() == traffic.udp_src.tolist()


@pytest.mark.parametrize(
    ("document", "says"),
    [
        ({"qps": 0}, "qps: 0: "),
        ({"qps": 10**9}, "qps: 1000000000: "),
        ({"qps": 2.0}, "qps: 2.0: "),
        ({"qps": -1}, "qps: -1: "),
        ({"qps": 129}, "qps: 129: "),
        ({"qps": "many"}, "qps: 'many': "),
        ({"collectives": [CALL | {"qps": 0}]}, "collectives[0].qps: 0: "),
        ({"collectives": [CALL | {"qps": 2, "qp_mode": "both"}]}, "collectives[0].qp_mode: 'both': "),
        (
            {"hosts": ["h1"], "collectives": [CALL | {"qp_mode": "split"}]},
            "collectives[0].qp_mode: 'split': there must be 'qps' with it",
        ),
        ({"qps": 2, "qp_mode": "both"}, "qp_mode: 'both': "),
        ({"qp_mode": "split"}, "qp_mode: 'split': there must be 'qps' with it"),
        ({"qps": 2, "flows": [PAIR | {"udp_src": 50000}]}, "flows[0].udp_src: 50000: this is one port, and"),
        ({"flows": [PAIR | {"qp_ports": [50000, 50001]}]}, "flows[0].qp_ports: [50000, 50001]: there are 2 of them"),
        ({"qps": 2, "flows": [PAIR | {"qp_ports": [5, 5]}]}, "flows[0].qp_ports[1]: 5: flows[0] from h1 to"),
        ({"qps": 2, "flows": [PAIR | {"qp_numbers": [[1, 6], [2, 3]]}]}, "flows[0].qp_numbers[1]: 49158: flows[0] "),
        ({"qps": 1, "flows": [PAIR | {"qp_numbers": [[1, 2**24]]}]}, "flows[0].qp_numbers[0][1]: 16777216: "),
        ({"qps": 2, "flows": [PAIR | {"qp_numbers": []}]}, "flows[0].qp_numbers: []: there are 0 of them, and"),
        ({"qps": 2, "flows": [PAIR | {"qp_numbers": [[1, 2], [3]]}]}, "flows[0].qp_numbers[1]: [3]: "),
        ({"qps": 2, "flows": [PAIR | {"qp_numbers": "derived"}]}, "flows[0].qp_numbers: 'derived': "),
        ({"qps": 1, "flows": [PAIR | {"qp_ports": [70000]}]}, "flows[0].qp_ports[0]: 70000: "),
        (
            {"qps": 2, "flows": [PAIR | {"qp_ports": [5, 6]}, PAIR | {"qp_ports": [7, 5]}]},
            "flows[1].qp_ports[1]: 5: flows[0] from h1 to h4 already has this port",
        ),
        (
            {"flows": [PAIR | {"udp_src": 5, "qp_ports": [5]}]},
            "flows[0].qp_ports: stands beside 'udp_src', which says the same",
        ),
        ({"ports": "unknown", "flows": [PAIR | {"qp_ports": [5]}]}, "flows[0].qp_ports: [5]: the ports of the job"),
    ],
)
def test_bad_qps_give_one_line_with_field_and_value(document: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_job({"name": "a"} | document, source="job.json")
    assert str(caught.value).startswith(f"job.json: {says}")
    assert "\n" not in str(caught.value)


def test_a_port_of_a_qp_that_another_job_has_is_refused_by_its_place() -> None:
    others = [expand(FABRIC, parse_job({"name": "a", "flows": [PAIR | {"udp_src": 50000}]}))]
    job = parse_job({"name": "b", "qps": 2, "flows": [PAIR | {"qp_ports": [50001, 50000]}]})
    with pytest.raises(
        InputError, match=r"flows\[0\].qp_ports\[1\]: 50000: a/all/0 from h1 to h4 already has this port"
    ):
        expand(FABRIC, job, others)


def test_every_qp_counts_against_the_room_for_flows() -> None:
    job = parse_job({"name": "a", "qps": 4, "flows": [PAIR] * 3})
    assert expand(FABRIC, job, max_flows=12).n_flows == 12
    with pytest.raises(InputError, match="the number of its flows is 12; at most 11 more are allowed"):
        expand(FABRIC, job, max_flows=11)


@given(st.lists(st.tuples(st.integers(1, 20), st.integers(1, 3)), min_size=1, max_size=4), st.integers(0, 99))
def test_the_qps_of_each_connection_have_consecutive_ports_from_a_multiple_of_a_power_of_two(
    collectives: list[tuple[int, int]], name: int
) -> None:
    hosts = ["h1", "h4"]
    ring = {"op": "all_reduce", "ranks": [0, 1], "bytes": 2**40}
    rows = [ring | {"name": f"c{k}", "qps": qps, "channels": many} for k, (qps, many) in enumerate(collectives)]
    found = [expand(FABRIC, parse_job({"name": f"j{name}", "hosts": hosts, "collectives": rows}))]
    found.append(expand(FABRIC, parse_job({"name": "other", "hosts": hosts, "collectives": rows}), found))
    traffic = combine(found)
    for connection in range(int(traffic.connection.max()) + 1):
        own = np.flatnonzero(traffic.connection == connection)
        port = traffic.udp_src[own]
        assert port.tolist() == list(range(port[0], port[0] + len(own)))
        assert port[0] % (1 << (len(own) - 1).bit_length()) == 0
    pairs = set(zip(traffic.src.tolist(), traffic.dst.tolist(), traffic.udp_src.tolist(), strict=True))
    assert len(pairs) == traffic.n_flows


def test_qps_get_single_ports_where_no_block_is_free() -> None:
    claims = [PAIR | {"udp_src": port} for port in range(FIRST, LAST + 1, 4)]
    held = expand(FABRIC, parse_job({"name": "a", "qps": 1, "flows": claims}))
    traffic = expand(FABRIC, parse_job({"name": "b", "qps": 8, "flows": [PAIR]}), [held])
    assert len(set(traffic.udp_src.tolist())) == 8
    assert not set(traffic.udp_src.tolist()) & set(held.udp_src.tolist())
