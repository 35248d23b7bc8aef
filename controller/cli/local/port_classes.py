"""``fairspine export port-classes``: policies by which routers send packets over the uplinks that source ports name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from controller.cli.local.planning import FabricOption
from controller.cli.local.router_options import (
    FolderOption,
    InterfaceOption,
    SwitchOption,
    check_place,
    write_by_switch,
)
from controller.model.errors import InputError

if TYPE_CHECKING:
    from controller.southbound.port_classes.next_hops import HopAddress

EPILOG = "Example: fairspine export port-classes --fabric examples/routers-4x4x4.yaml --out policies"


def port_classes(
    fabric: FabricOption,
    language: Annotated[str, typer.Option("--format", metavar="FORMAT", help="iproute2, sonic or eos.")] = "iproute2",
    cables: Annotated[
        str,
        typer.Option(
            "--cables", metavar="PREFIX", help="Addresses of the ends of cables, two for each in the order of the file."
        ),
    ] = "fd00:fab::/48",
    next_hops: Annotated[
        Path | None,
        typer.Option(
            "--next-hops",
            metavar="FILE",
            help='The addresses in place of --cables: {"leaf1": {"Ethernet0": "10.0.0.1"}}, by switch and interface.',
            show_default=False,
        ),
    ] = None,
    interface: InterfaceOption = None,
    switch: SwitchOption = None,
    out: FolderOption = None,
) -> None:
    """Write policies by which routers send RoCE packets over the uplink that the class of their source port names.

    They depend on the fabric alone. No plan changes them: hosts send from the ports that the controller assigns.
    """
    from controller.model.files.fabric_file import load_fabric
    from controller.model.ip_versions import check_ipv4
    from controller.southbound.port_classes.class_policies import router_policies
    from controller.southbound.port_classes.formats import POLICY_FORMATS
    from controller.southbound.port_classes.next_hops import of_cables
    from controller.southbound.srv6.formats import interface_names

    chosen = POLICY_FORMATS.get(language)
    if chosen is None:
        raise InputError(f"is none of {', '.join(POLICY_FORMATS)}", field="--format", value=language)
    check_place(switch, out)
    place = load_fabric(fabric)
    check_ipv4(place, "this export", str(fabric))
    hop = of_cables(place, cables) if next_hops is None else _read_next_hops(next_hops)
    names = chosen.interface if interface is None else interface_names(interface)
    texts = {router.name: chosen.write(router) for router in router_policies(place, names, hop)}
    write_by_switch(texts, "uplinks", chosen.suffix, switch, out)


def _read_next_hops(file: Path) -> HopAddress:
    """Return the addresses of a file.

    Raises:
        InputError: it cannot be read, or is of another form.
    """
    import orjson

    from controller.southbound.port_classes.next_hops import of_document

    try:
        return of_document(orjson.loads(file.read_bytes()), str(file))
    except OSError as error:
        raise InputError(error.strerror or str(error), source=str(file)) from None
    except orjson.JSONDecodeError as error:
        raise InputError(f"is not JSON: {error}", source=str(file)) from None
