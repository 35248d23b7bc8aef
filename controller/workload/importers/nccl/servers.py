"""Servers that share a hostname, distinguished by other information in the log.

Two servers may have one hostname ("ubuntu" in every image). Then the lines of their ranks look like those of one
server. Ranks of one server share an address or NCCL's host hash, or reach each other by P2P or shared memory. Ranks of
two servers have GPUs at the same bus position, the same position among the ranks of a server, or other addresses.
"""

from __future__ import annotations

from collections.abc import Iterator

from controller.model.errors import InputError
from controller.workload.importers.nccl.communicators import Communicator
from controller.workload.importers.nccl.log import Log, Member

_Process = tuple[str, int]


def tell_apart(log: Log, communicators: list[Communicator]) -> None:
    """Rename each server of a shared hostname: the hostname, a dot and a number from 1.

    Raises:
        InputError: the log shows that a hostname stands for several servers, and not which ranks are on which.
    """
    for host in sorted({member.host for one in communicators for member in one.members.values()}):
        if reason := _suspicion(log, communicators, host):
            _split(log, communicators, host, reason)


def _suspicion(log: Log, communicators: list[Communicator], host: str) -> str:
    """Return the evidence for several servers under one name; empty: none."""
    for one in communicators:
        here = _on(one, host)
        servers = len({member.host for member in one.members.values()})
        if not one.missing and servers < one.n_servers:
            return f"nNodes is {one.n_servers}, and the {one.n_ranks} ranks have {servers} hostnames"
        for reason in _differences(log, here):
            return reason
    return ""


def _on(one: Communicator, host: str) -> dict[int, Member]:
    return {rank: member for rank, member in sorted(one.members.items()) if member.host == host}


def _differences(log: Log, members: dict[int, Member]) -> Iterator[str]:
    """Yield reasons why ranks of one communicator cannot all be on one server."""
    seen: dict[tuple[str, object], int] = {}
    for rank, member in members.items():
        if member.bus and seen.setdefault(("bus", member.bus), rank) != rank:
            yield f"ranks {seen['bus', member.bus]} and {rank} both have the GPU at bus {member.bus}"
        if member.local >= 0 and seen.setdefault(("local", member.local), rank) != rank:
            yield f"ranks {seen['local', member.local]} and {rank} both have localRank {member.local}"
    for what, values in (
        ("addresses", {log.addresses[m.process] for m in members.values() if m.process in log.addresses}),
        ("host hashes", {m.host_hash for m in members.values() if m.host_hash}),
    ):
        if len(values) > 1:
            yield f"its processes have {len(values)} {what}"


def _split(log: Log, communicators: list[Communicator], host: str, reason: str) -> None:
    groups = _joined(log, communicators, host)
    number = _numbers(groups)
    if not _is_right(log, communicators, host, number):
        number = _by_blocks(communicators, host) or {}
    if not _is_right(log, communicators, host, number):
        first = next(member for one in communicators for member in one.members.values() if member.host == host)
        raise InputError(
            f"this hostname is used by several servers ({reason}), which cannot be distinguished: "
            "use different hostnames",
            source=first.where,
            value=host,
        )
    _rename(log, communicators, host, number)
    log.notes.once(f"hostname {host} stands for {len(set(number.values()))} servers ({reason}): {host}.1, {host}.2, ..")


def _joined(log: Log, communicators: list[Communicator], host: str) -> list[set[_Process]]:
    """Return the sets of processes on one server, according to the lines."""
    root: dict[_Process, _Process] = {}

    def find(process: _Process) -> _Process:
        while root.setdefault(process, process) != process:
            process = root[process]
        return process

    mark: dict[object, _Process] = {}
    for one in communicators:
        here = _on(one, host)
        for member in here.values():
            own = find(member.process)
            for value in (log.addresses.get(member.process), member.host_hash or None):
                if value is not None:
                    root[find(mark.setdefault(value, own))] = find(own)
            for peer in member.near & here.keys():
                root[find(here[peer].process)] = find(member.process)
    groups: dict[_Process, set[_Process]] = {}
    for process in list(root):
        groups.setdefault(find(process), set()).add(process)
    return list(groups.values())


def _numbers(groups: list[set[_Process]]) -> dict[_Process, int]:
    return {process: i for i, group in enumerate(groups) for process in group}


def _is_right(log: Log, communicators: list[Communicator], host: str, number: dict[_Process, int]) -> bool:
    """Return whether servers with these numbers contradict no line, and all ranks are on one."""
    for one in communicators:
        by_server: dict[int, dict[int, Member]] = {}
        for rank, member in _on(one, host).items():
            if member.process not in number:
                return False
            by_server.setdefault(number[member.process], {})[rank] = member
        if any(reason for members in by_server.values() for reason in _differences(log, members)):
            return False
        others = len({member.host for member in one.members.values()} - {host})
        if one.n_servers and not one.missing and len(by_server) + others != one.n_servers:
            return False
        # From 2.16 on each server's number of ranks is known.
        if any(0 < m.n_local < len(members) for members in by_server.values() for m in members.values()):
            return False
    return True


def _by_blocks(communicators: list[Communicator], host: str) -> dict[_Process, int] | None:
    """Return servers of equally many consecutive ranks, if all ranks of the largest communicator have this hostname."""
    world = max(communicators, key=lambda one: one.n_ranks)
    here = _on(world, host)
    if len(here) < world.n_ranks:
        return None
    size = _period([here[rank].bus for rank in range(world.n_ranks)])
    if world.n_servers:
        size = world.n_ranks // world.n_servers if world.n_ranks % world.n_servers == 0 else 0
    return {member.process: rank // size for rank, member in here.items()} if size else None


def _period(buses: list[str]) -> int:
    """Return the number of ranks after which the GPUs' positions repeat; 0: they do not, or are unknown."""
    size = buses.index(buses[0], 1) if all(buses) and buses.count(buses[0]) > 1 else 0
    if not size or len(buses) % size or any(bus != buses[i % size] for i, bus in enumerate(buses)):
        return 0
    return size


def _rename(log: Log, communicators: list[Communicator], host: str, number: dict[_Process, int]) -> None:
    order: dict[int, int] = {}
    for one in sorted(communicators, key=lambda one: -one.n_ranks):
        for _, member in sorted(one.members.items()):
            if member.host == host:
                order.setdefault(number[member.process], len(order) + 1)
    named = {process: f"{host}.{order[i]}" for process, i in number.items() if i in order}
    for process, name in named.items():
        if process in log.choices:
            log.choices[name, process[1]] = log.choices[process]
        for where, net in [key for key in log.devices if key[0] == host]:
            log.devices[name, net] = log.devices[where, net]
    for member in {id(m): m for one in communicators for m in one.members.values()}.values():
        member.host = named.get(member.process, member.host)
