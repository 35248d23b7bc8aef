"""Requirements of the lab on the machine, checked first, so that a missing one is reported in one line."""

from __future__ import annotations

import importlib.util
import os
import shutil

PROGRAMS = {
    "ovsdb-server": "openvswitch-switch",
    "ovsdb-tool": "openvswitch-switch",
    "ovs-vswitchd": "openvswitch-switch",
    "ovs-vsctl": "openvswitch-switch",
    "ovs-ofctl": "openvswitch-switch",
    "mnexec": "mininet",
    "ifconfig": "net-tools",
    "ip": "iproute2",
    "tc": "iproute2",
    "ethtool": "ethtool",
}
"""Program -> Debian package."""


def missing() -> str:
    """Return the reason why no lab can run here, in one line; empty if one can."""
    if os.geteuid() != 0:
        return "the lab creates network namespaces and switches, which only root can do"
    packages = sorted({package for program, package in PROGRAMS.items() if shutil.which(program) is None})
    if packages:
        return f"the lab needs more Debian packages: apt-get install {' '.join(packages)}"
    if importlib.util.find_spec("mininet") is None:
        return "the lab needs Mininet in this Python: pip install 'fairspine[controller,emulation]' (make setup does)"
    return ""
