"""The sFlow collector: a process that receives datagrams and answers with what it has gathered.

Packets never reach the controller's event loop: the controller asks about once a second, and gets one report of bounded
size (``SampledTallies``). What arrives faster than this process reads is dropped by the kernel, and shows as gaps in
the agents' sequence numbers. The process ends when its standard input does, so it never outlives the controller.
"""

from __future__ import annotations

import os
import pickle
import selectors
import signal
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from subprocess import Popen
from typing import BinaryIO

from controller.learning.sampling.sampled_tallies import SampledReport, SampledTallies
from controller.learning.sampling.sflow_access import AgentFilter, parse_agents, parse_listen
from controller.model.errors import UnavailableError

BUFFER_BYTES = 8 << 20
"""Of the socket; the kernel may allow less."""
AT_ONCE = 256
"""Datagrams that are read before a question is answered."""
_LONGEST = 1 << 16
_QUESTION = b"?"
_WHERE = "where"


class SflowCollector:
    """The controller's end of the pipes. Not thread-safe; the process is started when it is needed first."""

    def __init__(
        self, start: Callable[[list[str]], Popen[bytes]], listen: str, agents: str, *, where: bool = False
    ) -> None:
        """Keep the options.

        Args:
            start: runs a command with pipes for standard input and output.
            listen: the option ``sflow_listen``.
            agents: the option ``sflow_agents``.
            where: whether it is to report at which switches flows are seen.
        """
        self._start, self._arguments = start, [listen, agents, *([_WHERE] if where else [])]
        self._process: Popen[bytes] | None = None

    def report(self) -> SampledReport:
        """Return what was gathered since the last call, and block this thread until it is there.

        Raises:
            UnavailableError: the process has ended; the next call starts another one.
        """
        process = self._process = self._process or self._start(
            [sys.executable, "-m", "controller.service.learning.sflow_collector", *self._arguments]
        )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(_QUESTION)
            process.stdin.flush()
            report: SampledReport = pickle.load(process.stdout)
        except (OSError, EOFError, pickle.UnpicklingError):
            self.close()
            raise UnavailableError(f"the sFlow collector on {self._arguments[0]} has ended") from None
        return report

    def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None:
            with suppress(OSError), process:
                process.kill()


def listen_on(text: str) -> socket.socket:
    """Return a bound socket that does not block."""
    host, port = parse_listen(text)
    made = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
    made.bind((host, port))
    made.setblocking(False)
    return made


def serve(sock: socket.socket, agents: AgentFilter, questions: int, answers: BinaryIO, *, where: bool = False) -> None:
    """Receive datagrams and answer questions until there are no more; ``where``: say at which switches flows are."""
    tallies = SampledTallies(where=where)
    with selectors.DefaultSelector() as selector:
        selector.register(sock, selectors.EVENT_READ)
        selector.register(questions, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is sock:
                    receive(sock, agents, tallies)
                elif not os.read(questions, 1):
                    return
                else:
                    pickle.dump(tallies.report(), answers, protocol=pickle.HIGHEST_PROTOCOL)
                    answers.flush()


def receive(sock: socket.socket, agents: AgentFilter, tallies: SampledTallies) -> None:
    """Take the datagrams that have arrived, at most ``AT_ONCE``."""
    for _ in range(AT_ONCE):
        try:
            data, sender = sock.recvfrom(_LONGEST)
        except OSError:
            return
        if agents.allows(sender[0]):
            tallies.take_datagram(data, time.time())
        else:
            tallies.counts.refused += 1


def main(arguments: list[str]) -> int:
    """Run the process: ``ADDRESS[:PORT] AGENTS [where]``."""
    # Ctrl-C in a terminal goes to the whole group; the controller decides when this process ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Where memory runs out, this process goes before the controller, which starts another one.
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("500")
    try:
        sock = listen_on(arguments[0])
    except OSError as error:
        print(f"sflow_listen: {arguments[0]}: {error.strerror}", file=sys.stderr, flush=True)
        return 1
    answers, sys.stdout = sys.stdout.buffer, sys.stderr  # nothing that prints may end up among the answers
    with sock:
        where = _WHERE in arguments[2:]
        serve(sock, AgentFilter(parse_agents(arguments[1])), sys.stdin.fileno(), answers, where=where)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
