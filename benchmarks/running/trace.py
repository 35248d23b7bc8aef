"""Measure the time of ``GET /v1/trace``, and how long it blocks the event loop, with 10,000 rules on one leaf.

Starts two leaves and four spines of real Open vSwitch in its own namespace, with a real ``ryu-manager``, and
pushes a job all of whose flows leave the first leaf. Meanwhile ``GET /healthz`` is requested as often as possible: the
slowest answer shows the longest block. Needs root. Usage: ``python -m benchmarks.running.trace [--json FILE]``.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from statistics import median

from benchmarks.running.event_loop import probed, request
from benchmarks.running.put_to_active import active, ask, flow_rules, started
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


def measure(rounds: int) -> list[dict[str, object]]:
    """Measure ``rounds`` traces and return the rows of the table."""
    isolate.enter()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "fabric.yaml")
        path.write_text(FABRIC)
        with Lab(clos(4, 2, HOSTS), out=Path(folder)) as lab:
            started(lab, "--fabric", str(path), "--store", f"sqlite:///{folder}/store.db")
            _, idle = probed(PORT, lambda: time.sleep(3))
            rows.append(_row("idle", 0, [0.0], idle))
            for flows in (1_000, 10_000):
                status, answer = ask("PUT", "/v1/jobs/bench", job(flows))
                assert status == 201, answer
                while not active():
                    time.sleep(0.05)
                assert flow_rules(lab) == flows
                took, probes = [], []
                for _ in range(rounds):
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


def _row(what: str, flows: int, took: list[float], probes: list[float]) -> dict[str, object]:
    return {
        "what": what,
        "flows": flows,
        "seconds": round(median(took), 3),
        "healthz_median_ms": round(1e3 * median(probes), 2),
        "healthz_worst_ms": round(1e3 * max(probes), 1),
    }


def main() -> None:
    """Run the benchmark, print a table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, help="also write the rows to this file")
    options = parser.parse_args()
    rows = measure(options.rounds)
    print(f"{'':8}{'flows':>8}{'answered in':>14}{'healthz median':>17}{'worst':>12}")
    for row in rows:
        print(
            f"{row['what']:8}{row['flows']:>8}{row['seconds']:>12} s"
            f"{row['healthz_median_ms']:>14} ms{row['healthz_worst_ms']:>9} ms"
        )
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
