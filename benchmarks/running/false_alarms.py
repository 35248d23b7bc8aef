"""Count false alarms: paths that agents of hosts take for dead, and cables that are said to be down, while all work.

Usage: ``python -m benchmarks.running.false_alarms [--minutes 60] [--busy 0] [--spines 4] [--leaves 4] [--hosts 2]``.
Needs root.

Linux routers in network namespaces, a controller, and an agent on each host, at the usual pace of probes; nothing
fails.
``--busy`` starts so many processes that take all processor time they can get.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from controller.model.files.clos import clos
from emulation import isolate
from tests.rig.bench import Bench
from tests.rig.routers.router_world import RouterWorld, router_world
from tests.unit.strategies import with_routers

BUSY = "while True: pass"
LOOK_SECONDS = 1.0
DEATH = "paths have changed"


def count(world: RouterWorld, minutes: float) -> dict[str, int]:
    """Look for false alarms for so long; return how many there were of each kind."""
    first = world.lab.fabric.first_cable_link
    seen = {"looks": 0, "cables down": 0, "hosts with dead paths": 0}
    end = time.monotonic() + 60 * minutes
    before = _deaths(world)
    while time.monotonic() < end:
        seen["looks"] += 1
        seen["cables down"] += sum(not row["up"] for row in world.get("/v1/links")["links"][first::2])
        seen["hosts with dead paths"] += sum(bool(row["dead_paths"]) for row in world.get("/v1/hosts")["hosts"])
        time.sleep(LOOK_SECONDS)
    return seen | {"changes of paths": _deaths(world) - before}


def _deaths(world: RouterWorld) -> int:
    return sum(agent.log.read_text().count(DEATH) for agent in world.agents.values())


def main() -> None:
    """Measure, and print one line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60.0)
    for name, default in (("busy", 0), ("spines", 4), ("leaves", 4), ("hosts", 2)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    isolate.enter()
    fabric = with_routers(clos(options.spines, options.leaves, options.hosts))
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        bench = Bench(Path(folder) / "out")
        stack.callback(bench.close)
        world = stack.enter_context(router_world(bench, Path(folder), fabric))
        for agent in world.agents.values():
            agent.start()
        world.begin()
        world.well()
        for _ in range(options.busy):
            process = subprocess.Popen([sys.executable, "-c", BUSY])
            stack.callback(process.kill)
        seen = count(world, options.minutes)
    told = ", ".join(f"{what}: {number}" for what, number in seen.items())
    print(f"{len(fabric.hosts)} agents, {options.minutes:g} minutes, load {os.getloadavg()[2]:.1f}: {told}")


if __name__ == "__main__":
    main()
