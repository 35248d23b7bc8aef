"""Hosts for tests of endpoints: addresses of the loopback network, or namespaces joined by a virtual cable."""

from __future__ import annotations

import os
import shutil
import signal
import struct
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import pytest

from tests.rig.http.client import PATIENCE_SECONDS

ROCE = [sys.executable, "-m", "emulation.roce"]
PATIENT = 200
"""Timeouts in a row: on a busy machine a peer may not run for longer than seven of them take, without being gone."""

CAPTURE = str(Path(__file__).with_name("roce_capture.py"))


def spawn_here(
    host: str, argv: Sequence[str], *, stdin: int, stdout: int, stderr: IO[bytes]
) -> subprocess.Popen[bytes]:
    """Hosts are addresses of 127.0.0.0/8: their processes are ordinary ones."""
    return subprocess.Popen(argv, stdin=stdin, stdout=stdout, stderr=stderr)


@dataclass(frozen=True)
class Cable:
    """Two namespaces joined by a veth pair; side 0 and side 1."""

    namespaces: tuple[str, str]
    interfaces: tuple[str, str]
    addresses: tuple[str, str]

    def command(self, side: int, argv: Sequence[str]) -> list[str]:
        return ["ip", "netns", "exec", self.namespaces[side], *argv]

    def shape(self, side: int, mbps: float, queue_packets: int) -> None:
        """What this side sends passes a shaper with a short or long queue, which drops what does not fit."""
        interface = self.interfaces[side]
        for line in (
            f"qdisc add dev {interface} root handle 1: htb default 1",
            f"class add dev {interface} parent 1: classid 1:1 htb rate {mbps}mbit burst 10k quantum 5000",
            f"qdisc add dev {interface} parent 1:1 pfifo limit {queue_packets}",
        ):
            _run(["tc", "-n", self.namespaces[side], *line.split()])

    @contextmanager
    def capture(self, side: int) -> Iterator[list[bytes]]:
        """Collects the frames that this side sees; the list is filled when the block ends."""
        frames: list[bytes] = []
        process = subprocess.Popen(
            self.command(side, [sys.executable, CAPTURE, self.interfaces[side]]),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert process.stdout is not None
        try:
            assert process.stdout.read(1) == b"!"
            yield frames
        finally:
            data, _ = process.communicate(timeout=PATIENCE_SECONDS)
        while data:
            (size,) = struct.unpack_from("!I", data)
            frames.append(data[4 : 4 + size])
            data = data[4 + size :]


@contextmanager
def cable(mtu: int = 4500) -> Iterator[Cable]:
    """Make two namespaces and a cable, and take them away at the end. Needs root: skips without (fails if CI=true)."""
    missing = [tool for tool in ("ip", "tc") if shutil.which(tool) is None]
    if missing or os.geteuid() != 0:
        reason = f"{', '.join(missing)} missing" if missing else "network namespaces need root"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    names = f"roce-{os.getpid()}-a", f"roce-{os.getpid()}-b"
    made = Cable(names, ("cable0", "cable1"), ("10.99.0.1", "10.99.0.2"))
    try:
        for name in names:
            _run(["ip", "netns", "add", name])
        first, second = made.interfaces
        _run(["ip", "link", "add", first, "netns", names[0], "type", "veth", "peer", "name", second, "netns", names[1]])
        for name, interface, address in zip(names, made.interfaces, made.addresses, strict=True):
            _run(["ip", "-n", name, "address", "add", f"{address}/24", "dev", interface])
            _run(["ip", "-n", name, "link", "set", interface, "mtu", str(mtu), "up"])
            _run(["ip", "-n", name, "link", "set", "lo", "up"])
        yield made
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)


@contextmanager
def roce_server(ip: str, prefix: Sequence[str] = (), *options: str) -> Iterator[subprocess.Popen[str]]:
    """``server`` on this address, listening."""
    process = subprocess.Popen(
        [*prefix, *ROCE, "server", "--bind", ip, "--format", "json", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        assert line.startswith("listening"), line + process.stderr.read()
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE_SECONDS)
        assert "Traceback" not in err, err
        process.output = out  # type: ignore[attr-defined]


def _run(argv: Sequence[str]) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(argv)}: {done.stderr}"
