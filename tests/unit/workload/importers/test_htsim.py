"""htsim's connection matrices and topologies, read and written."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.model.errors import InputError
from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.files.fabric_file import fabric_document, parse_fabric
from controller.workload.expand import JobTraffic, expand
from controller.workload.import_form import job_from_body
from controller.workload.importers.base import Imported, ImportRequest
from controller.workload.importers.htsim import read
from controller.workload.importers.htsim.matrix import MAX_HTSIM_BYTES, write_matrix
from controller.workload.importers.htsim.topology import write_topology
from controller.workload.importers.placing import on_fabric
from controller.workload.job_document import document_of
from controller.workload.job_file import parse_job
from tests.unit.laws import examples
from tests.unit.workload.documents import FABRIC, jobs
from tests.unit.workload.importers.texts import mutated, only_our_error, read_text, renumbered, source

TOPOLOGY = """\
# a leaf-spine fabric of ours
Nodes 24
Tiers 2
Podsize 24

Tier 0
Downlink_speed_Gbps 100
Radix_Down 8
Radix_Up 4
Downlink_Latency_ns 800
Oversubscribed 2

Tier 1
Downlink_speed_Gbps 100
Radix_Down 6
Bundle 2
Queue_Down 100
Downlink_Latency_ns 800
"""

MATRIX = """\
# ours
Nodes 24
Connections 5
Triggers 2
0->8 id 1 start 0 size 1000 send_done_trigger 1
1->9 id 2 start 0 size 2000 recv_done_trigger 1
8->0 id 3 trigger 1 size 500 send_done_trigger 2 prio 7
9->1 id 4 trigger 1 size 500
2->3 id 5 trigger 2 size 1
trigger id 1 barrier count 2
trigger id 2 oneshot
"""


def _matrix(nodes: int, *rows: str, head: str = "") -> str:
    connections = sum("->" in row for row in rows)
    triggers = sum(row.startswith("trigger") for row in rows)
    return "\n".join([head + f"Nodes {nodes}", f"Connections {connections}", f"Triggers {triggers}", *rows]) + "\n"


def _flows(imported: Imported) -> list[tuple[str, str, int, str, int]]:
    """(source, destination, bytes, collective, phase) of each flow."""
    job = imported.job
    return [
        (src, dst, size, name, job.phases.get(name, 0))
        for src, dst, size, name in zip(
            job.flows.src, job.flows.dst, job.flows.bytes.tolist(), job.flows.collective, strict=True
        )
    ]


# -- connection matrices -------------------------------------------------------------------------------------------


def test_what_starts_together_is_one_collective_and_what_waits_for_it_a_later_phase() -> None:
    imported = read_text(read, MATRIX, "jobs/five.cm")
    assert _flows(imported) == [
        ("rank0", "rank8", 1000, "start-0", 0),
        ("rank1", "rank9", 2000, "start-0", 0),
        ("rank8", "rank0", 500, "trigger-1", 1),
        ("rank9", "rank1", 500, "trigger-1", 1),
        ("rank2", "rank3", 1, "chain-2", 2),
    ]
    assert (imported.job.name, imported.placed, imported.ranks, imported.collectives) == ("five", False, 24, 3)


_STEPS = st.lists(
    st.tuples(st.integers(1, 4), st.sampled_from(["barrier", "oneshot", "multishot"])), min_size=1, max_size=6
)


@given(chains=st.lists(_STEPS, min_size=1, max_size=3), shuffle=st.randoms(use_true_random=False))
def test_a_connection_is_in_the_phase_of_as_many_steps_as_go_before_it(chains: Any, shuffle: Any) -> None:
    """Chains of steps, each started by the one before: all of it by a barrier, or its first, or each the next."""
    rows: list[tuple[str, int]] = []
    triggers: list[str] = []
    number = 0
    for chain in chains:
        start = "start 0"
        for step, (width, kind) in enumerate(chain):
            wide = min(width, chain[step - 1][0]) if step and chain[step - 1][1] == "multishot" else width
            last = step == len(chain) - 1
            if not last:
                number += 1
                triggers.append(f"trigger id {number} {kind}" + (f" count {wide}" if kind == "barrier" else ""))
            for i in range(wide):
                fires = not last and (kind != "oneshot" or i == 0)
                rows.append((f"{step}->9 {start} size 1" + (f" send_done_trigger {number}" if fires else ""), step))
            chain[step] = (wide, kind)
            start = f"trigger {number}"
    lines = [*(row for row, _ in rows), *triggers]
    shuffle.shuffle(lines)
    imported = read_text(read, _matrix(10, *lines))
    assert all(src == f"rank{phase}" for src, _, _, _, phase in _flows(imported))
    assert len(imported.job.flows.src) == len(rows)


@pytest.mark.parametrize(
    ("rows", "line", "reason"),
    [
        (["0->1 trigger 1 size 1", "trigger id 1 oneshot"], 4, "trigger 1 is fired 0 times"),
        (
            ["0->1 start 0 size 1 send_done_trigger 1", "1->2 trigger 1 size 1", "trigger id 1 barrier count 2"],
            5,
            "trigger 1 is fired 1 times but it waits for 2",
        ),
        (["0->1 trigger 1 size 1 send_done_trigger 1", "trigger id 1 oneshot"], 4, "trigger 1 is fired 0 times"),
    ],
)
def test_a_connection_that_never_starts_is_refused(rows: list[str], line: int, reason: str) -> None:
    with pytest.raises(InputError, match=reason) as error:
        read_text(read, _matrix(3, *rows))
    assert error.value.field == f"line {line}"


@pytest.mark.parametrize(
    ("text", "field", "reason"),
    [
        (MATRIX.replace("Connections 5", "Connections 7"), "line 3", "announces 7, but there are 5"),
        (MATRIX.replace("Triggers 2", "Triggers 1"), "line 4", "announces 1, but there are 2"),
        (MATRIX.replace("1->9", "1->24"), "line 6", "the node is not in 0 .. 23"),
        (MATRIX.replace("1->9", "1->1"), "line 6", "cannot send to itself"),
        (MATRIX.replace("size 2000", "size two"), "line 6", "size is not a number"),
        (MATRIX.replace("size 2000", "size 1e300"), "line 6", "size is above"),
        (MATRIX.replace("trigger 1 size 500\n", "trigger 9 size 500\n"), "line 8", "no line defines this trigger"),
        (
            MATRIX.replace("start 0 size 2000", "start 0 size"),
            "line 6",
            "not an attribute of a connection|not a number",
        ),
        (MATRIX.replace("start 0 size 2000", "start 0 trigger 1 size 1"), "line 6", "not both"),
        (MATRIX.replace("barrier count 2", "barrier"), "line 10", "a barrier must have a count"),
        (MATRIX.replace("trigger id 2", "trigger id 1"), "line 11", "is already in line 10"),
        (MATRIX.replace("Nodes 24", "Nodes 99999999999"), "line 2", "Nodes is not in"),
        (MATRIX + "hello\n", "line 12", "not a line of a connection matrix"),
    ],
)
def test_a_wrong_line_is_named_with_what_is_wrong(text: str, field: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason) as error:
        read_text(read, text, "five.cm")
    assert (error.value.source, error.value.field) == ("five.cm", field)


def test_times_may_have_fractions_and_identity_or_start_may_lack() -> None:
    imported = read_text(read, "Nodes 3\nConnections 3\n0->1 start 0.5 size 7\n1->2 start 2e3 size 8.5\n2->0\n")
    assert [row[2:4] for row in _flows(imported)] == [(7, "start-0.5"), (9, "start-2000"), (0, "start-0")]
    assert "no size" in imported.notes[0]


def test_connections_without_a_size_get_the_one_that_the_user_gives() -> None:
    text = _matrix(3, "0->1 start 0 size 0", "1->2 start 0", "2->0 start 0 size 5")
    assert [row[2] for row in _flows(read_text(read, text))] == [0, 0, 5]
    assert [row[2] for row in _flows(read_text(read, text, bytes=77))] == [77, 77, 5]


def test_connections_without_successors_are_noted_if_phases_follow() -> None:
    alone = _matrix(
        4, "0->1 start 0 size 1 send_done_trigger 1", "2->3 start 0 size 9", "1->0 trigger 1", "trigger id 1 oneshot"
    )
    assert any("1 connections start no others" in note for note in read_text(read, alone).notes)


# -- topologies ----------------------------------------------------------------------------------------------------


def test_a_leaf_spine_topology_is_a_short_form_with_its_oversubscription_and_parallel_cables() -> None:
    imported = read_text(read, TOPOLOGY, "ours.topo")
    assert imported.fabric == {
        "clos": {"spines": 2, "leaves": 3, "hosts_per_leaf": 8, "host_gbps": 100, "uplink_gbps": 100, "parallel": 2}
    }
    assert (imported.job.name, imported.ranks, imported.notes) == ("ours", 0, ())


def test_a_matrix_beside_its_topology_is_on_that_fabrics_hosts() -> None:
    both = [source(MATRIX, "a.cm"), source(TOPOLOGY, "a.topo")]
    for files in (both, both[::-1]):
        imported = read(files, ImportRequest())
        assert imported.placed
        assert imported.fabric is not None
        assert expand(parse_fabric(dict(imported.fabric)), imported.job).n_flows == 5
    smaller = TOPOLOGY.replace("24", "16").replace("Radix_Down 6", "Radix_Down 4")
    with pytest.raises(InputError, match="24 nodes, the topology has 16"):
        read([both[0], source(smaller, "b.topo")], ImportRequest())


@pytest.mark.parametrize(
    ("old", "new", "field", "reason"),
    [
        ("Tiers 2", "Tiers 3", "line 3", "tier 2 is missing"),
        ("Tiers 2", "Tiers 4", "line 3", "two or three tiers"),
        ("Podsize 24", "Podsize 12", "line 4", "one pod of all 24 nodes"),
        ("Radix_Down 6", "Radix_Down 5", "line 15", "make 6"),
        ("Oversubscribed 2", "Oversubscribed 4", "line 11", "give another value"),
        ("Bundle 2", "Bundle 3", "line 9", "not a multiple of the spines' bundle of 3"),
        ("Radix_Down 8", "Radix_Down 7", "line 8", "24 nodes are not a multiple"),
        ("Nodes 24\n", "", "line 1", "Nodes is missing"),
        ("Tier 1", "Tier 0", "line 13", "tier 0 already begins in line 6"),
        ("Radix_Up 4", "Radix_Up four", "line 9", "is not an integer"),
        ("Radix_Up 4", "Radix_Up 4 8", "line 9", "a word and a number"),
        ("Bundle 2", "Radix_Down 6", "line 16", "is already in line 15"),
    ],
)
def test_a_topology_that_is_no_leaf_spine_fabric_is_refused_with_its_line(
    old: str, new: str, field: str, reason: str
) -> None:
    with pytest.raises(InputError, match=reason) as error:
        read_text(read, TOPOLOGY.replace(old, new), "ours.topo")
    assert (error.value.source, error.value.field) == ("ours.topo", field)


def test_what_is_neither_matrix_nor_topology_and_two_of_a_kind_are_refused() -> None:
    for files, reason in [
        ([source("hello\n")], "neither a connection matrix nor a topology"),
        ([source(b"\x00\xff" * 99)], "neither a connection matrix nor a topology"),
        ([source(MATRIX), source(MATRIX)], "a second connection matrix"),
        ([source(TOPOLOGY), source(TOPOLOGY)], "a second topology"),
        ([], "no file"),
    ]:
        with pytest.raises(InputError, match=reason):
            read(files, ImportRequest())


# -- there and back ------------------------------------------------------------------------------------------------


def _written(fabric: Fabric, *traffic: JobTraffic, scale: float = 1.0) -> str:
    return "".join(f"{line}\n" for line in write_matrix(fabric, traffic, scale))


def _content(traffic: JobTraffic) -> Any:
    """Name, weight, and for each collective with flows its phase and its flows in order."""
    rows: dict[tuple[str, int], list[tuple[int, int, int]]] = {}
    for src, dst, size, k in zip(traffic.src, traffic.dst, traffic.bytes, traffic.collective, strict=True):
        row = traffic.collectives[k]
        rows.setdefault((row.name, row.phase), []).append((int(src), int(dst), int(size)))
    return traffic.name, traffic.weight, rows


@settings(deadline=None)
@given(document=jobs(name="gpt3.a-1"))
def test_a_job_written_for_htsim_and_read_again_has_the_same_flows_collectives_and_phases(document: Any) -> None:
    traffic = expand(FABRIC, parse_job(document))
    if not traffic.n_flows:
        return
    text = _written(FABRIC, traffic)
    imported = read_text(read, text)
    job = on_fabric(imported, FABRIC, None)
    again = expand(FABRIC, job)
    assert _content(again) == _content(traffic)
    assert imported.notes == ()
    # A job that htsim can say is written and read as the very same.
    assert document_of(on_fabric(read_text(read, _written(FABRIC, again)), FABRIC, None)) == document_of(job)


@settings(deadline=None)
@given(document=jobs())
def test_what_htsim_runs_keeps_the_phases_apart_with_or_without_our_comments(document: Any) -> None:
    """Without the comments, triggers alone give each connection the rank of its phase."""
    traffic = expand(FABRIC, parse_job(document))
    if not traffic.n_flows:
        return
    phases = sorted({traffic.collectives[k].phase for k in traffic.collective})
    plain = "".join(line for line in _written(FABRIC, traffic).splitlines(True) if not line.startswith("#"))
    expected = sorted(phases.index(traffic.collectives[k].phase) for k in traffic.collective)
    assert [row[4] for row in _flows(read_text(read, plain))] == expected


def test_comments_that_do_not_fit_the_connections_are_passed_over() -> None:
    job = parse_job({"name": "a", "flows": [{"src": "h1", "dst": "h4", "bytes": 5, "collective": "mine"}]})
    text = _written(FABRIC, expand(FABRIC, job))
    assert read_text(read, text).job.flows.collective == ("mine",)
    for old, new in [("1-1", "1-2"), ("phase 0", "phase x"), ("weight 1.0", "weight 0"), ("mine", "!")]:
        changed = read_text(read, text.replace(old, new))
        assert changed.job.flows.collective == ("start-0",)
        assert "do not match" in changed.notes[0]


def test_several_jobs_run_beside_each_other() -> None:
    flows = [{"src": "h1", "dst": "h4", "bytes": 5, "collective": name} for name in ("x", "y")]
    one, other = (
        expand(FABRIC, parse_job({"name": name, "flows": flows, "phases": {"y": 1}, "ports": "unknown"}))
        for name in ("a", "b")
    )
    imported = read_text(read, _written(FABRIC, one, other))
    assert [row[4] for row in _flows(imported)] == [0, 1, 0, 1]
    assert imported.notes[-1].startswith("made-up.txt: its comments")


def test_a_flow_that_htsim_cannot_hold_is_refused_with_a_factor_that_helps() -> None:
    flow = {"src": "h1", "dst": "h4", "bytes": 10 * MAX_HTSIM_BYTES}
    traffic = expand(FABRIC, parse_job({"name": "a", "flows": [flow]}))
    with pytest.raises(InputError, match=r"scale all by 0\.10 or less"):
        _written(FABRIC, traffic)
    assert _flows(read_text(read, _written(FABRIC, traffic, scale=0.099)))[0][2] <= MAX_HTSIM_BYTES
    for scale in (0.0, 1.5, float("nan")):
        with pytest.raises(InputError, match="must be above 0 and at most 1"):
            _written(FABRIC, traffic, scale=scale)
    with pytest.raises(InputError, match="no flow crosses the network"):
        _written(FABRIC, expand(FABRIC, parse_job({"name": "a"})))


@given(
    spines=st.integers(1, 4),
    leaves=st.integers(1, 4),
    parallel=st.integers(1, 3),
    oversubscribed=st.integers(1, 3),
    gbps=st.sampled_from([1, 25, 100, 400]),
)
def test_a_fabric_written_for_htsim_and_read_again_is_the_same(
    spines: int, leaves: int, parallel: int, oversubscribed: int, gbps: int
) -> None:
    per_leaf = spines * parallel * oversubscribed
    fabric = clos(spines, leaves, per_leaf, host_gbps=gbps, uplink_gbps=gbps, parallel=parallel)
    imported = read_text(read, write_topology(fabric))
    assert imported.fabric is not None
    assert parse_fabric(dict(imported.fabric)).version == fabric.version


def test_fabrics_that_htsim_cannot_build_are_refused() -> None:
    uneven = fabric_document(clos(2, 2, 2))
    uneven["hosts"].pop()
    mixed = fabric_document(clos(2, 2, 2))
    mixed["links"][0]["gbps"] = 40
    fewer = fabric_document(clos(2, 2, 2, parallel=2))
    fewer["links"].pop()
    for fabric, reason in [
        (clos(2, 2, 2).without_links(["leaf1-spine2"]), "failed links"),
        (clos(2, 2, 3), "cannot build"),
        (clos(4, 2, 2), "cannot build"),
        (clos(2, 2, 2, uplink_gbps=400), "cannot build"),
        (clos(2, 2, 2, host_gbps=2.5, uplink_gbps=2.5), "whole Gbit/s"),
        (parse_fabric(uneven), "the same number of hosts on each leaf"),
        (parse_fabric(mixed), "one speed"),
        (parse_fabric(fewer), "same number of cables"),
    ]:
        with pytest.raises(InputError, match=reason):
            write_topology(fabric)


def test_a_matrix_in_a_request_body_is_the_same_job() -> None:
    body = {"import": {"format": "htsim", "files": [{"name": "five.cm", "text": MATRIX}]}}
    fabric = clos(2, 3, 8)
    wanted = on_fabric(read_text(read, MATRIX, name="five"), fabric, None)
    job = job_from_body(json.dumps(body).encode(), "five", fabric)
    assert document_of(job) == document_of(wanted)


# -- whatever comes --------------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=examples(150, 900))
@given(
    content=mutated(MATRIX) | renumbered(MATRIX) | mutated(TOPOLOGY) | renumbered(TOPOLOGY) | st.binary(max_size=300)
)
def test_whatever_a_file_holds_only_our_error_comes_out(content: bytes) -> None:
    only_our_error(read, content)
