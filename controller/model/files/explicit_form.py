"""The fabric of the explicit form of fabric files, which lists each switch, host and cable.

Large files have hundreds of thousands of rows, so each check looks at all rows at once where it can, and searches for
the row that is wrong only where there is one.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Sequence

import numpy as np

from controller.model.errors import InputError
from controller.model.fabric import Cable, Fabric, Host, Switch
from controller.model.fabric_parts import PLURALS, ROLES
from controller.model.files.fabric_forms import MAX_HOSTS_PER_LEAF, HostRow, LinkRow, SwitchRow
from controller.model.files.locators import check_locators
from controller.model.files.short_form_hosts import conventional_ip, conventional_mac
from controller.model.planes import check_planes

_SHOWN = {"leaf": "leaf", "spine": "spine", "aggregation": "aggregation switch", "core": "core"}
_A = {role: f"{'an' if shown[0] == 'a' else 'a'} {shown}" for role, shown in _SHOWN.items()}


def explicit_fabric(switches: Sequence[SwitchRow], hosts: Sequence[HostRow], links: Sequence[LinkRow]) -> Fabric:
    """Return the fabric of these rows.

    Raises:
        InputError: the first thing that is wrong.
    """
    roles = _roles(switches)
    made = [_switch(i, row) for i, row in enumerate(switches)]
    layers = tuple(
        tuple(switch for switch, row in zip(made, switches, strict=True) if row["role"] == role) for role in roles
    )
    for role, layer in zip(roles, layers, strict=True):
        # A leaf-spine fabric may have no spine, but then no leaf has an uplink.
        if not layer and role != "spine":
            raise InputError(f"at least one {_SHOWN[role]} is required", field="switches")
    names = [row["name"] for row in switches]
    _unique("switches", "name", names, names)
    # The key of a router is its name, so there is none twice.
    _unique("switches", "dpid", [switch.key for switch in made], names)
    check_locators(made)
    role_of: dict[str, str] = {row["name"]: row["role"] for row in switches}
    placed = _hosts(hosts, [leaf.name for leaf in layers[0]], role_of)
    _check_addresses(made, placed)
    for i, host in enumerate(placed):
        if host.name in role_of:
            raise InputError("a switch already has this name", field=f"hosts[{i}].name", value=host.name)
    cables = _cables(links, role_of, roles)
    wired = {cable.lower for cable in cables}
    for leaf in layers[0]:
        if leaf.name not in wired:
            raise InputError("this leaf has no uplink", field="links", value=leaf.name)
    fabric = Fabric(layers, placed, cables)
    _check_ports(fabric)
    _check_interfaces(hosts, links)
    _check_nics(fabric)
    return fabric


def _switch(i: int, row: SwitchRow) -> Switch:
    """Return a switch.

    Raises:
        InputError: its kind needs a datapath id that it lacks, or has one that it cannot have.
    """
    dpid, field = row.get("dpid"), f"switches[{i}].dpid"
    addresses = tuple(row.get("addresses", ()))
    if row.get("kind") == "router":
        if dpid is not None:
            raise InputError("a router has no datapath id", field=field, value=dpid)
        return Switch.router(row["name"], row.get("locator"), addresses)
    if dpid is None:
        raise InputError(
            f"field required ({row['name']} is an OpenFlow switch; a switch without OpenFlow has 'kind: router')",
            field=field,
        )
    return Switch(row["name"], dpid, row.get("locator"), addresses)


def _check_addresses(switches: Sequence[Switch], hosts: Sequence[Host]) -> None:
    """See whether no address of a switch is that of another switch or of a host.

    Raises:
        InputError: one is.
    """
    if not any(switch.addresses for switch in switches):
        return
    owner = {host.ip: host.name for host in hosts}
    for i, switch in enumerate(switches):
        for n, address in enumerate(switch.addresses):
            if address in owner:
                raise InputError(
                    f"it is an address of {owner[address]}, too", field=f"switches[{i}].addresses[{n}]", value=address
                )
            owner[address] = switch.name


def _check_nics(fabric: Fabric) -> None:
    """Check that the names of NICs are not those of other parts, and that all have as many ports in each network.

    Raises:
        InputError: it is not so.
    """
    names = {host.name for host in fabric.hosts} | fabric.layer_of.keys()
    for i, host in enumerate(fabric.hosts):
        if host.nic in names:
            raise InputError("a host or switch already has this name", field=f"hosts[{i}].nic", value=host.nic)
    check_planes(fabric, fabric.planes, fabric.components_of_switches, fabric.host_leaf)
    check_bonds(fabric)


def _roles(rows: Sequence[SwitchRow]) -> tuple[str, ...]:
    """Return the roles of the layers that a list of switches has, from the leaves up.

    Raises:
        InputError: there are spines beside aggregation switches or cores.
    """
    upper = {row["role"] for row in rows} - {"leaf"}
    if upper <= {"spine"}:
        return ROLES[2]
    for i, row in enumerate(rows):
        if row["role"] == "spine":
            other = next(other for other in rows if other["role"] in ("aggregation", "core"))
            raise InputError(
                f"{other['name']} is {_A[other['role']]}, so this fabric has aggregation switches and cores, "
                "but no spines",
                field=f"switches[{i}].role",
                value=row["name"],
            )
    return ROLES[3]


def _hosts(rows: Sequence[HostRow], leaves: list[str], role_of: dict[str, str]) -> tuple[Host, ...]:
    # Hosts name their leaf by one object: each row of a JSON file has a string of its own.
    number = {name: (i, name) for i, name in enumerate(leaves, start=1)}
    seated: dict[str, int] = {}
    mac_of: dict[tuple[str, str], str] = {}
    hosts = []
    for i, row in enumerate(rows):
        place = number.get(row["leaf"])
        if place is None:
            leaf = row["leaf"]
            what = f"{_A[role_of[leaf]]} has no hosts" if leaf in role_of else "no leaf has this name"
            raise InputError(what, field=f"hosts[{i}].leaf", value=leaf)
        name, (subnet, leaf) = row["name"], place
        ip, mac, nic = row.get("ip"), row.get("mac"), row.get("nic")
        seat = seated[leaf] = seated.get(leaf, 0) + 1
        if (ip is None or mac is None) and seat > MAX_HOSTS_PER_LEAF:
            raise InputError(
                f"{leaf} has more hosts than its /24 prefix holds ({MAX_HOSTS_PER_LEAF}): give 'ip' and 'mac'",
                field=f"hosts[{i}]",
                value=name,
            )
        if ip is None:
            ip = conventional_ip(subnet, seat)
        # The ports of a bond share the address that one of them states.
        mac = mac or (mac_of.get((nic, ip)) if nic else None) or conventional_mac(subnet, seat)
        if nic is not None:
            mac_of.setdefault((nic, ip), mac)
        hosts.append(
            Host(
                name,
                leaf,
                row.get("gbps", 100.0),
                ip,
                mac,
                row.get("server") or nic or name,
                row.get("rail", 0),
                row.get("port"),
                row.get("up", True),
                nic,
                row.get("interface"),
            )
        )
    names, owners = [host.name for host in hosts], [host.nic for host in hosts]
    _unique("hosts", "name", names, names)
    _unique("hosts", "ip", [host.ip for host in hosts], names, owners)
    _unique("hosts", "mac", [host.mac for host in hosts], names, owners)
    return tuple(hosts)


def _cables(rows: Sequence[LinkRow], role_of: dict[str, str], roles: tuple[str, ...]) -> tuple[Cable, ...]:
    layer = {role: number for number, role in enumerate(roles)}
    # Cables name their ends by one object for each switch, as hosts do their leaf.
    place = {name: (layer[role], name) for name, role in role_of.items()}
    cables = []
    for i, row in enumerate(rows):
        a, b = place.get(row["a"]), place.get(row["b"])
        if a is None or b is None:
            end, name = ("a", row["a"]) if a is None else ("b", row["b"])
            raise InputError("no switch has this name", field=f"links[{i}].{end}", value=name)
        ports = row.get("a_port"), row.get("b_port")
        interfaces = row.get("a_interface"), row.get("b_interface")
        if a[0] > b[0]:
            a, b, ports, interfaces = b, a, ports[::-1], interfaces[::-1]
        if a[0] + 1 != b[0]:
            raise _joins_others(i, row, role_of, roles)
        cables.append(Cable(a[1], b[1], row.get("gbps", 100.0), row.get("up", True), *ports, *interfaces))
    return tuple(cables)


def _joins_others(i: int, row: LinkRow, role_of: dict[str, str], roles: tuple[str, ...]) -> InputError:
    """Return the error of a link between switches that are not of neighbouring layers."""
    allowed = " or ".join(f"{_A[low]} and {_A[high]}" for low, high in itertools.pairwise(roles))
    first, second = role_of[row["a"]], role_of[row["b"]]
    ends = f"two {PLURALS[first]}" if first == second else f"{_A[first]} and {_A[second]}"
    return InputError(
        f"a link must connect {allowed}; this one connects {ends}", field=f"links[{i}]", value=f"{row['a']}-{row['b']}"
    )


def _unique(
    table: str, key: str, values: Sequence[Hashable], names: Sequence[str], owners: Sequence[str | None] = ()
) -> None:
    """Check that no value occurs twice, unless both have one owner.

    Raises:
        InputError: one does.
    """
    if len(set(values)) == len(values):
        return
    seen: dict[Hashable, tuple[int, str]] = {}
    for i, (value, name) in enumerate(zip(values, names, strict=True)):
        if value in seen:
            other, first = seen[value]
            if owners and owners[i] is not None and owners[i] == owners[other]:
                continue
            who = f"{first} and {name} have the same {key}" if key != "name" else f"{table}[{other}] has the same name"
            raise InputError(who, field=f"{table}[{i}].{key}", value=value)
        seen[value] = (i, name)


def _check_ports(fabric: Fabric) -> None:
    """Check that each port of a switch leads to one host or cable.

    Raises:
        InputError: one leads to two.
    """
    first = np.cumsum([0, *map(len, fabric.layers)])
    switch = [fabric.host_leaf, first[fabric.cable_tier] + fabric.cable_lower]
    switch.append(first[fabric.cable_tier + 1] + fabric.cable_upper)
    ports = [host.port or 0 for host in fabric.hosts]
    ports += [cable.lower_port or 0 for cable in fabric.cables]
    ports += [cable.upper_port or 0 for cable in fabric.cables]
    # Ports have 32 bits, and 0 is none.
    number = np.array(ports, dtype=np.int64)
    ends = np.sort((np.concatenate(switch).astype(np.int64) << 32 | number)[number > 0])
    if (ends[1:] == ends[:-1]).any():
        raise _port_used_twice(fabric)


def _check_interfaces(hosts: Sequence[HostRow], links: Sequence[LinkRow]) -> None:
    """Check that each interface of a switch leads to one host or cable.

    Raises:
        InputError: one leads to two.
    """
    used = [(row["leaf"], row.get("interface"), f"hosts[{i}].interface") for i, row in enumerate(hosts)]
    for i, link in enumerate(links):
        used.append((link["a"], link.get("a_interface"), f"links[{i}].a_interface"))
        used.append((link["b"], link.get("b_interface"), f"links[{i}].b_interface"))
    seen: dict[tuple[str, str], str] = {}
    for switch, interface, field in used:
        if interface is not None and seen.setdefault((switch, interface), field) != field:
            raise InputError(f"{seen[switch, interface]} is the same of {switch}", field=field, value=interface)


def _port_used_twice(fabric: Fabric) -> InputError:
    seen: dict[tuple[str, int], str] = {}
    used: list[tuple[str, int | None, str]] = [(h.leaf, h.port, h.name) for h in fabric.hosts]
    for c in fabric.cables:
        used += [(c.lower, c.lower_port, c.upper), (c.upper, c.upper_port, c.lower)]
    for switch, port, peer in used:
        if port is None:
            continue
        if (switch, port) in seen:
            text = f"port {port} of {switch} leads to both {seen[switch, port]} and {peer}"
            return InputError(text, field="links")
        seen[switch, port] = peer
    raise AssertionError("each port is used once")


def check_bonds(fabric: Fabric) -> None:
    """Check that ports of a NIC that share an IP address share the MAC address, too, and are in unlike networks.

    Raises:
        InputError: it is not so.
    """
    if fabric.planes.count == 1:
        return
    network = fabric.planes.network[0][fabric.host_leaf].tolist()
    by_ip: dict[tuple[str, str], tuple[Host, set[int]]] = {}
    by_mac: dict[tuple[str, str], Host] = {}
    for i, (host, own) in enumerate(zip(fabric.hosts, network, strict=True)):
        nic = host.nic or host.name
        first, networks = by_ip.setdefault((nic, host.ip), (host, set()))
        for other, same, unlike in ((first, "ip", "mac"), (by_mac.setdefault((nic, host.mac), host), "mac", "ip")):
            if getattr(other, unlike) != getattr(host, unlike):
                raise InputError(
                    f"{other.name} and {host.name} have the same {same}, so they need the same {unlike}: "
                    "ports of a bond share both",
                    field=f"hosts[{i}].{unlike}",
                    value=getattr(host, unlike),
                )
        if own in networks:
            raise InputError(
                f"{first.name} and {host.name} of NIC {nic} are in one network and have the same ip: "
                "bonds need ports in unlike networks (planes), and dual-ToR needs an ip and a mac of each port",
                field=f"hosts[{i}].ip",
                value=host.ip,
            )
        networks.add(own)
