"""Gaps of eventlet's server: each strict rule of ours is needed for as long as these tests pass."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.documented import ROOT
from tests.rig.http.client import PATIENCE_SECONDS, Server
from tests.rig.http.malformed import MALFORMED, NEXT, statuses

RIGHT_BY_ITSELF = (
    b"Content-Length: 2, 2",
    b"Content-Length: -1",
    b"Content-Length: 2\r\nTransfer-Encoding: chunked",
    b"GET /aaaa",
    b"A: b\r\nA: b\r\nA: b\r\nA: b",
)
"""Parts of the malformed requests that eventlet refuses with the right status."""


@pytest.fixture(scope="module")
def plain() -> Iterator[Server]:
    """A server without anything of ours."""
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", "tests.rig.http.plain_eventlet"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=ROOT,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield Server(int(process.stdout.readline()), Path("/dev/null"))
        process.stdin.close()
        assert process.wait(PATIENCE_SECONDS) == 0
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


@pytest.mark.parametrize(("sent", "status"), MALFORMED)
def test_eventlet_alone_refuses_only_a_few_malformed_requests(plain: Server, sent: bytes, status: int) -> None:
    by_itself = any(part in sent for part in RIGHT_BY_ITSELF)
    assert (statuses(plain.converse(sent + NEXT)) == [status]) == by_itself
