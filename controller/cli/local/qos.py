"""``fairspine export qos``: queues of switches for classes of priority."""

from __future__ import annotations

from typing import Annotated

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

EPILOG = "Example: fairspine export qos --fabric examples/clos-4x4x4.yaml --format ovs --out queues"


def qos(
    fabric: FabricOption,
    language: Annotated[str, typer.Option("--format", metavar="FORMAT", help="ovs, sonic or eos.")] = "ovs",
    interface: InterfaceOption = None,
    switch: SwitchOption = None,
    out: FolderOption = None,
) -> None:
    """Write queues for classes of priority: each output sends packets with the DSCP of a higher class first.

    They depend on the fabric alone. Jobs state classes, and hosts mark packets by the DSCP that /v1/routes has.
    """
    from controller.model.files.fabric_file import load_fabric
    from controller.southbound.qos.formats import QOS_FORMATS
    from controller.southbound.qos.outputs import switch_outputs
    from controller.southbound.srv6.formats import interface_names

    chosen = QOS_FORMATS.get(language)
    if chosen is None:
        raise InputError(f"is none of {', '.join(QOS_FORMATS)}", field="--format", value=language)
    check_place(switch, out)
    names = chosen.interface if interface is None else interface_names(interface)
    texts = {each.switch: chosen.write(each) for each in switch_outputs(load_fabric(fabric), names)}
    write_by_switch(texts, "links", chosen.suffix, switch, out)
