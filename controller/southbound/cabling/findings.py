"""Sentences about deviations that concern hosts' addresses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from controller.model.network_state import Clash, NetworkState, PortId
from controller.model.switch_key import SwitchKey, shown
from controller.model.texts.zones import plain

MOST_CLASHES = 100
"""Clashes that are reported one by one."""

CLAIMED = "duplicate address"
MISPLACED = "misplaced host"
FULL = "too many hosts"
EXTRA_SWITCH = "extra switch"
MISSING_SWITCH = "missing switch"
ABOUT_HOSTS = (CLAIMED, MISPLACED, FULL)


@dataclass(frozen=True)
class Finding:
    """One difference between the intended and the real cabling: its kind, its subject, and a sentence."""

    kind: str
    subject: str
    text: str


def clash_findings(observed: NetworkState, names: Mapping[str, str], leaves: Mapping[SwitchKey, str]) -> list[Finding]:
    """Return a finding for each claim to a host's address that was not believed.

    Args:
        observed: the observed state.
        names: of hosts, by IPv4 address with its zone.
        leaves: names of switches, by key.
    """
    clashes = sorted(observed.clashes, key=repr)
    findings = [_clash_finding(clash, names, leaves) for clash in clashes[:MOST_CLASHES]]
    if len(clashes) > MOST_CLASHES:
        text = f"{len(clashes) - MOST_CLASHES} more claims to addresses of hosts were rejected"
        findings.append(Finding(CLAIMED, "others", text))
    return findings


def _clash_finding(clash: Clash, names: Mapping[str, str], leaves: Mapping[SwitchKey, str]) -> Finding:
    at = _port(clash.at, leaves)
    who = _host(clash.ip, names)
    subject = names.get(clash.ip, plain(clash.ip))
    if clash.kind == "full":
        text = (
            f"{who} answers at {at} and is ignored: the limit on hosts (hosts_per_port or max_discovered_hosts) "
            "is reached"
        )
        return Finding(FULL, subject, text)
    kept = "" if clash.kept_at is None else _port(clash.kept_at, leaves)
    if clash.kind == "misplaced":
        instead = f"not at {kept}, to which its traffic is sent" if kept else "the fabric file does not allow this port"
        return Finding(MISPLACED, subject, f"{who} answers at {at}, {instead}")
    if clash.against in ("", clash.ip):
        text = f"{who} is claimed at {at} by {clash.mac}" + (f"; it stays at {kept}" if kept else "")
        return Finding(CLAIMED, subject, text)
    other = _host(clash.against, names)
    if clash.kept_at == clash.at:
        return Finding(CLAIMED, subject, f"{who} is claimed at {at} by {clash.mac}, which is the port of {other}")
    text = f"{clash.mac}, the MAC address of {other} at {kept}, is used at {at} for {who}"
    return Finding(CLAIMED, names.get(clash.against, plain(clash.against)), text)


def _port(at: PortId, leaves: Mapping[SwitchKey, str]) -> str:
    return f"{leaves.get(at.switch, shown(at.switch))} port {at.port}"


def _host(ip: str, names: Mapping[str, str]) -> str:
    return f"{plain(ip)} ({names[ip]})" if ip in names else plain(ip)
