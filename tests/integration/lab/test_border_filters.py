"""What the border of real routers lets pass: carriers of agents, and no forged packets."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from ipaddress import IPv6Address
from pathlib import Path

import pytest

from controller.model.files.clos import clos
from controller.southbound.srv6.border_filters import border_filters
from controller.southbound.srv6.carriers import path_ids
from emulation.lab.routers import FORMAT
from tests.rig.routers.router_lab import RouterLab
from tests.rig.waiting import eventually

pytestmark = pytest.mark.switches

FABRIC = clos(2, 2, 3)
H1, H2, H3, H4 = range(4)
PACKETS = 20
SEND = f"""
import ipaddress, socket, struct, sys
source, destination, kind = sys.argv[1:]
packed = [ipaddress.IPv6Address(each).packed for each in (source, destination)]
inside = struct.pack("!HHHH", 9, 9, 8, 0) if kind != "error" else bytes([1, 0]) + bytes(46)
protocol = {{"udp": 17, "error": 58, "header": 43}}[kind]
if kind == "header":
    # Routing header of type 4 with one segment, the destination; UDP behind it.
    inside = bytes([17, 2, 4, 0, 0, 0, 0, 0]) + packed[1] + inside
with socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_RAW) as sender:
    for _ in range({PACKETS}):
        sender.sendto(struct.pack("!IHBB", 6 << 28, len(inside), protocol, 64) + packed[0] + packed[1] + inside,
                      (destination, 0))
"""
"""Sends packets with any source; its arguments are source, destination, and what is inside."""


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[RouterLab]:
    with RouterLab(FABRIC, tmp_path) as lab:
        # The second host has no agent.
        for name, text in border_filters(lab.ids, FORMAT.interface, lab.addresses.network, {H2}):
            file = tmp_path / f"{name}.nft"
            file.write_text(text)
            lab.run(name, "nft", "-f", str(file))
        yield lab


def passed(lab: RouterLab, host: int, kind: str, source: IPv6Address, destination: IPv6Address) -> bool:
    """Whether packets of a host leave its leaf towards the spines."""
    uplinks = [link for link in range(FABRIC.first_cable_link, FABRIC.n_links) if lab.ends(link)[0][0] == "leaf1"]

    def sent() -> int:
        counts = lab.sent()
        return sum(counts[link] for link in uplinks)

    # The host knows the address of its leaf before this.
    lab.run(FABRIC.hosts[host].name, "ping", "-q", "-c", "1", "-W", "5", str(lab.addresses.of_link(host, far=True).ip))
    before = sent()
    lab.run(FABRIC.hosts[host].name, sys.executable, "-c", SEND, str(source), str(destination), kind)
    dropped = f"counter packets {PACKETS} "

    def decided() -> bool:
        # Of all rules, one has counted these packets, or they have gone on.
        return sent() - before >= PACKETS or dropped in lab.run("leaf1", "nft", "list", "ruleset")

    eventually(decided, f"packets of h{host + 1} pass or are dropped", shown=lambda: sent() - before)
    return sent() - before >= PACKETS


def test_the_border_lets_carriers_of_agents_pass_and_drops_what_is_forged(lab: RouterLab) -> None:
    own = {host: lab.source(host) for host in (H1, H2, H3, H4)}
    carrier = lab.ids.address(path_ids(lab.ids, H1, H4, 0))
    spine = lab.addresses.of_link(FABRIC.first_cable_link, far=True).ip
    for host, kind, source, destination, passes in (
        (H1, "udp", own[H1], carrier, True),
        (H2, "udp", own[H2], carrier, False),
        (H3, "udp", own[H1], carrier, False),
        (H1, "header", own[H1], carrier, False),
        (H1, "error", spine, own[H4], False),
        (H1, "error", own[H1], own[H4], False),
        (H2, "udp", own[H2], spine, False),
    ):
        for name, text in border_filters(lab.ids, FORMAT.interface, lab.addresses.network, {H2}):
            if name == "leaf1":
                # Counters begin at zero.
                lab.run(name, "sh", "-c", f"nft -f - <<'END'\n{text}END")
        case = f"{kind} from h{host + 1} as {source} to {destination}"
        assert passed(lab, host, kind, source, destination) == passes, case


def test_hosts_reach_each_other_and_routers_are_pinged_whatever_the_border_drops(lab: RouterLab) -> None:
    assert lab.lab.ping_all() == []
    lab.steer(H1, H4, 1)
    spine = lab.addresses.of_link(FABRIC.first_cable_link, far=True).ip
    for command in (("ping", "-q", "-c", "3", FABRIC.hosts[H4].ip), ("ping", "-q", "-c", "3", str(spine))):
        eventually(partial(answered, lab, command), f"{command} is answered")


def answered(lab: RouterLab, command: tuple[str, ...]) -> bool:
    try:
        lab.run("h1", *command)
    except RuntimeError:
        return False
    return True
