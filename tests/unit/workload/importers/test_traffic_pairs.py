"""Traffic files of dcn-simulators."""

from __future__ import annotations

import dataclasses
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.model.errors import InputError
from controller.model.files.clos import clos
from controller.model.files.fabric_file import parse_fabric
from controller.workload.expand import expand
from controller.workload.importers.base import ImportRequest
from controller.workload.importers.traffic_pairs import read
from tests.unit.laws import examples
from tests.unit.workload.importers.texts import mutated, only_our_error, read_text, renumbered, source

FABRIC = clos(2, 3, 4)
FIRST = 5  # number of the first host behind 3 leaves and 2 spines

SHAPE = """\
num_nodes=17
switches=incl_range(0,4)
switches_which_are_tors=incl_range(0,2)
cores=incl_range(3,4)
servers=incl_range(5,16)
undirected_edges=incl_range(0:2-3:4,5:8-0,9:12-1,13:16-2)
link_data_rate_bit_per_ns=100
"""


def _line(src: int, dst: int, size: int, ring: int) -> str:
    return f"{src} {dst} {(src - FIRST) // 4} {(dst - FIRST) // 4} 1000 {size} 5000 {ring}"


def _text(*rings: tuple[list[int], int]) -> str:
    rows = [
        _line(src, dst, size, number)
        for number, (order, size) in enumerate(rings)
        for src, dst in zip(order, order[1:] + order[:1], strict=True)
    ]
    return "\n".join(["#src dst src_tor dst_tor start_time flow_size compute_time stage_index", *rows]) + "\n"


RINGS = _text(([5, 9, 13], 1000), ([6, 10], 7), ([16, 7, 12, 8], 3))

_HOSTS = st.permutations(range(FIRST, FIRST + 12))


@given(hosts=_HOSTS, sizes=st.lists(st.integers(1, 10**9), min_size=3, max_size=3), shuffle=st.randoms())
def test_each_edge_of_a_ring_carries_its_bytes_in_every_step(
    hosts: list[int], sizes: list[int], shuffle: random.Random
) -> None:
    """2 (n - 1) steps, whatever the order of the lines."""
    rings = [(hosts[:2], sizes[0]), (hosts[2:5], sizes[1]), (hosts[5:12], sizes[2])]
    head, *rows = _text(*rings).splitlines()
    shuffle.shuffle(rows)
    imported = read_text(read, "\n".join([head, *rows]), fabric=FABRIC)
    traffic = expand(FABRIC, imported.job)
    sent = {
        (int(src) + FIRST, int(dst) + FIRST): int(size)
        for src, dst, size in zip(traffic.src, traffic.dst, traffic.bytes, strict=True)
    }
    wanted = {
        edge: 2 * (len(order) - 1) * size
        for order, size in rings
        for edge in zip(order, order[1:] + order[:1], strict=True)
    }
    assert imported.placed
    assert sent == wanted
    assert (imported.ranks, imported.groups, imported.collectives) == (12, 3, 3)


def test_hosts_are_those_of_the_fabric_leaf_by_leaf_in_whatever_order_it_lists_them() -> None:
    mixed = dataclasses.replace(FABRIC, hosts=FABRIC.hosts[::3] + FABRIC.hosts[1::3] + FABRIC.hosts[2::3])
    job = read_text(read, RINGS, fabric=mixed).job
    leaf = {host.name: host.leaf for host in mixed.hosts}
    assert [leaf[host] for host in job.hosts] == ["leaf1"] * 4 + ["leaf2"] * 3 + ["leaf3"] * 2
    assert expand(mixed, job).n_flows == 9


@pytest.mark.parametrize("fabric", [None, clos(2, 4, 3), clos(1, 3, 4), clos(2, 3, 3)])
def test_ranks_are_on_no_host_where_the_fabric_has_them_elsewhere(fabric: object) -> None:
    imported = read_text(read, RINGS, fabric=fabric)
    assert not imported.placed
    assert imported.job.hosts == tuple(f"rank{i}" for i in range(9))
    assert imported.job.collectives == read_text(read, RINGS, fabric=FABRIC).job.collectives
    assert any("not placed yet" in note for note in imported.notes) == (fabric is not None)


def test_the_topology_file_is_a_fabric_and_places_the_ranks() -> None:
    for files in ([source(RINGS), source(SHAPE, "t.properties")], [source(SHAPE, "t.properties"), source(RINGS)]):
        imported = read(files, ImportRequest())
        assert imported.placed
        assert imported.fabric is not None
        fabric = parse_fabric(dict(imported.fabric))
        assert fabric.version == FABRIC.version
        assert np.array_equal(
            expand(fabric, imported.job).src, expand(FABRIC, read_text(read, RINGS, fabric=FABRIC).job).src
        )


@pytest.mark.parametrize(
    ("text", "field", "reason"),
    [
        (RINGS.replace("5 9 0 1", "5 9 0"), "line 2", "8 columns, not 7"),
        (RINGS.replace("13 5 2 0", "13 6 2 0"), "line 2", "ring 0 do not form one closed ring"),
        (RINGS.replace("13 5 2 0", "13 9 2 1"), "line 2", "ring 0 do not form one closed ring"),
        (RINGS + _line(5, 7, 1000, 0), "line 11", "host 5 sends twice in ring 0"),
        (RINGS + _line(8, 9, 999, 0), "line 11", "ring 0 sends 1000 bytes a step in line 2"),
        (RINGS + "5 6 1 0 1000 1 1 9", "line 11", "host 5 is on leaf 0 in line 2"),
        (RINGS + _line(8, 8, 1, 9), "line 11", "cannot send to itself"),
        (RINGS.replace(" 7 5000 1", " 9007199254740991 5000 1"), "line 5", "reduces more than"),
        (RINGS.replace(" 7 5000 1", " 7.5 5000 1"), "line 5", "is not an integer"),
        ("# nothing\n", "", "no lines of traffic"),
    ],
)
def test_a_wrong_line_is_named_with_what_is_wrong(text: str, field: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason) as error:
        read_text(read, text, "pairs.txt")
    assert (error.value.source, error.value.field) == ("pairs.txt", field)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("cores=incl_range(3,4)", "cores=incl_range(4,3)", "not a range of nodes"),
        ("cores=incl_range(3,4)", "cores=3", "not incl_range"),
        ("cores=incl_range(3,4)", "cores=incl_range(4,4)", "in the order leaves"),
        ("servers=incl_range(5,16)", "servers=incl_range(5,15)", "not a multiple of 3 leaves"),
        ("9:12-1", "9:12-2", "edge 3 is not 9:12-1"),
        ("13:16-2)", "13:16-2,0:0-1:1)", "edge 4 is not|more edges"),
        ("=100", "=0", "the data rate is 0"),
        ("link_data", "link", "is missing"),
        ("num_nodes=17", "num_nodes", "is not a property"),
        ("incl_range(5,16)", "incl_range(5,10000000)", "not a range of nodes below"),
    ],
)
def test_a_topology_that_is_no_leaf_spine_fabric_is_refused(old: str, new: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason) as error:
        read([source(RINGS), source(SHAPE.replace(old, new), "t.properties")], ImportRequest())
    assert error.value.source == "t.properties"


def test_several_files_are_several_jobs_and_a_topology_alone_is_none() -> None:
    with pytest.raises(InputError, match="2 traffic files are 2 jobs") as error:
        read([source(RINGS, "a.txt"), source(RINGS, "b.txt")], ImportRequest())
    assert error.value.source == "b.txt"
    for files in ([], [source(SHAPE, "t.properties")]):
        with pytest.raises(InputError, match="is a traffic file"):
            read(files, ImportRequest())


def test_a_host_that_the_topology_has_on_another_leaf_is_refused() -> None:
    moved = RINGS.replace("6 10 0 1", "6 10 1 1").replace("10 6 1 0", "10 6 1 1")
    with pytest.raises(InputError, match="host 6 is on leaf 0 in the topology") as error:
        read([source(moved), source(SHAPE, "t.properties")], ImportRequest())
    assert error.value.field == "line 5"


@settings(deadline=None, max_examples=examples(150, 900))
@given(content=mutated(RINGS) | renumbered(RINGS) | st.binary(max_size=300))
def test_whatever_a_file_holds_only_our_error_comes_out(content: bytes) -> None:
    only_our_error(read, content)


@settings(deadline=None, max_examples=examples(100, 600))
@given(shape=mutated(SHAPE) | renumbered(SHAPE) | st.binary(max_size=300))
def test_whatever_a_topology_holds_only_our_error_comes_out(shape: bytes) -> None:
    try:
        imported = read([source(RINGS), source(shape, "t.properties")], ImportRequest())
    except InputError as error:
        assert error.source
    else:
        assert imported.fabric is not None
        parse_fabric(dict(imported.fabric))


def test_a_computing_time_that_no_job_file_takes_is_refused() -> None:
    text = RINGS.replace(" 5000 ", " 9000122445780000 ")
    with pytest.raises(InputError, match="an iteration takes more than 1000000 seconds") as error:
        read([source(text)], ImportRequest())
    assert error.value.value == pytest.approx(9000122.44578)
