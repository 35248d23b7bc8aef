"""A switch that answers the handshake and nothing else: the others, and the jobs on them, do not wait for it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ryu.ofproto import ofproto_v1_3 as ofp

from controller.model.files.clos import clos
from tests.fake_switch.fabric import FakeFabric
from tests.rig.both_kinds import Setup

FABRIC = clos(4, 4, 1)
MUTE = "spine4"
CONNECTED_SECONDS = 4.0
"""For which the mute switch stays: less than the time after which the controller gives a request up."""
CABLES = ("leaf1-spine1", "leaf3-spine1", "leaf1-spine2", "leaf3-spine2", "leaf4-spine3")
"""They fail one after the other: one that fails often is left out for a while."""


@contextmanager
def connecting_anew(fakes: FakeFabric) -> Iterator[None]:
    """Let the mute switch connect again and again."""
    over = threading.Event()

    def run() -> None:
        while not over.wait(CONNECTED_SECONDS):
            fakes.cut(MUTE)
            fakes.reconnect(MUTE)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def change_of(fakes: FakeFabric, switch: str) -> Callable[[], bool]:
    """Whether a switch holds other rules than now."""
    before = fakes.rules(switch)
    return lambda: fakes.rules(switch) != before


def test_jobs_on_other_paths_are_active_beside_a_switch_that_was_mute_from_the_start(setup: Setup) -> None:
    controller, address = setup.controller(FABRIC)
    fakes = setup.fakes(FABRIC, address)
    fakes.temper("leaf4").unanswered = frozenset({ofp.OFPMP_FLOW})
    fakes.wait_connected()
    controller.wait_for("it has started", lambda: bool(controller.get("/healthz").body["status"] == "degraded"))
    for name, target in (("beside", "h2"), ("through", "h4")):
        job = {"flows": [{"src": "h1", "dst": target, "bytes": 1000}]}
        assert controller.put(f"/v1/jobs/{name}", job).status == 201
    controller.wait_for("a job is active", lambda: bool(controller.get("/v1/jobs/beside").body["active"]))

    def reasons() -> str:
        return " | ".join(controller.get("/healthz").body["reasons"])

    controller.wait_for("it is told", lambda: "not on leaf4" in reasons())
    assert controller.get("/healthz").body["status"] == "degraded"
    assert controller.get("/v1/jobs/through").body["active"] is False


def test_no_switch_waits_for_a_mute_one_that_connects_anew(setup: Setup) -> None:
    controller, address = setup.controller(FABRIC)
    fakes = setup.fakes(FABRIC, address)
    fakes.wait_connected()
    controller.wait_for("all is well", controller.is_well)
    fakes.temper(MUTE).unanswered = frozenset({ofp.OFPMP_FLOW})
    with connecting_anew(fakes):
        fakes.cut(MUTE)
        fakes.reconnect(MUTE)
        time.sleep(CONNECTED_SECONDS)
        prompt, took = 0, []
        for cable in CABLES:
            for up in (False, True):
                follows = change_of(fakes, "leaf2")
                connects, began = fakes.connects(MUTE), time.monotonic()
                fakes.set_cable(cable, up)
                controller.wait_for("the others follow", follows)
                took.append(time.monotonic() - began)
                prompt += fakes.connects(MUTE) == connects
    # Those that wait for it go on when it leaves.
    assert prompt > len(CABLES), took
    print("seconds until other leaves follow:", sorted(round(each, 2) for each in took))
