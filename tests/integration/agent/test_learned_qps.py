"""RDMA programs tell which QPs they have: a job that was learned without ports gets them, and its QPs are planned."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from controller.model.files.clos import clos
from controller.model.queue_pairs import udp_source_port
from tests.rig.bench import Bench
from tests.rig.host_agent import PortAgent
from tests.rig.routers.answering_routers import addressed
from tests.rig.routers.probed_routers import answers, unlimited
from tests.rig.routers.router_world import RouterWorld, router_world
from tests.rig.verbs.programs import LOCAL, VerbsProgram, build
from tests.rig.waiting import eventually

pytestmark = pytest.mark.switches

CONTROLLER = (
    *("--enforcement", "probed_port", "--probe-burst", "50", "--probe-rate", "10000"),
    *("--probe-router-rate", "1000000"),
)
FABRIC = addressed(clos(2, 2, 2))
PERIOD, ITERATIONS, STEP = 0.7, 8, 0.05
BYTES = 10**9
"""Of an iteration."""
REMOTE_QP = 77
"""With which the QPs of the program connect."""


def tallies(src: str, dst: str, now: float) -> dict[str, Any]:
    """What a host has sent until now in iterations that send in their first half, by a feeder that knows no ports."""
    at = [now - n * STEP for n in range(int(PERIOD * ITERATIONS / STEP), -1, -1)]
    since = [(each - at[0]) / PERIOD for each in at]
    sent = [int(BYTES * (int(each) + min(each % 1.0 * 2, 1.0))) for each in since]
    return {"qps": [{"src": src, "dst": dst}], "qp": [0] * len(at), "at": at, "bytes": sent}


def qps_of(world: RouterWorld, host: str) -> tuple[int | None, int | None]:
    """How many QPs the controller knows of a host, and how many of them have ports of planned flows."""
    (row,) = (row for row in world.get("/v1/hosts")["hosts"] if row["host"] == host)
    return (None, None) if row["ports"] is None else (row["ports"]["qps"], row["ports"]["planned_qps"])


@contextmanager
def running(bench: Bench, folder: Path, learning: str) -> Iterator[RouterWorld]:
    """Start the routers, the controller, and the agent of h1, which tells of QPs."""
    options = (*CONTROLLER, "--learning", learning)
    with router_world(bench, folder, FABRIC, agent=PortAgent, controller_options=options) as world:
        unlimited(world.lab)
        eventually(lambda: answers(world.lab, "h1", "h3"), "hosts reach each other")
        world.controller.wait_for("it has a plan", lambda: world.controller.get("/v1/plan").status == 200)
        assert world.ip("h1") == str(LOCAL)
        world.agents["h1"].start("--verbs", str(folder / "h1"))
        eventually(
            lambda: qps_of(world, "h1") == (0, 0), "the agent tells of QPs", shown=lambda: world.get("/v1/hosts")
        )
        yield world


def check_paths(world: RouterWorld, ports: set[int]) -> None:
    """See whether packets of two QPs with these ports take the paths that are planned for their flows."""
    pieces = [piece for flow in world.get("/v1/routes?host=h1")["flows"] for piece in flow["pieces"]]
    planned = {piece["udp_src"]: {FABRIC.link_index[link] for link in piece["links"]} for piece in pieces}
    assert ports == planned.keys()
    assert len(ports) == 2
    taken = world.lab.lab.routed([("h1", "h3", port) for port in ports])
    assert {port: set(links) for (_, _, port), links in taken.items()} == planned


class Feeder:
    """A host that goes on to report the iterations of a job of two QPs, by their ports, or of both together."""

    def __init__(self, world: RouterWorld) -> None:
        self._world, self._begin = world, time.time() - PERIOD * ITERATIONS
        self._told = self._begin

    def report(self, ports: Sequence[int | None]) -> None:
        """Tell what the QPs have sent since the last report, in the first half of each period."""
        now = time.time()
        at = [self._told + n * STEP for n in range(1, int((now - self._told) / STEP) + 1)]
        self._told = at[-1] if at else self._told
        since = [(each - self._begin) / PERIOD for each in at]
        sent = [int(BYTES / len(ports) * (int(each) + min(each % 1.0 * 2, 1.0))) for each in since]
        body = {
            "qps": [{"src": "h1", "dst": "h3"} | ({} if port is None else {"udp_src": port}) for port in ports],
            "qp": [n for n in range(len(ports)) for _ in at],
            "at": at * len(ports),
            "bytes": sent * len(ports),
        }
        answer = self._world.controller.ask("POST", "/v1/sightings", body)
        assert answer.status == 200, answer.body


@pytest.mark.parametrize("by", ["hosts alone", "ports"])
def test_with_learning_act_nobody_pushes_anything_and_qps_take_the_paths_that_are_planned(
    bench: Bench, tmp_path: Path, by: str
) -> None:
    made = build(tmp_path / "build")
    with running(bench, tmp_path, "act") as world:
        program = VerbsProgram(made, tmp_path / "h1", moves=True)
        opened = [program.connect(world.ip("h3")) for _ in range(2)]
        eventually(lambda: qps_of(world, "h1") == (2, 0), "it tells of both", shown=lambda: world.get("/v1/hosts"))
        feeder = Feeder(world)
        # A port is that of a QP's packets: before it has moved, the kernel makes it of both QP numbers.
        first = udp_source_port(np.array([qp.number for qp in opened]), np.array([REMOTE_QP])).tolist()

        def planned() -> bool:
            ports = [program.moved_to(qp.place) or port for qp, port in zip(opened, first, strict=True)]
            feeder.report([None] if by == "hosts alone" else ports)
            jobs = world.get("/v1/learned")["jobs"]
            return [(job["flows"], job["planned"]) for job in jobs] == [(2, True)] and qps_of(world, "h1") == (2, 2)

        eventually(
            planned,
            "the job is planned",
            shown=lambda: (world.get("/v1/learned"), world.get("/v1/hosts"), world.get("/healthz")),
        )
        world.well()
        assert world.get("/v1/jobs")["jobs"] == []
        check_paths(world, {program.moved_to(qp.place) for qp in opened})
        # QPs have other ports now than when the job was planned: that is no reason to plan again.
        epoch = world.get("/v1/plan")["computed"]["epoch"]
        end = time.monotonic() + 10.0
        while time.monotonic() < end:
            assert planned()
            time.sleep(0.5)
        assert world.get("/v1/plan")["computed"]["epoch"] == epoch
        program.kill()


def test_a_job_learned_without_ports_gets_those_of_open_qps_and_these_take_the_planned_paths(
    bench: Bench, tmp_path: Path
) -> None:
    made = build(tmp_path / "build")
    with running(bench, tmp_path, "observe") as world:
        program = VerbsProgram(made, tmp_path / "h1", moves=True)
        opened = [program.connect(world.ip("h3")) for _ in range(2)]
        eventually(lambda: qps_of(world, "h1") == (2, 0), "it tells of both", shown=lambda: world.get("/v1/hosts"))
        answer = world.controller.ask("POST", "/v1/sightings", tallies("h1", "h3", time.time()))
        assert answer.status == 200, answer.body
        eventually(lambda: bool(world.get("/v1/learned")["jobs"]), "the job is learned")
        (learned,) = world.get("/v1/learned")["jobs"]
        job = world.get(f"/v1/learned/{learned['name']}")["job"]
        # Two flows, for which the plan chooses ports.
        assert "ports" not in job
        assert [(flow["src"], flow["dst"], flow.get("udp_src")) for flow in job["flows"]] == [("h1", "h3", None)] * 2
        assert [flow["bytes"] for flow in job["flows"]] == pytest.approx([BYTES / 2] * 2, rel=0.02)

        assert world.controller.ask("POST", f"/v1/learned/{learned['name']}:adopt").status == 201
        eventually(lambda: qps_of(world, "h1") == (2, 2), "both are planned", shown=lambda: world.get("/v1/hosts"))
        world.well()
        check_paths(world, {program.moved_to(qp.place) for qp in opened})
        program.kill()
        eventually(lambda: qps_of(world, "h1") == (0, 0), "no QP is open", shown=lambda: world.get("/v1/hosts"))
        # These are more than a report has.
        many = VerbsProgram(made, tmp_path / "h1")
        many.ask(f"many 10000 2 {world.ip('h3')}")
        eventually(lambda: qps_of(world, "h1")[0] == 10_000, "all are told", shown=lambda: world.get("/v1/hosts"))
        many.kill()
