"""``fairspine export qos``: queues of switches for classes of priority."""

from __future__ import annotations

from typing import Annotated

import typer

from controller.cli.local.planning import FabricOption
from controller.cli.local.router_options import FolderOption, InterfaceOption, SwitchOption
from controller.cli.shared.files import write_files, write_text
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
    if out is None and switch is None:
        raise InputError("give a folder, or a switch by --switch", field="--out")
    names = chosen.interface if interface is None else interface_names(interface)
    texts = {each.switch: chosen.write(each) for each in switch_outputs(load_fabric(fabric), names)}
    if switch is not None and switch not in texts:
        raise InputError("no switch with links has this name", field="--switch", value=switch)
    if out is not None:
        made = ((name, text) for name, text in texts.items() if switch in (None, name))
        write_files(out, ((f"{name}{chosen.suffix}", text.encode()) for name, text in made))
    else:
        assert switch is not None
        write_text(None, [texts[switch]])
