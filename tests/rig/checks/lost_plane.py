"""A job on four NICs with a port in each of two planes, of which the second plane is switched off meanwhile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from controller.model.fabric import Fabric
from emulation.experiments.measure import namespaces_of, sender_options, spawn_in
from emulation.experiments.networks.network import following
from emulation.experiments.workload import addresses, ports_of
from emulation.experiments.workload import routes as job_routes
from emulation.lab import Lab
from emulation.roce.collectives.spec import CollectiveSpec
from emulation.roce.run import run_collectives
from tests.rig.controller import Controller
from tests.rig.hosts.roce_hosts import PATIENT
from tests.rig.waiting import READY_SECONDS

ITERATIONS = 30


class Told:
    """The plan, as the queue pairs of a job follow it."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller

    def active_epoch(self) -> int:
        return int(self._controller.get("/v1/plan").body["active"]["epoch"])

    def routes(self, host: str) -> Mapping[str, Any]:
        body: Mapping[str, Any] = self._controller.get(f"/v1/routes?host={host}").body
        return body


def lose_second_plane(lab: Lab, controller: Controller, fabric: Fabric) -> set[str]:
    """Run a ring, power leaf3, leaf4, spine3 and spine4 off once all have sent, and check that it goes on to its end.

    Returns:
        the addresses from which the queue pairs sent last.
    """
    told = {host.name: Told(controller).routes(host.name) for host in fabric.hosts}
    spec = CollectiveSpec("ring", "r", ("h1", "h3", "h2", "h4"), bytes=1 << 20, iterations=ITERATIONS)
    pending = {"leaf3", "leaf4", "spine3", "spine4"}
    sources: set[str] = set()

    def on_tally(tally: dict[str, Any]) -> None:
        nonlocal sources
        if tally["bytes"] and min(tally["bytes"]) > 0 and pending:
            for switch in sorted(pending):
                lab.kill_switch(switch)
            pending.clear()
        sources = {qp["src"] for qp in tally["qps"]}

    (result,) = run_collectives(
        addresses(fabric),
        spawn_in(lab),
        [spec],
        job_routes(fabric, [spec], told),
        options=replace(sender_options(fabric, 0.15), retries=PATIENT),
        timeout=READY_SECONDS,
        tally_seconds=0.2,
        on_tally=on_tally,
        ports_of=ports_of(fabric),
        follow=following(Told(controller), fabric),
        namespaces=namespaces_of(lab),
    )
    assert not pending
    assert result.checked, result.wrong
    assert len(result.seconds) == ITERATIONS
    return sources
