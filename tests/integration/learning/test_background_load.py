"""On Open vSwitch: what traffic in no plan takes of uplinks is measured, and a planned flow avoids it on request."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from ipaddress import IPv4Address
from pathlib import Path
from threading import Event

import pytest

from controller.learning.sightings import QpKey
from controller.model.files.clos import clos
from tests.rig.bench import Bench
from tests.rig.both_kinds import Bridges, Setup
from tests.rig.checks.fakes import settled
from tests.rig.controller import Controller
from tests.rig.hosts.attacker import attacker
from tests.rig.waiting import eventually, wait_for_pings
from tests.unit.learning.sflow_packets import write_frame

pytestmark = pytest.mark.switches

FABRIC = clos(spines=2, leaves=2, hosts_per_leaf=2, host_gbps=1.0, uplink_gbps=0.01)
"""Uplinks of 10 Mbit/s, in the file: the switches have no such limit, and a busy machine sends that much."""
SIZE, PER_SECOND = 1024, 600
"""5 Mbit/s: half an uplink."""
UPLINKS = ["leaf1->spine1", "leaf1->spine2"]
LONG = 90.0
"""Longest wait for twelve polls half a second apart, on a busy machine."""


@contextmanager
def unplanned(lab: Bridges) -> Iterator[None]:
    """A flow from h2 to h4 that is in no plan."""
    src, dst = (int(IPv4Address(FABRIC.hosts[i].ip)) for i in (1, 3))
    frame, over = write_frame(QpKey(src, dst, 50000, 17), 5, SIZE).hex(), Event()

    def go_on() -> None:
        while not over.is_set():
            send(PER_SECOND, 0.5, frame)

    with attacker(lab, "h2") as send, ThreadPoolExecutor(1) as beside:
        sending = beside.submit(go_on)
        try:
            yield
        finally:
            over.set()
            sending.result()


def background(controller: Controller) -> dict[str, float]:
    """Gbit/s beside the plan on the uplinks of leaf1, as far as they are known."""
    rows = controller.get("/v1/links").body["links"]
    return {row["id"]: row["background_gbps"] or 0.0 for row in rows if row["id"] in UPLINKS}


def uplink(controller: Controller) -> str:
    """The uplink of the planned flow."""
    (flow,) = controller.get("/v1/plan").body["plan"]["flows"]
    (path,) = flow["paths"]
    (found,) = [link for link in path["links"] if link in UPLINKS]
    return str(found)


def test_a_planned_flow_avoids_a_link_that_other_traffic_uses(bench: Bench, tmp_path: Path) -> None:
    setup = Setup(bench, tmp_path)
    controller, address = setup.controller(FABRIC, "--poll-seconds", "0.5")
    lab = setup.switches("open_vswitch", FABRIC, address)
    assert isinstance(lab, Bridges)
    lab.wait_connected()
    settled(controller)
    wait_for_pings(lab)
    job = {"flows": [{"src": "h1", "dst": "h3", "bytes": 10**9, "udp_src": 50001}]}
    assert controller.put("/v1/jobs/a", job).status == 201
    settled(controller)
    with unplanned(lab):
        eventually(lambda: max(background(controller).values()) > 0.002, "it is measured", LONG)
        (busy, load), (idle, none) = sorted(background(controller).items(), key=lambda item: -item[1])
        assert load > 10 * none
        # The flow takes the busy uplink while the other one is drained, and stays there: planning does not know yet.
        cable = idle.replace("->", "-")
        for drained in (True, False):
            assert controller.put(f"/v1/fabric/links/{cable}", {"drained": drained}).status == 200
            settled(controller)
        assert uplink(controller) == busy
        held = lab.held()
        eventually(lambda: background(controller)[busy] > 0.002, "it is measured for the new plan", LONG)
        assert lab.held() == held
        assert uplink(controller) == busy

        assert controller.put("/v1/learning", {"learning": "act"}).status == 200
        eventually(lambda: uplink(controller) == idle, "the flow avoids it", LONG)
        settled(controller)
        assert lab.held() != held
        assert "background load" in " ".join(row["cause"] for row in controller.get("/v1/plans").body["plans"])
    setup.close()
