"""Error messages of switches, and their meaning for a plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from ryu.ofproto import ofproto_v1_3 as ofp

from controller.southbound.enforcement.ingress import port_mask
from controller.southbound.openflow.enforcing.request_channel import Refused
from controller.southbound.rollout.desired_rules import entries
from controller.southbound.rollout.rollout import Kind, OpenFlowRefusal, Rollout
from controller.southbound.rollout.update import HeldRules
from controller.southbound.rules.rule import Rule
from controller.southbound.rules.rule_set import SwitchRules

KINDS: dict[tuple[int, int], Kind] = {
    (ofp.OFPET_FLOW_MOD_FAILED, ofp.OFPFMFC_TABLE_FULL): "table full",
    (ofp.OFPET_FLOW_MOD_FAILED, ofp.OFPFMFC_OVERLAP): "overlap",
    (ofp.OFPET_GROUP_MOD_FAILED, ofp.OFPGMFC_OUT_OF_GROUPS): "groups full",
    (ofp.OFPET_BAD_ACTION, ofp.OFPBAC_BAD_OUT_GROUP): "bad group",
    (ofp.OFPET_BAD_ACTION, ofp.OFPBAC_BAD_OUT_PORT): "bad port",
}

TYPES = {
    ofp.OFPET_HELLO_FAILED: "hello_failed",
    ofp.OFPET_BAD_REQUEST: "bad_request",
    ofp.OFPET_BAD_ACTION: "bad_action",
    ofp.OFPET_BAD_INSTRUCTION: "bad_instruction",
    ofp.OFPET_BAD_MATCH: "bad_match",
    ofp.OFPET_FLOW_MOD_FAILED: "flow_mod_failed",
    ofp.OFPET_GROUP_MOD_FAILED: "group_mod_failed",
    ofp.OFPET_PORT_MOD_FAILED: "port_mod_failed",
    ofp.OFPET_TABLE_MOD_FAILED: "table_mod_failed",
    ofp.OFPET_QUEUE_OP_FAILED: "queue_op_failed",
    ofp.OFPET_SWITCH_CONFIG_FAILED: "switch_config_failed",
    ofp.OFPET_ROLE_REQUEST_FAILED: "role_request_failed",
    ofp.OFPET_METER_MOD_FAILED: "meter_mod_failed",
    ofp.OFPET_TABLE_FEATURES_FAILED: "table_features_failed",
}
"""Error types by their names in the standard (OpenFlow 1.3.5, section 7.4.4)."""


def kind_of(error: Any) -> Kind:
    """Return the kind of refusal that an error message stands for."""
    kind = KINDS.get((error.type, error.code))
    if kind is None:
        return "bad group" if error.type == ofp.OFPET_GROUP_MOD_FAILED else "refused"
    return kind


def type_of(error: Any) -> str:
    """Return the type of an error message, one of the few that the standard has."""
    return TYPES.get(error.type, "other")


def describe(error: Any) -> str:
    """Return an error message in OpenFlow's words. An experimenter's has no code (OpenFlow 1.3.5, section 7.4.4)."""
    if error.type == ofp.OFPET_EXPERIMENTER:
        return f"{ofp.ofp_error_type_to_str(error.type)}, of experimenter {error.experimenter:#x}"
    return f"{ofp.ofp_error_type_to_str(error.type)}, {ofp.ofp_error_code_to_str(error.type, error.code)}"


def of_port_masks(refused: Sequence[Refused]) -> str | None:
    """Return the error by which a switch refuses masked ports of planned flows, or ``None``."""
    for each in refused:
        what = getattr(each.cause, "what", None)
        if isinstance(what, Rule) and port_mask(what) is not None and each.error.type == ofp.OFPET_BAD_MATCH:
            return describe(each.error)
    return None


def explain(
    refused: Sequence[Refused], rollout: Rollout, dpid: int, name: str, want: SwitchRules, holding: HeldRules
) -> OpenFlowRefusal:
    """Return the most frequent of the errors, in terms of the plan.

    Args:
        refused: errors and the edits that they answer.
        rollout: the rollout that was refused.
        dpid: of the switch.
        name: of the switch.
        want: what the switch should hold in the end.
        holding: what it holds with what it has not refused.
    """
    kinds = Counter(kind_of(each.error) for each in refused)
    kind = max(kinds, key=lambda each: (each in ("table full", "groups full"), kinds[each]))
    first = next(each for each in refused if kind_of(each.error) == kind)
    what = first.cause.what
    table = what.table if isinstance(what, Rule) else None
    room = len(holding.groups) if table is None else holding.table_size(table)
    lacks = len(want.groups.keys() - holding.groups.keys()) if table is None else holding.lacks(want, table)
    return OpenFlowRefusal(
        epoch=rollout.epoch,
        stays=None,
        dpid=dpid,
        switch=name,
        kind=kind,
        table=table,
        room=room,
        # Some of the held rules may be about to be removed.
        short=max(entries(want, table) - room, 0) or lacks,
        detail=describe(first.error),
    )
