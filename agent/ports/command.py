"""``fairspine probe-ports``: the source ports of a host that lead over wanted paths."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from agent.errors import HostAgentError
from controller.model.errors import InputError

FORMATS = ("table", "json")


def probe_ports(
    task: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="What to probe: this host's file of 'fairspine export port-probes'."),
    ],
    interface: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The interface by which probes leave.", show_default="by routes"),
    ] = None,
    seconds: Annotated[float, typer.Option(min=0.1, max=3600, help="For how long to search at most.")] = 60.0,
    seed: Annotated[
        int | None, typer.Option(help="Seed of the draw of candidates.", show_default="another one each time")
    ] = None,
    watch: Annotated[
        float, typer.Option(min=0, max=86400, help="Check the ports in use every so many seconds, until interrupted.")
    ] = 0.0,
    output: Annotated[str, typer.Option("--format", metavar="FORMAT", help="table or json.")] = "table",
) -> None:
    """Find out which UDP source ports of this host lead over which paths, where routers hash the 5-tuple.

    It sends probes with the 5-tuple of a flow and a hop limit, so that the routers on the path answer (ICMP time
    exceeded). No router is configured, and no probe reaches a host. It needs root, or CAP_NET_RAW.

    Exit code 0: all wanted paths have a port. 1: some have none. 2: the file, an option or the machine is wrong.
    """
    import time
    from random import Random

    from agent.ports.hop_probes import HopProbeSocket
    from agent.ports.port_prober import PortProber
    from agent.ports.port_report import port_document, port_lines
    from agent.ports.probe_task import read_task

    try:
        if output not in FORMATS:
            raise HostAgentError(f"--format: is {' or '.join(FORMATS)}, and not {output!r}", exit_code=2)
        wanted = read_task(_document(task))
        probes = HopProbeSocket(wanted.source, wanted.dst_port, interface)
        try:
            prober = PortProber(wanted, Random(seed), probes)
            ports = prober.search(seconds)
            if output == "json":
                typer.echo(json.dumps(port_document(wanted.host, ports, time.monotonic()), indent=2))
            else:
                for line in port_lines(ports):
                    typer.echo(line)
            sys.stdout.flush()
            while watch:
                time.sleep(watch)
                ports = prober.search(seconds)
                for change in prober.changes:
                    typer.echo(json.dumps(change.document()) if output == "json" else change.line())
                sys.stdout.flush()
        except KeyboardInterrupt:
            raise typer.Exit(0) from None
        finally:
            probes.close()
    except InputError as error:
        typer.echo(f"fairspine: {task}: {error}", err=True)
        raise typer.Exit(2) from None
    except HostAgentError as error:
        typer.echo(f"fairspine: {error}", err=True)
        raise typer.Exit(error.exit_code) from None
    if any(each.state != "complete" for each in ports):
        raise typer.Exit(1)


def _document(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except OSError as error:
        raise HostAgentError(f"{path}: {error.strerror}", exit_code=2) from None
    except ValueError:
        raise HostAgentError(f"{path}: is not JSON", exit_code=2) from None
