"""A plan's paths in GOAL and Chakra: what is written is the plan, and is read back as the job's flows."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.cli.main import main
from controller.model.errors import InputError
from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.workload.expand import JobTraffic, expand
from controller.workload.exporters.chakra import planned_files
from controller.workload.exporters.goal import goal_lines
from controller.workload.exporters.messages import PlannedPiece, Routes, load_routes, messages_of
from controller.workload.importers.base import Imported, ImportRequest, Source
from controller.workload.importers.chakra.protobuf import SEND, attributes, nodes
from controller.workload.importers.registry import importer
from controller.workload.job_file import parse_job
from tests.unit.laws import examples

EXAMPLES = Path(__file__).parents[3] / "examples"
FABRIC = EXAMPLES / "clos-4x4x4.yaml"
JOBS = (EXAMPLES / "gpt3-a.json", EXAMPLES / "llama-b.json")

Sent = tuple[int, int, int, str, tuple[str, ...]]
"""Sender, receiver, bytes, flow, links."""


def _fabric() -> Fabric:
    return clos(spines=2, leaves=2, hosts_per_leaf=2)


def _source(name: str, content: bytes) -> Source:
    return Source(name, partial(io.BytesIO, content), len(content))


def _read(kind: str, sources: Sequence[Source]) -> Imported:
    return importer(kind)(sources, ImportRequest())


def in_goal(lines: Sequence[str]) -> list[Sent]:
    """The sends of a schedule, each with the comment on the line before it."""
    found: list[Sent] = []
    rank = -1
    for before, line in zip(("", *lines), lines, strict=False):
        if match := re.fullmatch(r"rank (\d+) \{", line):
            rank = int(match[1])
        if match := re.fullmatch(r"l\d+: send (\d+)b to (\d+) tag \d+", line):
            flow, _, path = before.removeprefix("// ").partition(" by ")
            found.append((rank, int(match[2]), int(match[1]), flow, tuple(path.split())))
    return found


def in_chakra(files: Sequence[tuple[str, bytes]]) -> list[Sent]:
    found: list[Sent] = []
    for rank, (name, content) in enumerate(files):
        for node, _ in nodes(_source(name, content)):
            has = attributes(node)
            if node.type == SEND:
                found.append((rank, has["comm_dst"], has["comm_size"], has["flow"], tuple(has["path"].values)))
    return found


@settings(deadline=None, max_examples=examples(20, 120))
@given(data=st.data())
def test_each_piece_of_each_flow_is_a_message_with_its_path(data: st.DataObject) -> None:
    fabric = _fabric()
    flows = [
        {"src": f"h{src}", "dst": f"h{dst}", "bytes": data.draw(st.integers(1, 10**9))}
        for src, dst in data.draw(
            st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4)).filter(lambda e: e[0] != e[1]), min_size=1)
        )
    ]
    traffic = [expand(fabric, parse_job({"name": "j", "flows": flows}))]
    routes: dict[str, list[PlannedPiece]] = {}
    for flow in range(traffic[0].n_flows):
        ends = int(traffic[0].src[flow]), int(traffic[0].dst[flow])
        between = [-1] if fabric.host_leaf[ends[0]] == fabric.host_leaf[ends[1]] else [0, 1]
        ways = [tuple(fabric.link_ids[link] for link in fabric.flow_links(*ends, k)) for k in between]
        share = data.draw(st.floats(0.01, 0.99))
        pieces = [(share, ways[0]), (1 - share, ways[-1])] if len(ways) > 1 else [(1.0, ways[0])]
        routes[traffic[0].flow_id(flow)] = [PlannedPiece(*piece) for piece in pieces]
    expected = sorted((m.src, m.dst, m.bytes, m.flow, m.links) for m in messages_of(traffic, routes))
    _bytes_add_up(traffic[0], routes, expected)
    lines = list(goal_lines(fabric.n_hosts, traffic, 0, routes))
    files = list(planned_files("j", fabric.n_hosts, traffic, routes))
    assert sorted(in_goal(lines)) == expected
    assert sorted(in_chakra(files)) == expected
    totals: dict[tuple[str, str], int] = {}
    for src, dst, size, _, _ in expected:
        totals[f"rank{src}", f"rank{dst}"] = totals.get((f"rank{src}", f"rank{dst}"), 0) + size
    for again in (
        _read("goal", [_source("a.goal", "\n".join(lines).encode())]),
        _read("chakra", [_source(*file) for file in files]),
    ):
        job = again.job.flows
        assert dict(zip(zip(job.src, job.dst, strict=True), job.bytes.tolist(), strict=True)) == totals
        assert again.ranks == fabric.n_hosts


def _bytes_add_up(job: JobTraffic, routes: Routes, sent: Sequence[Sent]) -> None:
    for flow in range(job.n_flows):
        name, size = job.flow_id(flow), int(job.bytes[flow])
        parts = {row[4]: row[2] for row in sent if row[3] == name}
        assert sum(parts.values()) == size
        assert all(abs(parts.get(links, 0) - share * size) <= 1 for share, links, *_ in routes[name])


def _run(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[object, str, str]:
    with pytest.raises(SystemExit) as end:
        main([str(argument) for argument in arguments])
    return end.value.code or 0, *capsys.readouterr()


def test_the_commands_write_the_paths_that_the_plan_command_printed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    jobs = ("--fabric", FABRIC, "--job", JOBS[0], "--job", JOBS[1])
    _, plan, _ = _run(capsys, "plan", *jobs, "--format", "json")
    (tmp_path / "plan.json").write_text(plan)
    code, lines, _ = _run(capsys, "export", "goal", *jobs, "--plan", tmp_path / "plan.json")
    assert code == 0
    planned = {
        (flow["id"], tuple(piece["links"])): round(piece["share"] * flow["bytes"])
        for flow in json.loads(plan)["flows"]
        for piece in flow["paths"]
    }
    assert {(flow, links): size for _, _, size, flow, links in in_goal(lines.splitlines())} == planned
    out = tmp_path / "traces"
    assert _run(capsys, "export", "chakra", *jobs, "--plan", tmp_path / "plan.json", "--out", out)[0] == 0
    files = [(f"gpt3-a-llama-b.{rank}.et", (out / f"gpt3-a-llama-b.{rank}.et").read_bytes()) for rank in range(16)]
    assert {(flow, links): size for _, _, size, flow, links in in_chakra(files)} == planned
    code, _, err = _run(capsys, "export", "chakra", *jobs, "--out", out)
    assert (code, err) == (2, "fairspine: plan: --plan and --fabric require each other\n")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"bytes": 8}, "is 8 bytes from h1 to h3 in the plan; the job sends 7 from h1 to h3"),
        ({"id": "j/other/0"}, "flows: 'j/all/0': the plan does not have this flow"),
        ({"paths": []}, "j/all/0: has no live path in this plan"),
        ({"paths": [{"share": 0.5, "links": ["h1->leaf1"]}]}, "has shares that add up to 0.5"),
        ({"paths": [{"share": 1, "links": ["h1->leaf1", "leaf2->h3"]}]}, "the fabric has no such path"),
        (
            {"paths": [{"share": 1, "links": ["h1->leaf1", "leaf2->spine1", "spine1->leaf2", "leaf2->h3"]}]},
            "the fabric has no such path",
        ),
        ({"paths": [{"share": 0, "links": []}]}, "share"),
    ],
)
def test_a_plan_that_is_not_of_these_flows_is_refused(tmp_path: Path, change: dict[str, object], reason: str) -> None:
    fabric = _fabric()
    traffic = [expand(fabric, parse_job({"name": "j", "flows": [{"src": "h1", "dst": "h3", "bytes": 7}]}))]
    links = ["h1->leaf1", "leaf1->spine1", "spine1->leaf2", "leaf2->h3"]
    flow: dict[str, object] = {"id": "j/all/0", "src": "h1", "dst": "h3", "bytes": 7}
    flow |= {"paths": [{"share": 1.0, "links": links}]}
    path = tmp_path / "plan.json"
    path.write_text(json.dumps({"flows": [flow]}))
    assert load_routes(path, fabric, traffic) == {"j/all/0": [PlannedPiece(1.0, tuple(links))]}
    path.write_text(json.dumps({"flows": [flow | change]}))
    with pytest.raises(InputError) as error:
        load_routes(path, fabric, traffic)
    assert reason in str(error.value)
    assert str(error.value).startswith(str(path))
