"""The kernel of a host: what it holds for the agent is read, changed and removed here."""

from __future__ import annotations

import errno
import shutil
import struct
import subprocess
from collections.abc import Iterable, Iterator
from ipaddress import IPv6Address
from itertools import islice
from typing import NamedTuple, Protocol, TypeVar

from agent.errors import HostAgentError
from agent.linux.kernel_routes import KernelRoutes
from agent.linux.kernel_state import (
    CLASS_MASK,
    CLASS_SHIFT,
    MARK_BASE,
    MARK_MASK,
    SPREAD_BASE,
    KernelChanges,
    KernelState,
    MapChanges,
    PathSlot,
)
from agent.linux.map_elements import MapEdit, MapElements, mark_bytes, mark_of
from agent.plans.flow_keys import KEY4_BYTES, KEY6_BYTES
from agent.plans.host_plan import CODE_POINTS, SLOTS

T = TypeVar("T")

TABLE = "fairspine_agent"
"""The table of nftables (family ``inet``)."""

CARRIERS = "carriers"
FLOWS = {KEY4_BYTES: "flows4", KEY6_BYTES: "flows6"}
AT_ONCE = 20_000
"""Elements in one transaction."""

PAIRS = {4: "pairs4", 16: "pairs6"}
SLOT_MAP = "slots"
_SLOT_KEY = struct.Struct("!H2x")
_LABEL = "@nh,16,16"
"""The last 16 bits of the flow label of the packet with the carrier, which has the number of the slot."""

_KEY = "type {0} . {0} . inet_proto . inet_service . inet_service : mark; counter;"

_CLASS_CHAINS = "\n".join(f"add chain inet {TABLE} class{each}" for each in range(1, len(CODE_POINTS)))
_CLASS_RULES = "\n".join(
    f"add rule inet {TABLE} class{each} {header} dscp set {CODE_POINTS[each]}"
    for each in range(1, len(CODE_POINTS))
    for header in ("ip", "ip6")
)
_TO_CLASS = ", ".join(f"{MARK_BASE | each << CLASS_SHIFT} : jump class{each}" for each in range(1, len(CODE_POINTS)))
_MARK_CLASS = f"meta mark & {MARK_MASK | CLASS_MASK} vmap {{ {_TO_CLASS} }}"

DEFINITION = f"""
add table inet {TABLE}
add map inet {TABLE} flows4 {{ {_KEY.format("ipv4_addr")} }}
add map inet {TABLE} flows6 {{ {_KEY.format("ipv6_addr")} }}
add map inet {TABLE} {CARRIERS} {{ type mark : ipv6_addr; }}
add map inet {TABLE} pairs4 {{ type ipv4_addr : mark; }}
add map inet {TABLE} pairs6 {{ type ipv6_addr : mark; }}
add map inet {TABLE} {SLOT_MAP} {{ typeof meta mark . {_LABEL} : ip6 daddr; }}
add chain inet {TABLE} mark_flows
add chain inet {TABLE} spread
{_CLASS_CHAINS}
add chain inet {TABLE} sent {{ type filter hook output priority mangle; policy accept; }}
add chain inet {TABLE} forwarded {{ type filter hook forward priority mangle; policy accept; }}
add chain inet {TABLE} encapsulated {{ type filter hook postrouting priority mangle; policy accept; }}
flush table inet {TABLE}
{_CLASS_RULES}
add rule inet {TABLE} mark_flows meta mark set ip daddr map @pairs4
add rule inet {TABLE} mark_flows meta mark set ip6 daddr map @pairs6
add rule inet {TABLE} mark_flows meta mark set ip saddr . ip daddr . meta l4proto . th sport . th dport map @flows4
add rule inet {TABLE} mark_flows meta mark set ip6 saddr . ip6 daddr . meta l4proto . th sport . th dport map @flows6
add rule inet {TABLE} mark_flows {_MARK_CLASS}
add rule inet {TABLE} sent jump mark_flows
add rule inet {TABLE} forwarded jump mark_flows
add rule inet {TABLE} encapsulated ip6 nexthdr {{ 4, 41, 43 }} ip6 daddr set meta mark map @{CARRIERS}
add rule inet {TABLE} encapsulated ip6 nexthdr {{ 4, 41, 43 }} meta mark & 0xff000000 == {SPREAD_BASE} jump spread
add rule inet {TABLE} encapsulated ip6 nexthdr {{ 4, 41, 43 }} {_MARK_CLASS}
add rule inet {TABLE} spread {_LABEL} set numgen random mod {SLOTS << 16}
add rule inet {TABLE} spread ip6 daddr set meta mark . {_LABEL} map @{SLOT_MAP}
"""
"""A route gives a packet a carrier; the rule behind routing writes that of its flow over it.

So the cost of a packet does not depend on the number of paths: rules of routing (``ip rule fwmark``), one for each
path, are looked through one after the other. Packets that are spread get the number of a slot into their flow label,
and by mark and label their carrier: nftables takes the first half of a number of 32 bits for the label, hence the
factor of 2^16. The class of priority is in the mark: its DSCP is set on the packet, and on the header with the
carrier, whose class the kernel leaves 0 for IPv4 packets. ``flush table`` removes rules and keeps elements, so what an
agent before this one has set goes on.
"""


class Counts(NamedTuple):
    """Packets and bytes that a flow has sent."""

    packets: int
    bytes: int


class Kernel(Protocol):
    """A way to make the kernel follow a plan.

    Attributes:
        name: of the way, as ``--steering`` has it.
        by_flow: whether flows to one destination may take several paths.
    """

    name: str
    by_flow: bool

    def prepare(self) -> None:
        """Set what no plan changes; what is held already stays."""
        ...

    def held(self) -> tuple[KernelState, dict[bytes, Counts]]:
        """Return what the kernel holds, and what was sent of each flow, where it counts."""
        ...

    def change(self, changes: KernelChanges) -> None:
        """Change what the kernel holds, so that no packet is lost meanwhile."""
        ...

    def has_made(self, changes: KernelChanges) -> bool:
        """Return whether the kernel holds these changes of flows and paths, as read back; nothing else is read."""
        ...

    def remove(self) -> None:
        """Remove all."""
        ...


class RouteKernel:
    """One route for each destination."""

    name, by_flow = "route", False

    def __init__(self, routes: KernelRoutes) -> None:
        """Use these routes."""
        self._routes = routes

    def prepare(self) -> None:
        """Lead packets to the table of routes."""
        self._routes.lead(True)

    def held(self) -> tuple[KernelState, dict[bytes, Counts]]:
        """Return the state of the table; nothing is counted."""
        segments, routes = self._routes.read()
        return KernelState(segments, routes), {}

    def change(self, changes: KernelChanges) -> None:
        """Change the routes."""
        _set_routes(self._routes, changes)
        _remove_routes(self._routes, changes)

    def has_made(self, changes: KernelChanges) -> bool:
        """Return whether there are no changes: it tells no flows apart."""
        return not changes

    def remove(self) -> None:
        """Remove the routes and the rules that lead to them."""
        self._routes.lead(False)
        segments, routes = self._routes.read()
        self._routes.remove(routes, segments)


class MapKernel:
    """Routes, and maps of nftables from flows to marks and from marks to carriers."""

    name, by_flow = "nft", True

    def __init__(self, routes: KernelRoutes) -> None:
        """Use these routes, and connect to nftables.

        Raises:
            HostAgentError: its program is missing.
        """
        if shutil.which("nft") is None:
            raise HostAgentError(
                "--steering nft: the program nft is missing (Debian: apt-get install nftables)", exit_code=2
            )
        self._routes, self._elements = routes, MapElements(TABLE)

    def prepare(self) -> None:
        """Define the maps, keeping their elements, and lead packets to the table of routes.

        Raises:
            HostAgentError: nftables refuses the maps.
        """
        done = subprocess.run(["nft", "-f", "-"], input=DEFINITION, capture_output=True, text=True)
        if done.returncode:
            reason = next(iter(done.stderr.splitlines()), f"exit status {done.returncode}")
            raise HostAgentError(f"--steering nft: nftables refuses its table: {reason}", exit_code=2)
        self._routes.lead(True)

    def held(self) -> tuple[KernelState, dict[bytes, Counts]]:
        """Return the state of table and maps, and the counters of flows."""
        segments, routes = self._routes.read()
        flows, counts = {}, {}
        for name in FLOWS.values():
            for each in self._elements.read(name):
                flows[each.key] = mark_of(each.value)
                counts[each.key] = Counts(each.packets, each.bytes)
        carriers = {mark_of(each.key): IPv6Address(each.value) for each in self._elements.read(CARRIERS)}
        slots = {
            PathSlot(mark_of(each.key[:4]), _SLOT_KEY.unpack(each.key[4:])[0]): IPv6Address(each.value)
            for each in self._elements.read(SLOT_MAP)
        }
        pairs = {each.key: mark_of(each.value) for name in PAIRS.values() for each in self._elements.read(name)}
        return KernelState(segments, routes, flows, carriers, slots, pairs), counts

    def change(self, changes: KernelChanges) -> None:
        """Change routes and maps: carriers come before the flows that use them, and go after them."""
        _set_routes(self._routes, changes)
        come = [(mark_bytes(mark), carrier.packed) for mark, carrier in changes.set_carriers.items()]
        self._elements.edit([MapEdit(CARRIERS, tuple(map(mark_bytes, changes.replaced_carriers)), tuple(come))])
        for slots in _parts(changes.slots.set.items()):
            gone = tuple(_slot_key(slot) for slot, _ in slots if slot in changes.slots.replaced)
            added = tuple((_slot_key(slot), carrier.packed) for slot, carrier in slots)
            self._elements.edit([MapEdit(SLOT_MAP, gone, added)])
        for keys in _parts([*changes.set_flows, *changes.del_flows]):
            self._elements.edit(_flow_edits(keys, changes))
        if changes.pairs:
            self._elements.edit(_pair_edits(changes.pairs))
        for left in _parts(changes.slots.removed):
            self._elements.edit([MapEdit(SLOT_MAP, tuple(map(_slot_key, left)))])
        if changes.del_carriers:
            self._elements.edit([MapEdit(CARRIERS, tuple(map(mark_bytes, changes.del_carriers)))])
        _remove_routes(self._routes, changes)

    def has_made(self, changes: KernelChanges) -> bool:
        """Return whether the maps of flows, carriers and slots have these changes."""
        for size, name in FLOWS.items():
            wanted = {key: mark_bytes(mark) for key, mark in changes.set_flows.items() if len(key) == size}
            gone = [key for key in changes.del_flows if len(key) == size]
            if self._elements.values(name, wanted) != wanted or self._elements.values(name, gone):
                return False
        carriers = {mark_bytes(mark): carrier.packed for mark, carrier in changes.set_carriers.items()}
        slots = {_slot_key(slot): carrier.packed for slot, carrier in changes.slots.set.items()}
        return self._elements.values(CARRIERS, carriers) == carriers and self._elements.values(SLOT_MAP, slots) == slots

    def remove(self) -> None:
        """Remove the table of nftables, the routes, and the rules that lead to them."""
        RouteKernel(self._routes).remove()
        drop_table()


def drop_table() -> None:
    """Remove the table of nftables; there may be none, and no nftables."""
    if shutil.which("nft") is not None:
        subprocess.run(["nft", "delete", "table", "inet", TABLE], capture_output=True)


def _flow_edits(keys: list[bytes], changes: KernelChanges) -> Iterator[MapEdit]:
    for size, name in FLOWS.items():
        own = [key for key in keys if len(key) == size]
        gone = tuple(key for key in own if key not in changes.set_flows or key in changes.replaced_flows)
        come = tuple((key, mark_bytes(changes.set_flows[key])) for key in own if key in changes.set_flows)
        yield MapEdit(name, gone, come)


def _pair_edits(changes: MapChanges[bytes, int]) -> Iterator[MapEdit]:
    for size, name in PAIRS.items():
        gone = tuple(key for key in (*changes.removed, *changes.replaced) if len(key) == size)
        come = tuple((key, mark_bytes(mark)) for key, mark in changes.set.items() if len(key) == size)
        yield MapEdit(name, gone, come)


def _slot_key(slot: PathSlot) -> bytes:
    return mark_bytes(slot.mark) + _SLOT_KEY.pack(slot.number)


def _parts(values: Iterable[T]) -> Iterator[list[T]]:
    iterator = iter(values)
    while part := list(islice(iterator, AT_ONCE)):
        yield part


def _set_routes(routes: KernelRoutes, changes: KernelChanges) -> None:
    routes.set(changes.set_routes.items(), changes.add_segments)


def _remove_routes(routes: KernelRoutes, changes: KernelChanges) -> None:
    # A segment whose inner version has changed was replaced.
    added = {segment.prefix for segment in changes.add_segments}
    routes.remove(changes.del_routes, [each for each in changes.del_segments if each.prefix not in added])


def explained(error: OSError) -> HostAgentError:
    """Return the error for one of the kernel."""
    if error.errno in (errno.EPERM, errno.EACCES):
        return HostAgentError("needs root (CAP_NET_ADMIN and CAP_NET_RAW)", exit_code=2)
    if error.errno in (errno.EOPNOTSUPP, errno.EINVAL, errno.EPROTONOSUPPORT, errno.ENODEV):
        return HostAgentError(
            f"this kernel does not take SRv6 routes (CONFIG_IPV6_SEG6_LWTUNNEL): {error.strerror}", exit_code=2
        )
    return HostAgentError(f"the kernel refuses a change: {error.strerror}")
