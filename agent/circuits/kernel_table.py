"""The kernel's side of a table: its routes are read back, and what differs is set, by iproute2."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from ipaddress import IPv4Network
from typing import Any

from agent.circuits.server_table import PROTOCOL, ForwardingTable, HeldNeighbour, HeldRoute
from agent.errors import HostAgentError

SYSCTLS = (
    "net.ipv4.ip_forward=1",
    "net.ipv4.conf.all.rp_filter=0",
    "net.ipv4.conf.all.send_redirects=0",
)
"""The server forwards, also packets whose answers leave by another NIC. ``all`` counts for every interface that has no
stricter value of its own (rp_filter: the larger one)."""
_OF_INTERFACE = ("rp_filter", "send_redirects")
SECONDS = 30.0


class KernelTable:
    """Brings the kernel to a table."""

    def __init__(self, interfaces: str) -> None:
        """Use interfaces of these names: a pattern with ``{nic}``."""
        self._interfaces = interfaces
        self._prepared: tuple[str, tuple[str, ...]] | None = None
        # What the kernel held when it was read last.
        self._held: tuple[set[HeldNeighbour], set[HeldRoute]] | None = None

    def hold(self, table: ForwardingTable) -> int:
        """Set what differs from a table, and read it back; return how many routes and neighbours differed.

        Raises:
            HostAgentError: the kernel refuses, or holds others after it.
        """
        if self._prepared != (table.address, table.macs):
            self._prepare(table)
            self._prepared = table.address, table.macs
        neighbours, routes = self._held or self._read(table)
        lines = [*self._changes(table, neighbours, routes)]
        self._held = None
        if lines:
            self._ip(["-batch", "-"], "".join(lines))
        held = self._read(table)
        left = [*self._changes(table, *held)]
        if left:
            # Others have changed the kernel since it was read.
            self._ip(["-batch", "-"], "".join(left))
            held = self._read(table)
            if [*self._changes(table, *held)]:
                raise HostAgentError(f"the kernel does not hold what was set: {left[0].strip()}")
        self._held = held
        return len(lines) + len(left)

    def _prepare(self, table: ForwardingTable) -> None:
        lines = []
        for nic, mac in enumerate(table.macs):
            name = self._name(nic)
            for setting in _OF_INTERFACE:
                _write(f"net.ipv4.conf.{name}.{setting}", "0")
            lines += [f"link set dev {name} address {mac}\n", f"link set dev {name} up\n"]
        for each in SYSCTLS:
            _write(*each.split("=", 1))
        # All addresses of a prefix on lo are the server's own.
        lines += ["link set dev lo up\n", f"address replace {table.address}/24 dev lo\n"]
        self._ip(["-batch", "-"], "".join(lines))

    def _read(self, table: ForwardingTable) -> tuple[set[HeldNeighbour], set[HeldRoute]]:
        nics = {self._name(nic): nic for nic in range(len(table.macs))}
        return self._neighbours(nics), self._routes(nics)

    def _changes(self, table: ForwardingTable, neighbours: set[HeldNeighbour], routes: set[HeldRoute]) -> Iterator[str]:
        """Yield lines for ``ip -batch``: neighbours and routes that are missing first, then what is too much."""
        for each in sorted(table.neighbours - neighbours):
            yield f"neigh replace {each.address} lladdr {each.mac} dev {self._name(each.nic)} nud permanent\n"
        source = table.address
        # Routes to neighbours first: others lead by them.
        for route in sorted(table.routes - routes, key=lambda one: (one.via is not None, one)):
            way = "" if route.via is None else f" via {route.via}"
            name = self._name(route.nic)
            onlink = "" if route.via is None else " onlink"
            yield f"route replace {route.to}{way} dev {name}{onlink} src {source} proto {PROTOCOL}\n"
        wanted = {route.to for route in table.routes}
        for route in sorted(routes - table.routes):
            if route.to not in wanted:
                yield f"route del {route.to} proto {PROTOCOL}\n"
        at = {(each.address, each.nic) for each in table.neighbours}
        for each in sorted(neighbours - table.neighbours):
            if (each.address, each.nic) not in at:
                yield f"neigh del {each.address} dev {self._name(each.nic)}\n"

    def _routes(self, nics: dict[str, int]) -> set[HeldRoute]:
        rows = json.loads(self._ip(["-j", "-4", "route", "show", "proto", str(PROTOCOL)]) or "[]")
        return {
            HeldRoute(str(IPv4Network(row["dst"])), row.get("gateway"), nics[row["dev"]])
            for row in rows
            if row.get("dev") in nics
        }

    def _neighbours(self, nics: dict[str, int]) -> set[HeldNeighbour]:
        rows: list[dict[str, Any]] = json.loads(self._ip(["-j", "-4", "neigh", "show", "nud", "permanent"]) or "[]")
        return {
            HeldNeighbour(row["dst"], row["lladdr"], nics[row["dev"]])
            for row in rows
            if row.get("dev") in nics and "lladdr" in row
        }

    def _name(self, nic: int) -> str:
        return self._interfaces.format(nic=nic)

    def _ip(self, arguments: list[str], text: str = "") -> str:
        try:
            done = subprocess.run(["ip", *arguments], input=text, capture_output=True, text=True, timeout=SECONDS)
        except FileNotFoundError:
            raise HostAgentError("ip is not installed (Debian: iproute2)", exit_code=2) from None
        except subprocess.TimeoutExpired:
            raise HostAgentError(f"ip has not ended within {SECONDS:g} s") from None
        if done.returncode:
            last = (done.stderr.strip() or f"exit status {done.returncode}").splitlines()[0]
            raise HostAgentError(f"ip: {last}")
        return done.stdout


def _write(name: str, value: str) -> None:
    path = f"/proc/sys/{name.replace('.', '/')}"
    try:
        with open(path, "w") as file:
            file.write(value)
    except OSError as error:
        raise HostAgentError(f"{name}: {error.strerror}; the agent needs root", exit_code=2) from None
