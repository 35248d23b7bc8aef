"""Traces of hashed flows in three layers agree with the counters of every link."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import pytest

from controller.model.files.fabric_file import load_fabric
from controller.telemetry.fabric_snapshot import FRESH, WINDOW
from tests.rig.bench import Bench
from tests.rig.checks.fat_tree import EXAMPLE
from tests.rig.checks.jobs import active, started
from tests.rig.checks.traces import fresh, send, traced
from tests.rig.hosts.streams import carried
from tests.rig.waiting import eventually

pytestmark = pytest.mark.switches

FABRIC = load_fabric(EXAMPLE)
# Flows of the first pod, of which one stays in it, and one of another. No sum of some packets is near another sum:
# every placement but the real one contradicts the counters.
PACKETS = {("h1", "h5"): 400, ("h2", "h3"): 900, ("h3", "h9"): 1500, ("h4", "h13"): 2400, ("h9", "h1"): 700}
NOISE = 200
"""Packets of discovery and ARP over a link meanwhile: fewer than half of any flow has."""


def test_under_ecmp_planes_and_cores_inferred_for_sure_are_those_that_counted_the_packets(
    bench: Bench, tmp_path: Path
) -> None:
    lab, controller = started(bench, FABRIC, tmp_path)
    job = {"flows": [{"src": src, "dst": dst, "bytes": many * 10**3} for (src, dst), many in PACKETS.items()]}
    assert controller.put("/v1/jobs/some", job).status == 201
    assert controller.put("/v1/mode", {"mode": "ecmp"}).status == 200
    active(controller)
    first = fresh(controller, lambda body: all("mode is ecmp" in flow["why"] for flow in body["flows"]), "it is ecmp")
    # A reading of counters that is not older than the flows, and none between it and them.
    time.sleep(FRESH + WINDOW)
    traced(controller)
    before = carried(lab, FABRIC)
    send(lab, first["flows"], [PACKETS[flow["src"], flow["dst"]] for flow in first["flows"]])
    told = fresh(
        controller,
        lambda body: all(flow["how"] == "counters" for flow in body["flows"]),
        "counters tell where flows are",
    )
    assert {flow["sure"] for flow in told["flows"]} == {1.0}
    assert {len(flow["real"]) for flow in told["flows"]} == {4, 6}
    expected: Counter[str] = Counter()
    for flow in told["flows"]:
        expected.update(dict.fromkeys(flow["real"][1:-1], PACKETS[flow["src"], flow["dst"]]))

    def strays() -> dict[str, int]:
        after = carried(lab, FABRIC)
        extra = {link: after[link] - before[link] - expected[link] for link in after}
        return {link: many for link, many in extra.items() if not 0 <= many < NOISE}

    eventually(lambda: not strays(), "every link has counted the flows that the trace has on it", shown=strays)
    assert [layer["layer"] for layer in told["layers"]] == [
        "leaf uplinks",
        "aggregation uplinks",
        "aggregation downlinks",
        "leaf downlinks",
    ]
    assert all(layer["flows"]["max_over_mean"] > 1 for layer in told["layers"])
