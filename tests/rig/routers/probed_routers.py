"""Routers that hash the 5-tuple and answer hop-limited probes, as tests on Linux routers need them."""

from __future__ import annotations

import subprocess

from tests.rig.routers.router_lab import RouterLab


def unlimited(lab: RouterLab) -> None:
    """Let routers answer as much as they can."""
    for router in lab.lab.wiring.routers:
        lab.run(router, "sysctl", "-qw", "net.ipv4.icmp_ratelimit=0", "net.ipv4.icmp_msgs_per_sec=1000000")
        lab.run(router, "sysctl", "-qw", "net.ipv6.icmp.ratelimit=0")


def answers(lab: RouterLab, src: str, dst: str) -> bool:
    command = lab.inside(src, "ping", "-q", "-c", "1", "-W", "1", lab.fabric.hosts[lab.fabric.host_index[dst]].ip)
    return not subprocess.run(command, capture_output=True).returncode
