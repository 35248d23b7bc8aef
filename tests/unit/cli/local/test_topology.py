"""``fairspine topology``: table, document, picture, graph files, and its refusals."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest

import fairspine as fs
from tests.unit.cli.running import EXAMPLES, FABRIC

FILES = [
    "--fabric",
    str(EXAMPLES / "optical" / "sixteen.yaml"),
    "--job",
    str(EXAMPLES / "optical" / "all-to-all-16.json"),
]
QUICK = ["--effort", "0.02"]


def test_the_document_has_circuits_rings_and_next_hops_that_fit_each_other(run: Any, tmp_path: Path) -> None:
    out = tmp_path / "plan.json"
    document = json.loads(run("topology", *FILES, *QUICK, "--format", "json", "--out", str(out)).out)
    assert json.loads(out.read_text())["shards"] == document["shards"]
    (shard,) = document["shards"]
    to = {(row["from"], row["from_nic"]): row["to"] for row in shard["circuits"]}
    assert len(to) == len(shard["circuits"]) == 64
    for source, nics in shard["next_hops"].items():
        assert len(nics) == 15
        for target in nics:
            at, hops = source, 0
            while at != target:
                at, hops = to[at, shard["next_hops"][at][target]], hops + 1
            assert hops <= shard["most_hops"]
    for ring in shard["rings"]:
        for i, (server, nic) in enumerate(zip(ring["servers"], ring["nics"] or (), strict=False)):
            assert to[server, nic] == ring["servers"][(i + 1) % 16]
    assert sum(ring["share"] for ring in shard["rings"]) == pytest.approx(1)
    assert 1 <= shard["over_bound"] <= shard["over_ideal"]
    fullest = max(row["bytes"] for row in shard["circuits"])
    assert shard["seconds"] == pytest.approx(fullest * 8e-9 / 100, rel=1e-6)
    assert (len(document["changes"]["added"]), document["changes"]["seconds_by_nic"]) == (64, 480)


def test_the_table_compares_with_the_ideal_switch_and_the_bound(run: Any) -> None:
    code, out, _ = run("topology", *FILES, "--policy", "totient")
    assert code == 0
    assert "÷ ideal switch" in out
    assert "64 new circuits, 0 removed, 0 kept: 120 s at once, 480 s NIC by NIC" in out


def test_the_picture_has_a_chord_for_each_circuit_and_graph_files_a_channel_for_each_share(
    run: Any, tmp_path: Path
) -> None:
    picture, graphs = tmp_path / "p.svg", tmp_path / "graphs"
    code, _, err = run(
        "topology", *FILES, "--policy", "totient", "--picture", str(picture), "--nccl-graphs", str(graphs)
    )
    assert (code, err) == (0, "")
    root = ElementTree.parse(picture).getroot()
    assert len(root.findall("{http://www.w3.org/2000/svg}path")) == 64
    assert len(list(graphs.iterdir())) == 16
    graph = ElementTree.parse(graphs / "dlrm-h7.xml").getroot().find("graph")
    assert graph is not None
    channels = [[net.get("dev") for net in channel.findall("net")] for channel in graph.findall("channel")]
    assert len(channels) == int(graph.get("nchannels", ""))
    assert channels
    assert all(into == out for into, out in channels)


def test_host_files_have_an_address_for_each_path_and_the_bytes_of_each_qp(run: Any, tmp_path: Path) -> None:
    folder = tmp_path / "hosts"
    written = ["--paths", "2", "--host-files", str(folder), "--interfaces", "nic{nic}p", "--format", "json"]
    (shard,) = json.loads(run("topology", *FILES, *QUICK, *written).out)["shards"]
    assert len(list(folder.iterdir())) == 2 * 16 + 1
    assert "net.ipv4.ip_forward=1" in (folder / "forwarding.conf").read_text()
    routes = [line.split() for line in (folder / "h1.ip").read_text().splitlines() if " onlink " in line]
    interface = {row[2]: row[6] for row in routes}
    nics = {f"10.0.{name[1:]}.0/24": f"nic{nic}p" for name, nic in shard["next_hops"]["h1"].items()}
    assert nics.items() <= interface.items()
    assert len(shard["more_trees"]) > 0
    sent = [line.split(",") for line in (folder / "h1.csv").read_text().splitlines()[1:]]
    assert {row[3] for row in sent} == {f"nic{nic}p" for nic in range(4)}
    assert {row[2].split(".")[3] for row in sent} >= {"1", "2"}


def test_the_python_api_gives_the_same_plan(run: Any) -> None:
    document = json.loads(run("topology", *FILES, *QUICK, "--seed", "3", "--format", "json").out)
    job = fs.load_job(FILES[3])
    plan = fs.circuits(fs.optical_fabric({"optical": {"servers": 16, "nics": 4}}), [job], seed=3, effort=0.02)
    assert [each.seconds for each in plan.shards] == [row["seconds"] for row in document["shards"]]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ([*FILES, "--policy", "best"], "fairspine: policy: 'best': there are search, totient"),
        ([*FABRIC, *FILES[2:]], "clos-4x4x4.yaml: has no 'optical'"),
        ([*FILES, "--picture", "/nonexistent/p.svg"], "/nonexistent/p.svg"),
        ([*FILES, "--policy", "totient", "--nccl-graphs", "/dev/null/x"], "/dev/null/x: cannot be made"),
        ([*FILES, "--policy", "totient", "--host-files", "/dev/null/x"], "/dev/null/x: cannot be made"),
        ([*FILES, "--interfaces", "eth0"], "--interfaces: 'eth0': must have {nic} once, and no other braces"),
    ],
)
def test_what_cannot_be_done_is_refused_in_one_line(run: Any, arguments: list[str], reason: str) -> None:
    code, _, err = run("topology", *arguments, *QUICK)
    assert (code, err.count("\n")) == (2, 1)
    assert reason in err


def test_compare_has_the_policies_of_circuits_beside_the_ideal_switch_and_a_fat_tree(run: Any) -> None:
    document = json.loads(
        run("compare", *FILES, "--policies", "totient,totient+split", "--format", "json").out,
    )
    rows = {row["policy"]: row for row in document["policies"]}
    bound, ideal, tree, one, split = (row["seconds"] for row in rows.values())
    assert list(rows)[3:] == ["totient", "totient+split"]
    assert ideal <= bound <= split <= one
    assert tree == pytest.approx(3.2 * ideal)
    assert rows["totient"]["simulated_seconds"] >= one * (1 - 1e-6)
    assert rows["totient"]["rules_per_server"] == 15 < rows["totient+split"]["rules_per_server"]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (
            ["--policies", "fair"],
            "policies: 'fair': on circuits there are search, search+split, totient, totient+split",
        ),
        (["--headroom", "0.1"], "sixteen.yaml: --headroom: cannot be used on optical circuits"),
        (["--qp-mode", "split"], "sixteen.yaml: --qp-mode: cannot be used on optical circuits"),
    ],
)
def test_compare_refuses_what_is_for_packet_switches(run: Any, arguments: list[str], reason: str) -> None:
    code, out, err = run("compare", *FILES, *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert reason in err


def test_replay_plays_graphs_on_planned_circuits(run: Any) -> None:
    graph = ["replay", "taskgraph", str(EXAMPLES / "taskgraph" / "two-nodes.fbuf"), *FILES[:2]]
    document = json.loads(run(*graph, "--policies", "totient,search", "--format", "json").out)
    ideal, tree, *planned = (row["seconds"] for row in document["runs"])
    assert [row["paths"] for row in document["runs"]][1:] == ["fat tree of equal cost", "totient", "search"]
    # Two servers are joined by all their NICs.
    assert all(ideal * (1 - 1e-6) <= each <= tree for each in planned)
    code, _, err = run(*graph, "--placement", "packed")
    assert (code, err.count("\n")) == (2, 1)
    assert "sixteen.yaml: --placement: cannot be used on optical circuits" in err


@pytest.mark.parametrize("command", [["plan"], ["survive"], ["trace", "--policy", "ecmp"]])
def test_other_commands_refuse_optical_fabrics(run: Any, command: list[str]) -> None:
    code, out, err = run(*command, *FILES)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "sixteen.yaml: optical: is a fabric of optical circuits" in err


def test_stages_lead_from_the_circuits_of_now_to_the_plan(run: Any, tmp_path: Path) -> None:
    before = json.loads(run("topology", *FILES, "--policy", "totient", "--format", "json").out)
    now = before["changes"]["added"]
    fabric, out, hosts = tmp_path / "fabric.json", tmp_path / "plan.json", tmp_path / "hosts"
    fabric.write_text(json.dumps({"optical": {"servers": 16, "nics": 4, "circuits": now}}))
    files = ["--fabric", str(fabric), *FILES[2:], *QUICK, "--stages"]
    code, table, _ = run("topology", *files, "--out", str(out), "--host-files", str(hosts))
    plan = json.loads(out.read_text())
    assert code == 0
    assert "÷ plan" in table
    assert sum(len(stage["removed"]) for stage in plan["stages"]) == len(plan["changes"]["removed"])
    assert sum(len(stage["added"]) for stage in plan["stages"]) == len(plan["changes"]["added"])
    for number, stage in enumerate(plan["stages"], 1):
        (row,) = stage["during"]
        assert row["seconds"] > plan["shards"][0]["seconds"]
        assert row["seconds"] / plan["shards"][0]["seconds"] == pytest.approx(row["over_plan"])
        assert (hosts / f"stage-{number}" / "round-1" / "h1.ip").exists()
    assert (hosts / "last" / "h1.csv").read_text() == (hosts / "h1.csv").read_text()


def test_a_plan_of_now_keeps_all_circuits_and_a_scenario_is_simulated_on_them(run: Any, tmp_path: Path) -> None:
    now = json.loads(run("topology", *FILES, "--policy", "totient", "--format", "json").out)["changes"]["added"]
    fabric, scenario = tmp_path / "fabric.json", tmp_path / "scenario.json"
    fabric.write_text(json.dumps({"optical": {"servers": 16, "nics": 4, "circuits": now[1:]}}))
    document = json.loads(
        run("topology", "--fabric", str(fabric), *FILES[2:], "--policy", "now", "--format", "json").out
    )
    assert (document["changes"]["added"], document["changes"]["removed"]) == ([], [])
    assert len(document["shards"][0]["circuits"]) == 63
    case = {"name": "one", "jobs": FILES[3]}
    scenario.write_text(json.dumps({"fabric": str(fabric), "cases": [case], "policies": ["now"]}))
    simulated = json.loads(run("simulate", "--scenario", str(scenario), "--out", str(tmp_path), "--format", "json").out)
    ratio = {row["policy"]: row["ratio"] for row in simulated["standings"]}
    assert list(ratio) == ["ideal switch", "fat tree of equal cost", "now"]
    assert ratio["now"] >= document["shards"][0]["over_ideal"] * (1 - 1e-6)
    code, _, err = run("simulate", "--scenario", str(scenario), "--results")
    assert (code, err.count("\n")) == (2, 1)
    assert "scenario.json: --results: full results are not kept of optical circuits" in err


def test_the_command_for_panels_refuses_what_it_cannot_do_in_one_line(run: Any, tmp_path: Path) -> None:
    plan, other = tmp_path / "plan.json", tmp_path / "other.json"
    run("topology", *FILES, "--policy", "totient", "--out", str(plan))
    other.write_text("{}")
    one = ["--panel", "ocs1=unix:/nowhere"]
    all_four = [word for i in range(1, 5) for word in ("--panel", f"ocs{i}=unix:/nowhere")]
    for arguments, reason in (
        ([str(other), *one], "other.json: shards: "),
        ([str(plan), *one], "--panel: ocs2 has no address"),
        ([str(plan), *one, *one], "--panel: 'ocs1': a switch before has this name"),
        (
            [str(plan), "--panel", "ocs9=unix:/nowhere"],
            "--panel: 'ocs9': the plan has the switches ocs1, ocs2, ocs3, ocs4",
        ),
        ([str(plan), "--panel", "unix:/nowhere"], "write SWITCH=ADDRESS for each"),
        ([str(plan), "--panel", "ocs1=nowhere"], "--panel: 'nowhere': must be tcp:HOST:PORT"),
        ([str(plan), *all_four, "--stage", "1"], "stages: the plan has no stages: plan it with --stages"),
        ([str(plan), *all_four], "unix:/nowhere: "),
    ):
        code, out, err = run("circuits", *arguments)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert reason in err
