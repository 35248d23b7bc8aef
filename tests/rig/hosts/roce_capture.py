"""Prints the frames that an interface sees, each after its length, until standard input ends. Standard library only."""

from __future__ import annotations

import select
import socket
import struct
import sys

ETH_P_ALL = 3
SO_RCVBUFFORCE = 33


def main(interface: str) -> None:
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 64 << 20)
    sock.bind((interface, 0))
    out = sys.stdout.buffer
    out.write(b"!")
    out.flush()
    frames = []
    ended = False
    while True:
        ready, _, _ = select.select([sock] if ended else [sock, sys.stdin], [], [], 0.2 if ended else None)
        if sock in ready:
            frames.append(sock.recv(64 * 1024))
        elif ended:
            break
        else:
            ended = True
    for frame in frames:
        out.write(struct.pack("!I", len(frame)) + frame)
    out.flush()


if __name__ == "__main__":
    main(sys.argv[1])
