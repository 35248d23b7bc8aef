"""``fairspine port-agent``: finds and checks the source ports of a host's flows, as plans need them."""

from __future__ import annotations

import logging
import signal
import sys
from pathlib import Path
from typing import Annotated

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

STATE = Path("/var/lib/fairspine-port-agent")
LOCK = "\0fairspine-port-agent"
"""An abstract Unix socket: there is one in each network namespace."""


def port_agent(
    host: HostArgument,
    url: UrlOption = DEFAULT_URL,
    interface: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The interface by which probes leave.", show_default="by routes"),
    ] = None,
    token_file: TokenFileOption = None,
    ca_file: CaFileOption = None,
    cert: CertOption = None,
    key: KeyOption = None,
    report_seconds: Annotated[
        float, typer.Option(min=0.1, max=3600, help="Time between two reports in which nothing is new.")
    ] = 5.0,
    state: Annotated[
        Path, typer.Option(metavar="FOLDER", envvar="STATE_DIRECTORY", help="Where what was learned is kept.")
    ] = STATE,
    verbs: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Give RDMA programs their ports by files in it (libfairspine-verbs)."),
    ] = None,
    tcp: Annotated[
        str | None,
        typer.Option(
            metavar="SOCKET",
            help="Give TCP programs (libfairspine-tcp) ports when they connect: a path, or @fairspine-tcp.",
        ),
    ] = None,
) -> None:
    """Find the source ports of this host's flows that the routers' own hash sends over their planned paths.

    It follows the controller's plans (enforcement probed_port), finds ports by hop-limited probes, reports them, checks
    those in use, and replaces those that lead elsewhere. Programs read them from /v1/routes, or
    get them by --verbs and --tcp. It sets nothing in the kernel but the paces of TCP connections (--tcp), which takes
    CAP_SYS_PTRACE. It needs root, or CAP_NET_RAW.

    Exit code 0: ended by a signal. 1: failed. 2: an option or the machine is wrong.
    """
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s", stream=sys.stderr)
    # These take time to load, which other commands do not need.
    from random import Random

    from agent.connection.controller_connection import ControllerConnection, access
    from agent.ports.port_agent import PortAgent
    from agent.ports.port_conversation import PortConversation
    from agent.start import STOPS, locked, token_of
    from agent.tcp.tcp_service import TcpService
    from agent.verbs.program_ports import ProgramPorts

    try:
        allowed = access(url, token_of(token_file), ca_file, cert, key)
        lock = locked(LOCK)
        programs = None if verbs is None else ProgramPorts(verbs)
        connections = None if tcp is None else TcpService(tcp, interface, Random())
        samples = ControllerConnection(host, allowed)
        one = PortAgent(state, interface, report_seconds, Random(), programs, connections, samples)
        for number in STOPS:
            signal.signal(number, lambda *_: one.stop())
        ways = ControllerConnection(host, allowed), ControllerConnection(host, allowed)
        one.run(PortConversation(host, *ways, one.take))
        lock.close()
    except HostAgentError as error:
        typer.echo(f"fairspine: {error}", err=True)
        raise typer.Exit(error.exit_code) from None
