"""Measure how port agents follow a failed cable and new starts, on Linux routers with BGP. Needs root and FRR.

On 4 spines, 4 leaves and 8 hosts that all send to other leaves, each round takes a cable down that flows use. Measured
from then on: until all flows on dead paths have new ports (as /v1/routes says, and the kernels of the routers agree),
and until all others are verified (the plan is active). The cable comes up again, and the same is measured.

Then a stream of 1,000 datagrams a second goes on while the controller is killed and started again, and while the
sender's agent is: packets lost, and ports that differ afterwards. At last, the probes that agents send while nothing
happens are counted, with the default limits of the controller.

Usage: ``python -m benchmarks.running.probed_ports [--rounds 5] [--steady 30]``. The targets are 200 ms, 2 s, no lost
packet, no moved flow, and 1 answer a second of a router.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from controller.model.files.clos import clos
from emulation import isolate
from tests.rig.bench import Bench
from tests.rig.host_agent import PortAgent
from tests.rig.packet_stream import Stream
from tests.rig.routers.answering_routers import addressed
from tests.rig.routers.probed_routers import answers, unlimited
from tests.rig.routers.router_world import RouterWorld, router_world
from tests.rig.waiting import eventually

FABRIC = addressed(clos(4, 4, 2))
OPTIONS = ("--enforcement", "probed_port", "--probe-burst", "50", "--probe-rate", "100")
LOOK_SECONDS = 0.005
PATIENCE_SECONDS = 120.0
Flows = dict[tuple[str, str], tuple[int | None, frozenset[int]]]


def flows(world: RouterWorld) -> Flows:
    """Return the port of each flow, and its links."""
    index = FABRIC.link_index
    return {
        (host, flow["dst"]): (piece["udp_src"], frozenset(index[link] for link in piece["links"]))
        for host in FABRIC.host_names
        for flow in world.get(f"/v1/routes?host={host}")["flows"]
        for piece in flow["pieces"]
    }


def seconds_until(ready: Callable[[], bool], begin: float) -> float:
    """Return the seconds from a time until something is so."""
    while not ready():
        if time.monotonic() - begin > PATIENCE_SECONDS:
            raise TimeoutError("it has not become so")
        time.sleep(LOOK_SECONDS)
    return time.monotonic() - begin


def settled(world: RouterWorld) -> Flows:
    """Wait until all flows have ports over their paths, as the kernels say, and the plan is active."""
    eventually(world.active, "the plan is active", shown=lambda: world.get("/healthz"))
    now: Flows = {}

    def right() -> bool:
        now.update(flows(world))
        asked = [(src, dst, port) for (src, dst), (port, _) in now.items() if port is not None]
        taken = world.lab.lab.routed(asked)
        return len(asked) == len(now) and all(frozenset(taken[one]) == now[one[:2]][1] for one in asked)

    eventually(right, "packets take the planned paths", shown=lambda: now)
    return now


def change(world: RouterWorld, cable: int, *, up: bool) -> tuple[float, float, int]:
    """Take a cable down or up; return the seconds until new ports and until all is verified, and what moved."""
    before = settled(world)
    links = {FABRIC.first_cable_link + 2 * cable + n for n in (0, 1)}
    epoch = world.get("/v1/plan")["computed"]["epoch"]
    begin = time.monotonic()
    (world.lab.mend if up else world.lab.cut)(cable)

    def new_ports() -> bool:
        # One request until there is a new plan: all processes share the machine.
        if world.get("/v1/plan")["computed"]["epoch"] <= epoch:
            return False
        # All flows of dead links; on the way up, just those that the plan moves.
        return all(port is not None and (up or not links & taken) for port, taken in flows(world).values())

    try:
        first = seconds_until(new_ports, begin)
    except TimeoutError:
        # What the plan, or the ports, wait for.
        print(_sessions(world, cable), *(world.get(of) for of in ("/healthz", "/v1/hosts")), flows(world), sep="\n")
        raise
    verified = seconds_until(world.active, begin)
    after = settled(world)
    return first, verified, sum(before[flow] != after[flow] for flow in before)


def _sessions(world: RouterWorld, cable: int) -> dict[str, list[str]]:
    """Return the BGP sessions that the routers at the ends of a cable have, to tell what a plan waits for."""
    ends = FABRIC.cables[cable]
    return {name: sorted(world.lab.lab.bgp_established(name)) for name in (ends.lower, ends.upper)}


def restarts(world: RouterWorld) -> None:
    """Start controller and agent again under a stream."""
    before = settled(world)
    src, dst = next(iter(before))
    port = before[src, dst][0]
    assert port is not None
    for name in ("controller", "agent"):
        stream = Stream(world.lab, FABRIC.host_index[src], FABRIC.host_index[dst], port)
        eventually(partial(_has_received, stream), "packets arrive")
        if name == "controller":
            world.controller.kill()
            world.controller.start()
        else:
            counted = probes(world, src)
            world.agents[src].end()
            world.agents[src].start()
            eventually(partial(_counts_anew, world, src, counted), "the new agent has reported")
        eventually(world.active, "the plan is active", shown=lambda: world.get("/healthz"))
        after = settled(world)
        sent, received = stream.end()
        moved = sum(before[flow] != after[flow] for flow in before)
        print(f"{name} started again: {sent - received} of {sent} packets lost, {moved} of {len(before)} flows moved")


def _counts_anew(world: RouterWorld, host: str, before: int) -> bool:
    return probes(world, host) != before


def _has_received(stream: Stream) -> bool:
    return stream.received() > 500


def steady(world: RouterWorld, seconds: float) -> None:
    """Count the probes of all agents while nothing happens."""
    counted = (probes(world), time.monotonic())
    time.sleep(seconds)
    sent, passed = probes(world) - counted[0], time.monotonic() - counted[1]
    rate = sent / passed / len(FABRIC.layers[1])
    print(f"steady: {sent} probes of {FABRIC.n_hosts} flows in {passed:.0f} s, {rate:.2f} a second and spine")


def probes(world: RouterWorld, host: str | None = None) -> int:
    """Return how many probes all agents have sent, or that of a host."""
    rows: list[dict[str, Any]] = world.get("/v1/hosts")["hosts"]
    return sum(row["ports"]["probes"] for row in rows if host in (None, row["host"]))


def main() -> int:
    """Measure, and print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steady", type=float, default=30.0)
    given = parser.parse_args()
    isolate.enter()
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        bench = Bench(Path(folder) / "out")
        try:
            with router_world(
                bench, Path(folder), FABRIC, routing="bgp", agent=PortAgent, controller_options=OPTIONS
            ) as world:
                unlimited(world.lab)
                names = FABRIC.host_names
                eventually(lambda: answers(world.lab, names[0], names[-1]), "hosts reach each other")
                world.controller.wait_for("it has a plan", lambda: world.controller.get("/v1/plan").status == 200)
                rows = [
                    {"src": name, "dst": names[(n + 2) % len(names)], "bytes": 10**9} for n, name in enumerate(names)
                ]
                job = {"name": "shifts", "flows": rows}
                assert world.controller.ask("PUT", "/v1/jobs/shifts", job).status == 201
                for agent in world.agents.values():
                    agent.start()
                settled(world)
                measured: dict[bool, list[tuple[float, float, int]]] = {False: [], True: []}
                for _ in range(given.rounds):
                    used = frozenset().union(*(links for _, links in flows(world).values()))
                    cable = next(c for c in range(len(FABRIC.cables)) if FABRIC.first_cable_link + 2 * c in used)
                    for up in (False, True):
                        measured[up].append(change(world, cable, up=up))
                        print(f"cable {'up' if up else 'down'}: {measured[up][-1]}", flush=True)
                for up, several in measured.items():
                    first, verified, moved = zip(*several, strict=True)
                    times = [f"{median(each):.3f} s (worst {max(each):.3f})" for each in (first, verified)]
                    print(
                        f"cable {'up' if up else 'down'}: new ports {times[0]}, all verified {times[1]}; {moved} moved"
                    )
                restarts(world)
                steady(world, given.steady)
        finally:
            bench.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
