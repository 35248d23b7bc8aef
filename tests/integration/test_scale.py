"""A fabric of 24 switches that answer as fast as Python can: restarts send nothing, empty switches are filled."""

from __future__ import annotations

from pathlib import Path

from tests.fake_switch.raw.client import Fakes
from tests.integration.harness import Bench, Controller, eventually
from tests.integration.real_controller import free_ports

LEAVES, SPINES, HOSTS = 16, 8, 4
PAIRS = 100
JOB = {
    "hosts": [f"h{number}" for number in range(1, 65, 4)],
    "collectives": [{"name": "c", "op": "all_to_all", "ranks": list(range(16)), "bytes": 10**9}],
}


def settled(controller: Controller) -> None:
    controller.wait_for("all is well", controller.is_well)


def test_a_restart_sends_no_change_and_empty_switches_get_all_that_they_held(bench: Bench, tmp_path: Path) -> None:
    fabric = tmp_path / "fabric.yaml"
    size = f"spines: {SPINES}, leaves: {LEAVES}, hosts_per_leaf: {HOSTS}"
    fabric.write_text(f"clos: {{{size}, host_gbps: 100, uplink_gbps: 100}}\n")
    openflow, http = free_ports(2)
    argv = ["--fabric", str(fabric), "--ofp-tcp-listen-port", str(openflow), "--wsapi-port", str(http)]
    controller = bench.controller(*argv, "controller/app.py", http_port=http)
    with Fakes(LEAVES, SPINES, HOSTS, openflow) as fakes:
        fakes.do("connect")
        settled(controller)
        assert controller.put("/v1/jobs/a2a", JOB).status == 201
        settled(controller)
        assert fakes.do("pairs", count=PAIRS, seed=1)["lost"] == []

        fakes.do("reset")
        controller.kill()
        assert fakes.do("pairs", count=PAIRS, seed=2)["lost"] == []
        controller.start()
        settled(controller)
        assert fakes.do("state")["mods"] == 0

        fakes.do("restart_empty")
        eventually(lambda: fakes.do("filled")["lacking"] == 0, "all switches hold what they held")
        settled(controller)
        assert fakes.do("pairs", count=PAIRS, seed=3)["lost"] == []
        assert fakes.do("state")["unknown"] == {}
    assert bench.problems() == []
