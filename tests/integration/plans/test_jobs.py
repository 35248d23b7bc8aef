"""Jobs on real switches: what is pushed over HTTP is carried over the planned spines, and over no other."""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from controller.model.files.clos import clos
from controller.model.files.fabric_file import load_fabric
from tests.documented import ROOT
from tests.rig.bench import Bench
from tests.rig.checks.jobs import (
    active,
    check_paths,
    holds_base_rules_only,
    sinks_of,
    started,
    started_without_sinks,
)
from tests.rig.checks.kept_paces import check_kept_paces
from tests.rig.checks.rule_text import source_ports
from tests.rig.http.client import PATIENCE_SECONDS
from tests.rig.waiting import eventually

pytestmark = pytest.mark.switches


def collective(op: str, hosts: int, size: int, **options: object) -> dict[str, Any]:
    """A collective over ranks 0..hosts-1."""
    return {"name": options.pop("name", "c"), "op": op, "ranks": list(range(hosts)), "bytes": size, **options}


SPREAD = ["h1", "h5", "h9", "h13"]
PAIR = {"src": "h1", "dst": "h5", "bytes": 5}
FORMS = {
    "ring": {"hosts": SPREAD, "collectives": [collective("all_reduce", 4, 10**9, algorithm="ring")]},
    "direct": {"hosts": ["h2", "h6", "h10"], "collectives": [collective("all_reduce", 3, 10**9, algorithm="direct")]},
    "all-to-all": {"hosts": SPREAD, "collectives": [collective("all_to_all", 4, 10**9)]},
    "phases": {
        "hosts": ["h3", "h7"],
        "collectives": [
            collective("all_gather", 2, 10**8, name="g"),
            collective("reduce_scatter", 2, 10**8, name="s", phase=1),
            collective("send_recv", 2, 10**7, name="p", phase=2),
        ],
    },
    "flows": {"flows": [PAIR | {"udp_src": 50000}, PAIR, {"src": "h4", "dst": "h3", "bytes": 1}]},
    "matrix": {"matrix": {"hosts": ["h8", "h12", "h16"], "bytes": [[0, 1, 2], [3, 0, 4], [5, 6, 0]]}},
}


def test_each_job_form_is_carried_on_its_planned_spines_and_leaves_no_rule_behind(bench: Bench, tmp_path: Path) -> None:
    fabric = clos(4, 4, 4)
    lab, controller = started(bench, fabric, tmp_path)
    for job, document in FORMS.items():
        answer = controller.put(f"/v1/jobs/{job}", document)
        assert answer.status == 201, answer
        check_paths(lab, fabric, controller)
        assert controller.delete(f"/v1/jobs/{job}").status == 204
        assert active(controller)["flows"] == []
        # A plan is active before the last rules of the one before it are gone.
        eventually(lambda: holds_base_rules_only(lab, fabric), f"nothing is left of {job}")


def test_two_jobs_at_once_one_replaced_one_removed(bench: Bench, tmp_path: Path) -> None:
    fabric = clos(4, 4, 4)
    lab, controller = started(bench, fabric, tmp_path)
    assert controller.put("/v1/jobs/one", FORMS["ring"]).status == 201
    assert controller.put("/v1/jobs/two", FORMS["all-to-all"]).status == 201
    both = check_paths(lab, fabric, controller)
    assert {flow["job"] for flow in both["flows"]} == {"one", "two"}
    epoch = controller.get("/v1/plan").body["computed"]["epoch"]
    assert controller.put("/v1/jobs/one", FORMS["ring"]).status == 200
    assert controller.get("/v1/plan").body["computed"]["epoch"] == epoch, "the same job again changes nothing"
    assert controller.put("/v1/jobs/one", FORMS["direct"]).status == 200
    replaced = check_paths(lab, fabric, controller)
    assert sum(flow["job"] == "one" for flow in replaced["flows"]) == 6
    before = {flow["id"]: flow["paths"] for flow in replaced["flows"]}
    assert controller.delete("/v1/jobs/one").status == 204
    assert controller.get("/v1/jobs/one").status == 404
    left = check_paths(lab, fabric, controller)
    assert {flow["job"] for flow in left["flows"]} == {"two"}
    assert {flow["id"] for flow in left["flows"]} <= set(before)


def test_a_failed_link_moves_its_flows_and_hosts_keep_the_paces_of_each_plan(bench: Bench, tmp_path: Path) -> None:
    fabric = clos(2, 2, 2)
    lab, controller = started_without_sinks(bench, fabric, tmp_path)
    sinks = sinks_of(lab, fabric)
    job = {
        "matrix": {"hosts": ["h1", "h2", "h3", "h4"], "bytes": [[0, 0, 9, 9], [0, 0, 9, 9], [9, 9, 0, 0], [9, 9, 0, 0]]}
    }
    assert controller.put("/v1/jobs/m", job).status == 201
    check_paths(lab, fabric, controller)
    healthy = controller.get("/v1/plan").body["plan"]["collectives"][0]
    lab.set_cable("leaf1-spine1", up=False)
    controller.wait_for("the failure is seen", lambda: controller.get("/healthz").body["status"] == "degraded")
    plan = check_paths(lab, fabric, controller)
    used = {link for flow in plan["flows"] for path in flow["paths"] for link in path["links"]}
    assert not used & {"leaf1->spine1", "spine1->leaf1"}
    assert plan["collectives"][0]["slowdown"] > healthy["slowdown"]
    links = {link["id"]: link for link in controller.get("/v1/links").body["links"]}
    assert links["leaf1->spine1"]["up"] is False
    lab.set_cable("leaf1-spine1", up=True)
    controller.wait_for("it is back", controller.is_well)
    for sink in sinks:
        sink.stop()
    other = {"matrix": {"hosts": ["h1", "h4"], "bytes": [[0, 9], [9, 0]]}}
    assert controller.put("/v1/jobs/n", other).status == 201
    active(controller)
    check_kept_paces(lab, controller, fabric, {"m": job["matrix"], "n": other["matrix"]}, "leaf1-spine1", "n")


def test_a_disconnected_leaf_makes_only_its_own_flows_unroutable(bench: Bench, tmp_path: Path) -> None:
    fabric = clos(1, 3, 1)
    lab, controller = started(bench, fabric, tmp_path)
    job = {
        "flows": [
            {"src": "h1", "dst": "h2", "bytes": 5, "collective": "a"},
            {"src": "h2", "dst": "h3", "bytes": 5, "collective": "b"},
        ]
    }
    assert controller.put("/v1/jobs/m", job).status == 201
    lab.set_cable("leaf1-spine1", up=False)
    controller.wait_for("it is seen", lambda: controller.get("/v1/plan").body["plan"]["unroutable"] == ["m/a/0"])
    speeds = {c["name"]: c["speed"] for c in active(controller)["collectives"]}
    assert speeds == {"a": 0.0, "b": 1.0}


def test_flows_whose_ports_are_unknown_share_one_rule_a_host_pair(bench: Bench, tmp_path: Path) -> None:
    fabric = clos(2, 2, 1)
    lab, controller = started(bench, fabric, tmp_path)
    job = {"ports": "unknown", "flows": [{"src": "h1", "dst": "h2", "bytes": 5, "collective": c} for c in ("a", "b")]}
    assert controller.put("/v1/jobs/m", job).status == 201
    active(controller)
    rules = [rule for rule in lab.flows("leaf1") if "tp_dst=4791" in rule.match]
    assert len(rules) == 1
    assert "tp_src" not in rules[0].match
    assert controller.get("/v1/routes?host=h1").body["flows"][0]["pieces"][0]["udp_src"] is None


def flow(**changes: object) -> dict[str, Any]:
    return {"flows": [{"src": "h1", "dst": "h2", "bytes": 1, **changes}]}


def over(*ranks: int) -> dict[str, Any]:
    collective = {"name": "c", "op": "all_to_all", "ranks": list(ranks), "bytes": 1}
    return {"hosts": ["h1", "h2"], "collectives": [collective]}


BAD = [
    ({"hosts": ["h1", "nobody"], "collectives": []}, "hosts[1]", "nobody"),
    (flow(bytes=-1), "flows[0].bytes", -1),
    (flow(bytes=10**30), "flows[0].bytes", None),
    (over(0, 5), "collectives[0].ranks[1]", 5),
    (over(0, 0), "collectives[0].ranks[1]", 0),
    ({"hosts": ["h1"], "colectives": []}, "colectives", None),
    ({"flows": flow(udp_src=50000)["flows"] * 2}, "flows[1].udp_src", 50000),
    ({"name": "other", "flows": []}, "name", "other"),
    (flow() | {"qps": 0}, "qps", 0),
    (flow() | {"qps": 10**9}, "qps", 10**9),
    (flow() | {"qps": -1}, "qps", -1),
    (flow() | {"qps": "many"}, "qps", "many"),
    (flow() | {"qps": 2, "qp_mode": "both"}, "qp_mode", "both"),
    (flow(qp_ports=[50001, 50001]) | {"qps": 2}, "flows[0].qp_ports[1]", 50001),
    (flow(qp_ports=[50001, 50000]) | {"qps": 2}, "flows[0].qp_ports[1]", 50000),  # a port of job ``good``
    (flow(qp_numbers=[]) | {"qps": 2}, "flows[0].qp_numbers", None),
]


def test_bad_input_is_a_problem_that_names_field_and_value_and_changes_nothing(bench: Bench, tmp_path: Path) -> None:
    fabric = clos(1, 2, 1)
    _, controller = started(bench, fabric, tmp_path)
    assert (
        controller.put("/v1/jobs/good", {"flows": [{"src": "h1", "dst": "h2", "bytes": 1, "udp_src": 50000}]}).status
        == 201
    )
    active(controller)
    before = controller.get("/v1/plan").body
    for document, field, value in BAD:
        answer = controller.put("/v1/jobs/bad", document)
        assert (answer.status, answer.body.get("field")) == (422, field), answer
        if value is not None:
            assert answer.body["value"] == value
    taken = controller.put("/v1/jobs/bad", flow(udp_src=50000))
    assert taken.status == 422
    assert "good" in taken.body["detail"]
    for name, document in (("a b", {}), ("x" * 64, {})):
        assert controller.put(f"/v1/jobs/{name.replace(' ', '%20')}", document).status == 400
    assert controller.ask("PATCH", "/v1/jobs/good").status == 405
    assert controller.get("/v1/routes?host=nobody").status == 404
    assert controller.get("/v1/nothing").status == 404
    assert controller.get("/v1/plan").body == before
    assert [job["name"] for job in controller.get("/v1/jobs").body["jobs"]] == ["good"]


def test_a_job_too_large_for_a_thread_goes_through_the_worker_process(bench: Bench, tmp_path: Path) -> None:
    fabric = clos(2, 2, 2)
    lab, controller = started(bench, fabric, tmp_path)
    pairs = [(f"h{a}", f"h{b}") for a in (1, 2) for b in (3, 4)]
    flows = [{"src": a, "dst": b, "bytes": 1000 + i, "collective": "c"} for i in range(1500) for a, b in pairs]
    assert len(json.dumps({"flows": flows})) > 300_000
    assert controller.put("/v1/jobs/large", {"flows": flows}).status == 201
    assert len(active(controller)["flows"]) == 6000
    # Flows with neighbouring ports may share a rule.
    assert sum(source_ports(rule.match) for rule in lab.flows("leaf1")) == 6000
    bad = controller.put("/v1/jobs/large2", {"flows": [*flows, {"src": "h1", "dst": "h9", "bytes": 1}]})
    assert (bad.status, bad.body["value"]) == (422, "h9")


def test_the_example_job_pushed_by_curl_as_in_the_tutorial_shows_its_paths_in_dump_flows(bench: Bench) -> None:
    example = "examples/clos-4x4x4.yaml"
    fabric = load_fabric(ROOT / example)
    lab = bench.lab(fabric)
    controller = bench.controller(
        "--config-file", str(ROOT / "etc/fairspine.conf"), "--fabric", str(ROOT / example), "controller.app"
    )
    lab.wait_connected()
    controller.wait_for("all is well", controller.is_well)
    command = re.search(r"curl -T examples/gpt3-a\.json \S+", (ROOT / "docs/tutorial/network.md").read_text())
    assert command, "the tutorial shows the command"
    done = subprocess.run(
        [*command[0].split(), "-s", "-o", "/dev/null", "-w", "%{http_code}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=True,
    )
    assert done.stdout == "201"
    plan = active(controller)
    counted: Counter[str] = Counter()
    for leaf in fabric.leaves:
        counted[leaf.name] = len(re.findall(r"udp,.*tp_dst=4791", lab.ofctl("dump-flows", leaf.name)))
    leaf_of = {host.name: host.leaf for host in fabric.hosts}
    assert counted == Counter(leaf_of[flow["src"]] for flow in plan["flows"] if len(flow["paths"][0]["links"]) == 4)
    assert sum(counted.values()) == 8
