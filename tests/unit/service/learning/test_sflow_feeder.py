"""sFlow reaches learning by a process of its own, from allowed agents only."""

from __future__ import annotations

import random
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from ipaddress import IPv4Address
from typing import Any

import pytest

from controller.config import Settings, settings_from
from controller.learning.sampling.sampled_tallies import SflowCounts
from controller.learning.sightings import QpKey
from controller.model.errors import InputError, UnavailableError
from controller.model.files.clos import clos
from controller.port_check import check_port
from controller.service.learning.sflow_collector import SflowCollector
from tests.unit.learning.sflow_packets import flow_sample, record, sflow_datagram, write_frame
from tests.unit.service.world import Threads, World
from tests.unit.southbound.cabling.networks import seen

FABRIC = clos(2, 2, 2)
A, B = (int(IPv4Address(host.ip)) for host in FABRIC.hosts[:2])
ELSEWHERE = int(IPv4Address("203.0.113.9"))
Processes = list[subprocess.Popen[bytes]]


@pytest.fixture
def processes() -> Iterator[Processes]:
    started: Processes = []
    yield started
    for process in started:
        with process:
            process.kill()


@pytest.fixture
def start(processes: Processes) -> Callable[[list[str]], Any]:
    def run(command: list[str]) -> Any:
        # The parent's pipes are closed with the collector: its errors are no part of the test's output.
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        processes.append(process)
        return process

    return run


def free_address() -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


def send(address: str, datagrams: list[bytes], source: str = "127.0.0.1") -> None:
    host, port = address.split(":")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as agent:
        agent.bind((source, 0))
        for data in datagrams:
            agent.sendto(data, (host, int(port)))


def sampled(key: QpKey, psn: int, sequence: int = 1) -> bytes:
    return sflow_datagram([flow_sample([record(write_frame(key, psn))])], sequence=sequence)


def gathered(collector: SflowCollector, wanted: int) -> tuple[SflowCounts, list[tuple[QpKey, int]]]:
    """Return counts and sightings once so many datagrams were received."""
    total, found = SflowCounts(), []
    while total.datagrams + total.refused < wanted:
        report = collector.report()
        for name, value in vars(report.counts).items():
            setattr(total, name, getattr(total, name) + value)
        for batch in report.batches():
            found += [(batch.keys[qp], psn) for qp, psn in zip(batch.qp, batch.sent.tolist(), strict=True)]
    return total, found


def test_only_allowed_agents_are_heard_and_nothing_that_they_send_ends_the_collector(
    start: Callable[[list[str]], Any],
) -> None:
    address = free_address()
    collector = SflowCollector(start, address, "127.0.0.1, 192.0.2.0/24")
    collector.report()  # it listens now
    key = QpKey(A, B, 50000, 17)
    drawn = random.Random(0)
    noise = [drawn.randbytes(drawn.randrange(200)) for _ in range(50)]
    send(address, [sampled(key, 99)], source="127.0.0.2")
    send(address, [*noise, sampled(key, 7)])
    counts, found = gathered(collector, 52)
    assert (counts.refused, counts.datagrams, counts.malformed) == (1, 51, 50)
    assert found == [(key, 7)]
    collector.close()


def test_a_collector_that_ends_is_an_error_and_the_next_call_starts_another(
    start: Callable[[list[str]], Any], processes: Processes
) -> None:
    collector = SflowCollector(start, free_address(), "127.0.0.1")
    collector.report()
    processes[0].kill()
    processes[0].wait()
    with pytest.raises(UnavailableError, match="sFlow collector on 127"):
        collector.report()
    collector.report()
    collector.close()


def test_the_collector_ends_with_its_controller(start: Callable[[list[str]], Any], processes: Processes) -> None:
    collector = SflowCollector(start, free_address(), "127.0.0.1")
    collector.report()
    assert processes[0].stdin is not None
    processes[0].stdin.close()
    assert processes[0].wait(60) == 0


def test_an_address_in_use_is_named(start: Callable[[list[str]], Any]) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("127.0.0.1", 0))
        port = other.getsockname()[1]
        with pytest.raises(UnavailableError):
            SflowCollector(start, f"127.0.0.1:{port}", "127.0.0.1").report()
        with pytest.raises(InputError, match="in use"):
            check_port("127.0.0.1", port, "sflow_listen", "sFlow", udp=True)
    check_port("127.0.0.1", port, "sflow_listen", "sFlow", udp=True)


def test_qps_of_hosts_of_the_fabric_are_learned_about_and_counted(
    monkeypatch: pytest.MonkeyPatch, start: Callable[[list[str]], Any]
) -> None:
    monkeypatch.setattr(Threads, "start_process", lambda _, command: start(command))
    address = free_address()
    world = World(FABRIC, seen(FABRIC), sflow_listen=address, sflow_agents="127.0.0.1").planned()

    def heard() -> bool:
        # What comes before the collector listens is lost.
        send(address, [sampled(QpKey(A, B, 50000, 17), 7), sampled(QpKey(A, ELSEWHERE, 50000, 18), 7)])
        return b'fairspine_sightings_total{feeder="sflow"}' in world.service.metrics("").body

    try:
        for _ in range(20):  # a process takes longer to start than what ``until`` waits for otherwise
            with suppress(AssertionError):
                world.until(heard)
                break
        assert world.read(lambda service: service.learned())["qps"] == 1
    finally:
        world.close()
        world.until(lambda: "sflow" in world.service.ended)


@pytest.mark.parametrize("learning", ["off", "observe"])
def test_no_process_is_started_unless_learning_and_an_address_ask_for_it(
    monkeypatch: pytest.MonkeyPatch, learning: str
) -> None:
    started: list[list[str]] = []
    monkeypatch.setattr(Threads, "start_process", lambda _, command: started.append(command))
    address = free_address() if learning == "off" else ""
    world = World(FABRIC, seen(FABRIC), learning=learning, sflow_listen=address, sflow_agents="127.0.0.1").planned()
    world.put("job", [{"src": "h1", "dst": "h3", "bytes": 1000}])
    assert (started, list(world.service.ended)) == ([], [])
    world.close()


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"sflow_listen": "127.0.0.1"}, "sflow_agents"),
        ({"sflow_listen": "here", "sflow_agents": "127.0.0.1"}, "sflow_listen"),
        ({"sflow_agents": "leaf1"}, "sflow_agents"),
    ],
)
def test_options_that_cannot_work_are_refused_at_the_start(values: dict[str, str], field: str) -> None:
    with pytest.raises(InputError) as found:
        settings_from(vars(Settings()) | values)
    assert found.value.field == field


def test_the_collector_needs_no_part_of_the_controller_that_loads_slowly() -> None:
    code = (
        "import sys; import controller.service.learning.sflow_collector; "
        "print([m for m in ('numba', 'eventlet', 'ryu') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
