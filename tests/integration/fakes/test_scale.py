"""A fabric of 24 switches that answer as fast as Python can: restarts send nothing, empty switches are filled."""

from __future__ import annotations

from pathlib import Path

from tests.fake_switch.raw.client import Fakes
from tests.rig.bench import Bench
from tests.rig.controller import Controller
from tests.rig.real_controller import free_ports
from tests.rig.waiting import eventually

LEAVES, SPINES, HOSTS = 16, 8, 4
PAIRS = 100
JOB = {
    "hosts": [f"h{number}" for number in range(1, 65, 4)],
    "collectives": [{"name": "c", "op": "all_to_all", "ranks": list(range(16)), "bytes": 10**9}],
}


def started(bench: Bench, folder: Path) -> tuple[Controller, int]:
    """A controller of the fabric, and its port of OpenFlow."""
    fabric = folder / "fabric.yaml"
    size = f"spines: {SPINES}, leaves: {LEAVES}, hosts_per_leaf: {HOSTS}"
    fabric.write_text(f"clos: {{{size}, host_gbps: 100, uplink_gbps: 100}}\n")
    openflow, http = free_ports(2)
    argv = ["--fabric", str(fabric), "--ofp-tcp-listen-port", str(openflow), "--wsapi-port", str(http)]
    return bench.controller(*argv, "controller/app.py", http_port=http), openflow


def settled(controller: Controller) -> None:
    controller.wait_for("all is well", controller.is_well)


def test_a_restart_sends_no_change_and_empty_switches_get_all_that_they_held(bench: Bench, tmp_path: Path) -> None:
    controller, openflow = started(bench, tmp_path)
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


def test_a_rule_changed_by_hand_is_found_by_the_first_reading_and_nothing_else_is_written(
    bench: Bench, tmp_path: Path
) -> None:
    controller, openflow = started(bench, tmp_path)
    with Fakes(LEAVES, SPINES, HOSTS, openflow) as fakes:
        fakes.do("connect")
        settled(controller)
        assert controller.put("/v1/jobs/a2a", JOB).status == 201
        settled(controller)
        controller.kill()
        fakes.do("reset")
        fakes.do("tamper", switch="leaf1")
        assert not fakes.do("repaired", switch="leaf1")["repaired"]
        controller.start()
        settled(controller)
        assert fakes.do("repaired", switch="leaf1")["repaired"]
        state = fakes.do("state")
        assert state["mods"] == 1
        assert state["read_rules"] >= state["rules"]
    assert bench.problems() == []


def test_a_switch_whose_replies_are_damaged_is_told_and_all_others_are_read(bench: Bench, tmp_path: Path) -> None:
    bench.harmless.append((r"(leaf1|0x1): its rules cannot be read", "its replies are damaged"))
    controller, openflow = started(bench, tmp_path)
    with Fakes(LEAVES, SPINES, HOSTS, openflow) as fakes:
        fakes.do("connect")
        settled(controller)
        controller.kill()
        fakes.do("damage", switch="leaf1", damaged=True)
        fakes.do("tamper", switch="leaf2")
        controller.start()
        reason = "its rules cannot be read: the entry at byte 16 of a statistics reply has the impossible length 1"
        told = lambda: controller.get("/healthz").body["reasons"]  # noqa: E731
        eventually(lambda: any(reason in text for text in told()), "the damage is told", shown=told)
        assert {text.split(":")[0] for text in told() if reason in text} <= {"leaf1", "0x1"}
        eventually(lambda: fakes.do("repaired", switch="leaf2")["repaired"], "another switch is read and repaired")
        fakes.do("damage", switch="leaf1", damaged=False)
        settled(controller)
        assert fakes.do("pairs", count=PAIRS, seed=4)["lost"] == []
    assert bench.problems() == []
