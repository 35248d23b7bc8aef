"""What the HTTP interface lets a client take."""

from __future__ import annotations

import resource as process_limits
from dataclasses import dataclass

MIB = 1024 * 1024


@dataclass(frozen=True)
class Limits:
    """Bounds on one client, and on all of them. The length of lines is eventlet's: 8 KiB each, 64 KiB of headers.

    Attributes:
        body_bytes: length of a request body.
        idle_seconds: how long a client may neither send nor take anything.
        head_seconds: from the end of one response to the end of the next request's head.
        body_seconds: for sending a body, and for taking a response, once it has begun.
        linger_seconds: how long what a refused client still sends is read and dropped, so that it sees the answer.
        connections: connections at once; a new one takes the place of the one that has waited longest for a request.
        total_bytes: of request bodies and responses in memory for all clients together.
        requests: requests that the controller works on at once: so many that only read, and as many that may have to
            wait for a plan.
        streams: readers of events at once.
    """

    body_bytes: int = 16 * MIB
    idle_seconds: float = 30.0
    head_seconds: float = 30.0
    body_seconds: float = 120.0
    linger_seconds: float = 2.0
    connections: int = 4096
    total_bytes: int = 256 * MIB
    requests: int = 128
    streams: int = 256


def room_for(connections: int) -> int:
    """How many connections there can be: half of the files that the process may open, for switches need some, too.

    Raises the process's soft limit on open files as far as that needs and the hard limit allows.
    """
    soft, hard = process_limits.getrlimit(process_limits.RLIMIT_NOFILE)
    if soft == process_limits.RLIM_INFINITY:
        return connections
    wanted = 2 * connections
    if soft < wanted:
        soft = wanted if hard == process_limits.RLIM_INFINITY else min(wanted, hard)
        process_limits.setrlimit(process_limits.RLIMIT_NOFILE, (soft, hard))
    return min(connections, soft // 2)
