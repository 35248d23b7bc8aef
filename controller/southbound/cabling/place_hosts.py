"""Where the hosts of an intended fabric are in the network."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import numpy as np

from controller.model.fabric import Cable, Fabric, Host
from controller.model.network_state import NetworkState, PortId
from controller.southbound.cabling.findings import Finding, clash_findings
from controller.southbound.hosts.intended_hosts import IntendedHosts


def place_hosts(
    intended: Fabric,
    allowed: IntendedHosts,
    observed: NetworkState,
    before: Fabric | None,
    isolated: frozenset[str] = frozenset(),
) -> tuple[list[Host], list[Finding], list[str]]:
    """Return where hosts are, and whether their links are up; those of a leaf that is not connected are as ``before``.

    A port that the file names is where its host is. Other hosts are where they were found on their leaf, at a port that
    belongs to no other host. Links to ``isolated`` leaves are down.
    """
    key_of = {leaf.name: leaf.key for leaf in intended.leaves}
    hosts, findings, unplaced = [], [], []
    taken: set[PortId] = set()
    for index, host in enumerate(intended.hosts):
        if key_of[host.leaf] in observed.unobserved:
            hosts.append(host)
            continue
        ip = allowed.zoned(host.ip, key_of[host.leaf])
        heard, at = observed.hosts.get(ip), allowed.ports.get(ip)
        if at is None and heard is not None and allowed.allows(ip, heard.at) and heard.at not in taken:
            at = heard.at
            taken.add(at)
        if heard is not None and heard.at == at and heard.mac != host.mac:
            text = f"{host.ip} has the MAC address {heard.mac}; the fabric file gives {host.mac} for {host.name}"
            findings.append(Finding("other address", host.name, text))
        if at is not None and at in observed.links:
            # A rule for the host would send its packets to another switch, and they might come back.
            text = f"port {at.port} of {host.leaf} leads to a switch instead of {host.name}"
            findings.append(Finding("misplaced host", host.name, text))
            at = None
        port = None if at is None else at.port
        up = host.up and (at is None or observed.ports.get(at) is not False)
        if at is not None and before is not None and at.switch not in observed.switches:
            up = up and before.hosts[index].up
        up = up and host.leaf not in isolated
        if at is None:
            unplaced.append(host.name)
        same = host.port == port and host.up == up
        hosts.append(host if same else dataclasses.replace(host, port=port, up=up))
    names = {ip: host.name for ip, host in allowed.hosts.items()}
    findings += clash_findings(observed, names, {key: leaf for leaf, key in key_of.items()})
    return hosts, findings, unplaced


def isolated_leaves(intended: Fabric, cables: Iterable[Cable], observed: NetworkState) -> frozenset[str]:
    """Return the leaves that are not connected and all of whose cables are down, where NICs have several ports.

    Such a leaf has most probably failed. It cannot say that its ports are down, and the stripes of two NICs on it would
    stay there, although other ports of these NICs reach each other. A NIC with one port has no other way, so links to
    its leaf stay as they were: the leaf may still forward between its hosts.

    Args:
        intended: the fabric file's.
        cables: with their present state.
        observed: the network; none is isolated while switches have only begun to connect.
    """
    if intended.planes.count == 1 or observed.starting:
        return frozenset()
    lost = np.array(
        [leaf.key not in observed.switches | observed.unobserved for leaf in intended.leaves], dtype=np.bool_
    )
    if not lost.any():
        return frozenset()
    wired = np.zeros(intended.n_leaves, dtype=np.bool_)
    up = np.array([cable.up for cable in cables], dtype=np.bool_)
    wired[intended.cable_lower[up & (intended.cable_tier == 0)]] = True
    return frozenset(intended.leaves[leaf].name for leaf in np.flatnonzero(lost & ~wired).tolist())
