"""``fairspine sightings --tcp``: tells a running controller what TCP connections of this host send."""

from __future__ import annotations

import sys
import time
from collections import Counter
from contextlib import closing
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

import orjson
import typer

from controller.cli.connection.client import Client, NoAnswer, described, described_rows
from controller.cli.shared.output import plural
from controller.model.errors import InputError

if TYPE_CHECKING:
    from agent.tcp_tallies import TcpTallies

READ_SECONDS = 0.1
"""Between two readings of the kernel's counters."""
POST_SECONDS = 1.0


def follow_tcp(client: Client, every_seconds: float) -> None:
    """Read the connections of this network namespace again and again, and post what they have sent.

    Raises:
        InputError: this is no host of the fabric, or the kernel does not tell.
    """
    if not sys.platform.startswith("linux"):
        raise InputError("the counters of connections are those of Linux", field="--tcp", value=sys.platform)
    from agent.linux.tcp_connections import TcpConnections
    from agent.tcp_tallies import TcpTallies

    answer = described(client.request("GET", "fabric").document, "hosts")
    addresses = Counter(row["ip"] for row in described_rows(answer["hosts"], "ip"))
    try:
        connections = TcpConnections()
    except OSError as error:
        raise InputError(f"the kernel does not tell of connections: {error.strerror}", field="--tcp") from None
    # Ports of a bond share an address, which does not tell them apart.
    alone = [ip_address(address) for address, count in addresses.items() if count == 1]
    tallies = TcpTallies(alone)
    typer.echo(f"telling {client.url} what TCP connections between {plural(len(alone), 'host')} send", err=True)
    is_away, posted = False, time.monotonic()
    with closing(connections):
        while True:
            tallies.take(connections.read(), time.time())
            if time.monotonic() - posted >= POST_SECONDS:
                is_away, posted = _posted(client, tallies, is_away=is_away), time.monotonic()
            time.sleep(every_seconds)


def _posted(client: Client, tallies: TcpTallies, *, is_away: bool) -> bool:
    """Post what there is; return whether the controller is away. What is lost meanwhile adds up in later readings."""
    body: dict[str, Any] | None = tallies.body()
    if body is None:
        return is_away
    try:
        client.request("POST", "sightings", body=orjson.dumps(body))
    except NoAnswer as failure:
        if not is_away:
            typer.echo(f"fairspine: {failure}", err=True)
        return True
    return False
