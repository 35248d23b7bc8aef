"""Options of policies, and planning near a plan in force, from the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from controller.routing.options_text import NAMES
from tests.unit.cli.running import EXAMPLES, FABRIC

JOB = [*FABRIC, "--job", str(EXAMPLES / "gpt3-a.json")]


@pytest.fixture
def narrow(tmp_path: Path) -> list[str]:
    """Four flows over three spines: one path each gives half of the speed, splitting three quarters."""
    fabric, job = tmp_path / "fabric.yaml", tmp_path / "job.json"
    fabric.write_text("clos: {spines: 3, leaves: 2, hosts_per_leaf: 4, host_gbps: 100, uplink_gbps: 100}")
    flows = [{"src": f"h{n}", "dst": f"h{n + 4}", "bytes": 10**9} for n in range(1, 5)]
    job.write_text(json.dumps({"name": "j", "flows": flows}))
    return ["--fabric", str(fabric), "--job", str(job)]


def test_splitting_is_an_option_and_lifts_the_lowest_speed(run: Any, narrow: list[str]) -> None:
    whole = json.loads(run("plan", *narrow, "--format", "json").out)
    split = json.loads(run("plan", *narrow, "-o", "max_splits=6", "--format", "json").out)
    assert whole["min_speed"] == pytest.approx(0.5 / 0.75)
    assert split["min_speed"] == pytest.approx(1.0)
    assert sum(len(flow["paths"]) for flow in split["flows"]) <= 4 + 6


def test_comparing_takes_options_as_well(run: Any, narrow: list[str]) -> None:
    document = json.loads(run("compare", *narrow, "--policies", "fair", "-o", "max_splits=6", "--format", "json").out)
    assert document["policies"][0]["pieces"] > document["flows"]


def test_near_a_plan_in_force_nothing_moves_that_need_not(run: Any, tmp_path: Path) -> None:
    afresh = run("plan", *JOB, "--format", "json").out
    # The same plan with two spines exchanged: as good, and not what planning afresh gives.
    in_force = afresh.replace("spine1", "spine0").replace("spine2", "spine1").replace("spine0", "spine2")
    before = tmp_path / "before.json"
    before.write_text(in_force)
    near = run("plan", *JOB, "--previous", str(before), "--format", "json").out
    paths = [[flow["paths"] for flow in json.loads(plan)["flows"]] for plan in (in_force, near, afresh)]
    assert paths[1] == paths[0] != paths[2]


def test_headroom_leaves_a_part_of_every_link_and_takes_as_much_longer(run: Any) -> None:
    whole, less = (json.loads(run("plan", *JOB, *more, "--format", "json").out) for more in ([], ["--headroom", "0.2"]))
    assert less["collectives"][0]["seconds"] == pytest.approx(whole["collectives"][0]["seconds"] / 0.8)
    assert max(link["load_gbps"] / link["gbps"] for link in less["links"]) == pytest.approx(0.8)
    assert [link["gbps"] for link in less["links"]] == [link["gbps"] for link in whole["links"]]
    row = json.loads(run("compare", *JOB, "--headroom", "0.2", "--format", "json").out)["policies"][-1]
    assert row["min_speed"] == pytest.approx(less["min_speed"])
    assert run("plan", *JOB, "--headroom", "0.95").code == 2


@pytest.mark.parametrize(
    ("setting", "complaint"),
    [
        ("max_splits", "option: 'max_splits': must be like max_splits=16"),
        ("max_split=1", "did you mean max_splits?"),
        ("xyzzy=1", ", ".join(NAMES)),
        ("rounds=many", "option rounds: 'many': input should be a valid integer"),
        ("rounds=-1", "option rounds: '-1': must be at least 0"),
        ("seconds=nan", "option seconds: 'nan': must be at least 0"),
        ("hash=md5", "'crc32' or 'toeplitz'"),
    ],
)
def test_an_option_that_cannot_be_used_is_one_line(run: Any, setting: str, complaint: str) -> None:
    code, out, err = run("plan", *JOB, "-o", setting)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert complaint in err


def test_an_option_given_twice_is_refused(run: Any) -> None:
    code, _, err = run("plan", *JOB, "-o", "rounds=1", "-o", "rounds=2")
    assert (code, "given twice" in err) == (2, True)


@pytest.mark.parametrize(
    ("command", "cuts"),
    [
        (("plan", "-o", "max_splits=6"), "option max_splits=6 lets fair cut"),
        (("plan", "--policy", "split"), "policy split cuts"),
        (("compare", "--policies", "ecmp,split"), "policy split cuts"),
    ],
)
def test_qps_with_whole_messages_are_not_cut_in_one_line(
    run: Any,
    narrow: list[str],
    command: tuple[str, ...],
    cuts: str,
) -> None:
    qps = ("--qps", "2", "--qp-mode", "round_robin")
    code, out, err = run(command[0], *narrow, *command[1:], *qps)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert f"qp_mode: 'round_robin': QPs of j carry whole messages in turn, and {cuts} them into pieces" in err
    assert run(command[0], *narrow, *qps).code == 0


@pytest.mark.parametrize(("qps", "says"), [("0", "or equal to 1"), ("1000000000", "or equal to 128")])
def test_numbers_of_qps_that_no_host_can_open_are_refused(run: Any, narrow: list[str], qps: str, says: str) -> None:
    code, out, err = run("plan", *narrow, "--qps", qps)
    assert (code, out) == (2, "")
    assert err == f"fairspine: --qps: '{qps}': input should be {'greater' if qps == '0' else 'less'} than {says}\n"


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"flows": [{}]}', '{"flows": [{"src": "h1", "dst": 3, "paths": []}]}']
)
def test_a_file_that_holds_no_plan_is_named(run: Any, tmp_path: Path, text: str) -> None:
    path = tmp_path / "plan.json"
    path.write_text(text)
    code, _, err = run("plan", *JOB, "--previous", str(path))
    assert (code, err.count("\n"), str(path) in err) == (2, 1, True)
    code, _, err = run("plan", *JOB, "--previous", str(tmp_path / "none.json"))
    assert (code, "No such file" in err) == (2, True)


def test_flows_of_an_earlier_plan_that_this_fabric_does_not_know_are_forgotten(run: Any, tmp_path: Path) -> None:
    before = tmp_path / "before.json"
    plan = json.loads(run("plan", *JOB, "--format", "json").out)
    plan["flows"][0]["src"] = "nobody"
    plan["flows"][1]["paths"][0]["links"][1] = "leaf1->spine99"
    before.write_text(json.dumps(plan))
    assert run("plan", *JOB, "--previous", str(before)).code == 0


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"qps": 0}, "qps: 0: "),
        ({"qps": 10**9}, "qps: 1000000000: "),
        ({"qps": "many"}, "qps: 'many': "),
        ({"qps": 2, "qp_mode": "both"}, "qp_mode: 'both': "),
    ],
)
def test_bad_qps_of_a_file_are_one_line_that_names_it(
    run: Any,
    narrow: list[str],
    change: dict[str, Any],
    says: str,
) -> None:
    job = Path(narrow[-1])
    job.write_text(json.dumps(json.loads(job.read_text()) | change))
    code, out, err = run("plan", *narrow)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert f"{job}: {says}" in err


def test_a_port_that_a_qp_of_another_file_has_is_refused(run: Any, narrow: list[str], tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    flow = {"src": "h1", "dst": "h5", "bytes": 9}
    for path, ports in ((Path(narrow[-1]), [50002, 50000]), (other, [50001, 50000])):
        path.write_text(json.dumps({"name": path.stem, "qps": 2, "flows": [flow | {"qp_ports": ports}]}))
    code, out, err = run("plan", *narrow, "--job", str(other))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert f"{other}: flows[0].qp_ports[1]: 50000: job/all/0.1 from h1 to h5 already has this port" in err
