"""Queues for classes of priority at a real Open vSwitch: it counts packets in the queue of their class."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.model.files.clos import clos
from controller.model.priority import DSCP
from controller.southbound.qos.formats import QOS_FORMATS
from controller.southbound.qos.outputs import switch_outputs

pytestmark = pytest.mark.switches

PATIENCE_SECONDS = 120.0
SENT = (5, 10, 15, 20)
"""Packets of each class; all of them fit into the buffer of the socket by which Open vSwitch receives them, however
late it reads: of 110 packets with 900 bytes, 93 did."""

LABELLED = (4, 3, 2, 1)
"""Packets of each class behind a label, as segment routing sends them."""

BYTES = 300
"""Of a packet: no other one is as long, so what the kernel itself sends is told apart."""

SWITCH = """
set -eu
export OVS_RUNDIR={folder} OVS_LOGDIR={folder} OVS_DBDIR={folder} OVS_SYSCONFDIR={folder}
cd {folder}
ip link set lo up
for port in 1 2 3; do
  ip link add leaf1-eth$port type veth peer name far$port
  for end in leaf1-eth$port far$port; do
    echo 1 > /proc/sys/net/ipv6/conf/$end/disable_ipv6
    ip link set $end up
  done
done
ovsdb-tool create conf.db /usr/share/openvswitch/vswitch.ovsschema
ovsdb-server conf.db --remote=punix:{folder}/db.sock -vconsole:warn -vsyslog:off &
until [ -S db.sock ]; do sleep 0.05; done
ovs-vsctl --no-wait init
ovs-vswitchd unix:{folder}/db.sock --disable-system -vconsole:warn -vsyslog:off &
ovs-vsctl --timeout=60 add-br leaf1 -- set bridge leaf1 datapath_type=netdev fail_mode=secure protocols=OpenFlow13
for port in 1 2 3; do
  ovs-vsctl add-port leaf1 leaf1-eth$port -- set interface leaf1-eth$port ofport_request=$port
done
# Twice: what an earlier run has made is replaced.
sh queues.sh
sh queues.sh
ovs-vsctl --format=csv --columns=_uuid list queue | tail -n +2 | wc -l | sed 's/^/queues: /'
ovs-ofctl -O OpenFlow13 add-flow unix:{folder}/leaf1.mgmt in_port=1,actions=output:3
{python} send.py
wanted={total}
until [ $(tc -s class show dev leaf1-eth3 | grep -A1 'parent' | awk '/Sent/ {{n += $4}} END {{print n}}') -ge $wanted ]
do sleep 0.1; done
ovs-ofctl -O OpenFlow13 queue-stats unix:{folder}/leaf1.mgmt 3
tc class show dev leaf1-eth3
"""
"""A bridge with three ports and their queues, packets from the first port to the third, and what queues counted."""

SEND = """
import socket, struct
port = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
port.bind(("far1", 0))
for priority, (code_point, packets, labelled) in enumerate(zip({dscp}, {sent}, {labelled})):
    part = struct.pack("!BBHHHBBH4s4s", 0x45, code_point << 2, {bytes} - 14, 0, 0, 64, 17, 0, bytes(4), bytes(4))
    for _ in range(packets):
        port.send(bytes([2] * 12) + b"\\x08\\x00" + part + bytes({bytes} - 14 - len(part)))
    label = struct.pack("!I", 16000 << 12 | priority << 9 | 1 << 8 | 64)
    for _ in range(labelled):
        port.send(bytes([2] * 12) + b"\\x88\\x47" + label + part + bytes({bytes} - 18 - len(part)))
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """Yield a folder with a short path, for sockets."""
    made = Path(tempfile.mkdtemp(prefix="fs"))
    yield made
    shutil.rmtree(made)


def test_packets_take_the_queue_of_their_class_and_queues_have_their_priority_and_floor(folder: Path) -> None:
    fabric = clos(1, 1, 2, uplink_gbps=0.2)
    (leaf, _) = switch_outputs(fabric, QOS_FORMATS["ovs"].interface)
    (folder / "queues.sh").write_text(QOS_FORMATS["ovs"].write(leaf))
    (folder / "send.py").write_text(SEND.format(dscp=DSCP, sent=SENT, labelled=LABELLED, bytes=BYTES))
    script = SWITCH.format(
        folder=shlex.quote(str(folder)), python=shlex.quote(sys.executable), total=sum(SENT + LABELLED)
    )
    done = subprocess.run(
        ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "bash", "-c", script],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"queues: {len(DSCP) * len(leaf.outputs)}\n" in done.stdout
    counted = {int(n): int(size) for n, size in re.findall(r"queue (\d+): bytes=(\d+),", done.stdout)}
    assert counted == {each: (SENT[each] + LABELLED[each]) * BYTES for each in range(len(DSCP))}, (
        done.stdout + done.stderr
    )
    classes = re.findall(r"class htb 1:([1-4]) parent \S+ prio (\d) rate (\w+) ceil (\w+) ", done.stdout)
    assert sorted(classes) == [(str(n + 1), str(3 - n), "2Mbit", "200Mbit") for n in range(len(DSCP))]
