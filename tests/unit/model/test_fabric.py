"""The fabric as a value."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.model.errors import InputError
from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.files.fabric_file import (
    LARGE_FILE,
    fabric_document,
    load_fabric,
    parse_fabric,
    read_document,
    yaml_of,
)
from fairspine.graph import graph as live_graph
from tests.unit.strategies import fabrics

SHORT = {"spines": 2, "leaves": 2, "hosts_per_leaf": 2}


@given(fabric=fabrics())
def test_the_explicit_form_of_any_fabric_reads_back_equal(fabric: Fabric) -> None:
    again = parse_fabric(fabric_document(fabric))
    assert again == fabric
    assert again.version == fabric.version


@given(fabric=fabrics())
def test_paths_are_the_simple_two_hop_paths_of_the_graph(fabric: Fabric) -> None:
    """networkx answers the general question; the arrays must agree (parallel cables: one path a class)."""
    graph = live_graph(fabric)
    for a in range(fabric.n_leaves):
        for b in range(fabric.n_leaves):
            if a == b:
                continue
            paths = [(fabric.up_link[a, k], fabric.down_link[b, k]) for k in fabric.live_paths(a, b).tolist()]
            names = (fabric.leaves[a].name, fabric.leaves[b].name)
            via_graph = {edges[0][1] for edges in nx.all_simple_edge_paths(graph, *names, cutoff=2)}
            via_arrays = {fabric.link_ids[up].split(":")[0].split("->")[1] for up, _ in paths}
            assert via_arrays <= via_graph
            for up, down in paths:
                assert fabric.link_up[[up, down]].all()
                assert fabric.link_ids[up].startswith(names[0] + "->")
                assert fabric.link_ids[down].split(":")[0].endswith("->" + names[1])
            if int(fabric.parallel.max()) == 1:
                assert via_arrays == via_graph


@given(fabric=fabrics(failures=False), data=st.data())
def test_path_classes_keep_their_numbers_when_links_fail(fabric: Fabric, data: st.DataObject) -> None:
    down = data.draw(st.sets(st.sampled_from(fabric.cable_names)))
    broken = fabric.without_links(down)
    np.testing.assert_array_equal(broken.up_link, fabric.up_link)
    np.testing.assert_array_equal(broken.down_link, fabric.down_link)
    assert broken.path_names == fabric.path_names
    assert set(np.flatnonzero(~broken.link_up)) == {
        i for name in down for i in (fabric.first_cable_link + 2 * fabric.cable_names.index(name) + d for d in (0, 1))
    }
    assert broken.healthy() == fabric


def test_link_names_carry_a_number_from_the_second_parallel_cable_on() -> None:
    fabric = clos(1, 1, 1, parallel=2)
    assert fabric.link_ids == (
        "h1->leaf1",
        "leaf1->h1",
        "leaf1->spine1",
        "spine1->leaf1",
        "leaf1->spine1:1",
        "spine1->leaf1:1",
    )


def test_the_short_form_follows_its_conventions() -> None:
    fabric = parse_fabric({"clos": {"spines": 2, "leaves": 300, "hosts_per_leaf": 2}})
    assert [switch.dpid for switch in fabric.spines] == [65537, 65538]
    host = fabric.hosts[2 * 299 + 1]
    assert (host.name, host.leaf, host.ip) == ("h600", "leaf300", "10.1.44.2")
    assert len({host.mac for host in fabric.hosts}) == 600


@pytest.mark.parametrize("rail_optimized", [False, True])
def test_servers_of_several_nics_have_one_host_on_each_rail(rail_optimized: bool) -> None:
    plain = parse_fabric({"clos": {"spines": 2, "leaves": 4, "hosts_per_leaf": 6}})
    fabric = parse_fabric(
        {
            "clos": {"spines": 2, "leaves": 4, "hosts_per_leaf": 6}
            | {"nics_per_server": 2, "rail_optimized": rail_optimized}
        }
    )
    servers: dict[str, list] = {}
    for host in fabric.hosts:
        servers.setdefault(host.server, []).append(host)
    assert sorted(servers) == sorted(f"node{i}" for i in range(1, 13))
    assert all([host.rail for host in members] == [0, 1] for members in servers.values())
    assert len({(host.leaf, host.server) for host in fabric.hosts}) == (24 if rail_optimized else 12)
    # Nothing but the servers differs: the same wiring, names and addresses.
    same = [dataclasses.replace(host, server=host.name, rail=0) for host in fabric.hosts]
    assert tuple(same) == plain.hosts
    assert fabric.cables == plain.cables


def test_rails_of_a_server_are_on_leaves_in_a_row_at_the_same_place() -> None:
    fabric = clos(1, 4, 3, nics_per_server=2, rail_optimized=True)
    on = {(host.leaf, host.port): (host.server, host.rail) for host in fabric.hosts}
    assert [on["leaf1", n] for n in (1, 2, 3)] == [("node1", 0), ("node2", 0), ("node3", 0)]
    assert [on["leaf2", n] for n in (1, 2, 3)] == [("node1", 1), ("node2", 1), ("node3", 1)]
    assert [on["leaf4", n] for n in (1, 2, 3)] == [("node4", 1), ("node5", 1), ("node6", 1)]


def test_failed_names_switches_and_links() -> None:
    fabric = parse_fabric({"clos": SHORT, "failed": ["spine2", "leaf1-spine1"]})
    assert [cable.up for cable in fabric.cables] == [False, False, True, False]
    assert [fabric.live_paths(a, b).tolist() for a, b in ((0, 1), (1, 0))] == [[], []]


def explicit(**changes: object) -> dict[str, object]:
    document: dict[str, object] = {
        "switches": [
            {"name": "leaf1", "role": "leaf", "dpid": 1},
            {"name": "leaf2", "role": "leaf", "dpid": 2},
            {"name": "spine1", "role": "spine", "dpid": 101},
        ],
        "hosts": [{"name": "h1", "leaf": "leaf1"}, {"name": "h2", "leaf": "leaf2"}],
        "links": [{"a": "leaf1", "b": "spine1"}, {"a": "spine1", "b": "leaf2"}],
    }
    return document | changes


def test_the_explicit_form_may_name_a_link_from_either_end() -> None:
    fabric = parse_fabric(explicit())
    assert [(cable.lower, cable.upper) for cable in fabric.cables] == [("leaf1", "spine1"), ("leaf2", "spine1")]


HOST_1 = {"name": "h1", "leaf": "leaf1"}
BAD = {
    "not a mapping": (["clos"], "F: ['clos']: a fabric is a mapping"),
    "neither form": ({}, "F: clos: give one of 'clos', 'three_tier' and 'switches'"),
    "both forms": ({"clos": SHORT, "switches": []}, "F: clos: give one of"),
    "unknown key": ({"clos": SHORT | {"spine": 2}}, "F: clos.spine: 2: unknown key"),
    "missing key": ({"clos": {"spines": 2, "leaves": 2}}, "F: clos.hosts_per_leaf: field required"),
    "negative": ({"clos": SHORT | {"leaves": -2}}, "F: clos.leaves: -2: "),
    "no number": ({"clos": SHORT | {"host_gbps": float("nan")}}, "F: clos.host_gbps: nan: "),
    "crowded leaf": ({"clos": SHORT | {"hosts_per_leaf": 251}}, "F: clos.hosts_per_leaf: 251: a leaf's /24 prefix"),
    "server on two leaves": (
        {"clos": SHORT | {"hosts_per_leaf": 6, "nics_per_server": 4}},
        "F: clos.nics_per_server: 4: clos.hosts_per_leaf is 6, which cannot be divided evenly by it",
    ),
    "rails without leaves": (
        {"clos": SHORT | {"hosts_per_leaf": 6, "nics_per_server": 3, "rail_optimized": True}},
        "F: clos.nics_per_server: 3: clos.leaves is 2, which",
    ),
    "failed nobody": ({"clos": SHORT, "failed": ["leaf9"]}, "F: failed[0]: 'leaf9': no switch or link"),
    "two hosts with one IP": (
        explicit(hosts=[HOST_1 | {"ip": "10.1.1.1"}, {"name": "h2", "leaf": "leaf2", "ip": "10.1.1.1"}]),
        "F: hosts[1].ip: '10.1.1.1': h1 and h2 have the same ip",
    ),
    "two hosts with one name": (explicit(hosts=[HOST_1, HOST_1]), "F: hosts[1].name: 'h1': hosts[0] has the same name"),
    "host on no leaf": (explicit(hosts=[{"name": "h1", "leaf": "x"}]), "F: hosts[0].leaf: 'x': no leaf has this name"),
    "host on a spine": (
        explicit(hosts=[{"name": "h1", "leaf": "spine1"}]),
        "F: hosts[0].leaf: 'spine1': a spine has no hosts",
    ),
    "leaf without uplinks": (
        explicit(links=[{"a": "leaf1", "b": "spine1"}]),
        "F: links: 'leaf2': this leaf has no uplink",
    ),
    "link between leaves": (
        explicit(links=[{"a": "leaf1", "b": "leaf2"}]),
        "F: links[0]: 'leaf1-leaf2': a link must connect a leaf and a spine; this one connects two leaves",
    ),
    "link to nobody": (explicit(links=[{"a": "leaf1", "b": "x"}]), "F: links[0].b: 'x': no switch has this name"),
    "port used twice": (
        explicit(
            hosts=[HOST_1 | {"port": 1}],
            links=[{"a": "leaf1", "b": "spine1", "a_port": 1}, {"a": "leaf2", "b": "spine1"}],
        ),
        "F: links: port 1 of leaf1 leads to both h1 and spine1",
    ),
    "same dpid": (
        explicit(switches=[{"name": "leaf1", "role": "leaf", "dpid": 1}, {"name": "s", "role": "spine", "dpid": 1}]),
        "F: switches[1].dpid: 1: leaf1 and s have the same dpid",
    ),
    "no address": (
        explicit(hosts=[HOST_1 | {"ip": "10.1.1.256"}]),
        "F: hosts[0].ip: '10.1.1.256': input is not a valid",
    ),
    "a host without a name": (explicit(hosts=[{"leaf": "leaf1"}]), "F: hosts[0].name: field required"),
    "a host that is no mapping": (explicit(hosts=["h1"]), "F: hosts[0]: 'h1': input should be a mapping"),
    "a key of no host": (explicit(hosts=[HOST_1 | {"colour": 1}]), "F: hosts[0].colour: 1: unknown key"),
    "a port without a number": (
        explicit(links=[{"a": "leaf1", "b": "spine1", "a_port": "x"}]),
        "F: links[0].a_port: 'x': input should be a valid integer",
    ),
    "more hosts than a prefix holds": (
        explicit(hosts=[{"name": f"x{i}", "leaf": "leaf1"} for i in range(251)]),
        "F: hosts[250]: 'x250': leaf1 has more hosts than its /24 prefix holds",
    ),
}


@pytest.mark.parametrize(("document", "message"), BAD.values(), ids=BAD.keys())
def test_a_bad_fabric_is_one_line_that_names_file_field_and_value(document: Any, message: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_fabric(document, source="F")
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_an_address_may_be_a_number() -> None:
    assert parse_fabric(explicit(hosts=[HOST_1 | {"ip": 0x0A010101}])).hosts[0].ip == "10.1.1.1"


def test_a_long_file_is_read_as_a_short_one(tmp_path: Path) -> None:
    rest = " " * LARGE_FILE
    for text in ('{"a": 1}', '{"a": [NaN, -Infinity]}', "{a: [1.5e3, no]}", "[1, 2"):
        said = []
        for written in (text, text + rest):
            (tmp_path / "f.json").write_text(written)
            try:
                said.append(repr(read_document(tmp_path / "f.json")))
            except InputError as error:
                said.append(str(error))
        assert said[0] == said[1]
    (tmp_path / "f.json").write_bytes(b'{"a": "\xff"}' + rest.encode())
    with pytest.raises(InputError, match="is not UTF-8 text"):
        read_document(tmp_path / "f.json")


@pytest.mark.parametrize("text", ["1e9", "2.5E+3", "1e-2", "-1.e1", "1.5", "7"])
def test_numbers_of_yaml_are_those_of_json(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.yaml").write_text(f"a: {text}\n")
    assert read_document(tmp_path / "a.yaml") == {"a": float(text)}


@given(text=st.from_regex(r"[-0-9A-Za-z._+]{0,8}", fullmatch=True) | st.sampled_from(["1e9", "12e4", "no"]))
def test_text_that_looks_like_a_number_stays_text_in_a_yaml_file(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    path = tmp_path_factory.mktemp("yaml") / "a.yaml"
    path.write_text(yaml_of({"hosts": [text]}))
    assert read_document(path) == {"hosts": [text]}


def test_a_key_that_stands_twice_in_a_yaml_mapping_is_refused_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("a: {b: 1, c: 1}\nb: 2\na: 3\n")
    with pytest.raises(InputError, match=r"a\.yaml: a: this key occurs twice \(line 3\)"):
        read_document(tmp_path / "a.yaml")


def test_a_file_nested_without_end_is_refused(tmp_path: Path) -> None:
    (tmp_path / "deep.json").write_text("[" * 100_000)
    with pytest.raises(InputError, match="is nested too deep"):
        read_document(tmp_path / "deep.json")


def test_a_file_that_cannot_be_read_or_parsed_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.yaml: cannot be read: No such file"):
        load_fabric(tmp_path / "none.yaml")
    for text in ("clos: [", "\tclos: {}", "a: b: c"):
        (tmp_path / "bad.yaml").write_text(text)
        with pytest.raises(InputError, match=r"bad\.yaml: .*neither JSON nor YAML"):
            load_fabric(tmp_path / "bad.yaml")
    (tmp_path / "bad.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match=r"bad\.yaml: is not UTF-8"):
        load_fabric(tmp_path / "bad.yaml")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
KEYS = st.sampled_from(["clos", "switches", "hosts", "links", "failed", "x"])


@given(document=JSON | st.dictionaries(KEYS, JSON | st.just(SHORT), max_size=4))
def test_any_document_is_a_fabric_or_one_clear_error(document: Any) -> None:
    try:
        parse_fabric(document, source="F")
    except InputError as error:
        assert "\n" not in str(error)
