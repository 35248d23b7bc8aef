"""Stripes: over which planes the connections of jobs are spread."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.model.errors import InputError
from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.queue_pairs import QueuePairs
from controller.model.traffic import FIRST_PORT, unit_key
from controller.workload.expand import JobTraffic, combine, expand
from controller.workload.job_file import parse_job
from controller.workload.placement.placement import place
from tests.unit.strategies import plane_fabrics

TWO = clos(2, 2, 2, planes=2)


def flows_of(fabric: Fabric, default: int = 1, **job: Any) -> JobTraffic:
    """Expand a job of a document's members."""
    return expand(fabric, parse_job({"name": "a", **job}), default_qps=QueuePairs(default))


def ring(fabric: Fabric, **call: Any) -> dict[str, Any]:
    """A ring of all NICs."""
    ranks = list(range(len(fabric.nic_names)))
    return {
        "hosts": list(fabric.nic_names),
        "collectives": [{"name": "r", "op": "all_reduce", "ranks": ranks, "bytes": 10**9, **call}],
    }


@given(plane_fabrics(failures=False), st.integers(1, 3))
def test_a_connection_has_the_default_qps_in_each_plane_and_all_its_bytes(fabric: Fabric, default: int) -> None:
    striped, planes = flows_of(fabric, default, **ring(fabric)), fabric.planes
    n_leaves, per_leaf = fabric.n_leaves // planes.count, fabric.n_hosts // fabric.n_leaves
    one = flows_of(clos(fabric.n_spines, n_leaves, per_leaf), **ring(fabric))
    assert striped.n_flows == one.n_flows * planes.count * default
    np.testing.assert_array_equal(planes.of_host[striped.src], planes.of_host[striped.dst])
    assert striped.bytes.sum() == one.bytes.sum()
    whole = combine([striped])
    for connection in range(one.n_flows):
        (own,) = np.nonzero(whole.connection == connection)
        assert np.bincount(planes.of_host[whole.src[own]]).tolist() == [default] * planes.count
        assert np.ptp(whole.bytes[own]) <= 1
        assert set(planes.nic_of_host[whole.src[own]].tolist()) == {int(one.src[connection])}
        assert set(planes.nic_of_host[whole.dst[own]].tolist()) == {int(one.dst[connection])}
    # The ports of a bond have one address, so source ports alone tell its stripes apart.
    address = planes.address
    assert len(set(unit_key(address[whole.src], address[whole.dst], whole.udp_src).tolist())) == whole.n_flows


@given(plane_fabrics(failures=False), st.integers(1, 5))
def test_a_job_that_states_its_qps_has_so_many_in_total_and_takes_the_planes_in_turn(fabric: Fabric, qps: int) -> None:
    striped = flows_of(fabric, 4, **ring(fabric, qps=qps))
    np.testing.assert_array_equal(fabric.planes.of_host[striped.src], striped.number % fabric.planes.count)
    assert int(striped.number.max()) < len(fabric.nic_names) * qps


def test_a_flow_between_two_ports_stays_in_their_plane() -> None:
    flow = {"src": "h1.p2", "dst": "h3.p2", "bytes": 100, "udp_src": FIRST_PORT}
    one = flows_of(TWO, flows=[flow])
    assert [(TWO.hosts[one.src[0]].name, TWO.hosts[one.dst[0]].name)] == [("h1.p2", "h3.p2")]
    assert (one.n_flows, one.bytes.tolist(), one.udp_src.tolist()) == (1, [100], [FIRST_PORT])


def test_a_flow_between_a_nic_and_a_port_stays_in_the_plane_of_the_port() -> None:
    mixed = flows_of(TWO, flows=[{"src": "h1", "dst": "h3.p2", "bytes": 100}])
    assert {TWO.hosts[host].name for host in mixed.src} == {"h1.p2"}


@pytest.mark.parametrize(
    ("job", "text"),
    [
        (
            {"flows": [{"src": "h1.p1", "dst": "h3.p2", "bytes": 1}]},
            "flows[0].dst: 'h3.p2': h1.p1 is in plane 1 and h3.p2 in plane 2, which no cable joins",
        ),
        (
            {"flows": [{"src": "h1", "dst": "h3", "bytes": 1, "udp_src": FIRST_PORT}]},
            "flows[0].src: 'h1': this NIC has 2 ports, and the flow states source ports: name the port that sends it",
        ),
        (
            {
                "hosts": ["h1", "h3.p2"],
                "collectives": [{"name": "r", "op": "all_reduce", "ranks": [0, 1], "bytes": 100}],
            },
            "hosts[1]: 'h3.p2': this is a port of h3; ranks run on NICs, and use all ports",
        ),
        (
            {"hosts": ["h1", "h99"], "collectives": [{"name": "r", "op": "all_reduce", "ranks": [0, 1], "bytes": 1}]},
            "hosts[1]: 'h99': the fabric has no host of this name",
        ),
    ],
)
def test_what_planes_do_not_allow_is_refused(job: dict[str, Any], text: str) -> None:
    with pytest.raises(InputError) as error:
        flows_of(TWO, **job)
    assert str(error.value) == text


def test_placement_uses_nics_all_of_whose_ports_are_up() -> None:
    job = parse_job({"name": "a", **ring(clos(1, 1, 3))})
    down = TWO.without_links(["h2.p2-leaf3"])
    assert sorted(place(down, job, "packed")) == ["h1", "h3", "h4"]


@given(plane_fabrics(failures=False), st.integers(1, 3), st.integers(1, 9))
def test_jobs_have_unlike_source_ports_between_two_addresses_and_keep_them(fabric: Fabric, jobs: int, qps: int) -> None:
    address, made = fabric.planes.address, list[JobTraffic]()
    for number in range(jobs):
        job = parse_job({"name": f"j{number}", **ring(fabric, qps=qps)})
        made.append(expand(fabric, job, made))
        again = expand(fabric, job, made[:-1], ports=made[-1].udp_src)
        np.testing.assert_array_equal(again.udp_src, made[-1].udp_src)
    whole = combine(made)
    assert len(set(unit_key(address[whole.src], address[whole.dst], whole.udp_src).tolist())) == whole.n_flows


BONDS = clos(2, 2, 2, planes=2, bond=True)


def stated(*ports: tuple[str, int], name: str = "a") -> dict[str, Any]:
    """A job of flows between the ports of two NICs in a plane, each with the source port that it states."""
    flows = [{"src": f"h1.{p}", "dst": f"h3.{p}", "bytes": 9, "udp_src": port} for p, port in ports]
    return {"name": name, "flows": flows}


def test_stated_source_ports_tell_the_stripes_of_a_bond_apart() -> None:
    first = expand(BONDS, parse_job(stated(("p1", 50000), ("p2", 50001))))
    assert first.udp_src.tolist() == [50000, 50001]
    twice = stated(("p1", 50000), ("p2", 50000))
    with pytest.raises(InputError) as error:
        expand(BONDS, parse_job(twice))
    assert str(error.value) == (
        "flows[1].udp_src: 50000: flows[0].udp_src is the same port, between the same addresses"
    )
    assert expand(TWO, parse_job(twice)).n_flows == 2
    with pytest.raises(InputError) as error:
        expand(BONDS, parse_job(stated(("p2", 50000), name="b")), [first])
    assert "flows[0].udp_src: 50000: a/all/0.0 from h1.p2 to h3.p2 already has this port" in str(error.value)
