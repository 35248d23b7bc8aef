"""The roles of one replica of a cluster at the switches (OpenFlow 1.3.5, section 6.3.6).

The leader is master, with the term as ``generation_id``; the others are slaves. A switch answers messages of a slave
that would change it by an error, and refuses the role of master to the leader of an earlier term. A switch is admitted,
that is, read back and changed, only after it has accepted this replica as the master of the present term.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable
from typing import Any

from ryu.lib import hub
from ryu.ofproto import ofproto_v1_3 as ofp

from controller.southbound.openflow.enforcing import messages
from controller.southbound.openflow.enforcing.request_channel import RequestChannel, SwitchGone
from controller.southbound.rollout.write_permission import WritePermission

LOG = logging.getLogger("fairspine.southbound")

NOT_LEADER = "this replica does not lead its cluster"

RETRY = 1.0
"""Seconds before a switch that has not answered is asked again."""

UNDEFINED = 0xFFFFFFFFFFFFFFFF
"""The generation that Open vSwitch tells before a controller has given it one."""

ONF_EXPERIMENTER, ROLE_STATUS = 0x4F4E4600, 1911
"""With these, Open vSwitch tells a master that another controller has become one (ONF extension 191)."""

_ROLE = struct.Struct("!I")


class Roles:
    """The role at each connected switch.

    Attributes:
        seen: the highest term that a switch has told; 0: none has.
        lost: why this replica can no longer lead, as switches say; empty: it can.
    """

    def __init__(
        self, permission: WritePermission, *, admitted: Callable[[Any], None], name: Callable[[int], str]
    ) -> None:
        """Begin as a slave, without switches.

        Args:
            permission: to change switches; given while this replica leads.
            admitted: called with the connection of a switch whose master this replica is now.
            name: of a switch, for people.
        """
        self._permission, self._admit, self._name = permission, admitted, name
        self._channels: dict[int, RequestChannel] = {}
        self._admitted: set[RequestChannel] = set()
        # Those that are asked now, and of these those that are asked to make this replica master.
        self._asked: set[RequestChannel] = set()
        self._claimed: set[RequestChannel] = set()
        # Switches that may know the present term from this replica.
        self._know_term: set[int] = set()
        self._term: int | None = None
        self.seen = 0
        self.lost = ""
        permission.withheld = NOT_LEADER

    def lead(self, term: int) -> None:
        """Become master of all switches, those that connect later included."""
        self._term, self._permission.withheld = term, ""
        for channel in self._channels.values():
            if channel not in self._asked:
                hub.spawn(self._agree, channel)

    def connected(self, datapath: Any) -> None:
        """Take the role at a switch that has connected."""
        self.disconnected(datapath.id)
        channel = self._channels[datapath.id] = RequestChannel(datapath)
        hub.spawn(self._agree, channel)

    def disconnected(self, dpid: int) -> None:
        """Forget a connection that has ended."""
        channel = self._channels.pop(dpid, None)
        if channel is not None:
            self._admitted.discard(channel)
            channel.closed()

    @property
    def connections(self) -> int:
        """The number of connected switches, whatever the role."""
        return len(self._channels)

    def datapath(self, dpid: int) -> Any:
        """Return the connection of a switch; ``None``: there is none."""
        channel = self._channels.get(dpid)
        return None if channel is None else channel.datapath

    def replied(self, message: Any) -> None:
        """Pass a reply to the request for a role that it answers."""
        channel = self._channels.get(message.datapath.id)
        if channel is not None and channel.datapath is message.datapath:
            channel.replied(message)

    def failed(self, message: Any) -> None:
        """Pass an error to the request that it answers; find out from it that there is a later leader."""
        channel = self._channels.get(message.datapath.id)
        stale = (message.type, message.code) == (ofp.OFPET_ROLE_REQUEST_FAILED, ofp.OFPRRFC_STALE)
        is_slave = (message.type, message.code) == (ofp.OFPET_BAD_REQUEST, ofp.OFPBRC_IS_SLAVE)
        # An error that comes before this replica is master answers what was sent too early, and tells nothing.
        if (is_slave and channel in self._admitted) or (stale and channel in self._claimed):
            self._lose(f"{self._name(message.datapath.id)} has a master of a later term")
        if channel is not None and channel.datapath is message.datapath:
            channel.failed(message)

    def experimenter(self, message: Any) -> None:
        """Find out from a switch's report of roles that there is a later leader."""
        if (message.experimenter, message.exp_type) != (ONF_EXPERIMENTER, ROLE_STATUS) or len(
            message.data
        ) < _ROLE.size:
            return
        if _ROLE.unpack_from(message.data)[0] == ofp.OFPCR_ROLE_SLAVE:
            self._lose(f"another controller has become the master of {self._name(message.datapath.id)}")

    def _lose(self, reason: str) -> None:
        if self._term is not None and not self.lost:
            self.lost, self._permission.withheld = reason, NOT_LEADER
            LOG.warning("%s", reason)

    def _agree(self, channel: RequestChannel) -> None:
        """Ask a switch until it has given the role of the present term, then begin with it."""
        self._asked.add(channel)
        try:
            leads = self._ask(channel)
        finally:
            self._asked.discard(channel)
        if leads and channel not in self._admitted:
            self._admitted.add(channel)
            self._admit(channel.datapath)

    def _ask(self, channel: RequestChannel) -> bool:
        """Ask a switch until it has given the role of the present term; return whether that is master."""
        while self._channels.get(channel.datapath.id) is channel and not self.lost:
            term = self._term
            try:
                self._take_role(channel, term)
            except SwitchGone as error:
                LOG.warning("%s: no role: %s; asked again in %g s", self._name(channel.datapath.id), error, RETRY)
                hub.sleep(RETRY)
                continue
            if term == self._term:
                return term is not None and not self.lost
        return False

    def _take_role(self, channel: RequestChannel, term: int | None) -> None:
        datapath = channel.datapath
        known = channel.request(messages.ask_role(datapath)).generation_id
        if known != UNDEFINED:
            self.seen = max(self.seen, known)
        if term is None:
            channel.request(messages.take_role(datapath, 0 if known == UNDEFINED else known, master=False))
        elif known != UNDEFINED and known > term:
            self._lose(f"{self._name(datapath.id)} knows term {known}, which is later than {term}")
        elif known == term and datapath.id not in self._know_term:
            # The store was restored to an earlier state, and counts terms again that were used before.
            self._lose(f"{self._name(datapath.id)} knows term {known} from another leader")
        else:
            self._claimed.add(channel)
            self._know_term.add(datapath.id)
            try:
                channel.request(messages.take_role(datapath, term, master=True))
            finally:
                self._claimed.discard(channel)
