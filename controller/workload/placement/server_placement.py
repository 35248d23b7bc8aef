"""Placement of a job on the servers that a scheduler allocated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from controller.model.errors import InputError
from controller.model.fabric import Fabric
from controller.model.job import Job
from controller.workload.job_document import document_of
from controller.workload.job_file import parse_job
from controller.workload.placement.placement import crossing_of, moved, participants, place


def hosts_by_server(fabric: Fabric) -> dict[str, list[str]]:
    """Return the hosts (NICs) of each server of a fabric, by rail."""
    rows: dict[str, list[tuple[int, str]]] = {}
    for name, ports in zip(fabric.nic_names, fabric.planes.ports, strict=True):
        host = fabric.hosts[ports[0]]
        rows.setdefault(host.server, []).append((host.rail, name))
    return {server: [name for _, name in sorted(members)] for server, members in rows.items()}


def hosts_of_servers(hosts: Mapping[str, Sequence[str]], servers: Sequence[str]) -> tuple[str, ...]:
    """Return the hosts (NICs) of some servers, in the order of the servers and by rail within a server.

    Args:
        hosts: those of each server, by rail.
        servers: names of servers.

    Raises:
        InputError: there is no server of this name, or a server is named twice.
    """
    for i, server in enumerate(servers):
        if server not in hosts:
            raise InputError("the fabric has no server of this name", field="--servers", value=server)
        if server in servers[:i]:
            raise InputError("is named twice", field="--servers", value=server)
    return tuple(name for server in servers for name in hosts[server])


def on_hosts(document: dict[str, Any], hosts: Sequence[str], source: str) -> dict[str, Any]:
    """Return a job's document with the job's ranks on these hosts, in order.

    A description by model and parallelism may derive the number of replicas from the number of hosts; every other job
    needs as many hosts as it has ranks.

    Raises:
        InputError: the document is not a job, or has another number of ranks.
    """
    ranks = document.get("hosts")
    if not ranks and "flows" not in document and "matrix" not in document:
        placed = {**document, "hosts": list(hosts)}
        parse_job(placed, source=source)
        return placed
    job = parse_job(document, source=source)
    count = len(participants(job))
    if count != len(hosts):
        raise InputError(f"the servers have {len(hosts)} hosts; the job has {count} ranks", source=source)
    return document_with_hosts(document, moved(job, tuple(hosts)))


def document_with_hosts(document: dict[str, Any], placed: Job) -> dict[str, Any]:
    """Return the document with the hosts replaced, or the whole job anew if flows or a matrix name hosts."""
    if len(placed.flows.src) or placed.matrix is not None:
        return document_of(placed)
    return document | {"hosts": list(placed.hosts)}


def reordered(fabric: Fabric, job: Job) -> Job:
    """Return a job on its own hosts in the order of ranks that sends the fewest bytes between pods, then leaves.

    Ranks keep their places where no better order is known. See ``placement.place`` for the orders that are tried.

    Raises:
        InputError: the job is on hosts that the fabric does not have.
    """
    best = moved(job, place(fabric, job, "packed", free=participants(job)))
    crossings = [
        (crossing.cross_pod, crossing.cross_leaf) for crossing in (crossing_of(fabric, job), crossing_of(fabric, best))
    ]
    return best if crossings[1] < crossings[0] else job


def host_file(fabric: Fabric, job: Job, tasks_per_node: int | None = None) -> str:
    """Return a host file for Slurm (SLURM_HOSTFILE, ``srun --distribution=arbitrary``): one server a line, by task.

    Args:
        fabric: the fabric that has the hosts of the job.
        job: the job. Rank i is task i.
        tasks_per_node: so many tasks on each server, with servers in the order of their first ranks; ``None``: one task
            for each rank.
    """
    server_of = {name: server for server, names in hosts_by_server(fabric).items() for name in names}
    servers = [server_of[host] for host in participants(job)]
    if tasks_per_node is not None:
        servers = [server for server in dict.fromkeys(servers) for _ in range(tasks_per_node)]
    return "".join(f"{server}\n" for server in servers)
