"""Jobs on real switches: what is pushed over HTTP is carried over the planned spines, and over no other."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller.model.fabric import Fabric, clos
from controller.model.fabric_file import fabric_document, load_fabric
from controller.southbound.base import compile_base
from emulation.lab import Lab
from tests.integration.harness import Bench, Controller, eventually
from tests.integration.rule_text import held, wanted

pytestmark = pytest.mark.switches

ROOT = Path(__file__).parents[2]
PACKETS = 20
SEND = (
    """
import socket, sys
for line in sys.stdin:
    source, destination, port = line.split()
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind((source, int(port)))
    for _ in range(%d):
        s.sendto(b"x" * 100, (destination, 4791))
    s.close()
"""
    % PACKETS
)  # noqa: UP031 (braces belong to the program)


def started(bench: Bench, fabric: Fabric, tmp_path: Path, *args: str) -> tuple[Lab, Controller]:
    path = tmp_path / "fabric.yaml"
    path.write_text(yaml.safe_dump(fabric_document(fabric)))
    lab = bench.lab(fabric)
    controller = bench.controller("--fabric", str(path), *args, "controller.app")
    lab.wait_connected()
    controller.wait_for("all is well", lambda: controller.get("/healthz").body["status"] == "ok")
    # Neighbours are resolved before anything is counted.
    assert lab.ping_all() == []
    return lab, controller


def active(controller: Controller) -> dict[str, Any]:
    """The newest plan, once every switch has confirmed it."""

    def is_active() -> bool:
        body = controller.get("/v1/plan").body
        return bool(body["active"] and body["active"]["epoch"] == body["computed"]["epoch"])

    controller.wait_for("the plan is active", is_active, 10)
    plan: dict[str, Any] = controller.get("/v1/plan").body["plan"]
    return plan


def send_all(lab: Lab, fabric: Fabric, controller: Controller) -> dict[str, int]:
    """Each host sends PACKETS datagrams of each of its flows, from the port that /v1/routes tells; flows by id."""
    ports = {}
    for host in fabric.hosts:
        routes = controller.get(f"/v1/routes?host={host.name}")
        assert routes.status == 200, routes
        lines = []
        for flow in routes.body["flows"]:
            port = flow["pieces"][0]["udp_src"] or 4242
            ports[flow["id"]] = port
            lines.append(f"{routes.body['ip']} {flow['dst_ip']} {port}")
        if lines:
            process = lab.popen(host.name, [sys.executable, "-c", SEND], stdin=subprocess.PIPE, text=True)
            process.communicate("\n".join(lines), timeout=20)
            assert process.returncode == 0
    return ports


def uplink_packets(lab: Lab, fabric: Fabric) -> Counter[str]:
    """Packets that spines have received from each leaf, by link."""
    seen: Counter[str] = Counter()
    for spine in fabric.spines:
        counters = lab.port_counters(spine.name)
        for cable in fabric.cables:
            if cable.spine == spine.name:
                assert cable.spine_port is not None
                seen[f"{cable.leaf}->{spine.name}"] += counters[cable.spine_port].rx_packets
    return seen


def check_paths(lab: Lab, fabric: Fabric, controller: Controller) -> dict[str, Any]:
    """Send every flow; the counters must show each on its planned links and nowhere else."""
    plan = active(controller)
    before = uplink_packets(lab, fabric)
    ports = send_all(lab, fabric, controller)
    assert set(ports) == {flow["id"] for flow in plan["flows"]}
    expected: Counter[str] = Counter()
    ip = {host.name: host.ip for host in fabric.hosts}
    for flow in plan["flows"]:
        assert len(flow["paths"]) == 1
        links = flow["paths"][0]["links"]
        if len(links) == 4:
            expected[links[1]] += PACKETS
            leaf = links[1].split("->")[0]
            match = {
                f"nw_src={ip[flow['src']]}",
                f"nw_dst={ip[flow['dst']]}",
                f"tp_src={ports[flow['id']]}",
                "tp_dst=4791",
            }
            counted = [rule.packets for rule in lab.flows(leaf) if match <= set(rule.match.split(","))]
            assert counted == [PACKETS], (flow["id"], counted)

    def arrived() -> bool:
        after = uplink_packets(lab, fabric)
        # Discovery packets are the only others: a few a second on each link.
        return all(0 <= after[link] - before[link] - expected[link] < PACKETS for link in after)

    eventually(arrived, "every flow is on its planned uplink and no other", 5)
    return plan


FORMS = {
    "ring": {"hosts": ["h1", "h5", "h9", "h13"], "collectives": [{"name": "r", "op": "all_reduce", "algorithm": "ring", "ranks": [0, 1, 2, 3], "bytes": 10**9}]},
    "direct": {"hosts": ["h2", "h6", "h10"], "collectives": [{"name": "d", "op": "all_reduce", "algorithm": "direct", "ranks": [0, 1, 2], "bytes": 10**9}]},
    "all-to-all": {"hosts": ["h1", "h5", "h9", "h13"], "collectives": [{"name": "a", "op": "all_to_all", "ranks": [0, 1, 2, 3], "bytes": 10**9}]},
    "gather and scatter": {
        "hosts": ["h3", "h7"],
        "collectives": [
            {"name": "g", "op": "all_gather", "ranks": [0, 1], "bytes": 10**8},
            {"name": "s", "op": "reduce_scatter", "ranks": [0, 1], "bytes": 10**8, "phase": 1},
            {"name": "p", "op": "send_recv", "ranks": [0, 1], "bytes": 10**7, "phase": 2},
        ],
    },
    "flows": {"flows": [{"src": "h1", "dst": "h5", "bytes": 5, "udp_src": 50000}, {"src": "h1", "dst": "h5", "bytes": 7}, {"src": "h4", "dst": "h3", "bytes": 1}]},
    "matrix": {"matrix": {"hosts": ["h8", "h12", "h16"], "bytes": [[0, 1, 2], [3, 0, 4], [5, 6, 0]]}},
}  # fmt: skip


def test_each_job_form_is_carried_on_its_planned_spines_and_leaves_no_rule_behind(bench, tmp_path) -> None:
    fabric = clos(4, 4, 4)
    lab, controller = started(bench, fabric, tmp_path)
    for name, document in FORMS.items():
        job = name.replace(" ", "-")
        answer = controller.put(f"/v1/jobs/{job}", document)
        assert answer.status == 201, answer
        check_paths(lab, fabric, controller)
        assert controller.delete(f"/v1/jobs/{job}").status == 204
        assert active(controller)["flows"] == []
        for switch in (*fabric.leaves, *fabric.spines):
            assert held(lab, switch.name) == wanted(compile_base(fabric)[switch.dpid])
            assert lab.groups(switch.name) == []


def test_two_jobs_at_once_one_replaced_one_removed(bench, tmp_path) -> None:
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


def test_a_failed_link_moves_its_flows_and_only_live_links_are_used(bench, tmp_path) -> None:
    fabric = clos(2, 2, 2)
    lab, controller = started(bench, fabric, tmp_path)
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
    controller.wait_for("it is back", lambda: controller.get("/healthz").body["status"] == "ok")
    check_paths(lab, fabric, controller)


def test_a_leaf_that_is_cut_off_makes_its_own_flows_unroutable_and_nobody_elses(bench, tmp_path) -> None:
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


def test_flows_whose_ports_are_unknown_share_one_rule_a_host_pair(bench, tmp_path) -> None:
    fabric = clos(2, 2, 1)
    lab, controller = started(bench, fabric, tmp_path)
    job = {"ports": "unknown", "flows": [{"src": "h1", "dst": "h2", "bytes": 5, "collective": c} for c in ("a", "b")]}
    assert controller.put("/v1/jobs/m", job).status == 201
    active(controller)
    rules = [rule for rule in lab.flows("leaf1") if "tp_dst=4791" in rule.match]
    assert len(rules) == 1
    assert "tp_src" not in rules[0].match
    assert controller.get("/v1/routes?host=h1").body["flows"][0]["pieces"][0]["udp_src"] is None


BAD = [
    ({"hosts": ["h1", "nobody"], "collectives": []}, 422, "hosts[1]", "nobody"),
    ({"flows": [{"src": "h1", "dst": "h2", "bytes": -1}]}, 422, "flows[0].bytes", -1),
    ({"flows": [{"src": "h1", "dst": "h2", "bytes": 10**30}]}, 422, "flows[0].bytes", None),
    ({"hosts": ["h1"], "collectives": [{"name": "c", "op": "all_to_all", "ranks": [0, 5], "bytes": 1}]}, 422, "collectives[0].ranks[1]", 5),
    ({"hosts": ["h1", "h2"], "collectives": [{"name": "c", "op": "all_to_all", "ranks": [0, 0], "bytes": 1}]}, 422, "collectives[0].ranks[1]", 0),
    ({"hosts": ["h1"], "colectives": []}, 422, "colectives", None),
    ({"flows": [{"src": "h1", "dst": "h2", "bytes": 1, "udp_src": 50000}] * 2}, 422, "flows[1].udp_src", 50000),
    ({"name": "other", "flows": []}, 422, "name", "other"),
]  # fmt: skip


def test_bad_input_is_a_problem_that_names_field_and_value_and_changes_nothing(bench, tmp_path) -> None:
    fabric = clos(1, 2, 1)
    _, controller = started(bench, fabric, tmp_path)
    assert (
        controller.put("/v1/jobs/good", {"flows": [{"src": "h1", "dst": "h2", "bytes": 1, "udp_src": 50000}]}).status
        == 201
    )
    active(controller)
    before = controller.get("/v1/plan").body
    for document, status, field, value in BAD:
        answer = controller.put("/v1/jobs/bad", document)
        assert (answer.status, answer.body.get("field")) == (status, field), answer
        if value is not None:
            assert answer.body["value"] == value
    taken = controller.put("/v1/jobs/bad", {"flows": [{"src": "h1", "dst": "h2", "bytes": 1, "udp_src": 50000}]})
    assert taken.status == 422
    assert "good" in taken.body["detail"]
    for name, document in (("a b", {}), ("x" * 64, {})):
        assert controller.put(f"/v1/jobs/{name.replace(' ', '%20')}", document).status == 400
    assert controller.ask("PATCH", "/v1/jobs/good").status == 405
    assert controller.get("/v1/routes?host=nobody").status == 404
    assert controller.get("/v1/nothing").status == 404
    assert controller.get("/v1/plan").body == before
    assert [job["name"] for job in controller.get("/v1/jobs").body["jobs"]] == ["good"]


def test_a_job_too_large_for_a_thread_goes_through_the_worker_process(bench, tmp_path) -> None:
    fabric = clos(2, 2, 2)
    lab, controller = started(bench, fabric, tmp_path)
    pairs = [(f"h{a}", f"h{b}") for a in (1, 2) for b in (3, 4)]
    flows = [{"src": a, "dst": b, "bytes": 1000 + i, "collective": "c"} for i in range(1500) for a, b in pairs]
    assert len(json.dumps({"flows": flows})) > 300_000
    assert controller.put("/v1/jobs/large", {"flows": flows}).status == 201
    assert len(active(controller)["flows"]) == 6000
    assert sum("tp_src" in rule.match for rule in lab.flows("leaf1")) == 6000
    bad = controller.put("/v1/jobs/large2", {"flows": [*flows, {"src": "h1", "dst": "h9", "bytes": 1}]})
    assert (bad.status, bad.body["value"]) == (422, "h9")


def test_the_example_job_pushed_by_curl_as_in_the_readme_shows_its_paths_in_dump_flows(bench) -> None:
    example = "examples/clos-4x4x4.yaml"
    fabric = load_fabric(ROOT / example)
    lab = bench.lab(fabric)
    controller = bench.controller(
        "--config-file", str(ROOT / "etc/fairspine.conf"), "--fabric", str(ROOT / example), "controller.app"
    )
    lab.wait_connected()
    controller.wait_for("all is well", lambda: controller.get("/healthz").body["status"] == "ok")
    command = re.search(r"curl -T examples/gpt3-a\.json \S+", (ROOT / "README.md").read_text())
    assert command, "the README shows the command"
    done = subprocess.run(
        [*command[0].split(), "-s", "-o", "/dev/null", "-w", "%{http_code}"],
        cwd=ROOT, capture_output=True, text=True, timeout=30, check=True,
    )  # fmt: skip
    assert done.stdout == "201"
    plan = active(controller)
    counted: Counter[str] = Counter()
    for leaf in fabric.leaves:
        counted[leaf.name] = len(re.findall(r"udp,.*tp_dst=4791", lab.ofctl("dump-flows", leaf.name)))
    leaf_of = {host.name: host.leaf for host in fabric.hosts}
    assert counted == Counter(leaf_of[flow["src"]] for flow in plan["flows"] if len(flow["paths"][0]["links"]) == 4)
    assert sum(counted.values()) == 8
