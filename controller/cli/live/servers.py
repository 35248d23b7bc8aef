"""Placement of a job on the servers that a scheduler allocated, by the running controller's fabric."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from controller.cli.connection.client import Client, described, described_rows
from controller.cli.local.job import document_on_hosts
from controller.model.errors import InputError


def hosts_of(client: Client, servers: Sequence[str]) -> tuple[str, ...]:
    """Return the hosts (NICs) of some servers, in the order of the servers and by rail within a server.

    Raises:
        InputError: the fabric has no server of this name, or a server is named twice.
        CommandError: the controller does not answer.
    """
    fabric = described(client.request("GET", "fabric").document, "hosts")
    hosts: dict[str, list[tuple[int, str]]] = {}
    for row in described_rows(fabric["hosts"], "name", "server", "rail"):
        hosts.setdefault(row["server"], []).append((row["rail"], row["name"]))
    for i, server in enumerate(servers):
        if server not in hosts:
            raise InputError("the fabric has no server of this name", field="--servers", value=server)
        if server in servers[:i]:
            raise InputError("is named twice", field="--servers", value=server)
    return tuple(name for server in servers for _, name in sorted(hosts[server]))


def on_servers(document: dict[str, Any], hosts: Sequence[str], source: str) -> dict[str, Any]:
    """Return a job's document with the job's ranks on these hosts, in order.

    A description by model and parallelism may derive the number of replicas from the number of hosts; every other job
    needs as many hosts as it has ranks.

    Raises:
        InputError: the document is not a job, or has another number of ranks.
    """
    from controller.workload.job_file import parse_job
    from controller.workload.placement import moved, participants

    ranks = document.get("hosts")
    if not ranks and "flows" not in document and "matrix" not in document:
        placed = {**document, "hosts": list(hosts)}
        parse_job(placed, source=source)
        return placed
    job = parse_job(document, source=source)
    count = len(participants(job))
    if count != len(hosts):
        raise InputError(f"the servers have {len(hosts)} hosts; the job has {count} ranks", source=source)
    return document_on_hosts(document, moved(job, tuple(hosts)))
