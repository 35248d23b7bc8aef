"""Jobs on real switches: what is pushed over HTTP is carried over the planned spines, and over no other."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.files.fabric_file import fabric_document, load_fabric
from controller.model.port_numbers import ROCE_PORT
from controller.southbound.forwarding.base import compile_base
from emulation.lab import Lab
from tests.integration.harness import READY_SECONDS, Bench, Controller, eventually, wait_for_pings
from tests.integration.http_client import PATIENCE_SECONDS
from tests.integration.rule_text import held, source_ports, wanted

pytestmark = pytest.mark.switches

ROOT = Path(__file__).parents[2]
PACKETS = 200
SEND = """
import socket, sys, time
for line in sys.stdin:
    source, destination, port = line.split()
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind((source, int(port)))
    for _ in range(int(sys.argv[1])):
        s.sendto(b"x" * 100, (destination, 4791))
        time.sleep(0.001)
    s.close()
"""


SINK = "import socket, time; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('', 4791)); time.sleep(999)"


def started(bench: Bench, fabric: Fabric, tmp_path: Path, *args: str) -> tuple[Lab, Controller]:
    path = tmp_path / "fabric.yaml"
    path.write_text(yaml.safe_dump(fabric_document(fabric)))
    lab = bench.lab(fabric)
    controller = bench.controller("--fabric", str(path), *args, "controller.app")
    lab.wait_connected()
    controller.wait_for("all is well", controller.is_well)
    # Neighbours are resolved before anything is counted, and nobody answers that the port is closed.
    wait_for_pings(lab)
    for host in fabric.hosts:
        lab.spawn(f"sink-{host.name}", [sys.executable, "-S", "-c", SINK], host=host.name)
    return lab, controller


def active(controller: Controller) -> dict[str, Any]:
    """The newest plan, once every switch has confirmed it."""
    controller.wait_for("the plan is active", controller.plan_is_active)
    plan: dict[str, Any] = controller.get("/v1/plan").body["plan"]
    return plan


def routes(fabric: Fabric, controller: Controller) -> dict[str, dict[str, Any]]:
    """What /v1/routes tells each host."""
    answers = {host.name: controller.get(f"/v1/routes?host={host.name}") for host in fabric.hosts}
    assert {answer.status for answer in answers.values()} == {200}
    return {name: answer.body for name, answer in answers.items()}


def routed_ports(fabric: Fabric, controller: Controller) -> dict[str, int]:
    """The UDP source port of each flow (one that everybody may use where it is unknown)."""
    told = routes(fabric, controller)
    return {flow["id"]: flow["pieces"][0]["udp_src"] or 4242 for body in told.values() for flow in body["flows"]}


def send_all(lab: Lab, fabric: Fabric, controller: Controller) -> None:
    """Each host sends PACKETS datagrams of each of its flows, from the port that /v1/routes tells."""
    ports = routed_ports(fabric, controller)
    for name, body in routes(fabric, controller).items():
        lines = [f"{body['ip']} {flow['dst_ip']} {ports[flow['id']]}" for flow in body["flows"]]
        if lines:
            process = lab.popen(name, [sys.executable, "-c", SEND, str(PACKETS)], stdin=subprocess.PIPE, text=True)
            process.communicate("\n".join(lines), timeout=READY_SECONDS)
            assert process.returncode == 0


def uplink_packets(lab: Lab, fabric: Fabric) -> Counter[str]:
    """Packets that spines have received from each leaf, by link."""
    seen: Counter[str] = Counter()
    for spine in fabric.spines:
        counters = lab.port_counters(spine.name)
        for cable in fabric.cables:
            if cable.upper == spine.name:
                assert cable.upper_port is not None
                seen[f"{cable.lower}->{spine.name}"] += counters[cable.upper_port].rx_packets
    return seen


def check_paths(lab: Lab, fabric: Fabric, controller: Controller) -> dict[str, Any]:
    """Send every flow; the counters must show each on its planned links and nowhere else."""
    plan = active(controller)
    ports = routed_ports(fabric, controller)
    assert set(ports) == {flow["id"] for flow in plan["flows"]}
    expected: Counter[str] = Counter()
    rules = []
    ip = {host.name: host.ip for host in fabric.hosts}
    for flow in plan["flows"]:
        assert len(flow["paths"]) == 1
        links = flow["paths"][0]["links"]
        if len(links) == 4:
            expected[links[1]] += PACKETS
            fields = {"nw_src": ip[flow["src"]], "nw_dst": ip[flow["dst"]], "tp_src": ports[flow["id"]]}
            fields["tp_dst"] = ROCE_PORT
            rules.append((links[1].split("->")[0], {f"{name}={value}" for name, value in fields.items()}))

    def counts() -> list[list[int]]:
        held = {leaf.name: lab.flows(leaf.name) for leaf in fabric.leaves}
        return [[r.packets for r in held[leaf] if match <= set(r.match.split(","))] for leaf, match in rules]

    # Counters of what went before are brought up to date about once a second.
    eventually(lambda: counts() == (time.sleep(1.2), counts())[1], "the counters stand still")
    before, counted = uplink_packets(lab, fabric), counts()
    send_all(lab, fabric, controller)
    # Open vSwitch brings its counters up to date about once a second.
    wanted_counts = [[packets + PACKETS] for (packets,) in counted]
    eventually(lambda: counts() == wanted_counts, "every flow is counted by its own rule")

    def strays() -> dict[str, int]:
        after = uplink_packets(lab, fabric)
        extra = {link: after[link] - before[link] - expected[link] for link in after}
        # Discovery and ARP are the only others: some tens of packets, fewer than any flow has.
        return {link: count for link, count in extra.items() if not 0 <= count < PACKETS // 2}

    eventually(lambda: not strays(), "every flow is on its planned uplink and no other", shown=strays)
    return plan


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


def test_each_job_form_is_carried_on_its_planned_spines_and_leaves_no_rule_behind(bench, tmp_path) -> None:
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


def holds_base_rules_only(lab: Lab, fabric: Fabric) -> bool:
    """Return whether all switches hold the base rules and nothing else of ours."""
    rules = compile_base(fabric)
    return all(
        held(lab, switch.name) == wanted(rules[switch.dpid]) and lab.groups(switch.name) == []
        for switch in fabric.switches
    )


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
    controller.wait_for("it is back", controller.is_well)
    check_paths(lab, fabric, controller)


def test_a_disconnected_leaf_makes_only_its_own_flows_unroutable(bench, tmp_path) -> None:
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


def test_bad_input_is_a_problem_that_names_field_and_value_and_changes_nothing(bench, tmp_path) -> None:
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


def test_a_job_too_large_for_a_thread_goes_through_the_worker_process(bench, tmp_path) -> None:
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


def test_the_example_job_pushed_by_curl_as_in_the_tutorial_shows_its_paths_in_dump_flows(bench) -> None:
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
