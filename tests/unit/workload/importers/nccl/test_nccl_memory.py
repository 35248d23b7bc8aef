"""A long log needs no more memory than a short one."""

from __future__ import annotations

import io
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

from typing_extensions import Buffer

from controller.workload.importers.base import ImportRequest, Source
from controller.workload.importers.nccl import read
from tests.unit.workload.importers.nccl.nccl_logs import (
    Call,
    Cluster,
    log_of,
    logs,
)
from tests.unit.workload.importers.nccl.nccl_runs import NEWEST, SMALL

LONG = Cluster(2, 2, 2, SMALL.rings, SMALL.trees, (Call("AllReduce", 1024), Call("AllGather", 999, datatype=9)))


def long_log(megabytes: int) -> Iterator[bytes]:
    """A log of operations without end, in blocks."""
    for text in logs(LONG, NEWEST):
        yield text.encode()
    block = "".join(
        f"{line}\n" for rank in range(LONG.n) for line in log_of(LONG, rank, NEWEST) if " opCount " in line
    ).encode()
    block *= -(-(1 << 20) // len(block))
    for _ in range(megabytes):
        yield block


class Endless(io.RawIOBase):
    """The log as a stream that is nowhere as a whole."""

    def __init__(self, megabytes: int) -> None:
        self._blocks = long_log(megabytes)
        self._left = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer) -> int:
        if not self._left:
            self._left = next(self._blocks, b"")
        view = memoryview(buffer)
        count = min(len(view), len(self._left))
        view[:count] = self._left[:count]
        self._left = self._left[count:]
        return count


def test_memory_does_not_grow_with_the_log() -> None:
    def peak(megabytes: int) -> int:
        source = Source("long.log", lambda: io.BufferedReader(Endless(megabytes)))
        tracemalloc.start()
        try:
            read([source], ImportRequest())
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert peak(6) < peak(2) + (1 << 20)


def test_a_log_larger_than_the_memory_that_is_left_is_read(tmp_path: Path) -> None:
    path = tmp_path / "long.log"
    with path.open("wb") as file:
        for block in long_log(60):
            file.write(block)
    program = f"""
import resource
from controller.workload.importers.base import ImportRequest
from controller.workload.importers.nccl import read
from controller.workload.importers.nccl.lines import parse
from controller.workload.importers.streams import open_sources
in_use = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (in_use + (24 << 20),) * 2)
print(read(open_sources([{str(path)!r}]), ImportRequest()).ranks)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert (done.stdout, done.returncode) == ("4\n", 0), done.stderr
    assert path.stat().st_size > 2 * (24 << 20)
