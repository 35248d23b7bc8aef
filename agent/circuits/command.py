"""``fairspine circuit-agent``: has a server on an optical fabric forward by the controller's tables."""

from __future__ import annotations

import logging
import signal
import sys
import threading
from typing import TYPE_CHECKING, Annotated

import typer

from agent.errors import HostAgentError
from agent.options import (
    DEFAULT_URL,
    CaFileOption,
    CertOption,
    HostArgument,
    KeyOption,
    TokenFileOption,
    UrlOption,
)

if TYPE_CHECKING:
    from agent.circuits.kernel_table import KernelTable
    from agent.connection.controller_connection import ControllerConnection

LOG = logging.getLogger("fairspine.agent")
LOCK = "\0fairspine-circuit-agent"
"""An abstract Unix socket: there is one in each network namespace."""
FIRST_PAUSE_SECONDS, MOST_PAUSE_SECONDS = 0.2, 5.0


def circuit_agent(
    host: HostArgument,
    url: UrlOption = DEFAULT_URL,
    interfaces: Annotated[
        str, typer.Option(metavar="PATTERN", help="Names of the server's interfaces, with {nic} for the number.")
    ] = "eth{nic}",
    token_file: TokenFileOption = None,
    ca_file: CaFileOption = None,
    cert: CertOption = None,
    key: KeyOption = None,
    wait_seconds: Annotated[
        int, typer.Option(min=1, max=30, help="Time of a request; after it the kernel's routes are read back.")
    ] = 5,
) -> None:
    """Have this server forward by the tables of the controller of an optical fabric.

    It sets addresses, neighbours and routes in the kernel, reads them back, sets what is missing again, and confirms
    each table. What it has set stays at its end and without a controller. It needs root.

    Exit code 0: ended by a signal. 1: failed. 2: an option or the machine is wrong.
    """
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s", stream=sys.stderr)
    # These take time to load, which other commands do not need.
    from agent.circuits.kernel_table import KernelTable
    from agent.connection.controller_connection import ControllerConnection, access
    from agent.start import STOPS, locked, token_of

    try:
        if "{nic}" not in interfaces:
            raise HostAgentError(f"--interfaces: must have {{nic}}, and not be {interfaces!r}", exit_code=2)
        allowed = access(url, token_of(token_file), ca_file, cert, key)
        lock = locked(LOCK)
        ended, connection = threading.Event(), ControllerConnection(host, allowed)

        def stop(*_: object) -> None:
            ended.set()
            connection.close()

        for number in STOPS:
            signal.signal(number, stop)
        _follow(host, connection, KernelTable(interfaces), wait_seconds, ended)
        lock.close()
    except HostAgentError as error:
        typer.echo(f"fairspine: {error}", err=True)
        raise typer.Exit(error.exit_code) from None


def _follow(
    host: str, connection: ControllerConnection, kernel: KernelTable, wait_seconds: int, ended: threading.Event
) -> None:
    from agent.circuits.server_table import ForwardingTable, read_table

    table: ForwardingTable | None = None
    confirmed, pause, complaint = "", FIRST_PAUSE_SECONDS, ""
    while not ended.is_set():
        try:
            document = connection.server_table(confirmed, wait_seconds)
            if document is not None:
                table = read_table(document, host)
            if table is not None:
                differed = kernel.hold(table)
                if document is None and differed:
                    LOG.warning("%d routes and neighbours were not as set: repaired", differed)
                elif document is not None:
                    LOG.info("table %s: %d routes, %d changes", table.step, len(table.routes), differed)
                confirmed = table.step
            pause, complaint = FIRST_PAUSE_SECONDS, ""
        except HostAgentError as error:
            if error.exit_code == 2:
                raise
            if ended.is_set():
                return
            # What the kernel holds is not confirmed until it is set again.
            confirmed = ""
            if complaint != str(error):
                complaint = str(error)
                LOG.warning("%s", complaint)
            ended.wait(pause)
            pause = min(2 * pause, MOST_PAUSE_SECONDS)
