"""What libfairspine-verbs costs: connecting QPs and sending over them (``python -m benchmarks.running.verbs``).

The device is that of the tests, which takes no time itself. With a real one, connecting a QP takes the kernel and the
NIC far longer.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from ipaddress import IPv4Address
from pathlib import Path

from agent.verbs.layout import PortRow
from agent.verbs.port_file import PortFile
from agent.verbs.qp_ring import QpRing
from tests.rig.verbs.programs import LOCAL, VerbsBuild, VerbsProgram, build

PEER = IPv4Address("10.0.2.1")
SENDS = 10_000_000
MOST_MS = 1.0
"""Of connecting a QP."""


def connect_ms(made: VerbsBuild, shared: Path, by: str, qps: int, threads: int) -> float:
    """Return the milliseconds that a program takes for a QP: creation, INIT, RTR and RTS."""
    program = VerbsProgram(made, shared, by=by)
    failed, seconds = program.ask(f"many {qps} {threads} {PEER}").split()
    assert failed == "0"
    program.end()
    return float(seconds) * 1e3 / qps


def send_ns(made: VerbsBuild, shared: Path, by: str) -> float:
    """Return the nanoseconds of an ibv_post_send."""
    program = VerbsProgram(made, shared, by=by)
    program.connect(str(PEER))
    seconds = float(program.ask(f"send 0 {SENDS}"))
    program.end()
    return seconds * 1e9 / SENDS


def main() -> int:
    """Print a table; return 1 if connecting takes too long."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--qps", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        shared = Path(folder) / "shared"
        made, ports, ring = build(Path(folder) / "build"), PortFile(shared), QpRing(shared)
        ports.write(PortRow(LOCAL, PEER, n, 0xC000 + n % 0x4000) for n in range(1, options.qps + 1))
        figures: dict[str, list[float]] = {}
        # By turns, so that other load on the machine meets all of them.
        for _ in range(options.rounds):
            for by, name in (("none", "real library"), ("path", "substitute")):
                for threads in (1, 4):
                    what = f"{name}: connecting {options.qps:,} QPs, {threads} threads, ms a QP"
                    figures.setdefault(what, []).append(connect_ms(made, shared, by, options.qps, threads))
                figures.setdefault(f"{name}: ibv_post_send, ns", []).append(send_ns(made, shared, by))
            assert sum(1 for _ in ring.read()) + ring.lost
        for what, values in figures.items():
            print(f"{what:62} {statistics.median(values):9.4f}   ({min(values):.4f} to {max(values):.4f})")
        ports.close()
        ring.close()
    worst = max(statistics.median(values) for what, values in figures.items() if "ms a QP" in what)
    return int(worst > MOST_MS)


if __name__ == "__main__":
    sys.exit(main())
