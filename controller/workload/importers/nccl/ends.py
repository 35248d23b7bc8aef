"""The ends of flows: NICs of servers, as hosts of the fabric or as provisional hosts."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from controller.model.errors import InputError
from controller.workload.importers.base import ImportRequest
from controller.workload.importers.inventory import ANY_NIC
from controller.workload.importers.nccl.communicators import Communicator
from controller.workload.importers.nccl.log import Link, Log, Member, Nic


class ConnectionEnd(NamedTuple):
    """A NIC of a server, or (``server`` empty) a substitute for a rank whose NIC is unknown."""

    server: str
    nic: Nic | None
    rank: int

    @property
    def is_known(self) -> bool:
        """Whether the NIC or the rank is known."""
        return self.nic is not None or self.rank >= 0


class Ends:
    """The NICs of a job."""

    def __init__(
        self, log: Log, communicators: list[Communicator], people: list[Member | None], request: ImportRequest
    ) -> None:
        """Find the NICs of all ranks."""
        self._log = log
        self._people = people
        self._request = request
        self._listed: dict[str, dict[str, None]] = {}  # hosts of each server, in the order of the inventory
        for (server, _), host in request.inventory.items():
            self._listed.setdefault(server, {})[host] = None
        self._rails: dict[str, dict[int, str]] = {}
        for row in request.fabric.hosts if request.fabric else ():
            self._rails.setdefault(row.server, {})[row.rail] = row.name
        counts = [Counter[Nic]() for _ in people]
        for one in communicators:
            for rank, member in one.members.items():
                counts[one.ranks[rank]].update(member.own)
        self.home = [count.most_common(1)[0][0] if count else None for count in counts]
        self._local: list[tuple[int, int]] = []
        seen: Counter[str] = Counter()
        for person in people:
            host = person.host if person else ""
            self._local.append((seen[host], 0))
            seen[host] += 1
        self._local = [
            (number, seen[person.host if person else ""])
            for (number, _), person in zip(self._local, people, strict=True)
        ]

    def edge(
        self, one: Communicator, kind: int, channel: int, src: int, dst: int
    ) -> tuple[ConnectionEnd, ConnectionEnd] | None:
        """Return the NICs by which ``src`` sends to ``dst``; ``None``: they share a server, and there is no flow."""
        if one.share_a_server(src, dst):
            return None
        sender, receiver = one.members.get(src), one.members.get(dst)
        sent = None if sender is None else sender.sends.get(Link(kind, channel, dst))
        received = None if receiver is None else receiver.receives.get(Link(kind, channel, src))
        return self._end(one.ranks[src], sent), self._end(one.ranks[dst], received)

    def channels(self, one: Communicator, src: int, dst: int) -> list[int]:
        """Return the channels on which a rank sends to another one outside collectives; one, if unknown."""
        sender, receiver = one.members.get(src), one.members.get(dst)
        stated = {link.channel for link in (sender.sends if sender else ()) if link.kind and link.peer == dst}
        stated |= {link.channel for link in (receiver.receives if receiver else ()) if link.kind and link.peer == src}
        return sorted(stated) or [0]

    def _end(self, rank: int, nic: Nic | None) -> ConnectionEnd:
        person = self._people[rank] if rank >= 0 else None
        if person is None:
            return ConnectionEnd("", None, rank)
        nic = nic or self.home[rank]
        # One NIC is one end for all ranks that use it.
        return ConnectionEnd(person.host, None, rank) if nic is None else ConnectionEnd(person.host, nic, -1)

    # -- made-up hosts ---------------------------------------------------------------------------------------------

    def made_up(self, ends: list[ConnectionEnd]) -> tuple[dict[ConnectionEnd, str], tuple[str, ...]]:
        """Return a name for each end, and all names in the order in which a placement gives them hosts.

        Where each rank has its own NIC, it is named by its rank, and every rank has a name; else NICs are named
        by server and device.
        """
        owners: dict[ConnectionEnd, list[int]] = {}
        for rank, person in enumerate(self._people):
            home = self.home[rank]
            if person is not None and home is not None:
                owners.setdefault(ConnectionEnd(person.host, home, -1), []).append(rank)
        is_own = all(end.nic is None or len(owners.get(end, [])) == 1 for end in ends)
        if is_own:
            names = {end: f"rank{end.rank if end.nic is None else owners[end][0]}" for end in ends}
            return names, tuple(f"rank{rank}" for rank in range(len(self._people)))
        names = {end: f"rank{end.rank}" if end.nic is None else self._label(end.server, end.nic) for end in ends}
        place = {person.host: rank for rank, person in reversed(list(enumerate(self._people))) if person}

        def order(end: ConnectionEnd) -> tuple[int, int, str]:
            return (
                (place[end.server], end.nic.device, end.nic.net)
                if end.nic
                else (place.get(end.server, end.rank), -1, "")
            )

        return names, tuple(dict.fromkeys(names[end] for end in sorted(ends, key=order)))

    def _label(self, server: str, nic: Nic) -> str:
        return f"{server}.{self.nic_name(server, nic) or nic.device}"

    # -- hosts of the fabric ---------------------------------------------------------------------------------------

    def nic_name(self, server: str, nic: Nic) -> str:
        """Return a name such as ``mlx5_0``; empty if it is unknown."""
        log = self._log.devices
        names = log.get((server, nic.net))
        if names is None:
            # A plug-in may use one name where it lists devices and another where it connects.
            others = [row for (where, _), row in log.items() if where == server]
            names = others[0] if len(others) == 1 else {}
        return names.get(nic.device, "")

    def is_placed(self) -> bool:
        """Return whether the inventory or the fabric's servers determine where the job runs.

        Raises:
            InputError: the fabric has some of its servers, but not all.
        """
        if self._request.inventory:
            return True
        servers = {person.host: person for person in reversed(self._people) if person}
        lacking = [person for server, person in servers.items() if server not in self._rails]
        if servers and not lacking:
            return True
        if len(lacking) < len(servers):  # some are there
            raise InputError(
                "the fabric has some of the log's servers, but not this one; give an inventory",
                source=lacking[0].where,
                value=lacking[0].host,
            )
        return False

    def host(self, end: ConnectionEnd) -> str | None:
        """Return the host of the fabric; ``None``: the location of this rank is unknown.

        Raises:
            InputError: neither the inventory nor the fabric has this NIC.
        """
        if not end.server:
            return None
        rails = self._rails.get(end.server, {})
        if end.nic is None:
            listed = self._listed.get(end.server) or {rails[rail]: None for rail in sorted(rails)}
            if listed:
                return self._share(end.rank, list(listed))
            name = ""
        else:
            name = self.nic_name(end.server, end.nic)
            for nic in (name, str(end.nic.device), ANY_NIC):
                if nic and (end.server, nic) in self._request.inventory:
                    return self._request.inventory[end.server, nic]
            if end.nic.device in rails:
                return rails[end.nic.device]
            if len(rails) == 1:
                return next(iter(rails.values()))
        raise InputError(
            "neither the inventory nor the fabric has this NIC",
            field="inventory",
            value=f"{end.server} {name or (end.nic.device if end.nic else '')}".strip(),
        )

    def _share(self, rank: int, hosts: list[str]) -> str:
        """Return the host of a rank: rank i of a server uses rail i; more ranks than NICs share them evenly."""
        local, together = self._local[rank]
        return hosts[local if together <= len(hosts) else local * len(hosts) // together]
