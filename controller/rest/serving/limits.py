"""Limits of the HTTP interface."""

from __future__ import annotations

import resource as process_limits
from dataclasses import dataclass, replace

MIB = 1024 * 1024

SWITCHES = 4096
"""Connections of switches, where the configuration does not say how many there may be."""

RESERVED_FILES = 256
"""For logs, the store, threads and sockets that listen."""


@dataclass(frozen=True)
class ClientLimits:
    """Limits on one client, and on all together. The length of lines is eventlet's: 8 KiB each, 64 KiB of headers.

    Of what clients share, one may hold as much as it leaves free, so at most half; further requests get 503. A client
    is a token, or an address where no tokens are required.

    Attributes:
        body_bytes: length of a request body.
        idle_seconds: limit on the time without any progress.
        head_seconds: from the end of one response to the end of the next request's head.
        body_seconds: limit on the time to receive a body, and to send a response.
        linger_seconds: how long to read and drop what a refused client still sends, so that it gets the response.
        connections: connections at once; a new one replaces the one that has waited longest for a request.
        total_bytes: request bodies and responses in memory for all clients together; half of it for changes,
            and as much again for agents of hosts.
        requests: requests in progress at once: this number of reads, of previews and traces, and of changes.
        streams: event streams at once.
        agents: requests of agents of hosts at once: each waits for a plan, and reports now and then.
        other_files: open files that the process needs besides these connections, if the limit on them allows so many.
    """

    body_bytes: int = 16 * MIB
    idle_seconds: float = 30.0
    head_seconds: float = 30.0
    body_seconds: float = 120.0
    linger_seconds: float = 2.0
    connections: int = 4096
    total_bytes: int = 256 * MIB
    requests: int = 256
    streams: int = 512
    agents: int = 8192
    other_files: int = SWITCHES + RESERVED_FILES


AGENT_CONNECTIONS = 3
"""Of an agent: in one it waits for plans, in one it reports, and in one it may wait for samples."""


def limits_for(connections: int, agents: int, switches: int = 0) -> ClientLimits:
    """Return the limits of a server.

    Args:
        connections: by configuration; 0: the default.
        agents: hosts whose agents may ask it.
        switches: connections of switches, by configuration; 0: the default.
    """
    usual = ClientLimits()
    # One client, such as a relay of many agents, may have half of the requests.
    requests = max(usual.agents, 2 * AGENT_CONNECTIONS * agents)
    return replace(
        usual,
        connections=connections or usual.connections + AGENT_CONNECTIONS * agents,
        agents=requests,
        other_files=(switches or SWITCHES) + RESERVED_FILES,
    )


def room_for(connections: int, other_files: int) -> int:
    """Return how many connections there can be; of the files that the process may open, at least half are theirs.

    Raises the process's soft limit on open files as far as that needs and the hard limit allows.

    Args:
        connections: that are wanted.
        other_files: that the process needs besides.
    """
    soft, hard = process_limits.getrlimit(process_limits.RLIMIT_NOFILE)
    if soft == process_limits.RLIM_INFINITY:
        return connections
    wanted = connections + min(connections, other_files)
    if soft < wanted:
        soft = wanted if hard == process_limits.RLIM_INFINITY else min(wanted, hard)
        process_limits.setrlimit(process_limits.RLIMIT_NOFILE, (soft, hard))
    return min(connections, max(soft // 2, soft - other_files))
