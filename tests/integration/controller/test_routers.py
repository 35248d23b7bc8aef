"""A real controller on fabrics with switches that speak no OpenFlow."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from controller.model.files.clos import clos
from controller.model.files.fabric_file import fabric_document
from tests.rig.http.client import Server
from tests.rig.launcher import refused_by_the_command
from tests.rig.real_controller import controller
from tests.rig.waiting import eventually
from tests.unit.strategies import with_ipv6, with_routers

FABRIC = clos(2, 2, 2)
SAID = "leaf1, leaf2, spine1, spine2 are not OpenFlow switches: fairspine does not change them"
JOB = b'{"flows": [{"src": "h1", "dst": "h3", "bytes": 1000}, {"src": "h2", "dst": "h4", "bytes": 1000}]}'


def got(server: Server, path: str) -> Any:
    return json.loads(server.ask("GET", path).body)


def test_a_fabric_of_routers_is_planned_on_and_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "fabric.yaml"
    file.write_text(yaml.safe_dump(fabric_document(with_routers(FABRIC))))
    with controller(tmp_path, "--fabric", str(file)) as (server, _):
        assert server.ask("PUT", "/v1/jobs/a", JOB).status == 201
        eventually(lambda: got(server, "/healthz")["status"] == "ok", "it waits for no router")
        health = got(server, "/healthz")
        assert health["reasons"] == []
        assert health["switches"] == {"connected": 0, "expected": 0}
        assert health["degraded_service"] == [
            f"{SAID}; no plan is known to hold there, so the speeds of jobs are not known"
        ]
        plan = got(server, "/v1/plan")
        assert plan["active"] is None
        assert plan["plan"]["min_speed"] == 1.0
        assert plan["waits_for"] == []
        fabric = got(server, "/v1/fabric")
        assert [row.get("dpid") for row in fabric["switches"]] == [None] * 4
        assert {(row["kind"], row["connected"]) for row in fabric["switches"]} == {("router", False)}
        assert fabric["cabling"]["findings"] == []
        job = got(server, "/v1/jobs/a")
        assert (job["min_speed"], job["speed"], job["active"]) == (1.0, None, False)
        metrics = server.ask("GET", "/metrics").body.decode()
        assert "fairspine_switches_expected 0.0" in metrics
        assert "fairspine_switch_connected{" not in metrics
        assert SAID in server.log


def test_a_start_is_refused_where_rules_would_lead_through_a_router(tmp_path: Path) -> None:
    file = tmp_path / "fabric.yaml"
    file.write_text(yaml.safe_dump(fabric_document(with_routers(FABRIC, ["spine2"]))))
    said = refused_by_the_command("--fabric", str(file), "--store", f"sqlite:///{tmp_path}/s.db", "controller/app.py")
    assert "links: 'leaf1-spine2': joins an OpenFlow switch and a router" in said


def test_a_start_is_refused_where_an_enforcement_carries_no_ipv6(tmp_path: Path) -> None:
    file = tmp_path / "fabric.yaml"
    file.write_text(yaml.safe_dump(fabric_document(with_ipv6(FABRIC, ["h3"]))))
    said = refused_by_the_command("--fabric", str(file), "--store", f"sqlite:///{tmp_path}/s.db", "controller/app.py")
    assert f"{file}: hosts[2].ip: 'fd00:0:0:2::1': h3 has an IPv6 address" in said
