"""TCP jobs on Open vSwitch, of which nobody tells: learned from what hosts count, planned, and sent where planned."""

from __future__ import annotations

import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from controller.model.files.clos import clos
from emulation.lab import Lab
from emulation.lab.agents import AT_HOST, relay_to_controller
from emulation.training.tcp_feeder import TcpFeeder
from tests.rig.bench import Bench
from tests.rig.checks.jobs import active, started
from tests.rig.controller import Controller
from tests.rig.hosts.tcp_rings import ring
from tests.rig.waiting import eventually

pytestmark = pytest.mark.switches

FABRIC = clos(4, 2, 4)
PART, PERIOD = 250_000, 2.0
SIZE = 6 * PART
"""Bytes of an edge in an iteration: rings of four have six steps."""
RINGS = (["h1", "h5", "h2", "h6"], ["h8", "h4", "h7", "h3"])
"""The second one sends from rank r to rank r - 1 of the first one's order: each edge crosses the spines."""
WITH_COMMAND = "h1"
"""The host on which ``fairspine sightings --tcp`` runs; of the others one thread tells."""
ITERATIONS = 3


def edges(hosts: list[str]) -> frozenset[tuple[str, str]]:
    return frozenset(pairwise([*hosts, hosts[0]]))


def learned(controller: Controller) -> dict[frozenset[tuple[str, str]], dict[str, Any]]:
    """The documents of learned jobs with a period, by their edges."""
    rows = controller.get("/v1/learned").body["jobs"]
    answers = [controller.get(f"/v1/learned/{row['name']}") for row in rows if row["period_seconds"]]
    documents = [answer.body for answer in answers if answer.status == 200]
    return {frozenset((flow["src"], flow["dst"]) for flow in each["job"]["flows"]): each for each in documents}


def is_right(document: dict[str, Any]) -> bool:
    """Return whether a learned job is the ring that sends, with its bytes within 2 %."""
    shapes = [group["shape"] for group in document["summary"]["groups"]]
    return shapes == ["ring"] and all(abs(flow["bytes"] / SIZE - 1) <= 0.02 for flow in document["job"]["flows"])


def up_bytes(lab: Lab) -> Counter[str]:
    """Bytes that spines have received from each leaf, by link."""
    seen: Counter[str] = Counter()
    for spine in FABRIC.spines:
        counters = lab.port_counters(spine.name)
        for cable in FABRIC.cables:
            if cable.upper == spine.name:
                assert cable.upper_port is not None
                seen[f"{cable.lower}->{spine.name}"] += counters[cable.upper_port].rx_bytes
    return seen


@pytest.fixture
def running(bench: Bench, tmp_path: Path) -> tuple[Lab, Controller]:
    return started(bench, FABRIC, tmp_path, "--learning", "observe")


def test_two_jobs_are_learned_and_planned_and_stay_the_same_jobs_with_other_ports(
    running: tuple[Lab, Controller],
) -> None:
    lab, controller = running
    processes = {host: lab.node(host).pid for host in FABRIC.host_names if host != WITH_COMMAND}
    wanted = {edges(hosts) for hosts in RINGS}

    def post(body: Any) -> None:
        assert controller.post("/v1/sightings", body).status == 200

    def all_right() -> bool:
        jobs = learned(controller)
        return jobs.keys() == wanted and all(map(is_right, jobs.values()))

    command = [str(Path(sys.executable).with_name("fairspine")), "sightings", "--tcp"]
    with relay_to_controller(lab, WITH_COMMAND), TcpFeeder(FABRIC, processes, post):
        lab.spawn("sightings", [*command, "--url", f"http://{AT_HOST[0]}:{AT_HOST[1]}"], host=WITH_COMMAND)
        with ring(lab, FABRIC, RINGS[0], PART, PERIOD), ring(lab, FABRIC, RINGS[1], PART, PERIOD):
            eventually(all_right, "both jobs are learned, with nothing else", shown=lambda: learned(controller))
            names = {job["summary"]["name"] for job in learned(controller).values()}
            for document in learned(controller).values():
                assert (document["job"]["protocol"], document["job"]["ports"]) == ("tcp", "unknown")
            assert controller.put("/v1/learning", {"learning": "act"}).status == 200
            eventually(
                lambda: all(job["planned"] for job in controller.get("/v1/learned").body["jobs"]), "both are planned"
            )
            plan = active(controller)
            planned = {flow["paths"][0]["links"][1] for flow in plan["flows"]}
            # Eight flows and eight uplinks: each has its own.
            assert (len(plan["flows"]), len(planned)) == (8, 8)
            before = up_bytes(lab)

            def sent() -> dict[str, int]:
                after = up_bytes(lab)
                return {link: after[link] - before[link] for link in after}

            eventually(
                lambda: min(sent()[link] for link in planned) > ITERATIONS * SIZE,
                "all flows are on their planned uplinks",
                shown=sent,
            )
            # Two flows on one uplink would leave others with acknowledgements alone.
            carried = sent()
            assert max(carried.values()) < 1.7 * min(carried.values()), carried
        with ring(lab, FABRIC, RINGS[0], PART, PERIOD), ring(lab, FABRIC, RINGS[1], PART, PERIOD):
            again = up_bytes(lab)
            eventually(
                lambda: min((up_bytes(lab) - again).get(link, 0) for link in planned) > ITERATIONS * SIZE,
                "the jobs that have started again are on the same uplinks",
            )
            eventually(all_right, "they are right", shown=lambda: learned(controller))
            assert {job["summary"]["name"] for job in learned(controller).values()} == names
    assert controller.is_well()
