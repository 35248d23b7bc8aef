"""A running controller on an optical fabric: jobs come and go in stages without loss, and circuits fail and return."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from controller.circuits.fabric.optical_file import parse_optical_fabric
from controller.cli.main import main
from controller.rest import schemas
from emulation.circuits.agents import CircuitAgents
from emulation.circuits.lab import CircuitLab
from emulation.circuits.losses import losses_during
from tests.rig.bench import Bench
from tests.rig.controller import Controller
from tests.rig.waiting import eventually

pytestmark = pytest.mark.switches

DOCUMENT = {"optical": {"servers": 4, "nics": 3, "gbps": 20, "reconfigure_seconds": 0.2}}
FABRIC = parse_optical_fabric(DOCUMENT)
PORT = 6653


def job(servers: int) -> dict[str, Any]:
    """A job on the first servers with an all-to-all: with as many NICs as peers, each pair gets a circuit."""
    calls = [{"name": "mp", "op": "all_to_all", "ranks": list(range(servers)), "bytes": 600_000}]
    return {"hosts": list(FABRIC.servers[:servers]), "collectives": calls}


def in_pairs() -> dict[str, Any]:
    """A job on all servers with an all-reduce and much more between pairs, which get several circuits."""
    names = FABRIC.servers
    pairs = [(0, 1), (1, 0), (2, 3), (3, 2)]
    return {
        "hosts": list(names),
        "collectives": [{"name": "dp", "op": "all_reduce", "ranks": [0, 1, 2, 3], "bytes": 60_000}],
        "flows": [{"src": names[src], "dst": names[dst], "bytes": 4_000_000} for src, dst in pairs],
    }


def to_two() -> dict[str, Any]:
    """A job in which each server sends much to two others: it needs other circuits if it loses one of its NICs."""
    names = FABRIC.servers
    sizes = ((1, 4_000_000), (2, 3_000_000), (3, 100_000))
    flows = [{"src": names[i], "dst": names[(i + s) % 4], "bytes": size} for i in range(4) for s, size in sizes]
    return {**in_pairs(), "flows": flows}


@contextmanager
def controlled(bench: Bench, tmp_path: Path, *options: str) -> Iterator[tuple[Controller, CircuitLab]]:
    file = tmp_path / "fabric.json"
    file.write_text(json.dumps(DOCUMENT))
    with CircuitLab(FABRIC, out=bench.out, controller=("127.0.0.1", PORT)) as lab:
        controller = bench.controller("--fabric", str(file), "--circuit-effort", "0.05", *options, "controller.app")
        lab.prepare_for_load()
        with CircuitAgents(lab):
            yield controller, lab
        assert lab.problems() == []


@pytest.fixture
def running(bench: Bench, tmp_path: Path) -> Iterator[tuple[Controller, CircuitLab]]:
    with controlled(bench, tmp_path, "--circuit-dead-seconds", "3600") as both:
        yield both


def circuits(controller: Controller) -> dict[str, Any]:
    document: dict[str, Any] = controller.get("/v1/circuits").body
    return document


def steady(controller: Controller, *jobs: str) -> bool:
    """Whether these jobs have all their circuits, every panel and server has confirmed them, and nothing is wrong."""
    now, health = circuits(controller), controller.get("/v1/health").body
    served = sorted(name for shard in now["shards"] for name in shard["jobs"])
    active = [row["active"] for row in controller.get("/v1/jobs").body["jobs"]]
    confirmed = [row["confirmed"] for row in now["servers"] if row["needed"]]
    return served == sorted(jobs) and all(active) and all(confirmed) and health["status"] == "ok"


def wait(controller: Controller, *jobs: str) -> None:
    eventually(
        lambda: steady(controller, *jobs),
        f"{jobs} are served",
        shown=lambda: (controller.get("/v1/health").body, circuits(controller)),
    )


def test_jobs_come_and_go_without_loss_and_failures_are_routed_around(
    running: tuple[Controller, CircuitLab], bench: Bench, capfd: pytest.CaptureFixture[str]
) -> None:
    controller, lab = running
    assert controller.put("/v1/jobs/a", in_pairs()).status == 201
    wait(controller, "a")
    schemas.CircuitsDocument.model_validate(circuits(controller))
    # Another version of the job gets other circuits, while all servers send to all others.
    first = {(row["switch"], row["in_port"], row["out_port"]) for row in circuits(controller)["circuits"]}

    def change() -> None:
        assert controller.put("/v1/jobs/a", job(4)).status == 200
        wait(controller, "a")

    losses = losses_during(lab, 1, change)
    assert losses.arrived == losses.sent > 0
    second = circuits(controller)["circuits"]
    assert {(row["switch"], row["in_port"], row["out_port"]) for row in second} != first
    # A port goes down: both of its circuits fail, and packets arrive by others.
    row = second[0]
    bridge = lab.wiring.switch(row["switch"])
    port = f"{bridge.bridge}-{row['out_port']}"
    subprocess.run(["ip", "link", "set", "dev", port, "down"], check=True)

    def around() -> bool:
        now = circuits(controller)
        failed = [each for each in now["circuits"] if each["state"] == "failed"]
        return (
            len(failed) == 2
            and now["shards"][0]["seconds_now"] is not None
            and all(each["confirmed"] for each in now["servers"])
        )

    eventually(around, "routes lead around", shown=lambda: circuits(controller))
    reasons = controller.get("/v1/health").body["reasons"]
    assert any(f"carries nothing: port {row['out_port']} is down" in reason for reason in reasons)
    pings = [("h1", 3), ("h3", 1), (row["from"], int(row["to"][1:]))]
    for src, dst in pings:
        said = lab.run(src, ["ping", "-q", "-c", "3", "-i", "0.05", "-W", "20", f"10.0.{dst}.1"], timeout=100).stdout
        assert " 3 received" in said
    subprocess.run(["ip", "link", "set", "dev", port, "up"], check=True)
    wait(controller, "a")
    # Somebody takes a rule and a route away: both come back.
    lab.ovs.ofctl("del-flows", bridge, f"in_port={row['in_port']}")
    held = lambda: f"in_port={row['in_port']} actions=" in lab.ovs.ofctl("dump-flows", bridge, "--no-names")  # noqa: E731
    eventually(held, "the rule is set again")
    route = lab.run("h1", ["ip", "route", "show", "10.0.3.0/24"], timeout=100).stdout
    lab.run("h1", ["ip", "route", "del", "10.0.3.0/24"], timeout=100)
    again = lambda: lab.run("h1", ["ip", "route", "show", "10.0.3.0/24"], timeout=100).stdout == route  # noqa: E731
    eventually(again, "the route is set again")
    # Jobs go and others come, on other servers.
    assert controller.delete("/v1/jobs/a").status == 204
    assert controller.put("/v1/jobs/b", job(3)).status == 201
    wait(controller, "b")
    assert controller.put("/v1/jobs/c", {**job(4), "hosts": ["h1"]}).status == 422
    assert controller.get("/v1/plan").status == 409

    def says_well() -> bool:
        capfd.readouterr()
        with pytest.raises(SystemExit) as end:
            main(["status", "--url", f"http://127.0.0.1:{controller.http_port}"])
        return not end.value.code

    # An agent of a busy machine may be late for a moment.
    eventually(says_well, "fairspine status says that all is well", shown=lambda: capfd.readouterr())
    assert "enforced by circuits" in capfd.readouterr().out
    # A restarted controller takes over what panels hold, and changes nothing.
    circuits_held = lambda: set(lab.carried())  # noqa: E731
    before = circuits_held()
    controller.stop()
    controller.start()
    wait(controller, "b")
    assert circuits_held() == before
    assert bench.problems() == []


def test_circuits_are_planned_anew_without_a_dead_port_and_with_it_again(bench: Bench, tmp_path: Path) -> None:
    """The spare NIC of the server takes over: routes around the port would load other circuits twice."""

    def ports(controller: Controller) -> set[tuple[str, int]]:
        rows = circuits(controller)["circuits"]
        return {(row["switch"], row[end]) for row in rows for end in ("in_port", "out_port")}

    with controlled(bench, tmp_path, "--circuit-dead-seconds", "1") as (controller, lab):
        assert controller.put("/v1/jobs/a", to_two()).status == 201
        wait(controller, "a")
        first = circuits(controller)["circuits"]
        row = max(first, key=lambda one: one["bytes"])
        dead = row["switch"], row["in_port"]
        port = f"{lab.wiring.switch(row['switch']).bridge}-{row['in_port']}"
        subprocess.run(["ip", "link", "set", "dev", port, "down"], check=True)
        gone = lambda: dead not in ports(controller) and steady(controller, "a")  # noqa: E731
        eventually(gone, "no circuit has the dead port", shown=lambda: circuits(controller))
        for src, dst in (("h1", 2), ("h2", 1), ("h3", 1), ("h1", 4)):
            said = lab.run(
                src, ["ping", "-q", "-c", "3", "-i", "0.05", "-W", "20", f"10.0.{dst}.1"], timeout=100
            ).stdout
            assert " 3 received" in said
        # A controller that starts while the port is down makes the same circuits.
        before = set(lab.carried())
        controller.stop()
        controller.start()
        wait(controller, "a")
        assert set(lab.carried()) == before
        subprocess.run(["ip", "link", "set", "dev", port, "up"], check=True)
        back = lambda: circuits(controller)["circuits"] == first and steady(controller, "a")  # noqa: E731
        eventually(back, "the first circuits are back", shown=lambda: circuits(controller))
