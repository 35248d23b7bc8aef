"""Source ports: two flows of the same hosts never have the same, and a flow's own lasts as long as its path."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.model.assignment import Assignment
from controller.model.errors import InputError
from controller.model.files.clos import clos
from controller.model.traffic import ANY_PORT, FIRST_PORT, LAST_PORT, Traffic, unit_key
from controller.southbound.enforcement.flow_encoding import PIECE_STEP
from controller.southbound.enforcement.registry import ENFORCEMENTS, encode_flows
from controller.southbound.enforcement.source_port import number_bits
from tests.unit.laws import examples
from tests.unit.southbound.plans import KEEPING, assignments, cases, patient, traffic_of

each_enforcement = pytest.mark.parametrize("enforcement", ENFORCEMENTS)


@each_enforcement
@patient
@given(data=st.data())
def test_ports_distinguish_all_flows_and_pieces_of_two_hosts(enforcement: str, data: st.DataObject) -> None:
    case = data.draw(cases(enforcement))
    wire, traffic = case.encoding, case.traffic
    known = traffic.udp_src[wire.flow] != ANY_PORT
    assert ((wire.udp_src == ANY_PORT) == ~known).all()
    assert (wire.udp_src[known] >= FIRST_PORT).all()
    assert (wire.udp_src[known] <= LAST_PORT).all()
    keys = unit_key(traffic.src[wire.flow], traffic.dst[wire.flow], wire.udp_src)
    assert len(np.unique(keys)) == len(keys)


@each_enforcement
@patient
@given(data=st.data())
def test_the_port_of_a_row_does_not_depend_on_the_order_of_flows_or_on_other_hosts(
    enforcement: str, data: st.DataObject
) -> None:
    case = data.draw(cases(enforcement))
    traffic, assignment = case.traffic, case.assignment
    told = {
        (int(traffic.src[flow]), int(traffic.dst[flow]), int(traffic.udp_src[flow]), path): port
        for flow, path, port in zip(
            *(c.tolist() for c in (case.encoding.flow, case.encoding.path, case.encoding.udp_src)), strict=True
        )
    }
    sender = data.draw(st.integers(0, case.fabric.n_hosts - 1))
    kept = data.draw(st.permutations(np.flatnonzero(traffic.src == sender).tolist()))
    rows = [np.flatnonzero(assignment.flow == flow) for flow in kept]
    again = Assignment(
        np.repeat(np.arange(len(kept)), [len(own) for own in rows]),
        np.concatenate([*(assignment.path[own] for own in rows), np.zeros(0, np.int32)]),
        np.concatenate([*(assignment.share[own] for own in rows), np.zeros(0)]),
    )
    fewer = traffic_of([(int(traffic.src[f]), int(traffic.dst[f]), int(traffic.udp_src[f])) for f in kept])
    wire = encode_flows(case.fabric, fewer, again, enforcement)
    for flow, path, port in zip(wire.flow.tolist(), wire.path.tolist(), wire.udp_src.tolist(), strict=True):
        assert told[int(fewer.src[flow]), int(fewer.dst[flow]), int(fewer.udp_src[flow]), path] == port


@pytest.mark.parametrize("enforcement", KEEPING)
@patient
@given(data=st.data())
def test_a_flow_keeps_its_port_and_so_does_the_first_piece_of_a_split_one(
    enforcement: str, data: st.DataObject
) -> None:
    case = data.draw(cases(enforcement))
    _, first = np.unique(case.encoding.flow, return_index=True)
    assert (case.encoding.udp_src[first] == case.traffic.udp_src).all()


@patient
@given(data=st.data())
def test_in_source_port_the_high_bits_are_the_path_class_and_the_others_stay_when_it_changes(
    data: st.DataObject,
) -> None:
    case = data.draw(cases("source_port"))
    bits = number_bits(case.fabric)
    on_path = case.encoding.path >= 0
    assert ((case.encoding.udp_src - FIRST_PORT >> bits)[on_path] == case.encoding.path[on_path]).all()
    other = dataclasses.replace(case, assignment=data.draw(assignments(case.usable, case.traffic)))
    number = [
        dict(zip(each.encoding.flow.tolist(), (each.encoding.udp_src & ((1 << bits) - 1)).tolist(), strict=True))
        for each in (case, other)
    ]
    assert number[0] == number[1]


@patient
@given(data=st.data())
def test_in_source_port_numbers_that_fit_are_the_port_s_own(data: st.DataObject) -> None:
    case = data.draw(cases("source_port"))
    room = (1 << number_bits(case.fabric)) - 1
    own = case.traffic.udp_src[case.encoding.flow] - FIRST_PORT
    fits = own < room
    assert ((case.encoding.udp_src & room)[fits] == own[fits]).all()


def crowd(n: int) -> Traffic:
    return traffic_of([(0, 1, LAST_PORT - i) for i in range(n)])


@pytest.mark.parametrize("spines", [2, 3, 4, 16, 33])
def test_in_source_port_two_hosts_may_have_as_many_flows_as_there_are_numbers_and_no_more(spines: int) -> None:
    fabric = clos(spines, 2, 1)
    room = (1 << (14 - (spines - 1).bit_length())) - 1
    full = crowd(room)
    wire = encode_flows(fabric, full, Assignment.single(np.arange(room, dtype=np.int32) % spines), "source_port")
    assert len(np.unique(wire.udp_src)) == room
    with pytest.raises(InputError, match=f"the {room} source ports from h1 to h2"):
        encode_flows(fabric, crowd(room + 1), Assignment.single(np.zeros(room + 1, dtype=np.int32)), "source_port")


@settings(max_examples=examples(10, 60))
@given(data=st.data())
def test_pieces_find_the_last_free_ports_of_two_hosts(data: st.DataObject) -> None:
    free = data.draw(st.integers(1, 3))
    fabric, n = clos(4, 2, 1), LAST_PORT - FIRST_PORT + 1 - free
    flow = np.sort(np.append(np.arange(n, dtype=np.int32), [data.draw(st.integers(0, n - 1))] * free)).astype(np.int32)
    rows = Assignment(flow, np.zeros(n + free, dtype=np.int32), np.ones(n + free))
    assert len(np.unique(encode_flows(fabric, crowd(n), rows, "per_flow").udp_src)) == n + free
    more = np.sort(np.append(flow, flow[:1]))
    rows = Assignment(more, np.zeros(len(more), dtype=np.int32), np.ones(len(more)))
    with pytest.raises(InputError, match="h1 to h2"):
        encode_flows(fabric, crowd(n), rows, "per_flow")


@pytest.mark.parametrize(("port", "what"), [(ANY_PORT, "is unknown"), (4000, "4000 is below 49152")])
def test_source_port_refuses_flows_whose_port_cannot_steer_them(port: int, what: str) -> None:
    with pytest.raises(InputError, match=what) as error:
        encode_flows(clos(2, 2, 1), traffic_of([(0, 1, port)]), Assignment.single(np.array([0])), "source_port")
    assert error.value.field == "job/c/0"


def test_a_flow_with_an_unknown_port_cannot_be_split() -> None:
    rows = Assignment(np.array([0, 0]), np.array([0, 1]), np.array([0.5, 0.5]))
    with pytest.raises(ValueError, match="job/c/0 is split"):
        encode_flows(clos(2, 2, 1), traffic_of([(0, 1, ANY_PORT)]), rows, "per_flow")


@each_enforcement
@given(first=st.integers(FIRST_PORT, LAST_PORT))
def test_ports_that_are_chosen_here_differ_between_the_planes_of_a_bond(enforcement: str, first: int) -> None:
    fabric = clos(4, 2, 1, planes=2, bond=True)
    room = LAST_PORT - FIRST_PORT + 1
    # The other plane's port is that of the second piece or, where ports select paths, one of the same number.
    chooses_ports = ENFORCEMENTS[enforcement].chooses_ports
    step = 1 << number_bits(fabric) if chooses_ports else PIECE_STEP
    other = FIRST_PORT + (first - FIRST_PORT + step) % room
    traffic = traffic_of([(0, 1, first), (2, 3, other)])
    assignment = Assignment(np.array([0, 0, 1]), np.array([0, 1, 0]), np.array([0.5, 0.5, 1.0]))
    ports = encode_flows(fabric, traffic, assignment, enforcement).udp_src.tolist()
    assert len(set(ports)) == 3
    if not chooses_ports:
        assert (ports[0], ports[2]) == (first, other)
