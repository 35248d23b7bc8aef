from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.model.errors import InputError
from controller.model.fabric import Fabric
from controller.model.files.fabric_file import fabric_document, load_fabric, parse_fabric, read_document, yaml_of
from controller.model.files.pod_clos import pod_clos

EXAMPLE = Path(__file__).parents[3] / "examples" / "fat-tree-k4.yaml"
FOUR = {"pods": 4, "leaves": 2, "aggs": 2, "cores_per_agg": 2, "hosts_per_leaf": 2}


@st.composite
def pod_fabrics(draw: st.DrawFn) -> Fabric:
    """Pods of any small size and speeds, with parallel cables, of which some parts are missing or down."""
    small, speed = st.integers(1, 3), st.sampled_from([25.0, 100.0, 400.0])
    fabric = pod_clos(
        *(draw(small) for _ in range(5)),
        host_gbps=draw(speed),
        uplink_gbps=draw(speed),
        core_gbps=draw(speed),
        parallel=draw(small),
        core_parallel=draw(small),
    )
    first = {cable.lower: cable for cable in reversed(fabric.cables)}
    cables = tuple(
        dataclasses.replace(cable, up=draw(st.integers(0, 9)) > 0)
        for cable in fabric.cables
        if draw(st.integers(0, 9)) > 0 or (cable.lower in fabric.leaf_index and first[cable.lower] is cable)
    )
    hosts = tuple(dataclasses.replace(host, up=draw(st.integers(0, 9)) > 0) for host in fabric.hosts)
    return dataclasses.replace(fabric, cables=cables, hosts=hosts)


@given(pod_fabrics())
def test_the_explicit_form_gives_an_equal_fabric_back(fabric: Fabric) -> None:
    again = parse_fabric(fabric_document(fabric))
    assert again == fabric
    assert again.version == fabric.version
    assert again.path_names == fabric.path_names


def test_the_explicit_form_is_the_same_after_a_file(tmp_path: Any) -> None:
    fabric = pod_clos(2, 2, 2, 1, 2)
    (tmp_path / "a.yaml").write_text(yaml_of(fabric_document(fabric)))
    assert parse_fabric(read_document(tmp_path / "a.yaml")) == fabric


def test_the_short_form_is_the_fat_tree_of_its_numbers() -> None:
    fabric = load_fabric(EXAMPLE)
    assert fabric == parse_fabric({"three_tier": FOUR})
    assert fabric == pod_clos(4, 2, 2, 2, 2)
    assert [len(layer) for layer in fabric.layers] == [8, 8, 4]
    assert (fabric.n_hosts, len(fabric.cables)) == (16, 32)
    assert {(c.upper, c.upper_port) for c in fabric.cables if c.lower == "agg3"} == {
        *(("core1", 2), ("core3", 2)),
    }
    assert [str(net) for (net,) in fabric.pod_prefixes] == ["10.0.2.0/23", "10.0.4.0/23", "10.0.6.0/23", "10.0.8.0/23"]


@given(pod_fabrics())
def test_no_port_of_a_switch_has_two_cables(fabric: Fabric) -> None:
    ends = [(cable.lower, cable.lower_port) for cable in fabric.cables]
    ends += [(cable.upper, cable.upper_port) for cable in fabric.cables]
    ends += [(host.leaf, host.port) for host in fabric.hosts]
    assert len(set(ends)) == len(ends)


def test_rails_of_a_server_are_on_leaves_in_a_row() -> None:
    fabric = parse_fabric({"three_tier": FOUR | {"nics_per_server": 2, "rail_optimized": True}})
    assert [(h.server, h.rail, h.leaf) for h in fabric.hosts[:4]] == [
        *(("node1", 0, "leaf1"), ("node2", 0, "leaf1")),
        *(("node1", 1, "leaf2"), ("node2", 1, "leaf2")),
    ]
    packed = parse_fabric({"three_tier": FOUR | {"nics_per_server": 2}})
    assert [(h.server, h.rail) for h in packed.hosts[:3]] == [("node1", 0), ("node1", 1), ("node2", 0)]


def explicit(**changes: Any) -> dict[str, Any]:
    document: dict[str, Any] = {
        "switches": [
            {"name": "leaf1", "role": "leaf", "dpid": 1},
            {"name": "leaf2", "role": "leaf", "dpid": 2},
            {"name": "agg1", "role": "aggregation", "dpid": 11},
            {"name": "agg2", "role": "aggregation", "dpid": 12},
            {"name": "core1", "role": "core", "dpid": 21},
        ],
        "hosts": [{"name": "h1", "leaf": "leaf1"}, {"name": "h2", "leaf": "leaf2"}],
        "links": [
            {"a": "leaf1", "b": "agg1"},
            {"a": "leaf2", "b": "agg2"},
            {"a": "core1", "b": "agg1"},
            {"a": "agg2", "b": "core1"},
        ],
    }
    return document | changes


def without(role: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = [row for row in explicit()["switches"] if row["role"] != role]
    return rows


def test_pods_follow_from_the_cables() -> None:
    fabric = parse_fabric(explicit())
    assert fabric.pods.of_leaf.tolist() == [0, 1]
    assert fabric.live_paths(0, 1).tolist() == [1]
    assert fabric.path_names == ("plane1", "plane1.core1")


def test_a_core_of_one_pod_is_planned_without() -> None:
    one = {"name": "core2", "role": "core", "dpid": 22}
    fabric = parse_fabric(
        explicit(
            switches=[*explicit()["switches"], one],
            links=[*explicit()["links"], {"a": "agg1", "b": "core2"}],
        )
    )
    assert [fabric.path_names[k] for k in fabric.live_paths(0, 1)] == ["plane1.core1"]


BAD = {
    "mixed roles": (
        explicit(switches=[*explicit()["switches"], {"name": "spine1", "role": "spine", "dpid": 31}]),
        "F: switches[5].role: 'spine1': agg1 is an aggregation switch, so this fabric has aggregation switches and",
    ),
    "no core": (explicit(switches=without("core")), "F: switches: at least one core is required"),
    "no aggregation": (
        explicit(switches=without("aggregation")),
        "F: switches: at least one aggregation switch is required",
    ),
    "a layer is left out": (
        explicit(links=[{"a": "leaf1", "b": "core1"}]),
        "F: links[0]: 'leaf1-core1': a link must connect a leaf and an aggregation switch or an aggregation switch and "
        "a core; this one connects a leaf and a core",
    ),
    "within a layer": (
        explicit(links=[{"a": "agg1", "b": "agg2"}]),
        "F: links[0]: 'agg1-agg2': a link must connect a leaf and an aggregation switch or an aggregation switch and "
        "a core; this one connects two aggregation switches",
    ),
    "a host on a core": (explicit(hosts=[{"name": "h1", "leaf": "core1"}]), "F: hosts[0].leaf: 'core1': a core has no"),
    "a leaf without uplinks": (
        explicit(links=explicit()["links"][:1]),
        "F: links: 'leaf2': this leaf has no uplink",
    ),
    "two short forms": ({"three_tier": FOUR, "clos": FOUR}, "F: clos.spines: field required"),
    "hosts beside": ({"three_tier": FOUR, "hosts": [{"name": "h", "leaf": "l"}]}, "F: hosts: not allowed with 'three_"),
    "no pods": ({"three_tier": FOUR | {"pods": 0}}, "F: three_tier.pods: 0: "),
    "no addresses": (
        {"three_tier": FOUR | {"pods": 4000, "leaves": 17}},
        "F: three_tier.pods: 4000 pods of 17 leaves need more /24 prefixes than 10.0.0.0/8 has",
    ),
    "no ids": (
        {"three_tier": FOUR | {"aggs": 512, "cores_per_agg": 512}},
        "F: three_tier.cores_per_agg: there are ids for at most 65535 cores, not 262144",
    ),
}


@pytest.mark.parametrize(("document", "message"), BAD.values(), ids=BAD.keys())
def test_a_bad_fabric_of_pods_is_one_line_that_names_the_switch_or_the_field(document: Any, message: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_fabric(document, source="F")
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)
