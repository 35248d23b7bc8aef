"""Ranks on GPUs with NICs from an NCCL topology: rank i is GPU i mod G of the (i / G)-th server, on that GPU's rail.

Where GPUs share a NIC, several ranks have one host. A job has one rank a host, so its collectives then become flows
between NICs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from controller.model.errors import InputError
from controller.model.fabric import Fabric
from controller.model.job import FlowList, Job
from controller.model.packets.flow_ports import port_code
from controller.model.waits import waits_among
from controller.workload.collectives import flows_of
from controller.workload.importers.nccl_topology import Rails
from controller.workload.placement.placement import Method, moved, participants, place, rename_hosts


def in_order(job: Job, fabric: Fabric, rails: Rails) -> Job:
    """Place the job on the fabric's servers in their order; hosts that the job names are ranks, in their order.

    Raises:
        InputError: there are too few servers, or one lacks a NIC.
    """
    by_server: dict[str, dict[int, str]] = {}
    for host in fabric.hosts:
        by_server.setdefault(host.server, {})[host.rail] = host.name
    servers = list(by_server)
    seats = _seats(len(participants(job)), rails)
    needed = seats[-1][0] + 1 if seats else 0
    if len(servers) < needed:
        raise InputError(
            f"{len(seats)} ranks on servers of {len(rails.nic)} GPUs need {needed} servers; {len(servers)} are free",
            field="topology",
        )
    hosts = []
    for block, nic in seats:
        there = by_server[servers[block]]
        if nic not in there:
            raise InputError(f"server {servers[block]} has no NIC on rail {nic}", field="topology", value=len(there))
        hosts.append(there[nic])
    return _on(job, hosts, rails)


def by_method(
    job: Job, fabric: Fabric, rails: Rails, method: Method, seed: int = 0, free: Collection[str] | None = None
) -> Job:
    """Place the job on servers chosen by a method of ``placement.place``.

    Args:
        job: the job to place.
        fabric: the fabric that has the servers.
        rails: the NIC of each GPU of a server.
        method: the method of ``placement.place``.
        seed: the seed of the method ``random``.
        free: names of the hosts that may be used; ``None``: all.

    Raises:
        InputError: as ``place``, or too few servers have exactly the NICs of the topology, all free.
    """
    seats = _seats(len(participants(job)), rails)
    blocks = seats[-1][0] + 1 if seats else 0
    made_up = tuple(f"{block}.{nic}" for block in range(blocks) for nic in range(rails.n_nics))
    seated = [f"{block}.{nic}" for block, nic in seats]
    # All NICs of each server are placed in the order of rails, including those of GPUs without a rank.
    asked = _between(job, seated, made_up, rails)
    hosts = dict(zip(made_up, place(fabric, asked, method, seed, free), strict=True))
    for block in range(blocks):
        chosen = [fabric.hosts[fabric.host_index[hosts[f"{block}.{nic}"]]] for nic in range(rails.n_nics)]
        together = {host.server for host in chosen}
        if len(together) > 1 or [host.rail for host in chosen] != list(range(rails.n_nics)):
            raise InputError(
                f"needs {blocks} servers with {rails.n_nics} NICs each, on rails 0 .. {rails.n_nics - 1}, all free",
                field="topology",
            )
    return _on(job, [hosts[seat] for seat in seated], rails)


def _seats(n: int, rails: Rails) -> list[tuple[int, int]]:
    """Return server and NIC of each rank."""
    return [(rank // len(rails.nic), rails.nic[rank % len(rails.nic)]) for rank in range(n)]


def _on(job: Job, hosts: Sequence[str], rails: Rails) -> Job:
    names = participants(job)
    if len(set(hosts)) == len(hosts):
        return moved(job, tuple(hosts))
    return _flows_between(job, dict(zip(names, hosts, strict=True)), rails)


def _between(job: Job, seated: Sequence[str], all_seats: tuple[str, ...], rails: Rails) -> Job:
    """Return an equivalent job between seats that has all of them as its hosts, in their order."""
    names = participants(job)
    if len(set(seated)) < len(seated):
        between = _flows_between(job, dict(zip(names, seated, strict=True)), rails)
        return dataclasses.replace(between, hosts=all_seats)
    number = {seat: i for i, seat in enumerate(all_seats)}
    renamed = rename_hosts(job, dict(zip(names, seated, strict=True)))
    calls = tuple(
        dataclasses.replace(call, ranks=tuple(number[renamed.hosts[rank]] for rank in call.ranks))
        for call in job.collectives
    )
    return dataclasses.replace(renamed, hosts=all_seats, collectives=calls)


def _flows_between(job: Job, nic: Mapping[str, str], rails: Rails) -> Job:
    """Convert all traffic to flows between NICs; traffic within one NIC is left out."""
    server = {name: rank // len(rails.nic) for rank, name in enumerate(participants(job))}
    rows = [
        (nic[src], nic[dst], size, name, port)
        for src, dst, size, name, port in zip(
            job.flows.src,
            job.flows.dst,
            job.flows.bytes.tolist(),
            job.flows.collective,
            job.flows.udp_src.tolist(),
            strict=True,
        )
    ]
    phases = dict(job.phases)
    for call in job.collectives:
        own = [job.hosts[rank] for rank in call.ranks]
        flows = flows_of(call, np.array([server[host] for host in own], dtype=np.int32))
        phases |= {call.name: call.phase} if call.phase else {}
        for src, dst, size in zip(flows.src.tolist(), flows.dst.tolist(), flows.bytes.tolist(), strict=True):
            rows.append((nic[own[src]], nic[own[dst]], size, call.name, port_code(job.protocol_of(call))))
    if job.matrix is not None:
        ends = [nic[host] for host in job.matrix.hosts]
        for src, dst in np.argwhere(job.matrix.bytes).tolist():
            size = int(job.matrix.bytes[src, dst])
            rows.append((ends[src], ends[dst], size, job.matrix.collective, port_code(job.protocol)))
    rows = [row for row in rows if row[0] != row[1]]
    named = {row[3] for row in rows}
    return dataclasses.replace(
        job,
        hosts=(),
        collectives=(),
        matrix=None,
        flows=FlowList(
            tuple(row[0] for row in rows),
            tuple(row[1] for row in rows),
            np.array([row[2] for row in rows], dtype=np.int64),
            tuple(row[3] for row in rows),
            np.array([row[4] for row in rows], dtype=np.int32),
        ),
        phases={name: phase for name, phase in phases.items() if name in named},
        waits=waits_among(job.waits_by_name, job.phase_by_name, named),
    )
