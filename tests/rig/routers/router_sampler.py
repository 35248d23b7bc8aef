"""Linux routers that sample packets and send them to a collector by sFlow version 5, as switches do.

The kernel draws one packet in N at random (``numgen random`` of nftables) and hands its first bytes to a socket
(nfnetlink_log); a thread sends them on, in the name of the router. They begin with the IP header: the Ethernet header
in a sample is made up.
"""

from __future__ import annotations

import os
import select
import socket
import struct
import threading
from collections import Counter
from collections.abc import Iterator

from emulation.netns import socket_in_netns_of
from tests.rig.routers.router_lab import RouterLab

HEADER_BYTES = 128
GROUP = 7
NETLINK_NETFILTER = 12
"""Protocol of netlink (linux/netlink.h)."""

_LOG = 4 << 8
_PACKET, _CONFIG = _LOG, _LOG | 1
_REQUEST = 1
_BIND = 1
_CFG_CMD, _CFG_MODE, _CFG_TIMEOUT, _CFG_QTHRESH = 1, 2, 4, 5
_COPY_PACKET = 2
_PAYLOAD = 9
_ETHERNET_IPV4 = bytes(12) + b"\x08\x00"

TABLE = """
table ip sampler {{
    chain drawn {{
        type filter hook prerouting priority -350;
        numgen random mod {one_in} 0 log group {group} snaplen {bytes}
    }}
}}
"""


class RouterSampler:
    """Samples at all routers of a lab; use it in a ``with`` statement.

    Attributes:
        sampled: packets that each router has sampled.
    """

    def __init__(self, lab: RouterLab, collector: tuple[str, int], one_in: int) -> None:
        """Keep where samples go, and how many packets are one sample."""
        self._lab, self._collector, self._one_in = lab, collector, one_in
        self.sampled: Counter[str] = Counter()
        self._sequence: Counter[str] = Counter()
        self._agents = {switch.name: switch.addresses[0] for switch in lab.fabric.switches}
        self._sockets: dict[int, tuple[str, socket.socket]] = {}
        self._end, self._wake = os.pipe()
        self._out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> RouterSampler:
        """Begin."""
        rules = TABLE.format(one_in=self._one_in, group=GROUP, bytes=HEADER_BYTES)
        for router in self._lab.lab.wiring.routers:
            pid = self._lab.lab.node(router).pid
            log = socket_in_netns_of(pid, socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_NETFILTER)
            log.bind((0, 0))
            log.send(_config(_CFG_CMD, bytes((_BIND,))))
            log.send(_config(_CFG_MODE, struct.pack("!IBB", HEADER_BYTES, _COPY_PACKET, 0)))
            log.send(_config(_CFG_TIMEOUT, struct.pack("!I", 10)))
            log.send(_config(_CFG_QTHRESH, struct.pack("!I", 5)))
            log.setblocking(False)
            self._sockets[log.fileno()] = router, log
            self._lab.run(router, "sh", "-c", f"nft -f - <<'END'\n{rules}END\n")
        self._thread.start()
        return self

    def __exit__(self, *ended: object) -> None:
        """End."""
        os.write(self._wake, b"x")
        self._thread.join()
        for _, log in self._sockets.values():
            log.close()
        self._out.close()
        os.close(self._end)
        os.close(self._wake)

    def _run(self) -> None:
        while True:
            ready = select.select([self._end, *self._sockets], [], [])[0]
            if self._end in ready:
                return
            for number in ready:
                router, log = self._sockets[number]
                try:
                    packets = [*_packets(log.recv(1 << 17))]
                except OSError:
                    # Its queue has overflown: some samples are lost, as those of switches may be.
                    continue
                for start in range(0, len(packets), 5):
                    self._send(router, packets[start : start + 5])

    def _send(self, router: str, packets: list[bytes]) -> None:
        self.sampled[router] += len(packets)
        self._sequence[router] += 1
        head = struct.pack("!II", 5, 1) + socket.inet_aton(self._agents[router])
        head += struct.pack("!IIII", 0, self._sequence[router], 0, len(packets))
        self._out.sendto(head + b"".join(self._sample(packet) for packet in packets), self._collector)

    def _sample(self, packet: bytes) -> bytes:
        frame = _ETHERNET_IPV4 + packet[: HEADER_BYTES - len(_ETHERNET_IPV4)]
        length = len(_ETHERNET_IPV4) + int.from_bytes(packet[2:4])
        raw = struct.pack("!IIII", 1, length, 4, len(frame)) + frame + bytes(-len(frame) % 4)
        body = struct.pack("!8I", 1, 1, self._one_in, 0, 0, 1, 0, 1) + struct.pack("!II", 1, len(raw)) + raw
        return struct.pack("!II", 1, len(body)) + body


def _config(kind: int, value: bytes) -> bytes:
    attribute = struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)
    body = struct.pack("=BB", socket.AF_UNSPEC, 0) + struct.pack("!H", GROUP) + attribute
    return struct.pack("=IHHII", 16 + len(body), _CONFIG, _REQUEST, 0, 0) + body


def _packets(data: bytes) -> Iterator[bytes]:
    """Yield the packets in messages of nfnetlink_log."""
    while len(data) >= 16:
        length, kind = struct.unpack_from("=IH", data)
        message, data = data[16 + 4 : length], data[(length + 3) & ~3 :]
        while kind == _PACKET and len(message) >= 4:
            size, name = struct.unpack_from("=HH", message)
            if size < 4:
                break
            if name & 0x3FFF == _PAYLOAD:
                yield message[4:size]
            message = message[(size + 3) & ~3 :]
