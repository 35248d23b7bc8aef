"""Measure the agent on a host of Linux routers: losses, changes of plans, and the cost of a packet. Needs root.

Usage: ``python -m benchmarks.running.agent [--rounds 5] [--flows 1000 100000] [--json FILE]``. On a 2 x 2 Clos in
network namespaces, a stream of 1,000 datagrams a second takes a planned path:

* *cable down*: a spine loses its cable to the receiver's leaf, and only the agent acts;
* *silent loss*: the spine drops all packets there, and probes tell;
* *restart*: the agent is killed and started again.

Then, in a namespace of its own, all of N flows get other paths in one plan; one of them does; one or 1,000 of them do
by the changes of a plan, from the answer of the controller until all is read back and saved; a path in use moves; and
the cost of sending a packet is compared with that of a plain route and of one SRv6 route.
"""

from __future__ import annotations

import argparse
import json
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from ipaddress import IPv4Address, IPv6Address
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

from agent.linux.bpf_kernel import BpfKernel
from agent.linux.kernel import Kernel, MapKernel
from agent.linux.kernel_routes import KernelRoutes
from agent.linux.kernel_state import KernelState, StateMaker, changes
from agent.plans.flow_keys import described, destination, flow_key
from agent.plans.host_plan import HostPlan, PathChoice, read_plan
from agent.plans.saved_files import SavedFiles
from controller.model.files.clos import clos
from controller.model.packets.port_numbers import ROCE_PORT
from emulation import isolate
from emulation.netns import CLONE_NEWNET, unshare
from tests.rig.host_agent import HostAgent, PlanServer
from tests.rig.host_plans import host_plan
from tests.rig.packet_stream import Stream
from tests.rig.routers.router_lab import RouterLab
from tests.rig.waiting import eventually

PORT = 50001
DROP = "table netdev t {{ chain c {{ type filter hook egress device {} priority 0; policy drop; }}; }}"
TABLE, PACKETS, ROUNDS = 250, 20_000, 9
OBJECT = Path(__file__).parents[2] / "out/ebpf/steering.o"


class RunningAgent:
    """Routers, a controller of one host, and its agent."""

    def __init__(self, folder: Path, *options: str) -> None:
        """Start all, and a stream of packets on the first of two paths."""
        self.fabric = clos(2, 2, 1)
        self.lab = RouterLab(self.fabric, folder)
        self.server = PlanServer(self.lab, "h1")
        self.server.__enter__()
        self.agent = HostAgent(self.lab, "h1", folder / "agent", *options)
        paths = self.fabric.live_paths(0, 1).tolist()
        self.server.plan(host_plan(self.lab, 0, [(1, PORT, paths[0]), (1, PORT + 1, paths[1])]))
        self.agent.start()
        self.server.wait_for_report("confirmed", lambda each: each["epoch"] == 1)
        self.down = self.fabric.flow_links(0, 1, paths[0])[2]
        self.stream = Stream(self.lab, 0, 1, PORT)
        eventually(lambda: self.stream.received() > 500, "packets arrive")

    def close(self) -> None:
        """End all."""
        self.agent.close()
        self.server.__exit__()
        self.lab.close()


def failure(fail: Callable[[RunningAgent], None], *options: str) -> dict[str, float]:
    """Return how many packets are lost when something fails, and the longest time without one."""
    with tempfile.TemporaryDirectory() as folder:
        running = RunningAgent(Path(folder), *options)
        try:
            before = running.stream.received()
            fail(running)
            eventually(lambda: running.stream.received() > before + 1000, "packets arrive again")
            state = running.stream.state("?")
            sent, received = running.stream.end()
            return {"lost": sent - received, "longest_gap_ms": 1e3 * state["seconds"]}
        finally:
            running.close()


def cable_down(running: RunningAgent) -> None:
    """Take a cable down."""
    running.lab.cut((running.down - running.fabric.first_cable_link) // 2)


def silent_loss(running: RunningAgent) -> None:
    """Drop all at the spine."""
    spine, interface = running.lab.ends(running.down)[0]
    running.lab.run(spine, "nft", DROP.format(interface))


def restart(running: RunningAgent) -> None:
    """Kill the agent, and start it again."""
    running.agent.end(signal.SIGKILL)
    running.server.reports.clear()
    running.agent.start()
    running.server.wait_for_report("confirmed", lambda each: each["epoch"] == 1)


def _plan(flows: int, turn: int) -> HostPlan:
    carriers = [IPv6Address(f"fcbb:bb00:c{n:03x}:2:e001::") for n in range(1, 65)]
    choices = [PathChoice((carriers[n], carriers[n - 1]), None) for n in range(64)]
    own = IPv4Address("10.0.1.1")
    keys = [flow_key(own, IPv4Address(f"10.0.2.{1 + n % 64}"), "udp", 1024 + n // 64, ROCE_PORT) for n in range(flows)]
    steered = {key: choices[(n + turn) % 64] for n, key in enumerate(keys)}
    destinations = {dst: PathChoice((carriers[0],), None) for dst in dict.fromkeys(map(destination, keys))}
    return HostPlan(1, "h1", "planned", IPv6Address("fd00::1"), (), destinations, steered, digest="1")


def _timed(work: Callable[[], None]) -> dict[str, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return {"ms": 1e3 * (time.perf_counter() - wall), "cpu_ms": 1e3 * (time.process_time() - cpu)}


def _cost(port: int, dst: str) -> float:
    """Return the processor time of sending a packet, in microseconds: the least of some rounds."""
    best = float("inf")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.bind(("10.0.1.1", port))
        for _ in range(5):
            first = time.process_time()
            for _ in range(PACKETS):
                sender.sendto(b"x" * 1000, (dst, ROCE_PORT))
            best = min(best, 1e6 * (time.process_time() - first) / PACKETS)
    return best


def _steer(*lines: str) -> None:
    for line in lines:
        subprocess.run(line.split(), check=True)


def kernel_changes(sizes: list[int]) -> dict[str, Any]:
    """Return times of changes and costs of packets, in a namespace of this process."""
    unshare(CLONE_NEWNET)
    _steer(
        "ip link add eth0 mtu 9000 type veth peer name sink mtu 9000",
        "ip link set lo up",
        "ip address add 10.0.1.1/32 dev eth0",
        "ip -6 address add fd00::1/64 dev eth0 nodad",
        "ip link set eth0 up",
        "ip link set sink up",
        "ip route add 10.9.0.0/16 dev eth0",
        "ip -6 route add default via fd00::2 dev eth0",
        "ip route add 10.8.0.1/32 encap seg6 mode encap.red segs fcbb:bb00:c001:2:e001:: dev eth0",
        "ip sr tunsrc set fd00::1",
    )
    mac = json.loads(subprocess.check_output(["ip", "-j", "link", "show", "sink"]))[0]["address"]
    _steer(f"ip neigh add fd00::2 lladdr {mac} dev eth0 nud permanent", f"ip neigh add 10.9.0.1 lladdr {mac} dev eth0")
    sink = "table netdev t { chain c { type filter hook ingress device sink priority 0; policy drop; }; }"
    subprocess.run(["nft", sink], check=True)
    routes = KernelRoutes("eth0", TABLE)
    kernels: tuple[Kernel, ...] = (MapKernel(routes), BpfKernel(routes, "eth0", OBJECT))
    result: dict[str, Any] = {"plain_us": _cost(1024, "10.9.0.1"), "one_route_us": _cost(1024, "10.8.0.1")}
    for kernel in kernels:
        kernel.prepare()
        result[kernel.name] = {str(size): _changes(kernel, size) for size in sizes}
        kernel.remove()
    return result


def _changes(kernel: Kernel, size: int) -> dict[str, Any]:
    maker, held = StateMaker(), KernelState()
    row: dict[str, Any] = {}

    def to(plan: HostPlan) -> None:
        nonlocal held
        wanted = maker.state(plan, lambda _: True)
        kernel.change(changes(held, wanted))
        held = wanted

    def move() -> None:
        nonlocal held
        wanted = maker.moved(held, second, lambda carrier: carrier != dead)
        kernel.change(changes(held, wanted))
        held = wanted

    first, second = _plan(size, 0), _plan(size, 1)
    dead = IPv6Address("fcbb:bb00:c001:2:e001::")
    row["all_new"] = _timed(lambda: to(first))
    for number in (1, 1000):
        row[f"{number} by changes"] = _by_changes(kernel, maker, held, first, number)
        to(first)
    row["all_replaced"] = _timed(lambda: to(second))
    row["packet_us"] = _cost(1024, "10.0.2.1")
    one = dict(second.flows)
    key = next(iter(one))
    one[key] = PathChoice(one[key].carriers[::-1], None)
    row["one_replaced"] = _timed(lambda: to(replace(second, flows=one)))
    to(second)
    row["path_moved"] = _timed(move)
    row["read_back"] = _timed(lambda: print(end="") if not changes(kernel.held()[0], held) else None)
    to(HostPlan(2, "h1", "planned", IPv6Address("fd00::1")))
    return row


def _by_changes(kernel: Kernel, maker: StateMaker, held: KernelState, plan: HostPlan, number: int) -> dict[str, float]:
    """Return the times until the kernel holds a plan with so many other flows, as it is read back: medians of rounds.

    Everything counts that an agent does with the answer of a controller: it is read, carried out, and saved.
    """
    rounds = []
    with tempfile.TemporaryDirectory() as folder:
        files = SavedFiles(Path(folder))
        for epoch in range(2, 2 + ROUNDS):
            keys = list(islice(plan.flows, epoch * number, (epoch + 1) * number))
            choices = [*dict.fromkeys(plan.flows.values())]
            flows = [_row(key, choices[(choices.index(plan.flows[key]) + 1) % len(choices)]) for key in keys]
            same = {"host": "h1", "mode": "planned", "source": "fd00::1", "decapsulate": [], "destinations": None}
            changes = {"changes_of": plan.digest, "flows": flows, "gone": []}
            body = json.dumps({"epoch": epoch, "digest": f"{epoch:016x}", **same, **changes})
            after: list[tuple[HostPlan, KernelState]] = []

            def follow(
                body: str = body,
                before: HostPlan = plan,
                held: KernelState = held,
                after: list[tuple[HostPlan, KernelState]] = after,
            ) -> None:
                document = json.loads(body)
                new = read_plan(document, before)
                step = maker.step(held, before, new, lambda _: True)
                assert step is not None
                kernel.change(step[1])
                assert kernel.has_made(step[1])
                files.save_plan(document)
                after.append((new, step[0]))

            rounds.append(_timed(follow))
            ((plan, held),) = after
    return {name: median(each[name] for each in rounds) for name in rounds[0]}


def _row(key: bytes, choice: PathChoice) -> dict[str, Any]:
    """Return a flow as the controller describes it."""
    first, *backups = map(str, choice.carriers)
    return {**described(key), "carrier": first, "backups": backups, "probe": None}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--flows", type=int, nargs="*", default=[1000, 100_000])
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    isolate.enter()
    result: dict[str, Any] = {}
    cases: dict[str, tuple[Callable[[RunningAgent], None], tuple[str, ...]]] = {
        "cable down": (cable_down, ("--probe-ms", "0")),
        "silent loss": (silent_loss, ()),
        "restart": (restart, ()),
    }
    for name, (fail, options) in cases.items():
        rounds = [failure(fail, *options) for _ in range(given.rounds)]
        lost, gaps = sorted(each["lost"] for each in rounds), [each["longest_gap_ms"] for each in rounds]
        result[name] = rounds
        print(
            f"{name}: packets lost {lost}, median {median(lost):g}; longest gap {median(gaps):.0f} ms (median)",
            flush=True,
        )
    result["kernel"] = kernel_changes(given.flows)
    print(json.dumps(result["kernel"], indent=1))
    if given.json:
        given.json.write_text(json.dumps(result))


if __name__ == "__main__":
    main()
