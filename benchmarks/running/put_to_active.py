"""Measure the time from the PUT of a job until every switch has confirmed its rules, on real Open vSwitch switches.

Starts a 4 x 4 Clos with 4 hosts a leaf in its own namespace, with a real ``ryu-manager``, and pushes jobs of 10, 1,000
and 10,000 flows several times each. Needs root.

Usage: ``python -m benchmarks.running.put_to_active [--flows N ...] [--rounds 5] [--json FILE]``.
"""

from __future__ import annotations

import itertools
import json
import re
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.running import rounds
from benchmarks.running.rounds import Row
from controller.model.files.clos import clos
from emulation import http_client, isolate
from emulation.controller_process import ControllerProcess, controller_command
from emulation.lab import Lab

LEAVES, HOSTS = 4, 4
FABRIC = f"clos: {{spines: 4, leaves: {LEAVES}, hosts_per_leaf: {HOSTS}}}\n"


def job(flows: int, leaves: int = LEAVES, per_leaf: int = HOSTS) -> bytes:
    """Return a job of flows between hosts of different leaves, as even as possible."""
    hosts = range(leaves * per_leaf)
    pairs = [(a, b) for a in hosts for b in hosts if a // per_leaf != b // per_leaf]
    rows = [
        {"src": f"h{a + 1}", "dst": f"h{b + 1}", "bytes": 10**6, "collective": "all"}
        for a, b in itertools.islice(itertools.cycle(pairs), flows)
    ]
    return json.dumps({"flows": rows}).encode()


def ask(method: str, path: str, body: bytes | None = None) -> tuple[int, Any]:
    """Send a request to the controller and return the status and the parsed body."""
    answer = http_client.ask(("127.0.0.1", 8080), method, path, body, timeout=120)
    return answer.status, answer.body


def started(lab: Lab, *options: str) -> ControllerProcess:
    """Start a controller with these options in the lab, and return it once all is well."""
    controller = ControllerProcess(controller_command(*options), lab.spawn).start()
    lab.wait_connected()
    controller.wait_until(controller.is_well, "all is well")
    return controller


def flow_rules(lab: Lab) -> int:
    """Return the number of planned flows that have a rule on their leaf; a rule may match a block of ports."""
    masks = re.findall(r"tp_src=\w+(?:/(\w+))?", "\n".join(_matches(lab)))
    return sum(1 << (16 - int(mask or "0xffff", 16).bit_count()) for mask in masks)


def _matches(lab: Lab) -> list[str]:
    return [flow.match for leaf in lab.fabric.leaves for flow in lab.flows(leaf.name)]


def active() -> bool:
    """Return whether all jobs are active, by /v1/jobs, which is small: /v1/plan contains every flow."""
    status, jobs = ask("GET", "/v1/jobs")
    return status == 200 and all(job["active"] for job in jobs["jobs"])


def measure(sizes: Sequence[int], n_rounds: int) -> list[Row]:
    """Measure each size ``n_rounds`` times and return a row for each."""
    isolate.enter()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "fabric.yaml")
        path.write_text(FABRIC)
        with Lab(clos(4, LEAVES, HOSTS), out=Path(folder)) as lab:
            started(lab, "--fabric", str(path), "--store", f"sqlite:///{folder}/store.db")
            for flows in sizes:
                body = job(flows)
                answered, total = [], []
                for _ in range(n_rounds):
                    start = time.perf_counter()
                    status, answer = ask("PUT", "/v1/jobs/bench", body)
                    answered.append(time.perf_counter() - start)
                    assert status == 201, answer
                    while not active():
                        time.sleep(0.005)
                    total.append(time.perf_counter() - start)
                    held = flow_rules(lab)
                    assert held == flows, f"{held} rules for {flows} flows"
                    ask("DELETE", "/v1/jobs/bench")
                    while flow_rules(lab):
                        time.sleep(0.1)
                rows.append(
                    {
                        "flows": flows,
                        "answered_seconds": round(median(answered), 3),
                        "active_seconds": round(median(total), 3),
                        "active_worst_seconds": round(max(total), 3),
                        "rounds": n_rounds,
                    }
                )
    return rows


def main() -> None:
    """Run the benchmark, print a table, write JSON."""
    columns = {
        "flows": "flows",
        "answered_seconds": "PUT answered",
        "active_seconds": "active (median)",
        "active_worst_seconds": "active (worst)",
    }
    rounds.run(__doc__.splitlines()[0], measure, (10, 1_000, 10_000), columns)


if __name__ == "__main__":
    main()
