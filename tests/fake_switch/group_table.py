"""The group table of a switch: what group-mods do to it (OpenFlow 1.3.5, section 6.5)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ryu.ofproto import ofproto_v1_3 as ofp
from ryu.ofproto import ofproto_v1_3_parser as parser

from tests.fake_switch.refusal import bad_group_mod


@dataclass
class GroupEntry:
    """One group; buckets are Ryu's. It quacks like an entry of a group description."""

    group_id: int
    type: int
    buckets: list[Any]

    @property
    def leads_to(self) -> frozenset[int]:
        """The groups that its buckets hand packets to."""
        return frozenset(
            action.group_id
            for bucket in self.buckets
            for action in bucket.actions
            if isinstance(action, parser.OFPActionGroup)
        )


class GroupTable:
    """All groups of one switch.

    Args:
        checks_chains: refuse a group that leads to one that is not there, and to delete one that others lead to. The
            standard lets a switch do so; Open vSwitch does not.
    """

    def __init__(self, *, checks_chains: bool = True) -> None:
        self._groups: dict[int, GroupEntry] = {}
        self._checks_chains = checks_chains

    def __contains__(self, number: object) -> bool:
        return number in self._groups

    def __iter__(self) -> Iterator[GroupEntry]:
        return iter(self._groups.values())

    def __len__(self) -> int:
        return len(self._groups)

    def apply(self, mod: Any) -> list[int]:
        """Carry out a group-mod; the ids of the groups that are gone, with which the flows go that lead to them.

        Raises:
            Refused: and nothing has changed.
        """
        if mod.command == ofp.OFPGC_DELETE:
            return self._delete(mod.group_id)
        if mod.group_id > ofp.OFPG_MAX:
            raise bad_group_mod(ofp.OFPGMFC_INVALID_GROUP)
        there = mod.group_id in self
        if mod.command == ofp.OFPGC_ADD and there:
            raise bad_group_mod(ofp.OFPGMFC_GROUP_EXISTS)
        if mod.command == ofp.OFPGC_MODIFY and not there:
            raise bad_group_mod(ofp.OFPGMFC_UNKNOWN_GROUP)
        if mod.command not in (ofp.OFPGC_ADD, ofp.OFPGC_MODIFY):
            raise bad_group_mod(ofp.OFPGMFC_BAD_COMMAND)
        new = GroupEntry(mod.group_id, mod.type, mod.buckets)
        self._check(new)
        self._groups[mod.group_id] = new
        return []

    def _check(self, new: GroupEntry) -> None:
        if new.type not in (ofp.OFPGT_ALL, ofp.OFPGT_SELECT, ofp.OFPGT_INDIRECT, ofp.OFPGT_FF):
            raise bad_group_mod(ofp.OFPGMFC_BAD_TYPE)
        if new.type == ofp.OFPGT_INDIRECT and len(new.buckets) != 1:
            raise bad_group_mod(ofp.OFPGMFC_INVALID_GROUP)
        for bucket in new.buckets:
            watches = (bucket.watch_port, bucket.watch_group) != (ofp.OFPP_ANY, ofp.OFPG_ANY)
            if new.type == ofp.OFPGT_FF and not watches:
                raise bad_group_mod(ofp.OFPGMFC_INVALID_GROUP)
            if new.type != ofp.OFPGT_SELECT and bucket.weight:
                raise bad_group_mod(ofp.OFPGMFC_INVALID_GROUP)
        if new.group_id in new.leads_to or self._reaches(new.leads_to, new.group_id):
            raise bad_group_mod(ofp.OFPGMFC_LOOP)
        if self._checks_chains and not all(number in self for number in new.leads_to):
            raise bad_group_mod(ofp.OFPGMFC_CHAINING_UNSUPPORTED)

    def _reaches(self, first: Iterable[int], target: int) -> bool:
        seen: set[int] = set()
        waiting = list(first)
        while waiting:
            number = waiting.pop()
            if number == target:
                return True
            if number in self and number not in seen:
                seen.add(number)
                waiting += self._groups[number].leads_to
        return False

    def _delete(self, number: int) -> list[int]:
        if number == ofp.OFPG_ALL:
            gone = list(self._groups)
        else:
            gone = [number] if number in self else []
            if gone and self._checks_chains and any(number in group.leads_to for group in self):
                raise bad_group_mod(ofp.OFPGMFC_CHAINED_GROUP)
        for each in gone:
            del self._groups[each]
        return gone
