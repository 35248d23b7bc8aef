"""What a device is, by what others say of it: its operating system, its role, the names of its ports."""

from __future__ import annotations

import re

_SWITCH_SYSTEMS = re.compile(
    r"sonic|cumulus|arista|\beos\b|nx-os|nexus|cisco|juniper|junos|sr ?linux|nokia|onyx|mlnx-os|nvos|"
    r"dell.*(os10|networking)|ocnos|dent\b|open.?switch",
    re.IGNORECASE,
)
_SERVER_SYSTEMS = re.compile(
    r"ubuntu|debian|red hat|centos|rocky|alma|suse|windows|vmware|dgx|\blinux \d", re.IGNORECASE
)
_SWITCH_ROLES = re.compile(r"router|switch|fabric|spine|leaf|\btor\b|\bcore\b|aggregation|exit|border", re.IGNORECASE)
_SERVER_ROLES = re.compile(r"server|host|\bgpu|compute|storage|endpoint", re.IGNORECASE)
_SWITCH_PORT = re.compile(r"(?:Ethernet|Eth|et-|xe-|swp|ethernet-)\d+[\d/:s]*|\d+/\d+(?:/\d+)*")
"""Port names of switches (SONiC, EOS, NX-OS, Junos, Cumulus, SR Linux), which servers do not use."""

_MANAGEMENT_PORT = re.compile(
    r"eth0|mgmt\d*|management\d+(?:/\d+)?|ma\d+(?:/\d+)?|fxp0|em0|me0|vme|mgmteth.*", re.IGNORECASE
)


def is_switch_by_system(described: str) -> bool | None:
    """Return whether a description names the operating system of a switch; ``None``: it names none."""
    if _SWITCH_SYSTEMS.search(described):
        return True
    return False if _SERVER_SYSTEMS.search(described) else None


def is_switch_by_role(role: str) -> bool | None:
    """Return whether a role (``ToRRouter``, ``l3leaf``, ``host``, ..) is a switch's; ``None``: it says nothing."""
    if _SERVER_ROLES.search(role):
        return False
    return True if _SWITCH_ROLES.search(role) else None


def is_switch_port(port: str) -> bool:
    """Return whether only switches have ports of this name."""
    return _SWITCH_PORT.fullmatch(port) is not None


def is_management_port(port: str) -> bool:
    """Return whether a switch's port of this name leads to the network that manages it."""
    return _MANAGEMENT_PORT.fullmatch(port) is not None
