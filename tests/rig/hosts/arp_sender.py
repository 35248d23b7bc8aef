"""A host that sends ARP frames that are not true: run inside the host, ``python -m tests.rig.hosts.arp_sender``.

Each line of standard input is one order: how many frames a second, for how many seconds, and the frame in hexadecimal;
``*`` in place of the frame: a new sender address each time. After each order a line with the number that was sent.
"""

from __future__ import annotations

import random
import socket
import sys
import time

PACE = 0.01
"""Seconds between two bursts."""


def random_claim(rng: random.Random) -> bytes:
    """An ARP request from a random address and MAC address, for a random target."""
    mac = bytes([2]) + rng.randbytes(5)
    ip, target = bytes([10, *rng.randbytes(3)]), bytes([10, *rng.randbytes(3)])
    return b"\xff" * 6 + mac + b"\x08\x06\x00\x01\x08\x00\x06\x04\x00\x01" + mac + ip + bytes(6) + target


def main() -> None:
    interface = sys.argv[1]
    rng = random.Random(1)
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as wire:
        wire.bind((interface, 0))
        for order in sys.stdin:
            rate, seconds, frame = order.split()
            sent, began = 0, time.monotonic()
            while (passed := time.monotonic() - began) < float(seconds) or not sent:
                for _ in range(max(1, int(float(rate) * passed)) - sent):
                    wire.send(random_claim(rng) if frame == "*" else bytes.fromhex(frame))
                    sent += 1
                time.sleep(PACE)
            print(sent, flush=True)


if __name__ == "__main__":
    main()
