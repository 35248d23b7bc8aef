"""Fabric files with switches that speak no OpenFlow."""

from __future__ import annotations

import copy
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.model.errors import InputError
from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.files.fabric_file import fabric_document, load_fabric, parse_fabric
from controller.model.network_state import NetworkState, PortId
from controller.planning.make_plan import make_plan
from controller.southbound.cabling.survey import survey
from controller.southbound.forwarding.base import compile_base
from controller.southbound.forwarding.destinations import check_rules_exist
from tests.documented import ROOT
from tests.unit.southbound.cabling.networks import seen
from tests.unit.southbound.plans import traffics
from tests.unit.strategies import fabrics, plane_fabrics, with_routers


def test_the_example_is_the_fabric_of_the_demo_with_routers() -> None:
    example = load_fabric(ROOT / "examples" / "routers-4x4x4.yaml")
    layers = tuple(tuple(replace(switch, addresses=()) for switch in layer) for layer in example.layers)
    assert all(switch.addresses for switch in example.switches)
    assert replace(example, layers=layers) == with_routers(load_fabric(ROOT / "examples" / "clos-4x4x4.yaml"))


@st.composite
def mixed(draw: st.DrawFn) -> tuple[Fabric, Fabric]:
    """A fabric of OpenFlow switches, and the same with some switches that are routers."""
    fabric = draw(fabrics(failures=False) | plane_fabrics(failures=False))
    names = draw(st.sets(st.sampled_from([switch.name for switch in fabric.switches])))
    return fabric, with_routers(fabric, names)


@given(mixed())
def test_a_file_with_routers_is_read_as_it_is_written(both: tuple[Fabric, Fabric]) -> None:
    whole, fabric = both
    document = fabric_document(fabric)
    assert parse_fabric(document) == fabric
    for before, row, switch in zip(
        fabric_document(whole)["switches"], document["switches"], fabric.switches, strict=True
    ):
        assert row == (
            before if switch.kind == "openflow" else {"name": switch.name, "role": row["role"], "kind": "router"}
        )


@given(mixed(), st.data())
def test_a_plan_does_not_depend_on_what_switches_speak(both: tuple[Fabric, Fabric], data: st.DataObject) -> None:
    traffic = data.draw(traffics(both[0], "per_flow"))
    plans = [make_plan(each, traffic, policy="fair", seed=1, clock=lambda: 0.0) for each in both]
    assert np.array_equal(plans[0].assignment.path, plans[1].assignment.path)
    assert plans[0].objective.levels == plans[1].objective.levels


@given(mixed())
def test_a_start_is_refused_where_a_cable_joins_an_openflow_switch_and_a_router(both: tuple[Fabric, Fabric]) -> None:
    fabric = both[1]
    joins = [
        name
        for name, cable in zip(fabric.cable_names, fabric.cables, strict=True)
        if fabric.kind_of[cable.lower] != fabric.kind_of[cable.upper]
    ]
    if joins:
        with pytest.raises(InputError, match=re.escape(f"links: '{joins[0]}': joins an OpenFlow switch and a router")):
            check_rules_exist(fabric)
    else:
        check_rules_exist(fabric)


@given(plane_fabrics(), st.data())
def test_rules_of_openflow_switches_do_not_depend_on_routers_in_other_networks(
    fabric: Fabric, data: st.DataObject
) -> None:
    plane = data.draw(st.integers(1, fabric.planes.count))
    names = {
        switch.name
        for layer, members in enumerate(fabric.layers)
        for switch, of in zip(members, fabric.planes.of_layer(layer).tolist(), strict=True)
        if of + 1 == plane
    }
    apart = with_routers(fabric, names)
    check_rules_exist(apart)
    rules, whole = compile_base(apart), compile_base(fabric)
    assert set(rules) == {switch.dpid for switch in fabric.switches if switch.name not in names} == apart.datapath_ids
    assert all(rules[dpid] == whole[dpid] for dpid in rules)
    assert not any(len(rules[router.key]) for router in apart.routers)


@given(plane_fabrics(failures=False), st.data())
def test_what_cannot_be_seen_is_as_the_file_says_and_nobody_waits_for_it(fabric: Fabric, data: st.DataObject) -> None:
    names = {
        switch.name
        for layer, members in enumerate(fabric.layers)
        for switch, of in zip(members, fabric.planes.of_layer(layer).tolist(), strict=True)
        if of == 0
    }
    apart = with_routers(fabric, names)
    shown = seen(apart)
    state = NetworkState(
        {at: up for at, up in shown.ports.items() if at.switch not in names},
        frozenset(key for key in shown.switches if key not in names),
        {a: b for a, b in shown.links.items() if a.switch not in names},
        unobserved=frozenset(names),
    )
    found = survey(apart, state)
    assert found.fabric == apart
    assert found.matches
    assert found.settled
    down = data.draw(st.sampled_from(apart.cable_names))
    now = survey(apart, state, before=apart.without_links([down])).fabric
    assert now is not None
    # Only what can be seen comes back.
    at = apart.cable_names.index(down)
    assert now.cables[at].up == (apart.cables[at].lower not in names)


def test_cables_are_in_order_whatever_their_ends_are() -> None:
    ends = [(PortId("r1", 1), PortId(3, 1)), (PortId(2, 1), PortId(1, 1)), (PortId("r2", 1), PortId("r1", 2))]
    links = {a: b for pair in ends for a, b in (pair, pair[::-1])}
    state = NetworkState(dict.fromkeys(links, True), links=links)
    assert state.cables() == [ends[1][::-1], ends[0][::-1], ends[2][::-1]]


DOCUMENT = fabric_document(clos(1, 1, 1))


def broken(**row: Any) -> dict[str, Any]:
    document = copy.deepcopy(DOCUMENT)
    document["switches"][1] = {"name": "spine1", "role": "spine", **row}
    return document


@pytest.mark.parametrize(
    ("document", "error"),
    [
        (broken(kind="router", dpid=7), "F: switches[1].dpid: 7: a router has no datapath id"),
        (
            broken(),
            "F: switches[1].dpid: field required (spine1 is an OpenFlow switch; a switch without OpenFlow has "
            "'kind: router')",
        ),
        (broken(kind="openflow"), "F: switches[1].dpid: field required"),
        (broken(kind="optical", dpid=7), "F: switches[1].kind: 'optical': input should be 'openflow' or 'router'"),
        (broken(kind="router", dpid=None), "F: switches[1].dpid: input should be a valid integer"),
    ],
)
def test_a_kind_that_does_not_fit_is_one_error_that_names_the_field(document: dict[str, Any], error: str) -> None:
    with pytest.raises(InputError) as raised:
        parse_fabric(document, source="F")
    assert str(raised.value).startswith(error)
    assert "\n" not in str(raised.value)
