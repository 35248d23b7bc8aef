"""A switch without a network: messages go in, messages come out. Time and packets come in by arguments, too."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ryu.ofproto import ofproto_v1_3 as ofp
from ryu.ofproto import ofproto_v1_3_parser as parser

from controller.southbound.openflow.enforcing import messages
from controller.southbound.rules.rule import COOKIE_PREFIX, RuleKey
from controller.southbound.rules.rule_set import SwitchRules
from tests import openflow_writer as writer
from tests.fake_switch import encode, matching
from tests.fake_switch.decode import decode, header
from tests.fake_switch.flow_table import N_TABLES, Entry, FlowTables, uses_meter
from tests.fake_switch.group_table import GroupTable
from tests.fake_switch.held import groups_of
from tests.fake_switch.ports import Port
from tests.fake_switch.refusal import Refused, bad_mask, bad_meter_mod, bad_request

PART_BYTES = 60_000
"""Of the entries in one part of a reply: a message's length has 16 bits."""


@dataclass
class _Refusal:
    """The next ``times`` messages of a kind are refused."""

    kind: type[Any]
    error: Refused
    times: int


class FakeSwitch:
    """One OpenFlow 1.3 switch.

    Args:
        dpid: datapath id.
        table_limit: how many entries each table holds (``None``: any number).
        part_bytes: how many bytes of entries one part of a statistics reply holds.
        checks_chains: as in ``GroupTable``.
        most_meters: how many meters it holds.
        clock: seconds.
    """

    def __init__(
        self,
        dpid: int,
        name: str,
        ports: Iterable[Port],
        *,
        table_limit: int | None = None,
        part_bytes: int = PART_BYTES,
        checks_chains: bool = True,
        most_meters: int = 16,
        clock: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self.dpid, self.name = dpid, name
        self.ports = {port.number: port for port in ports}
        self.table_limit, self.part_bytes, self.checks_chains = table_limit, part_bytes, checks_chains
        self.received: list[Any] = []
        """Every message so far, but for echoes."""
        self._refusals: list[_Refusal] = []
        self.takes_port_masks = True
        self.packet_out: Callable[[int, bytes], None] = lambda port, data: None
        """Called with each packet that the controller sends out of a port."""
        self.changed: Callable[[], None] = lambda: None
        """Called after each flow-mod and group-mod that was not refused."""
        self.most_meters = most_meters
        self._clock = clock
        self._config = (0, 128)
        self.forget()

    def forget(self) -> None:
        """Lose all flows and groups, as by a power cut."""
        self.groups = GroupTable(checks_chains=self.checks_chains)
        self.meters: dict[int, Any] = {}
        self.flows = FlowTables(self.groups, self.table_limit, self.meters)
        self._held: tuple[SwitchRules, SwitchRules] | None = None

    # -- messages --------------------------------------------------------------------------------------------

    def receive(self, data: bytes) -> Iterator[bytes]:
        """Carry out one message of the controller; what the switch answers, and what it tells on the way."""
        try:
            message = decode(data)
        except Refused as refused:
            yield encode.error(refused, header(data).xid, data)
            return
        if not isinstance(message, parser.OFPEchoRequest | parser.OFPEchoReply):
            self.received.append(message)
        try:
            self._refuse(message)
            yield from self._answer(message)
        except Refused as refused:
            yield encode.error(refused, message.xid, data)

    def refuse_next(self, kind: type[Any], error: Refused, times: int = 1) -> None:
        """Refuse the next messages of one type (Ryu's class)."""
        self._refusals.append(_Refusal(kind, error, times))

    def _refuse(self, message: Any) -> None:
        if not self.takes_port_masks and isinstance(message, parser.OFPFlowMod):
            adds = message.command not in (ofp.OFPFC_DELETE, ofp.OFPFC_DELETE_STRICT)
            if adds and isinstance(message.match.get("udp_src"), tuple):
                raise bad_mask()
        for refusal in self._refusals:
            if isinstance(message, refusal.kind) and refusal.times > 0:
                refusal.times -= 1
                raise refusal.error

    def _answer(self, message: Any) -> Iterator[bytes]:
        match message:
            case parser.OFPEchoRequest():
                yield writer.message(ofp.OFPT_ECHO_REPLY, message.xid, bytes(message.data or b""))
            case parser.OFPFeaturesRequest():
                yield encode.features(message.xid, self.dpid, N_TABLES)
            case parser.OFPSetConfig():
                self._config = (message.flags, message.miss_send_len)
            case parser.OFPGetConfigRequest():
                yield writer.message(ofp.OFPT_GET_CONFIG_REPLY, message.xid, writer.config(*self._config))
            case parser.OFPRoleRequest():
                yield writer.message(
                    ofp.OFPT_ROLE_REPLY, message.xid, writer.ROLE.pack(message.role, message.generation_id)
                )
            case parser.OFPBarrierRequest():
                yield writer.message(ofp.OFPT_BARRIER_REPLY, message.xid)
            case parser.OFPFlowMod():
                self._held = None
                yield from self._removed(self.flows.apply(message, self._clock()), ofp.OFPRR_DELETE)
                self.changed()
            case parser.OFPGroupMod():
                self._held = None
                gone = self.groups.apply(message)
                flows = self.flows.remove_where(lambda entry: any(entry.leads_to(group=group) for group in gone))
                yield from self._removed(flows, ofp.OFPRR_GROUP_DELETE)
                self.changed()
            case parser.OFPMeterMod():
                self._held = None
                yield from self._meter_mod(message)
            case parser.OFPPacketOut():
                self._send_out(message)
            case parser.OFPMultipartRequest():
                kind, entries = self._statistics(message)
                yield from writer.multipart(kind, message.xid, entries, part_bytes=self.part_bytes)

    def _meter_mod(self, mod: Any) -> Iterator[bytes]:
        known = mod.meter_id in self.meters
        if mod.command == ofp.OFPMC_DELETE:
            self.meters.pop(mod.meter_id, None)
            gone = self.flows.remove_where(lambda entry: uses_meter(entry, mod.meter_id))
            yield from self._removed(gone, ofp.OFPRR_DELETE)
            return
        if known != (mod.command == ofp.OFPMC_MODIFY):
            raise bad_meter_mod(ofp.OFPMMFC_UNKNOWN_METER if not known else ofp.OFPMMFC_METER_EXISTS)
        if not known and len(self.meters) >= self.most_meters:
            raise bad_meter_mod(ofp.OFPMMFC_OUT_OF_METERS)
        self.meters[mod.meter_id] = mod

    def _removed(self, entries: list[Entry], reason: int) -> Iterator[bytes]:
        for entry in entries:
            if entry.flags & ofp.OFPFF_SEND_FLOW_REM:
                yield encode.flow_removed(entry, reason, self._clock())

    def _send_out(self, message: Any) -> None:
        for action in message.actions:
            if not isinstance(action, parser.OFPActionOutput):
                raise Refused(ofp.OFPET_BAD_ACTION, ofp.OFPBAC_BAD_TYPE)
            self.packet_out(action.port, message.data)

    def _statistics(self, message: Any) -> tuple[int, Iterable[bytes]]:
        """Type and entries of a statistics reply."""
        now = self._clock()
        match message:
            case parser.OFPDescStatsRequest():
                return ofp.OFPMP_DESC, [writer.description("fake switch", self.name)]
            case parser.OFPPortDescStatsRequest():
                return ofp.OFPMP_PORT_DESC, [encode.port(port) for port in self.ports.values()]
            case parser.OFPPortStatsRequest():
                asked = (p for p in self.ports.values() if message.port_no in (ofp.OFPP_ANY, p.number))
                return ofp.OFPMP_PORT_STATS, [encode.port_stats(port, now) for port in asked]
            case parser.OFPTableStatsRequest():
                held = range(N_TABLES)
                return ofp.OFPMP_TABLE, [writer.table_stats(table, self.flows.in_table(table)) for table in held]
            case parser.OFPGroupStatsRequest():
                chosen = (g for g in self.groups if message.group_id in (ofp.OFPG_ALL, g.group_id))
                return ofp.OFPMP_GROUP, [encode.group_stats(group) for group in chosen]
            case parser.OFPGroupDescStatsRequest():
                return ofp.OFPMP_GROUP_DESC, [encode.group_description(group) for group in self.groups]
            case parser.OFPMeterFeaturesStatsRequest():
                return ofp.OFPMP_METER_FEATURES, [encode.meter_features(self.most_meters)]
            case parser.OFPMeterConfigStatsRequest():
                chosen = (mod for id_, mod in self.meters.items() if message.meter_id in (ofp.OFPM_ALL, id_))
                return ofp.OFPMP_METER_CONFIG, [encode.meter_config(mod) for mod in chosen]
            case parser.OFPFlowStatsRequest():
                return ofp.OFPMP_FLOW, [encode.flow_stats(entry, now) for entry in self._asked(message)]
            case parser.OFPAggregateStatsRequest():
                return ofp.OFPMP_AGGREGATE, [encode.aggregate(self._asked(message))]
        raise bad_request(ofp.OFPBRC_BAD_MULTIPART)

    def _asked(self, message: Any) -> list[Entry]:
        return self.flows.select(
            matching.bits_of(message.match.items()),
            table=message.table_id,
            cookie=message.cookie,
            cookie_mask=message.cookie_mask,
            out_port=message.out_port,
            out_group=message.out_group,
        )

    # -- what it holds ---------------------------------------------------------------------------------------

    def everything(self) -> SwitchRules:
        """All rules and groups, also those that are not the controller's."""
        return self._read()[0]

    def ours(self) -> SwitchRules:
        """The rules with the controller's cookie and the groups with its ids."""
        return self._read()[1]

    def _read(self) -> tuple[SwitchRules, SwitchRules]:
        if self._held is None:
            groups = groups_of(self.groups)
            everything, ours = {}, {}
            for entry in self.flows:
                _, _, match = entry.key
                rule = messages.rule_from(
                    parser.OFPFlowStats(
                        table_id=entry.table,
                        priority=entry.priority,
                        match=parser.OFPMatch(**dict(match)),
                        instructions=entry.instructions,
                    )
                )
                everything[rule.key] = rule
                if entry.cookie >> 48 == COOKIE_PREFIX:
                    ours[rule.key] = rule
            self._held = SwitchRules(everything, groups), SwitchRules(ours, groups)
        return self._held

    def count(self, key: RuleKey, octets: int) -> Entry:
        """A packet has met a rule."""
        entry = self.flows.get(key)
        assert entry is not None
        entry.packets += 1
        entry.bytes += octets
        return entry

    # -- what was received -----------------------------------------------------------------------------------

    def flow_mods(self) -> list[Any]:
        """The flow-mods with the controller's cookie so far."""
        return [m for m in self.received if isinstance(m, parser.OFPFlowMod) and m.cookie >> 48 == COOKIE_PREFIX]

    def meter_mods(self) -> list[Any]:
        """The meter-mods so far."""
        return [m for m in self.received if isinstance(m, parser.OFPMeterMod)]

    def group_mods(self) -> list[Any]:
        """The group-mods so far."""
        return [m for m in self.received if isinstance(m, parser.OFPGroupMod)]
