"""Clients of the HTTP interface, well-behaved and not, and the server process that they talk to."""

from __future__ import annotations

import json
import os
import re
import socket
import ssl
import struct
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from email.message import Message
from pathlib import Path

from emulation.http_client import HttpClient
from tests.documented import ROOT
from tests.rig.forks import Forked, forks
from tests.rig.waiting import eventually

PATIENCE_SECONDS = 180.0
ABORT = struct.pack("ii", 1, 0)
"""SO_LINGER with no time: closing resets the connection."""


@dataclass(frozen=True)
class Reply:
    """A whole response. ``headers`` by name in any case, ``None`` where there is none."""

    status: int
    headers: Message
    body: bytes

    @property
    def problem(self) -> dict[str, object]:
        """The problem document, checked to be one."""
        assert self.headers["Content-Type"] == "application/problem+json"
        document: dict[str, object] = json.loads(self.body)
        assert document["status"] == self.status
        return document


@dataclass(frozen=True)
class Server:
    """A running server process."""

    port: int
    log_file: Path

    @property
    def log(self) -> str:
        return self.log_file.read_text()

    def client(self, *, tls: ssl.SSLContext | None = None) -> HttpClient:
        """A client that sends all its requests over one connection."""
        return HttpClient(("127.0.0.1", self.port), timeout=PATIENCE_SECONDS, keep=True, tls=tls)

    def ask(
        self,
        method: str,
        target: str,
        body: bytes | Iterator[bytes] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """One request on a connection of its own, with these headers and no other ones that say what is in the body."""
        with self.client() as client:
            response = client.ask(method, target, content=b"" if body is None else body, headers=headers)
        return Reply(response.status, response.headers, response.content)

    def raw(self, sent: bytes = b"", *, receive_buffer: int | None = None) -> socket.socket:
        """A connection over which some bytes have been sent, for requests that no client would send, or not at once."""
        client = socket.socket()
        client.settimeout(PATIENCE_SECONDS)
        if receive_buffer is not None:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        client.connect(("127.0.0.1", self.port))
        client.sendall(sent)
        return client

    def converse(self, sent: bytes) -> bytes:
        """Everything that comes back before the connection ends, when this is all that is sent."""
        with self.raw() as client:
            try:
                client.sendall(sent)
                client.shutdown(socket.SHUT_WR)
            except OSError:
                # It has been closed in our face already; what it said before that can still be read.
                pass
            return until_closed(client)


def until_closed(client: socket.socket) -> bytes:
    """What comes until the other side closes."""
    received = []
    try:
        while piece := client.recv(64 * 1024):
            received.append(piece)
    except ConnectionError:
        pass
    return b"".join(received)


def start(
    log: Path, stdin: Path, stdout: Path, port: int = 0, *, files: int | None = None, **options: float | str
) -> Forked:
    """Start a server process; the files are its streams, and the rest is as ``serving`` takes it."""
    argv = [json.dumps(options), str(port)]
    return forks().start(
        argv, log, folder=ROOT, program="tests.rig.http.server", stdin=stdin, stdout=stdout, files=files
    )


@contextmanager
def serving(port: int = 0, *, files: int | None = None, **options: float | str) -> Iterator[Server]:
    """A server process, which must end by itself with nothing in its log that looks like a failure of ours.

    ``files``: how many files it may open, where that is to be tight. ``options``: limits, and files by path.
    """
    with tempfile.TemporaryDirectory() as folder, ExitStack() as undo:
        log, stdin, stdout = (Path(folder, name) for name in ("log", "stdin", "stdout"))
        os.mkfifo(stdin)
        stdout.touch()
        # Opened for both, it is there before the server reads; it ends the server's input when it is closed.
        ending = undo.enter_context(os.fdopen(os.open(stdin, os.O_RDWR), "wb"))
        process = start(log, stdin, stdout, port, files=files, **options)
        undo.callback(process.wait, PATIENCE_SECONDS)
        undo.callback(process.kill)
        eventually(lambda: stdout.read_text().endswith("\n") or process.poll() is not None, "the server says its port")
        assert process.poll() is None, log.read_text()
        server = Server(int(stdout.read_text()), log)
        yield server
        ending.close()
        assert process.wait(PATIENCE_SECONDS) == 0
        assert_clean(server.log)


def assert_clean(log: str) -> None:
    """One traceback is announced by one error line with its id; there are no others, and nothing else complains."""
    lines = log.splitlines()
    announced = [line for line in lines if re.match(r"ERROR controller\.rest\.[a-z.]+ error ", line)]
    chained = lines.count("During handling of the above exception, another exception occurred:")
    assert len(announced) == sum(line.startswith("Traceback") for line in lines) - chained, log
    known = (
        "INFO ",
        "DEBUG ",
        "WARNING controller.rest",
        "ERROR controller.rest.security.tls",
        "ERROR controller.rest.security.access",
        "Traceback",
        " ",
        "During handling of the above exception",
        "controller.model.errors.InputError: <",
        "ZeroDivisionError: a secret",
    )
    # The standard library's cgi module, which WebOb uses on Python 3.11 and 3.12, announces its end.
    strange = [
        line
        for line in lines
        if line and line not in announced and not line.startswith(known) and "'cgi' is deprecated" not in line
    ]
    assert not strange, log
