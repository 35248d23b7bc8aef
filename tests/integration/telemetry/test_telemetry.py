"""Counters of real switches: what hosts send is what links and flows are said to carry."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics

from controller.model.files.clos import clos
from controller.model.files.fabric_file import fabric_document
from emulation.lab import Lab
from tests.rig.bench import Bench
from tests.rig.checks.jobs import SINK, active, routes
from tests.rig.controller import Controller
from tests.rig.waiting import wait_for_pings
from tests.unit.service.reading.full_state import promtool

pytestmark = pytest.mark.switches

FABRIC = clos(2, 2, 2)
JOB = {"flows": [{"src": "h1", "dst": "h3", "bytes": 10**9}, {"src": "h2", "dst": "h4", "bytes": 10**9}]}

STEADY = """
import socket, sys, time
source, target, port, octets, rate = sys.argv[1:]
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind((source, int(port)))
data, sent, began = bytes(int(octets)), 0, time.monotonic()
while True:
    s.sendto(data, (target, 4791))
    sent += 1
    time.sleep(max(began + sent / float(rate) - time.monotonic(), 0))
"""
"""Sends so many datagrams a second, of so many bytes each, until it is ended."""

PACKETS, PAYLOAD = 200, 1000
FRAME = PAYLOAD + 8 + 20 + 14
GBPS = PACKETS * FRAME * 8 / 1e9
"""On each link of a flow; discovery and ARP are less than 2 % of that."""


def link(controller: Controller, name: str) -> dict[str, Any]:
    return next(row for row in controller.get("/v1/links").body["links"] if row["id"] == name)


def near(rate: float | None) -> bool:
    return rate is not None and abs(rate - GBPS) < 0.1 * GBPS


def scraped(controller: Controller) -> dict[tuple[str, str], float]:
    """Samples as OpenMetrics, by name and link, switch or state."""
    response = controller.ask("GET", "/metrics", headers={"Accept": "application/openmetrics-text;version=1.0.0"})
    assert response.status == 200
    assert response.headers["Content-Type"].startswith("application/openmetrics-text")

    def which(labels: Mapping[str, str]) -> str:
        return next((labels[name] for name in ("link", "switch", "operation", "status") if name in labels), "")

    return {
        (sample.name, which(sample.labels)): sample.value
        for family in parse_openmetrics(response.body)
        for sample in family.samples
    }


def test_rates_are_what_hosts_send_through_a_failed_link_and_a_restarted_switch(bench: Bench, tmp_path: Path) -> None:
    path = tmp_path / "fabric.yaml"
    path.write_text(yaml.safe_dump(fabric_document(FABRIC)))
    lab: Lab = bench.lab(FABRIC)
    controller = bench.controller("--fabric", str(path), "--poll-seconds", "1", "controller.app")
    lab.wait_connected()
    controller.wait_for("all is well", controller.is_well)
    wait_for_pings(lab)
    assert controller.put("/v1/jobs/one", JOB).status == 201
    plan = active(controller)
    paths = {flow["src"]: flow["paths"][0]["links"] for flow in plan["flows"]}
    told = {name: body["flows"][0] for name, body in routes(FABRIC, controller).items() if body["flows"]}
    for host in ("h3", "h4"):
        lab.spawn(f"sink-{host}", [sys.executable, "-S", "-c", SINK], host=host)
    for source, flow in told.items():
        address = FABRIC.hosts[FABRIC.host_index[source]].ip
        arguments = [address, flow["dst_ip"], str(flow["pieces"][0]["udp_src"]), str(PAYLOAD), str(PACKETS)]
        lab.spawn(f"sender-{source}", [sys.executable, "-S", "-c", STEADY, *arguments], host=source)

    # Each link of each flow carries what its host sends, and the others nothing to speak of.
    loaded = {name for links in paths.values() for name in links}
    assert len(loaded) == 8

    agreed: set[str] = set()

    def as_sent() -> bool:
        # Each at some moment: on a busy machine, what hosts send comes in bursts.
        for row in controller.get("/v1/links").body["links"]:
            if near(row["rate_gbps"]) if row["id"] in loaded else (row["rate_gbps"] or 0) < GBPS / 5:
                agreed.add(row["id"])
        return agreed == set(FABRIC.link_ids)

    controller.wait_for("links carry what is sent", as_sent)
    body = controller.get("/v1/links").body
    assert body["period"] == 1
    for row in body["links"]:
        assert row["utilisation"] == pytest.approx(row["rate_gbps"] / row["gbps"])
        assert (row["dropped"], row["errors"]) == (0, 0)

    # The same at /metrics; bytes only ever grow.
    before = scraped(controller)
    assert before["fairspine_link_utilisation_ratio", paths["h1"][1]] > GBPS / 100 / 5
    assert before["fairspine_health", "ok"] == 1
    assert before["fairspine_poll_seconds_count", ""] > 1
    assert before["fairspine_polls_failed_total", ""] == 0
    assert before["fairspine_http_requests_total", "putJob"] == 1
    assert controller.get("/v1/nowhere").status == 404
    text = controller.get("/metrics").body
    assert 'fairspine_http_requests_total{method="GET",operation="none",status="4xx"} 1.0' in text
    assert promtool("check", "metrics", text=text) == ""
    uplink = paths["h1"][1]
    spine = uplink.split("->")[1]

    # A cable fails: its links are down, and another spine carries both flows.
    lab.set_cable(f"leaf1-{spine}", False)
    other = next(name for name in ("spine1", "spine2") if name != spine)

    def moved() -> bool:
        rate = link(controller, f"leaf1->{other}")["rate_gbps"]
        return rate is not None and abs(rate - 2 * GBPS) < 0.2 * GBPS

    controller.wait_for("both flows go the other way", moved)
    found = scraped(controller)
    assert found["fairspine_link_up", uplink] == 0
    assert found["fairspine_link_up", f"leaf1->{other}"] == 1
    assert found["fairspine_health", "degraded"] == 1
    assert (
        found["fairspine_link_bytes_total", f"leaf1->{other}"] > before["fairspine_link_bytes_total", f"leaf1->{other}"]
    )
    assert found["fairspine_link_bytes_total", uplink] >= before["fairspine_link_bytes_total", uplink]
    lab.set_cable(f"leaf1-{spine}", True)
    controller.wait_for("all is well", controller.is_well)

    # A switch loses power: nothing is known of what it sends. When it is back, no rate was ever below nothing.
    lab.kill_switch(other)
    controller.wait_for("it is gone", lambda: link(controller, f"{other}->leaf1")["rate_gbps"] is None)
    controller.wait_for("it is told", lambda: scraped(controller)["fairspine_switch_connected", other] == 0)
    assert ("fairspine_link_bytes_total", f"{other}->leaf1") not in scraped(controller)
    lab.start_switch(other)
    seen: list[float] = []

    def known_again() -> bool:
        rates = [row["rate_gbps"] for row in controller.get("/v1/links").body["links"]]
        seen.extend(rate for rate in rates if rate is not None)
        return None not in rates

    controller.wait_for("it is read twice", known_again)
    assert min(seen) >= 0
    controller.wait_for("it is connected", lambda: scraped(controller)["fairspine_switch_connected", other] == 1)

    # A drain shows.
    assert controller.put(f"/v1/fabric/links/leaf2-{spine}", {"drained": True}).status == 200
    found = scraped(controller)
    assert [found["fairspine_link_drained", f"leaf2->{name}"] for name in (spine, other)] == [1, 0]
