"""Measure the time of ``GET /v1/trace``, and how long it blocks the event loop, with 10,000 rules on one leaf.

Starts two leaves and four spines of real Open vSwitch in its own namespace, with a real ``ryu-manager``, and
pushes a job all of whose flows leave the first leaf. Meanwhile ``GET /healthz`` is requested as often as possible: the
slowest answer shows the longest block. Needs root.

Usage: ``python -m benchmarks.running.trace [--flows N ...] [--rounds 5] [--json FILE]``.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from benchmarks.running import rounds
from benchmarks.running.event_loop import probed, request
from benchmarks.running.put_to_active import active, ask, flow_rules, started
from benchmarks.running.rounds import Row
from controller.model.files.clos import clos
from controller.telemetry.fabric_snapshot import FRESH
from emulation import isolate
from emulation.lab import Lab

HOSTS = 8
FABRIC = f"clos: {{spines: 4, leaves: 2, hosts_per_leaf: {HOSTS}}}\n"
PORT = 8080


def job(flows: int) -> bytes:
    """Return a job of flows from the hosts of leaf 1 to those of leaf 2 in turn."""
    rows = [
        {"src": f"h{i % HOSTS + 1}", "dst": f"h{HOSTS + i // HOSTS % HOSTS + 1}", "bytes": 10**6, "collective": "all"}
        for i in range(flows)
    ]
    return json.dumps({"flows": rows}).encode()


def measure(sizes: Sequence[int], n_rounds: int) -> list[Row]:
    """Measure ``n_rounds`` traces of each size and return the rows of the table."""
    isolate.enter()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "fabric.yaml")
        path.write_text(FABRIC)
        with Lab(clos(4, 2, HOSTS), out=Path(folder)) as lab:
            started(lab, "--fabric", str(path), "--store", f"sqlite:///{folder}/store.db")
            _, idle = probed(PORT, lambda: time.sleep(3))
            rows.append(_row("idle", 0, [0.0], idle))
            for flows in sizes:
                status, answer = ask("PUT", "/v1/jobs/bench", job(flows))
                assert status == 201, answer
                while not active():
                    time.sleep(0.05)
                assert flow_rules(lab) == flows
                took, probes = [], []
                for _ in range(n_rounds):
                    time.sleep(FRESH + 0.1)
                    (seconds, body), probe = probed(PORT, _trace)
                    traced = json.loads(body)
                    assert not any(flow["differs"] or flow["how"] != "rules" for flow in traced["flows"])
                    assert len(traced["flows"]) == flows
                    took.append(seconds)
                    probes += probe
                rows.append(_row("trace", flows, took, probes))
                ask("DELETE", "/v1/jobs/bench")
    return rows


def _trace() -> tuple[float, bytes]:
    start = time.perf_counter()
    status, body = request(PORT, "GET", "/v1/trace")
    assert status == 200, body
    return time.perf_counter() - start, body


def _row(what: str, flows: int, took: list[float], probes: list[float]) -> Row:
    return {
        "what": what,
        "flows": flows,
        "answered_seconds": round(median(took), 3),
        "healthz_median_ms": round(1e3 * median(probes), 2),
        "healthz_worst_ms": round(1e3 * max(probes), 1),
    }


def main() -> None:
    """Run the benchmark, print a table, write JSON."""
    columns = {
        "what": "",
        "flows": "flows",
        "answered_seconds": "answered in",
        "healthz_median_ms": "healthz median",
        "healthz_worst_ms": "worst",
    }
    rounds.run(__doc__.splitlines()[0], measure, (1_000, 10_000), columns)


if __name__ == "__main__":
    main()
