"""Send a minute of mixed requests to a real controller: latency of reads, refused requests, growth of memory.

Starts its own ``ryu-manager`` on loopback, with a fabric file and no switches, and sends it requests at a steady
rate from a few threads: reads, jobs that start and end, drains, previews, and about one in four that is invalid.
A request's latency is counted from its due time, so that a server that falls behind is not measured by
fewer requests. Usage: ``python -m benchmarks.running.load [--seconds 60] [--rate 50] [--json FILE]``.

Exits 1 where reads take 50 ms or more at the median, a request gets an unexpected answer, or memory grows by
more than a tenth from the end of the warm-up to the end.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import socket
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from emulation.controller_process import ControllerProcess, controller_command, spawn_to
from emulation.http_client import NoResponseError

ROOT = Path(__file__).resolve().parents[2]
WORKERS = 32
JOBS = 12
MEDIAN_MS, GROWTH = 50.0, 0.1


@dataclass(frozen=True)
class RequestKind:
    """A kind of request. ``right``: the expected statuses of its responses; ``weight``: its relative frequency."""

    name: str
    weight: int
    method: str
    target: str
    right: frozenset[int]
    body: bytes | None = None
    reads: bool = False

    @staticmethod
    def read(weight: int, target: str, *also: int) -> RequestKind:
        """Return a GET request with 200 and ``also`` as expected statuses."""
        return RequestKind(f"GET {target}", weight, "GET", target, frozenset({200, *also}), reads=True)

    @staticmethod
    def wrong(weight: int, name: str, method: str, target: str, status: int, body: bytes | None = None) -> RequestKind:
        """Return an invalid request with its expected error status."""
        return RequestKind(f"wrong: {name}", weight, method, target, frozenset({status}), body)


def kinds() -> list[RequestKind]:
    """Return all kinds of requests, valid and invalid."""
    job, other = (
        json.dumps(
            {
                "hosts": hosts,
                "collectives": [{"name": "dp", "op": "all_reduce", "ranks": [0, 1, 2, 3], "bytes": 10**9}],
            }
        ).encode()
        for hosts in (["h1", "h5", "h9", "h13"], ["h2", "h16", "h6", "h10"])
    )
    drained, used = (json.dumps({"drained": value}).encode() for value in (True, False))
    preview = json.dumps({"drain": ["spine2"]}).encode()
    reads = [
        RequestKind.read(10, "/v1/jobs"),
        RequestKind.read(10, "/v1/jobs/load-{n}", 404),
        RequestKind.read(8, "/v1/plan"),
        RequestKind.read(6, "/v1/links"),
        RequestKind.read(4, "/v1/fabric"),
        RequestKind.read(8, "/v1/routes?host=h1"),
        RequestKind.read(4, "/v1/plans?limit=20"),
        RequestKind.read(4, "/v1/mode"),
        RequestKind.read(6, "/healthz"),
    ]
    changes = [
        RequestKind("PUT job", 4, "PUT", "/v1/jobs/load-{n}", frozenset({200, 201}), job),
        RequestKind("PUT job", 4, "PUT", "/v1/jobs/load-{n}", frozenset({200, 201}), other),
        RequestKind("DELETE job", 3, "DELETE", "/v1/jobs/load-{n}", frozenset({204, 404})),
        RequestKind("drain", 1, "PUT", "/v1/fabric/links/leaf1-spine1", frozenset({200}), drained),
        RequestKind("undrain", 1, "PUT", "/v1/fabric/links/leaf1-spine1", frozenset({200}), used),
        RequestKind("preview", 2, "POST", "/v1/plans:preview", frozenset({200}), preview),
    ]
    wrong = [
        RequestKind.wrong(3, "no JSON", "PUT", "/v1/jobs/load-{n}", 400, b'{"hosts": '),
        RequestKind.wrong(3, "unknown host", "PUT", "/v1/jobs/load-{n}", 422, job.replace(b"h13", b"h99")),
        RequestKind.wrong(3, "unknown member", "PUT", "/v1/mode", 422, b'{"mode": "planned", "x": 1}'),
        RequestKind.wrong(3, "no such job", "GET", "/v1/jobs/nobody", 404),
        RequestKind.wrong(2, "no such host", "GET", "/v1/routes?host=h99", 404),
        RequestKind.wrong(2, "unknown parameter", "GET", "/v1/plan?verbose=1", 400),
        RequestKind.wrong(2, "wrong method", "PATCH", "/v1/jobs", 405),
        RequestKind.wrong(2, "no such path", "GET", "/v2", 404),
        RequestKind.wrong(2, "wrong name", "PUT", "/v1/jobs/a%2Fb", 400, job),
        RequestKind.wrong(1, "too large", "PUT", "/v1/mode", 413, b" " * 100_000),
    ]
    return reads + changes + wrong


@contextmanager
def controller(fabric: str, folder: Path, *, openflow: int | None = None) -> Iterator[ControllerProcess]:
    """Start a controller; yield it once it has a plan. ``openflow``: where it listens for switches."""
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        openflow, port = openflow or one.getsockname()[1], other.getsockname()[1]
    files = ["--fabric", fabric, "--store", f"sqlite:///{folder / 'store.db'}"]
    command = controller_command(*files, openflow_port=openflow, http_port=port)
    process = ControllerProcess(command, spawn_to(folder / "controller.log", folder=ROOT), http_port=port)
    try:
        process.start(wait=False).wait_until(process.has_plan, "the controller has a plan")
        yield process
        process.stop()
    finally:
        process.kill()


def memory_mib(pid: int) -> float:
    """Return the resident memory in MiB of the controller and its child processes."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    pages = 0
    for each in (str(pid), *children):
        try:
            pages += int(Path(f"/proc/{each}/statm").read_text().split()[1])
        except OSError:
            continue
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


@dataclass(frozen=True)
class Done:
    """A finished request: seconds from its due time to the end of the response. ``status`` 0: no response."""

    kind: RequestKind
    status: int
    seconds: float


def send(running: ControllerProcess, rate: float, seconds: float, seed: int) -> list[Done]:
    """Send requests at a steady rate, independent of the progress of earlier ones."""
    choices, draw = kinds(), random.Random(seed)
    plan = draw.choices(choices, [kind.weight for kind in choices], k=int(rate * seconds))
    names = [draw.randrange(JOBS) for _ in plan]
    done: list[Done] = []
    numbers, start = itertools.count(), time.monotonic() + 0.1

    def work() -> None:
        for number in numbers:
            if number >= len(plan):
                return
            kind, due = plan[number], start + number / rate
            time.sleep(max(0.0, due - time.monotonic()))
            try:
                target = kind.target.format(n=names[number])
                status = client.ask(kind.method, target, kind.body).status
            except NoResponseError:
                status = 0
            done.append(Done(kind, status, time.monotonic() - due))

    with running.client() as client:
        workers = [threading.Thread(target=work) for _ in range(WORKERS)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    return done


def measure(fabric: str, rate: float, seconds: float, warm_up: float, seed: int) -> dict[str, object]:
    """Measure a controller after a warm-up; return latencies, unexpected answers and memory."""
    with tempfile.TemporaryDirectory() as folder, controller(fabric, Path(folder)) as running:
        memory = {"start": memory_mib(running.pid)}
        send(running, rate, warm_up, seed + 1)
        memory["warm"] = memory_mib(running.pid)
        began = time.monotonic()
        done = send(running, rate, seconds, seed)
        took = time.monotonic() - began
        memory["end"] = memory_mib(running.pid)
    reads = np.array([each.seconds for each in done if each.kind.reads]) * 1e3
    changes = np.array([each.seconds for each in done if each.kind.name in ("PUT job", "DELETE job")]) * 1e3
    wrong = Counter(
        f"{each.kind.name}: {each.status or 'no answer'}" for each in done if each.status not in each.kind.right
    )
    return {
        "requests": len(done),
        "seconds": took,
        "reads_ms": {
            "median": float(np.median(reads)),
            "p99": float(np.quantile(reads, 0.99)),
            "max": float(reads.max()),
        },
        "job_changes_ms": {"median": float(np.median(changes)), "p99": float(np.quantile(changes, 0.99))},
        "statuses": dict(sorted(Counter(str(each.status) for each in done).items())),
        "not_as_it_should_be": dict(wrong),
        "memory_mib": memory,
    }


def main() -> int:
    """Run the benchmark and print the result; return 1 if a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--rate", type=float, default=50.0, help="requests a second")
    parser.add_argument("--warm-up", type=float, default=20.0, help="seconds before the first measurement of memory")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--fabric", default="examples/clos-4x4x4.yaml")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    found = measure(options.fabric, options.rate, options.seconds, options.warm_up, options.seed)
    text = json.dumps(found, indent=2)
    print(text)
    if options.json is not None:
        options.json.write_text(text + "\n")
    memory, reads = found["memory_mib"], found["reads_ms"]
    assert isinstance(memory, dict)
    assert isinstance(reads, dict)
    failures = []
    if reads["median"] >= MEDIAN_MS:
        failures.append(f"reads take {reads['median']:.1f} ms at the median")
    if found["not_as_it_should_be"]:
        failures.append("some answers are wrong")
    if memory["end"] > memory["warm"] * (1 + GROWTH):
        failures.append(f"memory grew from {memory['warm']:.0f} to {memory['end']:.0f} MiB")
    for failure in failures:
        print(f"load: {failure}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
