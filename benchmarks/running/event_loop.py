"""Measure how long a large job blocks the controller's event loop, and how long it takes.

Starts a real ``ryu-manager`` without switches, pushes jobs in the flows form, and meanwhile requests ``GET /healthz``,
which the event loop answers itself, as often as possible: the slowest answer shows the longest block. An idle run
shows the share of the machine itself. Usage: ``python -m benchmarks.running.event_loop [--json FILE] [--megabytes 5]``.
"""

from __future__ import annotations

import argparse
import json
import socket
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import TypeVar

from emulation import http_client
from emulation.controller_process import ControllerProcess, controller_command, spawn_to

FABRIC = "clos: {spines: 16, leaves: 16, hosts_per_leaf: 16}\n"
HOSTS = 256
T = TypeVar("T")


def job(flows: int) -> bytes:
    """Return a job in the flows form: every host sends to hosts of other leaves in turn."""
    rows = [
        {
            "src": f"h{i % HOSTS + 1}",
            "dst": f"h{(i * 7 + 16 + i // HOSTS) % HOSTS + 1}",
            "bytes": 1_000_000 + i,
            "collective": "a",
        }
        for i in range(flows)
    ]
    return json.dumps({"flows": [row for row in rows if row["src"] != row["dst"]]}).encode()


def free_port() -> int:
    """Return a free TCP port on loopback."""
    with socket.create_server(("127.0.0.1", 0)) as s:
        return int(s.getsockname()[1])


def request(port: int, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
    """Send a request to the controller on loopback and return the status and body of the response."""
    response = http_client.ask(("127.0.0.1", port), method, path, body, timeout=300)
    return response.status, response.content


class LatencyProber(threading.Thread):
    """A thread that requests /healthz over one connection until ``running`` is false, and keeps the response times."""

    def __init__(self, port: int) -> None:
        """Create the thread for the controller on this port."""
        super().__init__(daemon=True)
        self.port, self.running, self.took = port, True, [0.0][:0]

    def run(self) -> None:
        """Request /healthz until ``running`` is false."""
        with http_client.HttpClient(("127.0.0.1", self.port), keep=True) as client:
            while self.running:
                start = time.perf_counter()
                client.ask("GET", "/healthz")
                self.took.append(time.perf_counter() - start)
                time.sleep(0.002)


def probed(port: int, work: Callable[[], T]) -> tuple[T, list[float]]:
    """Run ``work`` and return its result with the response times of ``/healthz`` in seconds."""
    prober = LatencyProber(port)
    prober.start()
    time.sleep(0.2)
    result = work()
    prober.running = False
    prober.join()
    return result, prober.took


def measure(megabytes: list[float]) -> list[dict[str, object]]:
    """Measure a row for each job size; the first row is the idle controller."""
    openflow, port = free_port(), free_port()
    with tempfile.TemporaryDirectory() as folder:
        fabric = Path(folder, "fabric.yaml")
        fabric.write_text(FABRIC)
        files = ["--fabric", str(fabric), "--store", f"sqlite:///{folder}/store.db"]
        command = controller_command(*files, openflow_port=openflow, http_port=port)
        controller = ControllerProcess(command, spawn_to(Path(folder, "log")), http_port=port)
        try:
            controller.start(wait=False).wait_until(controller.has_plan, "the controller has a plan")
            # After one large job the worker process and all kernels are warm.
            status, answer = request(port, "PUT", "/v1/jobs/warm", job(5000))
            assert status == 201, (answer, controller.child.tail())
            _, idle = probed(port, lambda: time.sleep(3))
            rows = [row("idle", 0, 0.0, idle)]
            for size in megabytes:
                body = job(int(size * 1e6 / 68.5))

                def push(body: bytes = body, size: float = size) -> float:
                    start = time.perf_counter()
                    status, answer = request(port, "PUT", f"/v1/jobs/job-{size:g}", body)
                    assert status == 201, answer[:500]
                    return time.perf_counter() - start

                seconds, took = probed(port, push)
                rows.append(row(f"PUT {len(body) / 1e6:.1f} MB", json.loads(body)["flows"].__len__(), seconds, took))
                request(port, "DELETE", f"/v1/jobs/job-{size:g}")
            return rows
        finally:
            if controller.is_started:
                controller.stop()


def row(name: str, flows: int, seconds: float, took: list[float]) -> dict[str, object]:
    """Return a row of the table; ``seconds`` and ``took`` are in seconds, latencies in milliseconds."""
    return {
        "what": name,
        "flows": flows,
        "seconds": round(seconds, 3),
        "healthz_median_ms": round(1e3 * median(took), 2),
        "healthz_worst_ms": round(1e3 * max(took), 1),
        "probes": len(took),
    }


def main() -> None:
    """Run the benchmark, print a table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=float, nargs="*", default=[0.2, 1, 5])
    parser.add_argument("--json", type=Path, help="also write the rows to this file")
    options = parser.parse_args()
    rows = measure(options.megabytes)
    print(f"{'':14}{'flows':>8}{'answered in':>14}{'healthz median':>17}{'worst':>11}")
    for r in rows:
        print(
            f"{r['what']:14}{r['flows']:>8}{r['seconds']:>12} s"
            f"{r['healthz_median_ms']:>14} ms{r['healthz_worst_ms']:>8} ms"
        )
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
