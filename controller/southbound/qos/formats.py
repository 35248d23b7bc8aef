"""Queues for classes of priority as text: a higher class first, and for each a floor where the language has one."""

from __future__ import annotations

import json

from controller.model.priority import CLASSES, DSCP, SHARE
from controller.southbound.qos.outputs import SwitchOutputs
from controller.southbound.srv6.formats import FORMATS, Format

NAME = "FAIRSPINE"

CODE_POINTS = 64
"""Values of DSCP."""


def ovs(switch: SwitchOutputs) -> str:
    """Return a shell script for Open vSwitch: queues of ``linux-htb``, and filters by class in front of them.

    The queue of a class has its number. Filters of the kernel choose it, so no OpenFlow rule needs ``set_queue``, of
    which the userspace datapath takes no notice. OpenFlow counts the packets of queues all the same.
    """
    # In linux-htb a smaller priority goes first, and queue n is the class 1:(n + 1) of the kernel.
    queues = [f"queues:{each}=@queue{each}" for each in range(CLASSES)]
    made = [
        f'-- --id=@queue{each} create queue "external_ids:fairspine=$1" other-config:priority={CLASSES - 1 - each} '
        'other-config:min-rate="$3" other-config:max-rate="$2"'
        for each in range(CLASSES)
    ]
    # Behind labels the traffic class has the class of priority (segment routing).
    filters = [
        f'  tc filter add dev "$1" parent 1: protocol mpls_uc prio {CLASSES - 1 + each} u32 '
        f"match u32 {each << 9:#010x} 0x00000e00 at 0 classid 1:{each + 1:x}"
        for each in range(1, CLASSES)
    ]
    filters += [
        f'  tc filter add dev "$1" parent 1: protocol ip prio {each} u32 '
        f"match ip dsfield {DSCP[each] << 2:#04x} 0xfc classid 1:{each + 1:x}"
        for each in range(1, CLASSES)
    ]
    lines = [
        "#!/bin/sh",
        f"# {switch.switch}: as root, where its Open vSwitch runs; again after that was started anew",
        "set -e",
        "port() { # its name, its bits per second, and those of the floor of each class",
        '  ovs-vsctl clear port "$1" qos',
        "  for table in qos queue; do",
        '    for row in $(ovs-vsctl --bare --columns=_uuid find "$table" "external_ids:fairspine=$1"); do',
        '      ovs-vsctl destroy "$table" "$row"',
        "    done",
        "  done",
        '  ovs-vsctl set port "$1" qos=@qos \\',
        '    -- --id=@qos create qos type=linux-htb "external_ids:fairspine=$1" other-config:max-rate="$2" \\',
        f"    {' '.join(queues)} \\",
        *(f"    {each} \\" for each in made[:-1]),
        f"    {made[-1]} >/dev/null",
        *filters,
        "}",
    ]
    lines += [f"port {each.interface} {_bits(each.gbps)} {_floor(each.gbps)}" for each in switch.outputs]
    return "\n".join([*lines, ""])


def sonic(switch: SwitchOutputs) -> str:
    """Return tables of SONiC's CONFIG_DB, as JSON: strict queues with a committed rate, chosen by DSCP."""
    of_code_point = {str(each): "0" for each in range(CODE_POINTS)}
    of_code_point |= {str(DSCP[each]): str(each) for each in range(CLASSES)}
    schedulers: dict[str, dict[str, str]] = {}
    queues: dict[str, dict[str, str]] = {}
    for output in switch.outputs:
        name = f"{NAME}_{_bits(output.gbps)}"
        # Bytes per second.
        schedulers[name] = {"type": "STRICT", "meter_type": "bytes", "cir": str(_floor(output.gbps) // 8)}
        queues |= {f"{output.interface}|{each}": {"scheduler": name} for each in range(CLASSES)}
    tables = {
        "DSCP_TO_TC_MAP": {NAME: of_code_point},
        "TC_TO_QUEUE_MAP": {NAME: {str(each): str(each) for each in range(CLASSES)}},
        "SCHEDULER": schedulers,
        "PORT_QOS_MAP": {each.interface: {"dscp_to_tc_map": NAME, "tc_to_queue_map": NAME} for each in switch.outputs},
        "QUEUE": queues,
    }
    return json.dumps(tables, indent=2) + "\n"


def eos(switch: SwitchOutputs) -> str:
    """Return a part of the configuration of EOS (Arista): strict queues chosen by DSCP, without a floor."""
    lines = [f"! {switch.switch}"]
    lines += [f"qos map dscp {DSCP[each]} to traffic-class {each}" for each in range(CLASSES)]
    lines += [f"qos map traffic-class {each} to tx-queue {each}" for each in range(CLASSES)]
    lines.append("!")
    for output in switch.outputs:
        lines += [f"interface {output.interface}", "   qos trust dscp"]
        for each in range(CLASSES):
            lines += [f"   tx-queue {each}", "      priority strict"]
        lines.append("!")
    return "\n".join([*lines, ""])


def _bits(gbps: float) -> int:
    """Return the bits per second of a rate."""
    return round(gbps * 1e9)


def _floor(gbps: float) -> int:
    """Return the bits per second that a class has beside a full one above it."""
    return max(1, round(_bits(gbps) / SHARE))


_SONIC = FORMATS["sonic"]

QOS_FORMATS: dict[str, Format[SwitchOutputs]] = {
    "ovs": Format("Open vSwitch, by shell scripts", ".sh", ovs, lambda switch, port: f"{switch}-eth{port}"),
    "sonic": Format(_SONIC.text, _SONIC.suffix, sonic, _SONIC.interface),
    "eos": Format("EOS (Arista)", ".conf", eos, lambda switch, port: f"Ethernet{port}"),
}
"""All languages by name."""
