"""``fairspine export path-addresses``: routers and hosts with an address of each host for each path."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from controller.cli.local.planning import FabricOption
from controller.cli.local.router_options import InterfaceOption
from controller.cli.shared.files import write_files

EPILOG = "Example: fairspine export path-addresses --fabric examples/routers-4x4x4.yaml --out routers"


def path_addresses(
    fabric: FabricOption,
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Folder for the files, one a switch and one a host.")
    ],
    block: Annotated[
        str, typer.Option("--block", metavar="PREFIX", help="Addresses of paths to hosts.")
    ] = "10.64.0.0/10",
    interface: InterfaceOption = None,
) -> None:
    """Write BGP for FRR by which each address of a host is reached over one path, and the addresses of hosts.

    They depend on the fabric alone. No plan changes them: hosts send to the addresses that the controller assigns.
    """
    from controller.model.files.fabric_file import load_fabric
    from controller.model.ip_versions import check_ipv4
    from controller.southbound.path_addresses.files import host_scripts, router_texts
    from controller.southbound.path_addresses.path_addresses import PathAddresses
    from controller.southbound.srv6.formats import FORMATS, interface_names

    place = load_fabric(fabric)
    check_ipv4(place, "an address for each path", str(fabric))
    names = FORMATS["frr"].interface if interface is None else interface_names(interface)
    addresses = PathAddresses.of(place, block, "--block")
    routers = [(f"{name}.conf", text.encode()) for name, text in router_texts(addresses, names)]
    write_files(out, [*routers, *((f"{name}.sh", text.encode()) for name, text in host_scripts(addresses))])
