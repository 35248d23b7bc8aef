"""The quick start: the controller in one terminal, plain ``mn`` in the other, and then ``pingall``.

``mn`` is Debian's, in Debian's Python, and speaks to the machine's Open vSwitch. Here it finds another one at that
place: a mount namespace hides the machine's sockets and ``/tmp``, and a process namespace hides the machine's processes
from ``mn``, which on some errors ends processes by name and removes files from ``/tmp``.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess

import pytest

from controller.model.files.fabric_file import load_fabric
from tests.documented import ROOT
from tests.rig.bench import Bench
from tests.rig.controller import Controller

pytestmark = pytest.mark.switches

LINES = {
    "clos-4x4x4.yaml": "mn --custom topologies/clos.py --topo clos,spines=4,leaves=4,hosts=4 ",
    "fat-tree-k4.yaml": "mn --custom topologies/fat_tree.py --topo fattree,k=4 ",
    "two-planes.yaml": "mn --custom topologies/multi_plane.py --topo multiplane,planes=2,spines=2,leaves=2,hosts=2 ",
    "rails.yaml": "mn --custom topologies/rail.py --topo rail,rails=2,spines=2,leaves=4,servers=2 ",
}
"""Of the documentation, by the file of the same fabric."""
SWITCH = "--switch ovs,datapath=user,protocols=OpenFlow13 --controller remote"

SYSTEM_SWITCH = """
set -eu
exec 4> {logs}/ovsdb-server.log 5> {logs}/ovs-vswitchd.log
mount -t tmpfs tmpfs /tmp
mount -t tmpfs tmpfs /run
# The clone may lie in one of these folders: it is put back at its place, and entered by the new path.
mkdir -p "$PWD"
mount --no-canonicalize --bind /proc/self/cwd "$PWD"
cd "$PWD"
mkdir /run/openvswitch
ovsdb-tool create /run/conf.db /usr/share/openvswitch/vswitch.ovsschema
exec 3<&0 < /dev/null
console="-vconsole:info -vsyslog:off"
ovsdb-server /run/conf.db --remote=punix:/run/openvswitch/db.sock $console >&4 2>&1 &
until [ -S /run/openvswitch/db.sock ]; do sleep 0.05; done
ovs-vsctl --no-wait init
ovs-vswitchd $console >&5 2>&1 &
ovs-vsctl --timeout=15 set open_vswitch . external-ids:ready=yes
exec {line} <&3
"""
"""An Open vSwitch at the default place, and then the command. All of it ends with the process namespace."""

SIXTEEN_HOSTS = (
    "h1 ping -c 1 -W 2 -M do -s 4472 h16",
    "h16 cat /proc/sys/net/ipv6/conf/h16-eth0/disable_ipv6",
)
TYPED = {
    "clos-4x4x4.yaml": SIXTEEN_HOSTS,
    "fat-tree-k4.yaml": SIXTEEN_HOSTS,
    "two-planes.yaml": (
        # The last host's port in the second plane, by the route to it and by the source address of the own port.
        "h1 ping -c 1 -W 2 -M do -s 4472 10.0.4.2",
        "h1 ip route get 10.0.4.2",
        "h1 ping -c 1 -W 2 -M do -s 4472 -I 10.0.3.1 10.0.4.2",
        "h4 cat /proc/sys/net/ipv6/conf/h4-eth1/disable_ipv6",
    ),
    "rails.yaml": (
        # A NIC on rail 1 of another pair of leaves, from that of the same rail and from that of rail 0.
        "node1 ping -c 1 -W 2 -M do -s 4472 10.0.4.2",
        "node1 ip route get 10.0.4.2",
        "node1 ping -c 1 -W 2 -M do -s 4472 -I 10.0.1.1 10.0.4.2",
        "node4 cat /proc/sys/net/ipv6/conf/node4-eth1/disable_ipv6",
    ),
}
"""After ``pingall``. Packets are as large as a host's MTU allows."""

ROUTE = {"two-planes.yaml": "dev h1-eth1 src 10.0.3.1", "rails.yaml": "dev node1-eth1 src 10.0.2.1"}
"""That hosts with several interfaces show."""

NAMESPACES = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
PATIENCE_SECONDS = 120.0


@pytest.mark.parametrize("file", LINES)
def test_the_documents_mn_line_and_a_running_controller_give_a_fabric_where_pingall_drops_nothing(
    bench: Bench, file: str
) -> None:
    if shutil.which("mn", path="/usr/bin") is None:
        pytest.skip("Debian's mininet package is not installed")
    assert LINES[file] + SWITCH in (ROOT / "docs/how-to/lab.md").read_text()
    fabric = load_fabric(ROOT / "examples" / file)
    n_switches = len(fabric.switches)
    controller = bench.controller("--fabric", str(ROOT / "examples" / file), str(ROOT / "controller/app.py"))
    logs = bench.out / "logs"
    script = SYSTEM_SWITCH.format(logs=shlex.quote(str(logs)), line=LINES[file] + SWITCH)
    # No environment of ours: the newcomer's terminal has none, and Debian's Python must not find our packages.
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": os.environ.get("HOME", "/root"), "TERM": "dumb"}
    mininet = subprocess.Popen(
        [*NAMESPACES, "bash", "-c", script],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        controller.wait_for(
            "all switches are connected and the rules are on them",
            lambda: mininet.poll() is not None or everything_is_installed(controller, n_switches),
            PATIENCE_SECONDS,
        )
        said, _ = mininet.communicate("\n".join(("pingall", *TYPED[file], "exit", "")), timeout=PATIENCE_SECONDS)
    finally:
        # Killing it ends the process namespace with all that is in it.
        mininet.kill()
        mininet.wait()
    (logs / "mn.log").write_text(said)
    assert mininet.returncode == 0, said
    # With several interfaces, only the first ones ping each other.
    n_hosts = len(
        {host.server if file in ROUTE and host.nic is None else host.nic or host.name for host in fabric.hosts}
    )
    n_pairs = n_hosts * (n_hosts - 1)
    assert f"Results: 0% dropped ({n_pairs}/{n_pairs} received)" in said, said
    pings = sum(" ping " in line for line in TYPED[file])
    assert said.count("1 packets transmitted, 1 received") == pings, said
    assert ROUTE.get(file, "") in said
    assert re.search(r"^(mininet> )?1$", said, re.MULTILINE), said
    assert controller.stop() == 0


def everything_is_installed(controller: Controller, n_switches: int) -> bool:
    connected = controller.get("/healthz").body["switches"]["connected"]
    return bool(connected == n_switches) and controller.plan_is_active()
