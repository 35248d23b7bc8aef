"""The dashboard of an optical fabric."""

from __future__ import annotations

import json
import subprocess

import pytest

from controller.circuits.fabric.optical_file import parse_optical_fabric
from emulation.circuits.agents import CircuitAgents
from emulation.circuits.lab import CircuitLab
from tests.rig.bench import Bench
from tests.rig.page.axe import violations
from tests.rig.page.browser import Browser
from tests.rig.real_controller import free_ports


def test_an_optical_fabric_shows_circuits_in_place_of_links(bench: Bench, page: Browser) -> None:
    bench.out.mkdir(parents=True, exist_ok=True)
    file = bench.out / "fabric.json"
    file.write_text(json.dumps({"optical": {"servers": 4, "nics": 2}}))
    openflow, http = free_ports(2)
    options = "--fabric", str(file), "--ofp-tcp-listen-port", str(openflow), "--wsapi-port", str(http)
    bench.controller(*options, "controller.app", http_port=http)
    page.open(http, shown=False)
    page.until("#panel-rows tr", "panels are there")
    assert "ocs1" in page.text("#panel-rows")
    assert "✕ not connected" in page.text("#panel-rows")
    page.until(lambda: "ocs2 is not connected" in page.text("#reasons"), "health has what is wrong")
    assert page.text("#enforcement") == "circuits"
    assert page.run("return getComputedStyle(document.querySelector('.links')).display") == "none"
    assert violations(page) == []
    assert page.complaints() == []


@pytest.mark.switches
def test_a_failed_circuit_and_the_routes_around_it_are_on_the_page(bench: Bench, page: Browser) -> None:
    bench.out.mkdir(parents=True, exist_ok=True)
    document = {"optical": {"servers": 4, "nics": 2, "gbps": 20, "reconfigure_seconds": 0}}
    file = bench.out / "fabric.json"
    file.write_text(json.dumps(document))
    openflow, http = free_ports(2)
    options = ["--fabric", str(file), "--ofp-tcp-listen-port", str(openflow), "--wsapi-port", str(http)]
    fabric = parse_optical_fabric(document)
    ring = {"name": "dp", "op": "all_reduce", "ranks": [0, 1, 2, 3], "bytes": 10**6}
    with CircuitLab(fabric, out=bench.out, controller=("127.0.0.1", openflow)) as lab:
        controller = bench.controller(*options, "--circuit-effort", "0.01", "controller.app", http_port=http)
        with CircuitAgents(lab, ("127.0.0.1", http)):
            assert controller.put("/v1/jobs/a", {"hosts": list(fabric.servers), "collectives": [ring]}).status == 201
            page.open(http, shown=False)
            page.until(
                lambda: "8 circuits, 0 failed; no change is under way" in page.text("#circuits-note"), "all work"
            )
            page.until(lambda: page.text("#server-rows").count("confirmed") == 4, "servers have confirmed")
            assert "✕" not in page.text("#circuit-rows")
            # A port goes down: two circuits have it.
            bridge = lab.wiring.switch("ocs1")
            port = f"{bridge.bridge}-1"
            subprocess.run(["ip", "link", "set", "dev", port, "down"], check=True)
            page.until(lambda: "8 circuits, 2 failed" in page.text("#circuits-note"), "the page says so")
            page.until(lambda: page.text("#circuit-rows").count("✕ failed") == 2, "the circuits are marked")
            first = page.texts("#circuit-rows tr")[:2]
            assert all("ocs1" in row and "✕ failed" in row for row in first), "what failed is first"
            reasons = page.attributes("#circuit-rows tr:first-child td:last-child", "title")
            assert reasons == ["port 1 is down"]
            page.until(lambda: "carries nothing: port 1 is down" in page.text("#reasons"), "health has the reason")
            assert violations(page) == []
            subprocess.run(["ip", "link", "set", "dev", port, "up"], check=True)
            page.until(lambda: "8 circuits, 0 failed" in page.text("#circuits-note"), "the port is back")
            page.until(lambda: "carries nothing" not in page.text("#reasons"), "health is well again")
            assert page.complaints() == []
