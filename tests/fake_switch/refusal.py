"""The errors with which a switch refuses a message (OpenFlow 1.3.5, section 7.4.4)."""

from __future__ import annotations

from ryu.ofproto import ofproto_v1_3 as ofp


class Refused(Exception):
    """A message is refused and changes nothing. ``kind`` and ``code`` are the error's type and code on the wire."""

    def __init__(self, kind: int, code: int) -> None:
        super().__init__(ofp.ofp_error_type_to_str(kind), ofp.ofp_error_code_to_str(kind, code))
        self.kind, self.code = kind, code


def table_full() -> Refused:
    return Refused(ofp.OFPET_FLOW_MOD_FAILED, ofp.OFPFMFC_TABLE_FULL)


def overlap() -> Refused:
    return Refused(ofp.OFPET_FLOW_MOD_FAILED, ofp.OFPFMFC_OVERLAP)


def bad_table() -> Refused:
    return Refused(ofp.OFPET_FLOW_MOD_FAILED, ofp.OFPFMFC_BAD_TABLE_ID)


def bad_out_group() -> Refused:
    return Refused(ofp.OFPET_BAD_ACTION, ofp.OFPBAC_BAD_OUT_GROUP)


def bad_goto() -> Refused:
    return Refused(ofp.OFPET_BAD_INSTRUCTION, ofp.OFPBIC_BAD_TABLE_ID)


def bad_prerequisite() -> Refused:
    return Refused(ofp.OFPET_BAD_MATCH, ofp.OFPBMC_BAD_PREREQ)


def bad_mask() -> Refused:
    return Refused(ofp.OFPET_BAD_MATCH, ofp.OFPBMC_BAD_MASK)


def inconsistent_action() -> Refused:
    return Refused(ofp.OFPET_BAD_ACTION, ofp.OFPBAC_MATCH_INCONSISTENT)


def bad_request(code: int) -> Refused:
    """``code`` is one of ``OFPBRC_*``."""
    return Refused(ofp.OFPET_BAD_REQUEST, code)


def bad_group_mod(code: int) -> Refused:
    """``code`` is one of ``OFPGMFC_*``."""
    return Refused(ofp.OFPET_GROUP_MOD_FAILED, code)


def bad_meter_mod(code: int) -> Refused:
    """``code`` is one of ``OFPMMFC_*``."""
    return Refused(ofp.OFPET_METER_MOD_FAILED, code)
