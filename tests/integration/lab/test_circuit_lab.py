"""Planned circuits on packets: panels hold what the plan says, and packets go by the planned circuits only."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from controller.circuits.fabric.optical_file import parse_optical_fabric
from controller.circuits.planning.circuit_plan import CircuitPlan, plan_circuits
from controller.circuits.planning.plan_document import circuit_plan_document
from controller.circuits.planning.stages import staged_plan
from controller.circuits.southbound.addresses import nic_address, tree_address
from controller.circuits.southbound.panel import Panel, discovery_packet
from controller.cli.main import main
from controller.model.errors import InputError
from controller.model.job import Job
from controller.workload.job_file import parse_job
from emulation.circuits.lab import CircuitLab
from emulation.circuits.losses import losses_during
from emulation.circuits.measure import fullest_bytes, ideal_tasks, measure, planned_tasks, read_line
from emulation.lab import HOST_MTU
from tests.rig.waiting import eventually

pytestmark = pytest.mark.switches

SERVERS, NICS = 6, 2
SECONDS = 1.0
"""Within which an iteration is paced to end."""
FABRIC = parse_optical_fabric({"optical": {"servers": SERVERS, "nics": NICS, "gbps": 20}})


def job() -> Job:
    """A job with an all-reduce and an all-to-all on all servers."""
    ranks = list(range(SERVERS))
    calls = [
        {"name": "dp", "op": "all_reduce", "ranks": ranks, "bytes": 600_000},
        {"name": "mp", "op": "all_to_all", "ranks": ranks, "bytes": 600_000},
    ]
    return parse_job({"name": "a", "hosts": list(FABRIC.servers), "collectives": calls})


def planned(policy: str = "search", paths: int = 1, seed: int = 0) -> CircuitPlan:
    """The plan of this job."""
    return plan_circuits(FABRIC, [("a", job())], policy=policy, paths=paths, seed=seed, effort=0.05, clock=lambda: 0.0)


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[CircuitLab]:
    with CircuitLab(FABRIC, out=tmp_path) as lab:
        lab.prepare_for_load()
        yield lab
        assert lab.problems() == []


def use(lab: CircuitLab, plan: CircuitPlan) -> None:
    lab.set_circuits(plan)
    lab.set_hosts(plan)


def ping(lab: CircuitLab, src: int, address: str, count: int) -> bool:
    """Send ICMP packets, one after the other, and return whether all were answered."""
    argv = ["ping", "-q", "-c", str(count), "-i", "0.02", "-W", "20", address]
    return f" {count} received" in lab.run(FABRIC.servers[src], argv, timeout=300).stdout


def carried(lab: CircuitLab) -> np.ndarray:
    """[d, m] packets on the circuits of each NIC of each server."""
    packets = np.zeros((NICS, SERVERS), dtype=np.int64)
    for circuit, (count, _) in lab.carried().items():
        server, nic = FABRIC.nic_at[FABRIC.switch_names.index(circuit.switch), circuit.in_port]
        packets[nic, server] += count
    return packets


def crossed(lab: CircuitLab, before: np.ndarray, expected: np.ndarray) -> None:
    """Wait until so many packets more are counted; counters of Open vSwitch are a second late."""
    more = lambda: (carried(lab) - before).tolist()  # noqa: E731
    eventually(lambda: more() == expected.tolist(), "packets are counted", shown=more)


def way(plan: CircuitPlan, tree: int, src: int, dst: int) -> np.ndarray:
    """[d, m] how often a packet crosses each circuit by a tree."""
    shard = plan.shards[0]
    crossed, at = np.zeros((NICS, SERVERS), dtype=np.int64), src
    while at != dst:
        layer = int(shard.routes.trees[tree, dst, at])
        crossed[layer, at] += 1
        at = int(shard.succ[layer, at])
    return crossed


def test_packets_cross_the_planned_circuits_and_no_others(lab: CircuitLab) -> None:
    plan = planned(paths=2)
    use(lab, plan)
    count = 10
    trees = plan.shards[0].routes.trees
    for src, dst in ((0, 1), (0, 3), (4, 2)):
        for tree in range(len(trees)):
            if (trees[tree, dst] >= 0).any():
                before = carried(lab)
                assert ping(lab, src, tree_address(dst, tree), count)
                # An answer goes back to the address that the kernel chose, which is that of the first tree.
                expected = count * (way(plan, tree, src, dst) + way(plan, 0, dst, src))
                crossed(lab, before, expected)
    # The address of a NIC is reached by the one circuit that ends there.
    after = int(plan.shards[0].succ[1, 0])
    before, expected = carried(lab), count * way(plan, 0, after, 0)
    expected[1, 0] += count
    assert ping(lab, 0, nic_address(after, 1), count)
    crossed(lab, before, expected)


def test_panels_are_read_back_repaired_and_leave_strangers_alone(lab: CircuitLab) -> None:
    plan, other = planned(), planned("totient")
    circuits = {name: [each for each in plan.shards[0].circuits if each.switch == name] for name in FABRIC.switch_names}
    use(lab, plan)
    bridge = lab.wiring.switch("ocs1")
    lab.ovs.ofctl("add-flow", bridge, "cookie=7,priority=7,in_port=1,actions=drop")
    for name, wanted in circuits.items():
        assert set(lab.panel(name).circuits()) == set(wanted)
        unchanged = lab.panel(name).set(wanted)
        assert (unchanged.removed, unchanged.added) == ((), ())
    lab.ovs.ofctl("del-flows", bridge, f"in_port={circuits['ocs1'][0].in_port}")
    lab.ovs.ofctl("add-flow", bridge, "cookie=7,priority=7,in_port=1,actions=drop")
    assert lab.panel("ocs1").set(circuits["ocs1"]).added == (circuits["ocs1"][0],)
    use(lab, other)
    for name in FABRIC.switch_names:
        expected = {each for each in other.shards[0].circuits if each.switch == name}
        assert set(lab.panel(name).circuits()) == expected
    assert "cookie=0x7" in lab.ovs.ofctl("dump-flows", bridge)
    with pytest.raises(InputError, match=r"unix:/nowhere\.mgmt: "):
        Panel("ocs1", "unix:/nowhere.mgmt").circuits()


@pytest.mark.parametrize("paths", [1, 2])
def test_an_iteration_adds_up_and_its_bytes_are_on_the_planned_circuits(lab: CircuitLab, paths: int) -> None:
    plan = planned(paths=paths)
    use(lab, plan)
    assert measure(lab, planned_tasks(plan.shards[0], SECONDS)).wrong == ()
    loads = plan.shards[0].loads.sum(axis=0)

    def counted() -> bool:
        # More are headers, and the acknowledgements of the other direction, which take the trees of the senders.
        return bool((loads <= sizes()).all() and (sizes() <= loads + 0.2 * loads.max() + 20 * HOST_MTU).all())

    def sizes() -> np.ndarray:
        size = np.zeros(loads.shape)
        for circuit, (_, more) in lab.carried().items():
            server, nic = FABRIC.nic_at[FABRIC.switch_names.index(circuit.switch), circuit.in_port]
            size[nic, server] = more
        return size

    eventually(counted, "the bytes of the plan are on the circuits", shown=lambda: (sizes() - loads).tolist())
    assert fullest_bytes(lab) == sizes().max()


def loss_probes(lab: CircuitLab, server: str) -> int:
    """How often a server has sent a packet again before it could be lost."""
    reader = lab.popen(server, ["cat", "/proc/net/netstat"], stdout=subprocess.PIPE, text=True)
    names, values = (line.split() for line in reader.communicate()[0].splitlines()[:2])
    return int(dict(zip(names, values, strict=True))["TCPLossProbes"])


def test_packets_that_wait_in_queues_are_not_sent_again(tmp_path: Path) -> None:
    with CircuitLab(FABRIC, out=tmp_path, mbps_per_gbps=0.1) as lab:
        lab.prepare_for_load()
        plan = planned("ring")
        use(lab, plan)
        assert measure(lab, planned_tasks(plan.shards[0], SECONDS)).wrong == ()
        assert [loss_probes(lab, server) for server in FABRIC.servers] == [0] * SERVERS


def test_on_the_ideal_switch_every_nic_reaches_every_server(lab: CircuitLab) -> None:
    lab.set_ideal()
    assert measure(lab, ideal_tasks(planned("totient").shards[0], NICS, SECONDS)).wrong == ()


def test_no_packet_is_lost_over_a_staged_change(lab: CircuitLab) -> None:
    before = planned("ring")
    use(lab, before)
    fabric = replace(FABRIC, circuits=before.shards[0].circuits)
    plan, stages = staged_plan(fabric, [("a", job())], seed=1, effort=0.05, paths=2, clock=lambda: 0.0)
    assert len(stages) == NICS
    losses = losses_during(lab, 2, lambda: lab.change(plan, stages, dark_seconds=0.3))
    assert losses.arrived == losses.sent > 1000
    held = {each for name in FABRIC.switch_names for each in lab.panel(name).circuits()}
    assert held == set(plan.shards[0].circuits)


def test_circuits_are_verified_by_packets_and_the_command_repairs_them(
    lab: CircuitLab, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    before = planned("ring")
    use(lab, before)
    fabric = replace(FABRIC, circuits=before.shards[0].circuits)
    plan, stages = staged_plan(fabric, [("a", job())], seed=1, effort=0.05, clock=lambda: 0.0)
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(circuit_plan_document(plan, stages)))
    addresses = [word for name in FABRIC.switch_names for word in ("--panel", f"{name}={lab.panel(name).target}")]

    def circuits(*arguments: str) -> tuple[int, str]:
        with pytest.raises(SystemExit) as end:
            main(["circuits", str(file), *addresses, *arguments])
        shown = capfd.readouterr()
        return int(end.value.code or 0), shown.out + shown.err

    code, shown = circuits("--stage", "2")
    assert code == 2
    assert "by which servers send during this stage" in shown
    assert circuits("--stage", "1")[0] == 0
    assert circuits("--check")[0] == 1
    assert circuits("--stage", "2")[0] == 0
    assert circuits("--check")[0] == 0
    # A rule is taken away by somebody else, and a server's port goes down.
    circuit = plan.shards[0].circuits[0]
    bridge = lab.wiring.switch(circuit.switch)
    lab.ovs.ofctl("del-flows", bridge, f"in_port={circuit.in_port}")
    code, shown = circuits("--check")
    assert code == 1
    assert f"{circuit.switch}: {circuit.in_port} -> {circuit.out_port}: is not set" in shown
    assert circuits()[0] == 0
    port = f"{bridge.bridge}-{circuit.out_port}"
    subprocess.run(["ip", "link", "set", "dev", port, "down"], check=True)
    code, shown = circuits("--check")
    assert code == 1
    assert f"port {circuit.out_port} is down" in shown


def test_discovery_packets_reach_the_server_at_the_end_of_a_circuit(lab: CircuitLab) -> None:
    plan = planned()
    use(lab, plan)
    circuit = plan.shards[0].circuits[3]
    server, nic = FABRIC.nic_at[FABRIC.switch_names.index(circuit.switch), circuit.out_port]
    script = (
        "import socket, sys; own = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x88CC)); "
        f"own.bind(('eth{nic}', 0x88CC)); print('ready', flush=True); print(own.recv(2000).hex())"
    )
    pipe = subprocess.PIPE
    with lab.popen(
        FABRIC.servers[server], [sys.executable, "-c", script], stdout=pipe, stderr=pipe, text=True
    ) as listening:
        assert read_line("listener", listening) == "ready\n"
        assert lab.panel(circuit.switch).faults([circuit]) == {}
        assert bytes.fromhex(read_line("listener", listening)) == discovery_packet(circuit)
