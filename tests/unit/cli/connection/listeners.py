"""Listeners that see the requests of a client."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager


def whole_request(client: socket.socket) -> bytes:
    """Read a request to the end of the body that it announces: closing with unread bytes resets the connection."""
    got = b""
    while True:
        head, end, body = got.partition(b"\r\n\r\n")
        announced = re.search(rb"(?i)\r\ncontent-length: (\d+)", head)
        if end and len(body) >= (int(announced[1]) if announced else 0):
            return got
        piece = client.recv(64 * 1024)
        if not piece:
            return got
        got += piece


@contextmanager
def listener(answer: bytes) -> Iterator[tuple[str, list[bytes]]]:
    """A server for one connection: what it was sent, when it has answered."""
    got: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            client, _ = server.accept()
            with client:
                got.append(whole_request(client))
                client.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}", got
        thread.join()
