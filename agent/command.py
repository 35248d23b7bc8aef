"""``fairspine agent``: options, and the start and the end of the agent."""

from __future__ import annotations

import logging
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

STATE = Path("/run/fairspine-agent")
EBPF_OBJECT = Path("/usr/local/lib/fairspine/steering.o")


def agent(
    host: HostArgument,
    url: UrlOption = DEFAULT_URL,
    interface: Annotated[
        str, typer.Option(metavar="NAME", help="The interface that leads to the leaf.", show_default=True)
    ] = "eth0",
    plan: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            envvar="FAIRSPINE_PLAN",
            help="Follow the plan in this file, which is read again when it changes, and ask no controller.",
        ),
    ] = None,
    token_file: TokenFileOption = None,
    ca_file: CaFileOption = None,
    cert: CertOption = None,
    key: KeyOption = None,
    steering: Annotated[
        str,
        typer.Option(
            metavar="WAY",
            help="How flows are told apart: nft (maps of nftables), ebpf (a program where packets leave), route (not "
            "at all: one path for each destination), or auto: nft if it is there.",
        ),
    ] = "auto",
    ebpf_object: Annotated[
        Path,
        typer.Option(
            metavar="FILE", envvar="FAIRSPINE_EBPF_OBJECT", help="The program of --steering ebpf ('make ebpf')."
        ),
    ] = EBPF_OBJECT,
    pacing: Annotated[
        str,
        typer.Option(
            metavar="WAY",
            help="How flows keep the rates that the plan asks for: htb (a class of HTB for each, which makes one queue "
            "of those of the NIC), off, or auto: htb where the NIC has one queue.",
        ),
    ] = "auto",
    table: Annotated[int, typer.Option(min=1, max=252, help="The number of the agent's table of routes.")] = 250,
    probe_ms: Annotated[
        float, typer.Option(min=0, help="Time between two probes of a path, in milliseconds; 0: no probes.")
    ] = 50.0,
    report_seconds: Annotated[float, typer.Option(min=0.1, help="Time between two reports.")] = 10.0,
    state: Annotated[
        Path, typer.Option(metavar="FOLDER", envvar="RUNTIME_DIRECTORY", help="Where the last plan is kept.")
    ] = STATE,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the kernel as it is at the end, for a restart.")] = False,
    remove: Annotated[
        bool, typer.Option("--remove", help="Remove what an agent has set and left behind, and end.")
    ] = False,
) -> None:
    """Make this host's packets take their planned paths, as SRv6 carriers, on a fabric of routers.

    It needs root, and serves one host (one interface) in a network namespace. It goes on without a controller, keeps
    what it has set if it is killed, and takes it over at its next start. At SIGTERM it removes what it has set, unless
    --keep is given.

    Exit code 0: ended by a signal. 1: failed. 2: an option or the machine is wrong.
    """
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s", stream=sys.stderr)
    # These take time to load, which other commands do not need.
    from agent.agent import Intervals
    from agent.start import run

    try:
        run(
            host,
            (url, token_file, ca_file, cert, key),
            (steering, interface, table, ebpf_object),
            Intervals(probe_ms / 1e3, report_seconds),
            state,
            pacing=pacing,
            plan=plan,
            keep=keep,
            remove=remove,
        )
    except HostAgentError as error:
        typer.echo(f"fairspine: {error}", err=True)
        raise typer.Exit(error.exit_code) from None


def main() -> None:
    """Run ``fairspine-agent``, which needs nothing but typer."""
    typer.run(agent)
