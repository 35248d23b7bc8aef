"""The flow tables of a switch: what flow-mods do to them (OpenFlow 1.3.5, section 6.4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ryu.ofproto import ofproto_v1_3 as ofp
from ryu.ofproto import ofproto_v1_3_parser as parser

from controller.southbound.rules.rule import RuleKey
from tests.fake_switch import matching, refusal
from tests.fake_switch.matching import Fields

N_TABLES = 254


@dataclass
class Entry:
    """One flow entry: ``key`` as in ``southbound.rules.rule_set``, ``fields`` its match, instructions of Ryu's."""

    key: RuleKey
    fields: Fields
    cookie: int
    flags: int
    instructions: list[Any]
    since: float
    packets: int = 0
    bytes: int = 0

    @property
    def table(self) -> int:
        return self.key[0]

    @property
    def priority(self) -> int:
        return self.key[1]

    def leads_to(self, *, port: int = ofp.OFPP_ANY, group: int = ofp.OFPG_ANY) -> bool:
        """Whether it sends to a port and to a group (``ANY``: no matter)."""
        does = list(_actions(self.instructions))
        to_port = port == ofp.OFPP_ANY or any(port == getattr(action, "port", None) for action in does)
        to_group = group == ofp.OFPG_ANY or any(group == getattr(action, "group_id", None) for action in does)
        return to_port and to_group


def uses_meter(entry: Entry, meter: int) -> bool:
    """Whether packets of an entry go through a meter."""
    metered = (each for each in entry.instructions if isinstance(each, parser.OFPInstructionMeter))
    return any(each.meter_id == meter for each in metered)


class FlowTables:
    """All tables of one switch.

    Args:
        groups: ids of the groups that an entry may lead to.
        limit: how many entries each table holds (``None``: any number).
        meters: ids of the meters that an entry may use.
    """

    def __init__(self, groups: Container[int], limit: int | None = None, meters: Container[int] = ()) -> None:
        self._groups, self.limit, self._meters = groups, limit, meters
        self._entries: dict[RuleKey, Entry] = {}
        self._count: Counter[int] = Counter()

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries.values())

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: RuleKey) -> Entry | None:
        return self._entries.get(key)

    def in_table(self, table: int) -> int:
        """How many entries a table holds."""
        return self._count[table]

    def apply(self, mod: Any, now: float) -> list[Entry]:
        """Carry out a flow-mod; the entries that were removed.

        Raises:
            Refused: and nothing has changed.
        """
        fields = matching.bits_of(mod.match.items())
        deletes = mod.command in (ofp.OFPFC_DELETE, ofp.OFPFC_DELETE_STRICT)
        if mod.table_id >= N_TABLES and not (deletes and mod.table_id == ofp.OFPTT_ALL):
            raise refusal.bad_table()
        if deletes:
            return self._remove(self._addressed(mod, fields, out_port=mod.out_port, out_group=mod.out_group))
        check_instructions(mod.instructions, mod.table_id, fields)
        if mod.command == ofp.OFPFC_ADD:
            self._check_groups(mod.instructions)
            self._add(mod, fields, now)
        else:
            # Like Open vSwitch: a modification that finds nothing is not looked at any closer.
            for entry in self._addressed(mod, fields):
                self._check_groups(mod.instructions)
                entry.instructions = mod.instructions
                if mod.flags & ofp.OFPFF_RESET_COUNTS:
                    entry.packets = entry.bytes = 0
        return []

    def select(
        self,
        fields: Fields,
        *,
        table: int = ofp.OFPTT_ALL,
        cookie: int = 0,
        cookie_mask: int = 0,
        out_port: int = ofp.OFPP_ANY,
        out_group: int = ofp.OFPG_ANY,
    ) -> list[Entry]:
        """The entries that a non-strict command or a statistics request speaks of."""
        return [
            entry
            for entry in self
            if table in (ofp.OFPTT_ALL, entry.table)
            and (entry.cookie ^ cookie) & cookie_mask == 0
            and matching.covers(fields, entry.fields)
            and entry.leads_to(port=out_port, group=out_group)
        ]

    def remove_where(self, goes: Callable[[Entry], bool]) -> list[Entry]:
        """Remove entries; those that were."""
        return self._remove([entry for entry in self if goes(entry)])

    def _remove(self, gone: list[Entry]) -> list[Entry]:
        for entry in gone:
            del self._entries[entry.key]
            self._count[entry.table] -= 1
        return gone

    def _check_groups(self, instructions: Iterable[Any]) -> None:
        for instruction in instructions:
            if isinstance(instruction, parser.OFPInstructionMeter) and instruction.meter_id not in self._meters:
                raise refusal.bad_meter_mod(ofp.OFPMMFC_UNKNOWN_METER)
        for action in _actions(instructions):
            if isinstance(action, parser.OFPActionGroup) and action.group_id not in self._groups:
                raise refusal.bad_out_group()

    def _add(self, mod: Any, fields: Fields, now: float) -> None:
        key = (mod.table_id, mod.priority, matching.match_of(fields))
        new = Entry(key, fields, mod.cookie, mod.flags, mod.instructions, now)
        former = self._entries.get(key)
        if mod.flags & ofp.OFPFF_CHECK_OVERLAP and any(
            entry is not former and entry.key[:2] == key[:2] and matching.overlap(entry.fields, fields)
            for entry in self
        ):
            raise refusal.overlap()
        if former is None:
            if self.limit is not None and self._count[new.table] >= self.limit:
                raise refusal.table_full()
            self._count[new.table] += 1
        elif not mod.flags & ofp.OFPFF_RESET_COUNTS:
            new.packets, new.bytes = former.packets, former.bytes
        self._entries[key] = new

    def _addressed(
        self, mod: Any, fields: Fields, *, out_port: int = ofp.OFPP_ANY, out_group: int = ofp.OFPG_ANY
    ) -> list[Entry]:
        if mod.command in (ofp.OFPFC_MODIFY_STRICT, ofp.OFPFC_DELETE_STRICT):
            match = matching.match_of(fields)
            tables = range(N_TABLES) if mod.table_id == ofp.OFPTT_ALL else [mod.table_id]
            named = (self._entries.get((table, mod.priority, match)) for table in tables)
            return [
                entry
                for entry in named
                if entry is not None
                and (entry.cookie ^ mod.cookie) & mod.cookie_mask == 0
                and entry.leads_to(port=out_port, group=out_group)
            ]
        return self.select(
            fields,
            table=mod.table_id,
            cookie=mod.cookie,
            cookie_mask=mod.cookie_mask,
            out_port=out_port,
            out_group=out_group,
        )


def _actions(instructions: Iterable[Any]) -> Iterator[Any]:
    """Every action of every instruction."""
    for instruction in instructions:
        if isinstance(instruction, parser.OFPInstructionActions):
            yield from instruction.actions


def check_instructions(instructions: Iterable[Any], table: int, fields: Fields) -> None:
    """Whether a switch would take these instructions in a table.

    Raises:
        Refused: an instruction or action that it would not.
    """
    for instruction in instructions:
        if isinstance(instruction, parser.OFPInstructionActions):
            eth_type = fields["eth_type"][0] if "eth_type" in fields else None
            for action in instruction.actions:
                eth_type = _check_action(action, eth_type)
        elif isinstance(instruction, parser.OFPInstructionGotoTable):
            if not table < instruction.table_id < N_TABLES:
                raise refusal.bad_goto()
        elif not isinstance(instruction, parser.OFPInstructionWriteMetadata | parser.OFPInstructionMeter):
            raise refusal.Refused(ofp.OFPET_BAD_INSTRUCTION, ofp.OFPBIC_UNSUP_INST)


MPLS, IP = (0x8847, 0x8848), (0x0800, 0x86DD)


def _check_action(action: Any, eth_type: int | None) -> int | None:
    """The Ethernet type of packets after an action."""
    match action:
        case parser.OFPActionPushMpls():
            return int(action.ethertype)
        case parser.OFPActionPopMpls():
            if eth_type not in MPLS:
                raise refusal.inconsistent_action()
            return int(action.ethertype)
        case parser.OFPActionSetField() if action.key.startswith("mpls_"):
            if eth_type not in MPLS:
                raise refusal.inconsistent_action()
        case parser.OFPActionSetField() if action.key == "ip_dscp":
            if eth_type not in IP:
                raise refusal.inconsistent_action()
        case parser.OFPActionSetField() | parser.OFPActionOutput() | parser.OFPActionGroup() | parser.NXActionBundle():
            pass
        case _:
            raise refusal.Refused(ofp.OFPET_BAD_ACTION, ofp.OFPBAC_BAD_TYPE)
    return eth_type
