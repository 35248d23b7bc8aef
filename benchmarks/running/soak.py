"""Change jobs, drains and cables of a running controller for hours, and print how its memory grows.

Starts a real ``ryu-manager`` on loopback, and fake switches (``tests/fake_switch``) that connect to it. Then it draws
changes: jobs are pushed, replaced and deleted, cables and spines are drained and taken back into use, and cables fail
and come back. A client reads the stream of events, and others read what dashboards and scrapers read.

Logs with a bounded number of entries fill up first: the newest 2,000 events, and the plans of the history. So the slope
is that of the second half of the time (Theil and Sen's estimate: the median of the slopes between all pairs of
samples), in MiB an hour. Usage: ``python -m benchmarks.running.soak [--seconds 21600] [--json FILE]``.

Exits 1 where memory grows by more than ``--most`` MiB an hour, or a request gets an unexpected answer.
"""

from __future__ import annotations

import argparse
import json
import random
import socket
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks.running.load import controller
from controller.model.fabric import Fabric
from controller.model.files.fabric_file import load_fabric
from emulation.controller_process import ControllerProcess
from emulation.http_client import HttpClient, NoResponseError
from tests.campaigns.process_usage import resident
from tests.fake_switch.fabric import FakeFabric

SECONDS, RATE, SAMPLE_SECONDS = 6 * 3600.0, 2.0, 10.0
MOST_MIB_AN_HOUR = 2.0
LEAST_SAMPLES = 4
"""Samples from which the slope of the second half can be told."""

JOBS, RANKS = 12, 4
MIB = 2**20
READS = ("/v1/links", "/v1/jobs", "/v1/plan", "/v1/plans?limit=20", "/metrics", "/v1/trace", "/v1/health")


@dataclass(frozen=True)
class MemorySample:
    """The resident memory of the controller's process, some seconds after the begin, and the changes until then."""

    seconds: float
    mib: float
    changes: int


@dataclass
class Soak:
    """A controller under changes, and what was measured of it.

    Attributes:
        samples: of its memory.
        changes: how often each kind of change was made.
        wrong: answers that were not expected, and how often.
    """

    running: ControllerProcess
    fabric: Fabric
    fakes: FakeFabric
    rng: random.Random
    samples: list[MemorySample] = field(default_factory=list)
    changes: Counter[str] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        """Begin with all cables up and nothing drained."""
        self._failed: set[str] = set()
        self._drained: set[str] = set()
        self._ended = threading.Event()

    def run(self, seconds: float, rate: float) -> None:
        """Make changes at this rate for some time, and sample the memory meanwhile."""
        events = threading.Thread(target=self._read_events, daemon=True)
        events.start()
        began = due = time.monotonic()
        next_sample = began
        with self.running.client(keep=True) as client:
            while (now := time.monotonic()) < began + seconds:
                if now >= next_sample:
                    self.sample(now - began)
                    next_sample += SAMPLE_SECONDS
                self._change(client)
                self._ask(client, "GET", self.rng.choice(READS), {200})
                due = max(due + 1 / rate, time.monotonic())
                time.sleep(max(0.0, due - time.monotonic()))
        self.sample(time.monotonic() - began)
        self._ended.set()

    def sample(self, seconds: float) -> None:
        """Take a sample of the memory. Fake switches forget what they were sent: in hours that fills gigabytes."""
        self.fakes.forget_messages()
        mib = resident(self.running.pid) / MIB
        self.samples.append(MemorySample(seconds, mib, self.changes.total()))

    def _change(self, client: HttpClient) -> None:
        change: Callable[[HttpClient], None] = self.rng.choices(
            [self._push, self._delete, self._drain, self._cable], [5, 2, 2, 2]
        )[0]
        change(client)

    def _push(self, client: HttpClient) -> None:
        hosts = self.rng.sample(self.fabric.nic_names, RANKS)
        ring = {"name": "dp", "op": "all_reduce", "ranks": list(range(RANKS)), "bytes": self.rng.randrange(1, 10**9)}
        self.changes["push"] += 1
        self._ask(client, "PUT", self._job(), {200, 201}, {"hosts": hosts, "collectives": [ring]})

    def _delete(self, client: HttpClient) -> None:
        self.changes["delete"] += 1
        self._ask(client, "DELETE", self._job(), {204, 404})

    def _drain(self, client: HttpClient) -> None:
        """Drain something, at most one thing at a time, or take it back into use."""
        drained = not self._drained
        thing = self.rng.choice([*self.fabric.cable_names, self.fabric.spines[0].name])
        names = {thing} if drained else self._drained
        self.changes["drain" if drained else "undrain"] += 1
        for name in names:
            self._ask(client, "PUT", f"/v1/fabric/links/{name}", {200}, {"drained": drained})
        self._drained = {thing} if drained else set()

    def _cable(self, _client: HttpClient) -> None:
        """Let a cable fail, at most two at a time, or mend one."""
        if len(self._failed) == 2 or (self._failed and self.rng.random() < 0.5):
            name = self.rng.choice(sorted(self._failed))
            self._failed.remove(name)
        else:
            name = self.rng.choice([each for each in self.fabric.cable_names if each not in self._failed])
            self._failed.add(name)
        self.changes["cable fails" if name in self._failed else "cable is back"] += 1
        self.fakes.set_cable(name, name not in self._failed)

    def _job(self) -> str:
        return f"/v1/jobs/soak-{self.rng.randrange(JOBS)}"

    def _ask(self, client: HttpClient, method: str, target: str, right: set[int], body: object = None) -> None:
        try:
            status = client.ask(method, target, body).status
        except NoResponseError:
            status = 0
        if status not in right:
            self.wrong[f"{method} {target}: {status or 'no answer'}"] += 1

    def _read_events(self) -> None:
        with suppress(NoResponseError), self.running.client() as client:
            for _ in client.events():
                if self._ended.is_set():
                    return


def slope(samples: Sequence[MemorySample]) -> float:
    """Return the growth in MiB an hour: the median of the slopes between all pairs of samples (Sen, JASA 1968)."""
    at = np.array([each.seconds for each in samples])
    mib = np.array([each.mib for each in samples])
    one, other = np.triu_indices(len(samples), k=1)
    return float(np.median((mib[other] - mib[one]) / (at[other] - at[one]))) * 3600 if len(one) else 0.0


def second_half(samples: Sequence[MemorySample]) -> list[MemorySample]:
    """Return the samples of the second half of the time."""
    return [each for each in samples if each.seconds >= samples[-1].seconds / 2]


def by_tenths(samples: Sequence[MemorySample]) -> list[tuple[float, float, float]]:
    """Return (end in minutes, memory in MiB, MiB an hour) of each tenth of the time."""
    parts = [part for part in np.array_split(np.arange(len(samples)), 10) if len(part) > 1]
    rows = [[samples[n] for n in part.tolist()] for part in parts]
    return [(row[-1].seconds / 60, row[-1].mib, slope(row)) for row in rows]


def measure(path: str, seconds: float, rate: float, seed: int) -> Soak:
    """Run a soak on a fabric file, and return what was measured."""
    fabric = load_fabric(path)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with (
        tempfile.TemporaryDirectory() as folder,
        controller(path, Path(folder), openflow=port) as running,
        FakeFabric(fabric, ("127.0.0.1", port)) as fakes,
    ):
        fakes.wait_connected()
        running.wait_until(running.is_well, "all is well")
        soak = Soak(running, fabric, fakes, random.Random(seed))
        # Ctrl-C ends it early: what was measured until then is printed.
        with suppress(KeyboardInterrupt):
            soak.run(seconds, rate)
        return soak


def main() -> int:
    """Run the soak and print the result; return 1 if a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--rate", type=float, default=RATE, help="changes a second, and as many reads")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--fabric", default="examples/clos-4x4x4.yaml")
    parser.add_argument("--most", type=float, default=MOST_MIB_AN_HOUR, help="MiB an hour in the second half")
    parser.add_argument("--json", type=Path, help="also write the samples to this file")
    options = parser.parse_args()
    soak = measure(options.fabric, options.seconds, options.rate, options.seed)
    if len(soak.samples) < LEAST_SAMPLES:
        print("soak: ended before there was anything to tell", file=sys.stderr)
        return 1
    print("  until    memory     growth")
    for minutes, mib, growth in by_tenths(soak.samples):
        print(f"{minutes:5.1f} min {mib:6.1f} MiB {growth:7.2f} MiB/h")
    growth = slope(second_half(soak.samples))
    print(f"{soak.changes.total()} changes: " + ", ".join(f"{n} {kind}" for kind, n in sorted(soak.changes.items())))
    print(f"in the second half, memory grows by {growth:.2f} MiB an hour")
    if options.json is not None:
        rows = [[each.seconds, each.mib, each.changes] for each in soak.samples]
        options.json.write_text(json.dumps({"samples": rows, "mib_an_hour": growth}) + "\n")
    for what, count in soak.wrong.items():
        print(f"soak: {count} times {what}", file=sys.stderr)
    if growth > options.most:
        print(f"soak: memory grows by more than {options.most:g} MiB an hour", file=sys.stderr)
    return 1 if soak.wrong or growth > options.most else 0


if __name__ == "__main__":
    sys.exit(main())
