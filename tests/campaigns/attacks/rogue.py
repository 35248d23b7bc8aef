"""The process that carries out one attack: ``python -m tests.campaigns.attacks.rogue ORDER.json``.

It prints one line of JSON at its end: how many sends, bytes and connections it took. Nothing heavy is imported here,
so that it starts at once.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.campaigns.attacks.line import EmptySwitch, Line, join_as
from tests.campaigns.attacks.order import AttackOrder, read
from tests.campaigns.attacks.transcript import Transcript

UNKNOWN_DPID = 0xBAD0_0000_0000_0000
AGAIN_SECONDS = 0.02
"""Between two connections, where the controller has ended one."""
UNSENT_SECONDS, AT_ONCE_SECONDS = 30.0, 0.2
"""How much longer than ordered an attack goes on that has sent nothing, and for how long it waits at once then."""


class Rogue:
    """State of an attack: random generator, remaining time, connections, and targets."""

    def __init__(self, order: AttackOrder, transcript: Transcript) -> None:
        """Start the time of an order; sent bytes go to ``transcript``."""
        self.order, self.transcript = order, transcript
        self.rng = random.Random(order.seed)
        self.connections = 0
        self.refused = 0
        self._until = time.monotonic() + order.seconds

    @property
    def left(self) -> float:
        """Seconds: of the order, and more while nothing was sent yet, as what has to be heard first may come late."""
        left = self._until - time.monotonic()
        unsent = 0.0 if self.transcript.sends else min(AT_ONCE_SECONDS, left + UNSENT_SECONDS)
        return max(0.0, left, unsent)

    @property
    def going(self) -> bool:
        """Whether there is time left."""
        return self.left > 0

    def line(self, *, receive_buffer: int | None = None) -> Line:
        """Open a connection to the OpenFlow port; pause for a moment if it is refused."""
        made = Line(self.order.openflow, self.transcript, self.connections, receive_buffer=receive_buffer)
        self.connections += 1
        if made.closed:
            self.refused += 1
            time.sleep(min(AGAIN_SECONDS, self.left))
        return made

    def joined(self, *, known: bool, receive_buffer: int | None = None) -> tuple[Line, EmptySwitch] | None:
        """Open a connection and complete the handshake; return ``None`` if the connection is closed.

        Args:
            known: join as the disconnected switch, if there is one; else as an unknown switch.
            receive_buffer: size of the receive buffer in bytes; ``None``: the default.
        """
        away = self.order.away if known else 0
        dpid = away or UNKNOWN_DPID | self.rng.getrandbits(16)
        ports = self.order.switches[away] if away else (1, 2, 3)
        line = self.line(receive_buffer=receive_buffer)
        switch = join_as(self.rng, line, dpid, ports)
        if switch is None:
            line.close()
            time.sleep(min(AGAIN_SECONDS, self.left))
            return None
        return line, switch


Attack = Callable[[Rogue], None]


def attacks() -> dict[str, Attack]:
    """Every attack by its name."""
    from tests.campaigns.attacks import connections, floods, host_attacks, http_attacks, liars

    return {**connections.ATTACKS, **liars.ATTACKS, **floods.ATTACKS, **host_attacks.ATTACKS, **http_attacks.ATTACKS}


def main(arguments: list[str]) -> int:
    """Run the attack of an order file, print the counts as JSON, and return 0."""
    order = read(Path(arguments[0]))
    with Transcript(Path(order.transcript)) as transcript:
        rogue = Rogue(order, transcript)
        attacks()[order.attack](rogue)
    counts = {"sends": transcript.sends, "bytes": transcript.bytes}
    print(json.dumps(counts | {"connections": rogue.connections, "refused": rogue.refused}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
