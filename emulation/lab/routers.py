"""A fabric on Linux routers, which are network namespaces as its hosts are: SRv6, and ECMP beside it.

    isolate.enter()
    with RouterLab(fabric) as lab, LabAgents(lab):
        lab.spawn("controller", ["ryu-manager", "--fabric", ..., "--enforcement", "srv6", "controller.app"])

Routers are configured by what ``fairspine export srv6 --format iproute2`` writes. Besides, they route packets between
the addresses of hosts over all uplinks that lead there, by the kernel's hash of the 5-tuple, as routers do whose
hosts write no paths. Their filters are those of ``fairspine export srv6-border``, with an agent at every host. Each
router has a hash seed of its own: with one for all layers, routers of the second layer would get only packets of one
hash each.

With ``routing="bgp"``, routers learn their routes to each other and to hosts from FRR, which is configured by what
``fairspine export srv6 --bgp`` writes. A controller in the lab's namespace may have a session with each over a link of
its own, in place of a management network: ``bgp_sessions`` is the file for it.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import time
from collections import defaultdict
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from ipaddress import IPv4Network, IPv6Address, IPv6Network
from pathlib import Path
from typing import Literal

from controller.model.fabric import Fabric
from controller.model.packets.port_numbers import ROCE_PORT
from controller.southbound.path_addresses.bgp_tags import with_path_addresses
from controller.southbound.path_addresses.files import leaf_routes
from controller.southbound.path_addresses.path_addresses import PathAddresses
from controller.southbound.srv6.bgp_configuration import BgpConfiguration, BgpObserver, bgp_configurations
from controller.southbound.srv6.border_filters import border_filters
from controller.southbound.srv6.formats import FORMATS, LAST_METRIC
from controller.southbound.srv6.frr_bgp import frr_bgp
from controller.southbound.srv6.router_configuration import (
    CableAddresses,
    RouterConfiguration,
    StaticRoute,
    router_configurations,
)
from controller.southbound.srv6.segment_ids import SegmentIds
from emulation.errors import LabError
from emulation.lab.base import BaseLab
from emulation.lab.frr import FrrRouter, check_installed
from emulation.lab.nodes import LabNode, LabRouter
from emulation.processes import POLL_SECONDS
from emulation.wiring import CableEnd, wire_routers

FORMAT = FORMATS["iproute2"]

MTU = 9000
"""Of all interfaces. Packets with the largest payload of RoCE (4,096 bytes) fit with a carrier (40 bytes)."""

ADDRESSES_SECONDS = 60.0
_TENTATIVE = 0x40
"""Flag of an IPv6 address (linux/if_addr.h)."""

HASH_OF_FIELDS, FIELDS_OF_5_TUPLE = 3, 0x37
"""Values of ``fib_multipath_hash_policy`` and ``fib_multipath_hash_fields``. Policy 1 hashes the 5-tuple, too, but only
of packets that carry no hash yet; those of TCP carry a random one of their socket, which it takes from veth pairs."""

FIELDS_OF_BOTH_5_TUPLES = 0x37 | 0xDC0
"""Of IPv6: those of the packet, and those of the one inside. So packets with a carrier are spread by their flows."""

MOST_ROUTERS = 4096
"""More than a machine has room for. Seeds of the hash of routers differ by it from draw to draw."""

ANYWHERE = IPv4Network("0.0.0.0/0")

ROUTES_SECONDS = 180.0
"""Until BGP has found all routes: usually 10 to 20 s."""

LOOK_SECONDS = 0.5
"""Between two looks at the sessions and routes of BGP, each of which starts a program."""

MANAGEMENT = "mgmt"
"""Interface of a router to the lab's namespace, and, with the number of the router, the other end."""

_FIRST_MANAGEMENT = IPv6Address("fd00:6d67::")

Routing = Literal["static", "bgp"]

_Network = IPv4Network | IPv6Network

_EGRESS = re.compile(r" dev (\S+)")

RoutedFlow = tuple[str, str, int]
"""Source host, destination host, UDP source port of packets to RoCE's port."""


class RouterLab(BaseLab):
    """A running fabric of routers. All switches of the fabric are routers here, whatever they speak in its file.

    Args:
        fabric: the fabric to build, with its names, addresses and ports.
        out: see ``BaseLab``.
        mbps_per_gbps: see ``BaseLab``.
        routing: whether routes are static, or found by BGP.
        path_addresses: with BGP, the block of the addresses of paths to hosts; ``None``: hosts have none.

    Raises:
        InputError: a link rate is not possible, or the fabric is not one that routers can be configured for.
    """

    def __init__(
        self,
        fabric: Fabric,
        *,
        out: str | Path = "out",
        mbps_per_gbps: float | None = None,
        routing: Routing = "static",
        path_addresses: str | None = None,
    ) -> None:
        """Make all configurations; nothing is created before ``start``."""
        super().__init__(wire_routers(fabric, FORMAT.interface), out=out, mbps_per_gbps=mbps_per_gbps)
        self.fabric = fabric
        self.ids, self.addresses = SegmentIds.of(fabric), CableAddresses(fabric)
        self.path_addresses = None if path_addresses is None else PathAddresses.of(fabric, path_addresses, "block")
        prefixes = _host_prefixes(fabric, self.addresses)
        static = router_configurations(self.ids, FORMAT.interface)
        configured = static if routing == "static" else [router.without_routes_over_cables() for router in static]
        self._scripts = {
            router.name: FORMAT.write(router) + self._routing(number, router, prefixes)
            for number, router in enumerate(configured, start=1)
        }
        self._bgp: tuple[BgpConfiguration, ...] = ()
        if routing == "bgp":
            bgp = bgp_configurations(self.ids, FORMAT.interface)
            if self.path_addresses is not None:
                bgp = with_path_addresses(bgp, self.path_addresses, FORMAT.interface)
            self._bgp = tuple(
                replace(router, observers=(BgpObserver(_management(number)),)) for number, router in enumerate(bgp)
            )
        self._hops_by_bgp = {router.name: self._hops_to_leaves(router) for router in static if routing == "bgp"}
        self._frr: dict[str, FrrRouter] = {}
        for name, text in border_filters(self.ids, FORMAT.interface, self.addresses.network):
            self._scripts[name] += f"nft -f - <<'END'\n{text}END\n"
        self._scripts |= {name: self._addressing(host) for host, name in enumerate(fabric.host_names)}
        self._far: dict[tuple[str, str], CableEnd] = {}
        for wire in self.wiring.wires:
            self._far |= {(wire.a.node, wire.a.interface): wire.b, (wire.b.node, wire.b.interface): wire.a}

    # -- building --------------------------------------------------------------------------------------------

    def _build(self) -> None:
        self._add_hosts()
        self._routers: dict[str, LabRouter] = {
            name: self._add_node(self.net.addHost, name, cls=LabRouter) for name in self.wiring.routers
        }
        self._undo.callback(self._stop_children)
        self._add_cables(self._routers | self._hosts)
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            # All are tried, and the first error is raised.
            list(pool.map(self._configure, self._scripts))
        self._shape(map(self.wiring.ends, self._scripts))
        self._wait_for_addresses()
        if self._bgp:
            check_installed()
            self._start_bgp()

    def _configure(self, name: str) -> None:
        mtu = [f"ip link set dev {end.interface} mtu {MTU}" for end in self.wiring.ends(name)]
        self._in_node(self.node(name), ["sh", "-e"], "\n".join(["ip link set dev lo up", *mtu, self._scripts[name]]))

    def _wait_for_addresses(self) -> None:
        """Wait until no address is on probation (duplicate address detection): until then, neighbours are not asked."""
        deadline = time.monotonic() + ADDRESSES_SECONDS
        while waiting := [name for name in self._scripts if _has_tentative(self.node(name).pid)]:
            if time.monotonic() > deadline:
                raise LabError(f"{waiting[0]} has addresses on probation after {ADDRESSES_SECONDS:g} s")
            time.sleep(POLL_SECONDS)

    def _start_bgp(self) -> None:
        """Start FRR on all routers, and wait until it has found all routes."""
        routes = {} if self.path_addresses is None else leaf_routes(self.path_addresses)
        for number, router in enumerate(self._bgp):
            name = router.name
            self._add_management(number, name)
            spawn, folder = partial(self.spawn, host=name), self.folder / "frr" / name
            self._frr[name] = FrrRouter(name, folder, frr_bgp(router), spawn, routes.get(name, ()))
        for frr in self._frr.values():
            frr.start()
        self.bgp_sessions.write_text(
            json.dumps({"routers": {r.name: str(_management(n) + 1) for n, r in enumerate(self._bgp)}})
        )
        self.wait_for_routes()

    def _add_management(self, number: int, router: str) -> None:
        """Make a link between a router and the lab's namespace."""
        outer, near = f"{MANAGEMENT}{number + 1}", _management(number)
        self._runfile.add_interfaces([outer])
        pair = f"type veth peer name {MANAGEMENT} netns {self._routers[router].pid}"
        self._in_node(None, ["ip", "link", "add", outer, *pair.split()])
        for node, interface, address in ((None, outer, near), (self._routers[router], MANAGEMENT, near + 1)):
            self._in_node(node, ["ip", "-6", "address", "add", f"{address}/127", "dev", interface, "nodad"])
            self._in_node(node, ["ip", "link", "set", "dev", interface, "up"])

    def _hops_to_leaves(self, router: RouterConfiguration) -> dict[str, int]:
        """Return how many next hops a router has to the network of each leaf, but that of its own hosts."""
        hops = {}
        for leaf, switch in enumerate(self.fabric.leaves):
            network = self.addresses.of_leaf(leaf)
            routes = [route for route in router.routes if network.subnet_of(route.prefix)]
            if routes and switch.name != router.name:
                hops[str(network)] = len(max(routes, key=lambda route: route.prefix.prefixlen).next_hops)
        return hops

    def _node_of(self, name: str) -> LabNode | None:
        return self._routers.get(name) or self._hosts.get(name)

    def prepare_for_load(self) -> None:
        """Do nothing: each interface of a router has a queue of its own."""

    def _routing(self, number: int, router: RouterConfiguration, prefixes: dict[IPv6Network, list[_Network]]) -> str:
        """Return a script for the routes of a router to hosts: those of the IPv6 networks of leaves."""
        names = [name for name, _ in router.interfaces]
        keys = ["ip_forward=1", f"fib_multipath_hash_policy={HASH_OF_FIELDS}"]
        keys += [f"fib_multipath_hash_fields={FIELDS_OF_5_TUPLE}", f"fib_multipath_hash_seed={number}"]
        for name in ("all", "default", *names):
            keys += [f"conf.{name}.rp_filter=0", f"conf.{name}.ignore_routes_with_linkdown=1"]
        lines = ["sysctl -qw " + " ".join(f"net.ipv4.{key}" for key in keys)]
        # Messages about packets that it drops come from them, since its other interfaces have no IPv4 addresses.
        own = next(switch for switch in self.fabric.switches if switch.name == router.name)
        lines += [f"ip address replace {address}/32 dev lo" for address in own.addresses if ":" not in address]
        if len(self.fabric.ipv6_hosts):
            by_fields = f"policy={HASH_OF_FIELDS}", f"fields={FIELDS_OF_BOTH_5_TUPLES}"
            lines.append("sysctl -qw " + " ".join(f"net.ipv6.fib_multipath_hash_{each}" for each in by_fields))
        below = self._ipv6_below(router.name)
        # The route to a leaf comes after that to all others.
        for route in sorted(router.routes, key=lambda each: each.prefix.prefixlen):
            lines += [_ecmp(prefix, route) for prefix in prefixes.get(route.prefix, ()) if prefix not in below]
        for network in router.unreachable:
            own_prefixes = prefixes.get(network, ())
            lines += [f"ip route replace unreachable {prefix} metric {LAST_METRIC}" for prefix in own_prefixes]
        fabric = self.fabric
        for host, wire in zip(fabric.hosts, self.wiring.wires, strict=False):
            if host.leaf == router.name:
                via = self.addresses.of_link(fabric.host_index[host.name], far=False).ip
                bits, family = (128, "") if host.ip_version == 6 else (32, "inet6 ")
                lines.append(f"ip route replace {host.ip}/{bits} via {family}{via} dev {wire.b.interface}")
        return "\n".join([*lines, ""])

    def _ipv6_below(self, router: str) -> tuple[IPv6Network, ...]:
        """Return the IPv6 prefixes of the hosts of a leaf; of another router none."""
        leaf = self.fabric.leaf_index.get(router)
        return () if leaf is None else self.fabric.ipv6_leaf_prefixes[leaf]

    def _addresses_of_paths(self, host: int) -> list[str]:
        if self.path_addresses is None:
            return []
        classes = self.path_addresses.classes(int(self.fabric.host_leaf[host]))
        return [str(self.path_addresses.of_host(host, number)) for number in classes]

    def _addressing(self, host: int) -> str:
        """Return a script for the addresses and routes of a host."""
        own, (end,) = self.fabric.hosts[host], self.wiring.ends(self.fabric.host_names[host])
        near, far = self.addresses.of_link(host, far=False), self.addresses.of_link(host, far=True).ip
        lines = [
            f"ip -6 address replace {near} dev {end.interface} nodad",
            f"ip link set dev {end.interface} up",
            f"ip -6 route replace default via {far} dev {end.interface}",
        ]
        if own.ip_version == 6:
            return "\n".join([*lines, f"ip -6 address replace {own.ip}/128 dev {end.interface} nodad", ""])
        lines += [
            f"ip address replace {address}/32 dev {end.interface}"
            for address in (own.ip, *self._addresses_of_paths(host))
        ]
        return "\n".join([*lines, f"ip route replace {ANYWHERE} via inet6 {far} dev {end.interface} src {own.ip}", ""])

    # -- asking ----------------------------------------------------------------------------------------------

    def ends(self, link: int) -> tuple[CableEnd, CableEnd]:
        """Return where a directed link (its index in the fabric) begins and ends."""
        hosts, first = self.fabric.n_hosts, self.fabric.first_cable_link
        if link < first:
            wire, back = self.wiring.wires[link % hosts], link >= hosts
        else:
            wire, back = self.wiring.wires[hosts + (link - first) // 2], bool((link - first) % 2)
        return (wire.b, wire.a) if back else (wire.a, wire.b)

    def sent(self, unit: str = "bytes") -> list[int]:
        """Return how many bytes (or ``packets``) the node at the beginning of each directed link has sent over it."""
        return [self._counter(self.ends(link)[0], f"tx_{unit}") for link in range(self.fabric.n_links)]

    def _counter(self, end: CableEnd, name: str) -> int:
        # A node's shell has a mount namespace, in which /sys shows the interfaces of its network namespace.
        folder = Path(f"/proc/{self.node(end.node).pid}/root/sys/class/net/{end.interface}/statistics")
        return int((folder / name).read_text())

    def routed(self, flows: Iterable[RoutedFlow], to: str | None = None) -> dict[RoutedFlow, tuple[int, ...]]:
        """Return the directed links that routers choose now for the packets of flows, in order; the kernels are asked.

        Args:
            flows: the flows.
            to: the address of the receiver that packets have; ``None``: its usual one.

        Raises:
            LabError: a router has no route for a flow, or the flow is of IPv6.
        """
        links = {flow: [self.fabric.host_index[flow[0]]] for flow in flows}
        index = {
            (near.node, near.interface): link for link in range(self.fabric.n_links) for near in self.ends(link)[:1]
        }
        going = list(links)
        while going:
            at: dict[str, list[RoutedFlow]] = defaultdict(list)
            for flow in going:
                at[self.ends(links[flow][-1])[1].node].append(flow)
            going = []
            for router, here in at.items():
                questions = [self._question(flow, self.ends(links[flow][-1])[1].interface, to) for flow in here]
                for flow, interface in zip(here, self._answers(router, questions), strict=True):
                    links[flow].append(index[router, interface])
                    if self._far[router, interface].node != flow[1]:
                        going.append(flow)
        return {flow: tuple(each) for flow, each in links.items()}

    def _question(self, flow: RoutedFlow, interface: str, to: str | None) -> str:
        src, dst = (self.fabric.hosts[self.fabric.host_index[name]].ip for name in flow[:2])
        if ":" in dst:
            # It answers by another hash than that of packets.
            raise LabError(f"the kernel does not tell where it sends packets to {dst}")
        return f"route get {to or dst} from {src} iif {interface} ipproto udp sport {flow[2]} dport {ROCE_PORT}"

    def _answers(self, router: str, questions: list[str]) -> list[str]:
        """Return the interface that a router chooses for each question."""
        text = self._in_node(self.node(router), ["ip", "-o", "-batch", "-"], "\n".join([*questions, ""]))
        interfaces = [egress[1] for line in text.splitlines() if (egress := _EGRESS.search(line))]
        if len(interfaces) != len(questions):
            raise LabError(f"{router} has no route for a packet: {text or questions[0]}")
        return interfaces

    @property
    def bgp_sessions(self) -> Path:
        """The file of BGP sessions for a controller in the lab's namespace."""
        return self.folder / "bgp-sessions.json"

    def bgp_established(self, router: str) -> set[str]:
        """Return the interfaces and addresses at which a router has a BGP session."""
        return self._frr[router].established()

    def configure_bgp(self, router: str, lines: Iterable[str]) -> None:
        """Change what the BGP daemon of a router does, by lines of FRR's configuration.

        Raises:
            LabError: it has refused one.
        """
        self._frr[router].configure(lines)

    def bgp_hops(self, router: str) -> dict[str, int]:
        """Return how many next hops the kernel of a router has by BGP to each IPv6 prefix."""
        rows = json.loads(self._in_node(self.node(router), ["ip", "-j", "-6", "route", "show", "proto", "bgp"]))
        return {row["dst"]: len(row.get("nexthops", [row])) for row in rows}

    def wait_for_routes(self) -> None:
        """Wait until all routers have all routes by BGP; all cables have to be up.

        Raises:
            LabError: they have not in time.
        """
        deadline = time.monotonic() + ROUTES_SECONDS
        for router, wanted in self._hops_by_bgp.items():
            while wanted.items() - self.bgp_hops(router).items():
                if time.monotonic() > deadline:
                    sessions = ", ".join(sorted(self.bgp_established(router))) or "none"
                    raise LabError(f"{router} lacks routes by BGP after {ROUTES_SECONDS:g} s; sessions: {sessions}")
                time.sleep(LOOK_SECONDS)

    # -- changing --------------------------------------------------------------------------------------------

    def hash_by(self, seed: int) -> None:
        """Let all routers hash by other seeds, so that flows take other paths."""
        for number, router in enumerate(self.wiring.routers, start=1):
            key = f"net.ipv4.fib_multipath_hash_seed={seed * MOST_ROUTERS + number}"
            self._in_node(self.node(router), ["sysctl", "-qw", key])

    def answer_probes(self) -> None:
        """Let all routers answer as many hop-limited probes as come."""
        for router in self.wiring.routers:
            keys = ["net.ipv4.icmp_ratelimit=0", "net.ipv4.icmp_msgs_per_sec=1000000", "net.ipv6.icmp.ratelimit=0"]
            self._in_node(self.node(router), ["sysctl", "-qw", *keys])

    # -- breaking and mending ----------------------------------------------------------------------------------

    def stop_bgp(self, router: str, *, kill: bool = False) -> None:
        """End the BGP daemon of a router, in order or not."""
        self._frr[router].stop_bgp(kill=kill)

    def start_bgp(self, router: str) -> None:
        """Start the BGP daemon of a router again."""
        self._frr[router].start_bgp()

    def _set_end(self, end: CableEnd, *, up: bool) -> None:
        self._in_node(self.node(end.node), ["ip", "link", "set", "dev", end.interface, "up" if up else "down"])
        if up:
            # Addresses and routes had gone with it.
            self._configure(end.node)


def _management(number: int) -> IPv6Address:
    """Return the address of the lab at its link to a router; that of the router is the next one."""
    return _FIRST_MANAGEMENT + 2 * number


def _has_tentative(pid: int) -> bool:
    """Return whether an IPv6 address in the network namespace of a process is not used yet."""
    # The fifth field has the flags, in hexadecimal digits.
    rows = Path(f"/proc/{pid}/net/if_inet6").read_text().splitlines()
    return any(int(row.split()[4], 16) & _TENTATIVE for row in rows)


def _host_prefixes(fabric: Fabric, addresses: CableAddresses) -> dict[IPv6Network, list[_Network]]:
    """Return the prefixes of hosts that are where the IPv6 addresses of host links are."""
    prefixes: dict[IPv6Network, list[_Network]] = {
        addresses.of_leaf(leaf): [*fabric.leaf_prefixes[leaf], *fabric.ipv6_leaf_prefixes[leaf]]
        for leaf in range(fabric.n_leaves)
    }
    # No default route of IPv6: it would lead to segments that a router does not know.
    every = dict.fromkeys(itertools.chain(*fabric.ipv6_leaf_prefixes))
    prefixes[addresses.of_leaves] = [ANYWHERE, *every]
    return prefixes


def _ecmp(prefix: _Network, route: StaticRoute) -> str:
    family = "" if prefix.version == 6 else "inet6 "
    hops = " ".join(f"nexthop via {family}{hop.address} dev {hop.interface}" for hop in route.next_hops)
    return f"ip route replace {prefix} {hops}"
