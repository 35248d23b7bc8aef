"""``fairspine emulate`` as people start it: switches, controller, jobs, packets, counters, and nothing left."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import tempfile
from pathlib import Path

import pytest

from controller.southbound.enforcement.registry import rule_enforcements
from emulation.processes import labelled
from emulation.runfile import RUN_FOLDER_VARIABLE
from emulation.socket_buffers import RECEIVE_BYTES, SEND_BYTES, enlarge_packet_buffers
from tests.documented import ROOT
from tests.rig.checks.counted_links import assert_links_carried_their_flows
from tests.rig.emulate import EMULATION_SECONDS, command, emulated, request, scenario_emulated, write_job
from tests.rig.http.client import PATIENCE_SECONDS
from tests.rig.programs import FAIRSPINE, fairspine

pytestmark = pytest.mark.switches

TWO_PLANES = ROOT / "examples" / "two-planes.yaml"


def test_two_jobs_run_right_and_every_flow_is_counted_on_its_planned_way_only(tmp_path: Path) -> None:
    options = ["--policies", "ecmp,greedy", "--draws", "1", "--seconds", "1", "--format", "json", "--name", "small"]
    done = subprocess.run(command(tmp_path, *options), capture_output=True, text=True, timeout=EMULATION_SECONDS)
    assert done.returncode == 0, done.stderr
    values = json.loads(done.stdout)
    assert values == json.loads((tmp_path / "out" / "small.json").read_text())
    assert (tmp_path / "out" / "small.png").read_bytes().startswith(b"\x89PNG")
    assert values["failures"] == []
    assert [run["policy"] for run in values["runs"]] == ["ecmp", "greedy"]
    for run in values["runs"]:
        assert run["off_plan"] == []
        assert [(row["job"], row["checked"]) for row in run["collectives"]] == [("a", True), ("b", True)]
        assert len(run["flows"]) == 4
        assert_links_carried_their_flows(run, 1 / 5)
    planned = values["runs"][1]
    uplinks = [link["flows"] for link in planned["links"] if link["id"].startswith("leaf")]
    assert uplinks == [1, 1, 1, 1]
    assert planned["min_speed"] == pytest.approx(1.0)


@pytest.mark.parametrize(("enforcement", "qp_mode"), [("per_flow", "round_robin"), ("source_port", "split")])
def test_each_qp_is_counted_on_its_own_path(tmp_path: Path, enforcement: str, qp_mode: str) -> None:
    wanted = request(tmp_path, policies=("fair",), qps=4, qp_mode=qp_mode, enforcement=enforcement, seconds=1.0)
    status, values = emulated(wanted)
    assert status == 0
    (run,) = values["runs"]
    assert run["off_plan"] == []
    assert all(row["checked"] for row in run["collectives"])
    # Four QPs of each of four connections, over the two uplinks of each leaf; neighbouring ports share a rule.
    assert [link["flows"] for link in run["links"] if link["id"].startswith("leaf")] == [4, 4, 4, 4]


@pytest.mark.parametrize("enforcement", rule_enforcements())
def test_each_stripe_of_a_connection_is_counted_in_its_own_plane(tmp_path: Path, enforcement: str) -> None:
    jobs = (write_job(tmp_path, "ring", ["h1", "h3", "h2", "h4"]),)
    policies = ("fair",)
    status, values = emulated(
        request(tmp_path, fabric=TWO_PLANES, jobs=jobs, policies=policies, enforcement=enforcement, seconds=1.0)
    )
    assert status == 0
    (run,) = values["runs"]
    assert run["off_plan"] == []
    assert [(row["job"], row["checked"]) for row in run["collectives"]] == [("ring", True)]
    assert len(run["flows"]) == 8
    assert {link["id"]: link["flows"] for link in run["links"]} == dict.fromkeys((ln["id"] for ln in run["links"]), 1)
    assert run["min_speed"] == pytest.approx(1.0)


def test_hashed_and_pinned_qps_are_counted_on_their_paths(tmp_path: Path) -> None:
    status, values = emulated(request(tmp_path, policies=("e_ecmp", "path_pinning"), qps=4, seconds=1.0))
    assert status == 0
    runs = values["runs"]
    assert [run["policy"] for run in runs] == ["e_ecmp", "path_pinning"]
    for run in runs:
        assert run["off_plan"] == []
        assert all(row["checked"] for row in run["collectives"])
        assert sum(link["flows"] for link in run["links"] if link["id"].startswith("leaf")) == 16


def test_hosts_keep_the_paces_of_flows_that_share_a_link_where_that_is_asked_for(tmp_path: Path) -> None:
    wanted = request(tmp_path, policies=("fair+paced", "fair+windows"), seconds=1.0)
    wanted.fabric.write_text("clos: {spines: 1, leaves: 2, hosts_per_leaf: 2, uplink_gbps: 100}\n")
    status, values = emulated(wanted)
    assert status == 0
    paced, held = values["runs"]
    assert [(run["policy"], run["paced"], run["windows"]) for run in values["runs"]] == [
        ("fair+paced", True, False),
        ("fair+windows", True, True),
    ]
    assert len(paced["paces"]) == 4
    assert held["paces"] == paced["paces"]
    for row in paced["paces"]:
        # Two flows share the only uplink, at 100 Gbit/s with headers.
        assert row["pace_gbps"] == pytest.approx(50 * 4096 / (4096 + 82))
        assert row["mbps"] == pytest.approx(row["pace_gbps"] * values["scale"]["mbps_per_gbps"])
    for run in values["runs"]:
        assert run["off_plan"] == []
        assert all(row["checked"] for row in run["collectives"])


def test_jobs_that_compute_repeat_and_follow_the_shifts_of_the_plan(tmp_path: Path) -> None:
    wanted = request(tmp_path, policies=("fair", "fair+shifts"), iterations=(3,), seconds=1.0)
    wanted.fabric.write_text("clos: {spines: 1, leaves: 2, hosts_per_leaf: 2, uplink_gbps: 100}\n")
    for name in ("a", "b"):
        job = json.loads((tmp_path / f"{name}.json").read_text())
        (tmp_path / f"{name}.json").write_text(json.dumps(job | {"compute_seconds": 0.08}))
    status, values = emulated(wanted)
    assert status == 0
    plain, shifted = values["runs"]
    assert (plain["policy"], plain["schedule"]) == ("fair", None)
    assert shifted["policy"] == "fair+shifts"
    # Alone, each sends the billion bytes of its buffer over a link of 100 Gbit/s, for as long as it computes.
    first, second = shifted["schedule"]["jobs"]
    assert abs(first["shift_seconds"] - second["shift_seconds"]) == pytest.approx(0.08, rel=0.01)
    for run in (plain, shifted):
        assert run["off_plan"] == []
        assert all(row["checked"] for row in run["collectives"])
        assert [row["job"] for row in run["jobs"]] == ["a", "b"]
        for row in run["jobs"]:
            assert len(row["iterations"]) == 3
            # No packet is faster than its link; the buffers of the shapers let a few through at once.
            assert min(row["iterations"]) >= 0.16 * values["scale"]["time"] * 0.9
        for flow in run["flows"]:
            assert flow["bytes"] >= 3 * values["scale"]["bytes"] * 10**9


@pytest.mark.parametrize("routers", [False, True], ids=["open_vswitch", "routers"])
def test_ctrl_c_in_the_middle_takes_everything_down_and_a_second_experiment_keeps_out_before_that(
    tmp_path: Path, *, routers: bool
) -> None:
    with tempfile.TemporaryDirectory(prefix="fairspine-", dir="/tmp") as folder:  # short: sockets are in it
        _interrupt(tmp_path, Path(folder), routers=routers)


def _interrupt(tmp_path: Path, run_folder: Path, *, routers: bool) -> None:
    experiment = command(tmp_path, "--seconds", "60", "--policies", "greedy", routers=routers)
    process = subprocess.Popen(
        experiment,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=os.environ | {RUN_FOLDER_VARIABLE: str(run_folder)},
    )
    try:
        assert process.stderr is not None
        for line in process.stderr:
            if line.rstrip().endswith("collectives on packets ..."):
                break
        rival = fairspine(*experiment[1:])
        assert (rival.returncode, rival.stderr.count("\n")) == (1, 1)
        assert "another experiment is running in" in rival.stderr
        made = [folder.name for folder in run_folder.glob("**/*-*-*") if folder.is_dir()]
        assert made
        # As a terminal does: to everybody in the group at once.
        os.killpg(process.pid, signal.SIGINT)
        _, said = process.communicate(timeout=PATIENCE_SECONDS)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    assert process.returncode == 130
    assert said.strip().splitlines()[-1] == "fairspine emulate: interrupted; everything has been cleaned up"
    assert "Traceback" not in said
    assert list(run_folder.iterdir()) == []
    assert all(labelled(name) == [] for name in made)


def test_the_buffers_of_a_process_packet_sockets_grow_and_no_others_do() -> None:
    with (
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as raw,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp,
    ):
        before = udp.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
        assert enlarge_packet_buffers(os.getpid()) == 1
        assert raw.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) >= SEND_BYTES
        assert raw.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) >= RECEIVE_BYTES
        assert udp.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) == before
        assert not raw.get_inheritable()


def test_a_scenario_runs_on_packets_and_in_the_simulator_and_reports_every_ratio(tmp_path: Path) -> None:
    (tmp_path / "tiny.yaml").write_text(
        "name: tiny\n"
        "fabric: {clos: {spines: 2, leaves: 2, hosts_per_leaf: 2, host_gbps: 100, uplink_gbps: 100}}\n"
        "cases: [{collective: {op: all_reduce, algorithms: [ring], bytes: [1000000], order: random}}]\n"
        "failed_spines: [1]\n"
        "policies: [fair, ecmp, spray]\n"
        "seeds: [1]\n"
    )
    out = tmp_path / "out"
    command = [FAIRSPINE, "emulate", "--scenario", str(tmp_path / "tiny.yaml"), "--seconds", "1", "--out", str(out)]
    done = subprocess.run([*command, "--format", "json"], capture_output=True, text=True, timeout=EMULATION_SECONDS)
    values = json.loads(done.stdout)
    # A machine that is busy may measure anything; whether that is told is not its business.
    off = [ratio for ratio in values["ratios"] if not ratio["agrees"]]
    assert done.returncode == (1 if off else 0), done.stderr
    assert "spray is left out" in done.stderr
    assert [(row["failure"], row["policy"], row["job"]) for row in values["times"]] == [
        ("1 spine", "ecmp", "ring-1000000"),
        ("1 spine", "fair", "ring-1000000"),
    ]
    assert all(len(row["simulated"]) == len(row["measured"]) == 1 for row in values["times"])
    assert all(row["measured"][0] > row["simulated"][0] * 0.9 for row in values["times"])
    assert [(ratio["one"], ratio["other"]) for ratio in values["ratios"]] == [
        ("ecmp, 1 spine failed", "fair, 1 spine failed")
    ]
    assert json.loads((out / "emulate" / "agreement.json").read_text())["times"] == values["times"]
    (results,) = (out / "emulate").glob("*/results.json")
    runs = json.loads(results.read_text())["runs"]
    assert [run["off_plan"] for run in runs] == [[], []]
    assert all("spine2" not in link for run in runs for flow in run["flows"] for link in flow["links"])


def test_jobs_that_send_while_they_compute_do_so_on_packets_as_in_the_simulator(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of each job ``ep`` is waited for, and ``dp`` is sent while it computes; four flows cross three uplinks."""
    jobs = [
        {
            "job": {
                "name": name,
                "compute_seconds": 0.8,
                "flows": [
                    {"src": f"h{at}", "dst": f"h{at + 4}", "bytes": 6 * 10**9, "collective": "ep"},
                    {"src": f"h{at}", "dst": f"h{at + 1}", "bytes": 4 * 10**9, "collective": "ep"},
                    {"src": f"h{at + 1}", "dst": f"h{at + 5}", "bytes": 10**10, "collective": "dp"},
                ],
                "overlap": {"dp": "compute"},
            },
            "epochs": 3,
        }
        for name, at in (("a", 1), ("b", 3))
    ]
    scenario = {
        "name": "overlap",
        "fabric": {"clos": {"spines": 3, "leaves": 2, "hosts_per_leaf": 4}},
        "cases": [{"jobs": jobs}],
        "policies": ["fair"],
    }
    (tmp_path / "overlap.yaml").write_text(json.dumps(scenario))
    assert scenario_emulated(tmp_path / "overlap.yaml", tmp_path / "out" / "emulate", seconds=4.0) == 0
    rows = json.loads(capsys.readouterr().out)["times"]
    assert [row["job"] for row in rows] == ["a", "b"]
    (results,) = (tmp_path / "out" / "emulate").glob("*/results.json")
    document = json.loads(results.read_text())
    scale = document["scale"]["time"]
    for row in rows:
        # What two jobs send at the same time over one uplink is what no job waits for, so both are as fast as alone.
        assert row["simulated"] == pytest.approx([1.6 * scale])
        # No packet is faster than its link, and computing takes its time; a busy machine may take longer.
        assert row["measured"][0] > 1.6 * scale * 0.9
    (run,) = document["runs"]
    assert run["off_plan"] == []
    assert all(row["checked"] for row in run["collectives"])


def test_what_a_scenario_says_itself_is_no_option_beside_it(tmp_path: Path) -> None:
    for option in (["--fabric", "f.yaml"], ["--draws", "2"], ["--expect-faster"]):
        done = fairspine("emulate", "--scenario", "s.yaml", *option)
        assert (done.returncode, done.stderr) == (2, f"fairspine: {option[0]}: is defined by the scenario\n")
