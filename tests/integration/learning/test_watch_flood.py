"""Leaves that send ten times the packets that watch windows may: these are counted, and nothing else suffers."""

from __future__ import annotations

import time
from pathlib import Path

from controller.southbound.openflow.connections.connection_context import WATCHED_PER_SECOND
from tests.fake_switch.raw.client import Fakes
from tests.rig.bench import Bench
from tests.rig.controller import Controller
from tests.rig.real_controller import free_ports
from tests.rig.waiting import eventually

LEAVES, SPINES, HOSTS = 8, 4, 4
PACKETS, WHOLE_PACKET = 30_000, 4170
TIMES = 10


def watched(controller: Controller) -> dict[str, int]:
    """Packets of windows so far, by what became of them."""
    rows = [line for line in controller.get("/metrics").body.splitlines() if line.startswith("fairspine_watch_packets")]
    return {row.split('"')[1]: int(float(row.split()[1])) for row in rows}


def test_ten_times_the_budget_is_counted_and_no_link_is_lost(bench: Bench, tmp_path: Path) -> None:
    fabric = tmp_path / "fabric.yaml"
    size = f"spines: {SPINES}, leaves: {LEAVES}, hosts_per_leaf: {HOSTS}"
    fabric.write_text(f"clos: {{{size}, host_gbps: 100, uplink_gbps: 100}}\n")
    openflow, http = free_ports(2)
    argv = ["--fabric", str(fabric), "--ofp-tcp-listen-port", str(openflow), "--wsapi-port", str(http)]
    controller = bench.controller(*argv, "--learning-watch", "on", "controller/app.py", http_port=http)
    with Fakes(LEAVES, SPINES, HOSTS, openflow) as fakes:
        fakes.do("connect")
        controller.wait_for("all is well", controller.is_well)
        epoch = controller.get("/v1/plan").body["computed"]["epoch"]
        began = time.monotonic()
        fakes.do("flood", leaves=LEAVES, per_second=TIMES * WATCHED_PER_SECOND, packets=PACKETS, size=WHOLE_PACKET)
        reasons: set[str] = set()

        def all_counted() -> bool:
            reasons.update(controller.get("/healthz").body["reasons"])
            return bool(fakes.do("flooded")["over"]) and sum(watched(controller).values()) == PACKETS

        eventually(all_counted, "each packet was taken or dropped", shown=lambda: watched(controller))
        # The budget is that of a second, and what comes back to it in the time that the flood took.
        assert 0 < watched(controller)["taken"] <= WATCHED_PER_SECOND * (1 + time.monotonic() - began)
        assert not {reason for reason in reasons if "missing" in reason or "down" in reason}
        links = controller.get("/v1/links").body["links"]
        assert len(links) >= 2 * LEAVES * SPINES
        assert all(link["up"] for link in links)
        controller.wait_for("all is well", controller.is_well)
        assert controller.get("/v1/plan").body["computed"]["epoch"] == epoch
    assert bench.problems() == []
