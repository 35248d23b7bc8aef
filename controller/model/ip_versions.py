"""Hosts with IPv4 and IPv6 addresses: what carries only one version refuses the other, and a flow has one version."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from controller.model.errors import InputError
from controller.model.fabric import Fabric, IntArray


def check_ipv4(fabric: Fabric, what: str, source: str = "") -> None:
    """See whether all hosts have IPv4 addresses.

    Args:
        fabric: the fabric.
        what: what needs them, in words.
        source: the file of the fabric.

    Raises:
        InputError: one has an IPv6 address.
    """
    if len(fabric.ipv6_hosts):
        number = int(fabric.ipv6_hosts[0])
        host = fabric.hosts[number]
        reason = f"{host.name} has an IPv6 address, and {what} is for IPv4 addresses of hosts"
        raise InputError(reason, field=f"hosts[{number}].ip", value=host.ip, source=source)


def check_one_version(fabric: Fabric, src: IntArray, dst: IntArray, flow_id: Callable[[int], str]) -> None:
    """See whether each flow is between addresses of one version.

    Args:
        fabric: the fabric.
        src: [F] sending host of each flow.
        dst: [F] receiving host of each flow.
        flow_id: returns the id of a flow.

    Raises:
        InputError: one is not.
    """
    if not 0 < len(fabric.ipv6_hosts) < fabric.n_hosts:
        return
    ipv6 = np.zeros(fabric.n_hosts, dtype=np.bool_)
    ipv6[fabric.ipv6_hosts] = True
    mixed = np.flatnonzero(ipv6[src] != ipv6[dst])
    if len(mixed):
        ends = [fabric.hosts[int(host[mixed[0]])] for host in (src, dst)]
        texts = [f"{end.name} an IPv{end.ip_version} address" for end in ends]
        reason = f"{texts[0].replace(' an', ' has an', 1)} and {texts[1]}, and packets have one version"
        raise InputError(reason, field=flow_id(int(mixed[0])), value=ends[1].ip)
