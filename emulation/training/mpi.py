"""OpenMPI's starter of ranks, mpirun, in the namespaces of hosts: without ssh, and without a resolver.

mpirun starts a daemon on each host by a program that it takes for ssh: here a script that enters the host's namespaces.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

from emulation.training.scripts import MPIRUN

_ENTER = (
    'exec nsenter --net="/proc/$pid/ns/net" unshare --uts --mount sh -ec \'{script}\' sh "$host" {hosts} sh -c "$*"'
)

_ONE_RANK = 'export RANK="$OMPI_COMM_WORLD_RANK"; log="$1-$RANK.log"; shift; exec "$@" > "$log" 2>&1'
"""Run for each rank, with the beginning of its log's name, and its command."""


def write_agent(path: Path, processes: Mapping[str, int], hosts: Path, script: str) -> None:
    """Write the program that mpirun calls as ``AGENT HOST COMMAND``.

    Args:
        path: of the program.
        processes: of each host, a process in its network namespace.
        hosts: the file of names that ranks see as /etc/hosts.
        script: run on a host in new namespaces, with name, file of hosts, and command.
    """
    cases = [f"{shlex.quote(host)}) pid={pid};;" for host, pid in processes.items()]
    unknown = '*) echo "$host is no host of the job" >&2; exit 1;;'
    lines = [
        "#!/bin/sh",
        "host=$1; shift",
        'case "$host" in',
        *cases,
        unknown,
        "esac",
        _ENTER.format(script=script.replace("'", "'\\''"), hosts=shlex.quote(str(hosts))),
    ]
    path.write_text("\n".join([*lines, ""]))
    path.chmod(0o755)


def mpirun_command(
    hosts: Sequence[str],
    addresses: Sequence[str],
    agent: Path,
    logs: Path,
    variables: Sequence[str],
    rank: Sequence[str],
) -> list[str]:
    """Return the command that starts a rank on each host, in their order.

    Args:
        hosts: their names.
        addresses: the same hosts.
        agent: what ``write_agent`` has written.
        logs: beginning of the path of each rank's log, which ends in its number.
        variables: names of environment variables that ranks get.
        rank: the command of each.
    """
    network = str(_common_network(addresses))
    settings = {
        "plm": "rsh",
        "plm_rsh_agent": str(agent),
        # All daemons are started from here, and none leaves its session: so the end of mpirun is theirs.
        "plm_rsh_no_tree_spawn": "1",
        "orte_leave_session_attached": "1",
        # The second one works only where a script asks for its counts.
        "pml": "ob1,monitoring",
        "btl": "self,tcp",
        "btl_tcp_if_include": network,
        "btl_tcp_disable_family": "6",
        "oob_tcp_if_include": network,
        # The other component looks for IPv4 gateways, and routes of hosts may lead over IPv6 ones.
        "reachable": "weighted",
        "hwloc_base_binding_policy": "none",
        # A rank on each host looks like a processor for each, and ranks that wait would keep others from running.
        "mpi_yield_when_idle": "1",
    }
    command = [MPIRUN, "--allow-run-as-root", "--host", ",".join(f"{host}:1" for host in hosts), "-np", str(len(hosts))]
    for name, value in settings.items():
        command += ["--mca", name, value]
    for name in variables:
        command += ["-x", name]
    return [*command, "sh", "-c", _ONE_RANK, "sh", str(logs), *rank]


def _common_network(addresses: Sequence[str]) -> IPv4Network:
    """Return the smallest network with all of two or more addresses."""
    network = IPv4Network(addresses[0])
    while not all(IPv4Address(address) in network for address in addresses):
        network = network.supernet()
    # To OpenMPI 4.1, a network of one address is one of all.
    return network if network.prefixlen < network.max_prefixlen else network.supernet()
