"""Agents of hosts at a real controller of a fabric of routers: waiting, tokens, and what is refused."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import yaml

from controller.core.caller import Role
from controller.model.files.clos import clos
from controller.model.files.fabric_file import fabric_document
from controller.rest.security.tokens import new_token
from tests.rig.http.client import Reply, Server
from tests.rig.launcher import refused_by_the_command
from tests.rig.real_controller import controller
from tests.rig.waiting import eventually
from tests.unit.strategies import with_routers

FABRIC = with_routers(clos(2, 2, 2))
JOB = b'{"flows": [{"src": "h1", "dst": "h3", "bytes": 1000, "udp_src": 50001}]}'
WAITING = 300


def ask(server: Server, secret: str, method: str, target: str, document: Any = None) -> Reply:
    body = None if document is None else json.dumps(document).encode()
    headers = {"Authorization": f"Bearer {secret}", "Content-Type": "application/json"}
    return server.ask(method, target, body, headers)


def test_an_agent_waits_for_its_plan_confirms_it_and_may_do_nothing_else(tmp_path: Path) -> None:
    made = {
        name: new_token(name, role, host)
        for name, role, host in (("ops", Role.WRITE, None), ("a1", Role.HOST, "h1"), ("a3", Role.HOST, "h3"))
    }
    tokens, file = tmp_path / "tokens", tmp_path / "fabric.yaml"
    tokens.write_text("".join(f"{token.line()}\n" for token, _ in made.values()))
    file.write_text(yaml.safe_dump(fabric_document(FABRIC)))
    ops, one, three = (made[name][1] for name in ("ops", "a1", "a3"))
    options = ("--fabric", str(file), "--enforcement", "srv6", "--tokens", str(tokens))
    with controller(tmp_path, *options, secret=ops) as (server, _):

        def health() -> Any:
            return json.loads(ask(server, ops, "GET", "/healthz").body)

        first = ask(server, one, "GET", "/v1/hosts/h1/segments?wait=60")
        assert first.status == 200
        plan = json.loads(first.body)
        assert (plan["host"], plan["flows"]) == ("h1", [])
        known = f"after={plan['epoch']}&digest={plan['digest']}"
        assert ask(server, one, "GET", f"/v1/hosts/h1/segments?{known}").status == 304

        for method, target, document in (
            ("GET", "/v1/hosts/h3/segments", None),
            ("POST", "/v1/hosts/h3/report", {"epoch": None}),
            ("GET", "/v1/hosts", None),
            ("GET", "/v1/plan", None),
            ("PUT", "/v1/mode", {"mode": "ecmp"}),
        ):
            refused = ask(server, one, method, target, document)
            assert refused.status == 403
            assert "which reads and reports only itself" in str(refused.problem["detail"])
        assert json.loads(ask(server, one, "GET", "/healthz").body) == {"status": "ok"}
        assert ask(server, ops, "GET", "/v1/hosts/h9/segments").status == 404
        wrong = ask(server, one, "POST", "/v1/hosts/h1/report", {"epoch": plan["epoch"]})
        assert (wrong.status, wrong.problem["field"]) == (422, "digest")

        # Requests that wait take no place of others.
        answers: list[Reply] = []

        def wait() -> None:
            answers.append(ask(server, one, "GET", f"/v1/hosts/h1/segments?{known}&wait=60"))

        waiting = [threading.Thread(target=wait) for _ in range(WAITING)]
        for thread in waiting:
            thread.start()
        assert ask(server, ops, "PUT", "/v1/jobs/a", json.loads(JOB)).status == 201
        for thread in waiting:
            thread.join()
        assert {answer.status for answer in answers} == {200}
        plans = [json.loads(answer.body) for answer in answers]
        assert all(each == plans[0] for each in plans)
        (flow,) = plans[0]["flows"]
        assert (flow["src_port"], len(flow["backups"])) == (50001, 1)

        agents = {"expected": 2, "heard": 1, "confirmed": 0}
        eventually(lambda: health()["agents"] == agents, "one is heard", shown=health)
        for host, secret in (("h1", one), ("h3", three)):
            held = json.loads(ask(server, secret, "GET", f"/v1/hosts/{host}/segments").body)
            report = {"epoch": held["epoch"], "digest": held["digest"]}
            if host == "h1":
                report["counters"] = {"pause_received": [None] * 3 + [41] + [None] * 4, "ecn_marked": 310}
            assert ask(server, secret, "POST", f"/v1/hosts/{host}/report", report).status == 204
        eventually(lambda: health()["status"] == "ok", "both have confirmed", shown=health)
        assert health()["agents"] == {"expected": 2, "heard": 2, "confirmed": 2}
        metrics = ask(server, ops, "GET", "/metrics").body.decode()
        assert 'fairspine_agents{state="confirmed"} 2.0' in metrics
        assert 'fairspine_host_pause_frames_total{class="3",direction="received",host="h1"} 41.0' in metrics
        assert [
            line for line in metrics.splitlines() if line.startswith("fairspine_host_ecn_marked_packets_total")
        ] == ['fairspine_host_ecn_marked_packets_total{host="h1"} 310.0']
        rows = {row["host"]: row for row in json.loads(ask(server, ops, "GET", "/v1/hosts").body)["hosts"]}
        assert rows["h1"]["counters"]["pause_received"][3] == 41
        assert rows["h1"]["counters"]["sent_dropped"] is None
        assert rows["h3"]["counters"] is None

        # Without a plan, hosts go on with the paths of the one before until they have confirmed that.
        assert ask(server, ops, "PUT", "/v1/mode", {"mode": "ecmp"}).status == 200
        agents = {"expected": 2, "heard": 2, "confirmed": 0}
        eventually(lambda: health()["agents"] == agents, "none has confirmed that", shown=health)
        assert json.loads(ask(server, one, "GET", "/v1/hosts/h1/segments").body)["flows"] == []

        # Packets of a job in any order have a set of paths, of which the weights are those of its pieces.
        assert ask(server, ops, "PUT", "/v1/mode", {"mode": "planned"}).status == 200
        assert ask(server, ops, "PUT", "/v1/jobs/a", {**json.loads(JOB), "order": "any"}).status == 200
        (flow,) = json.loads(ask(server, one, "GET", "/v1/hosts/h1/segments").body)["flows"]
        assert [(each["weight"], each["probe"] is None) for each in flow["paths"]] == [(0.5, False)] * 2
        assert flow["carrier"] in {each["carrier"] for each in flow["paths"]}
        assert flow["backups"] == []
        (route,) = json.loads(ask(server, ops, "GET", "/v1/routes?host=h1").body)["flows"]
        assert [(piece["share"], piece["udp_src"]) for piece in route["pieces"]] == [(0.5, 50001)] * 2

        # An enforcement by switches cannot hold here: it is refused, and nothing has changed.
        before = json.loads(ask(server, ops, "GET", "/v1/mode").body)
        refused = ask(server, ops, "PUT", "/v1/mode", {"enforcement": "per_flow"})
        assert refused.status == 409
        assert "\n" not in str(refused.problem["detail"])
        assert json.loads(ask(server, ops, "GET", "/v1/mode").body) == before
        assert ask(server, one, "GET", "/v1/hosts/h1/segments").status == 200


def test_a_start_is_refused_where_ports_share_an_address_or_an_option_is_wrong(tmp_path: Path) -> None:
    file, store = tmp_path / "fabric.yaml", f"sqlite:///{tmp_path}/s.db"
    for fabric, options, message in (
        (clos(2, 2, 1, planes=2, bond=True), (), "hosts: ports that share an address cannot be told apart"),
        (clos(2, 2, 1), ("--enforcement", "per_flow", "--policy", "spray"), "policy: 'spray': it spreads packets"),
        (FABRIC, ("--srv6-block", "fc00::/40"), "a block has 16, 32 or 48 bits"),
        (FABRIC, ("--srv6-cables", "leaf"), "srv6_cables: 'leaf': is not an IPv6 prefix"),
    ):
        file.write_text(yaml.safe_dump(fabric_document(fabric)))
        said = refused_by_the_command(
            "--fabric", str(file), "--enforcement", "srv6", *options, "--store", store, "controller/app.py"
        )
        assert message in said
