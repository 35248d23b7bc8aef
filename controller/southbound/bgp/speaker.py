"""Ryu's BGP speaker with a session to each router, from which it hears routes; it announces none, nor passes any on.

It opens the connections, and listens nowhere. Routes are told as they come and are not kept: filters keep them out of
the speaker's tables, from which they would go to all other routers.
"""

from __future__ import annotations

import logging
from ipaddress import IPv6Network
from typing import Any

from ryu.lib.packet.bgp import BGP_ATTR_TYPE_AS_PATH
from ryu.services.protocols.bgp.bgpspeaker import BGPSpeaker
from ryu.services.protocols.bgp.core_manager import CORE_MANAGER
from ryu.services.protocols.bgp.info_base.base import Filter
from ryu.services.protocols.bgp.info_base.ipv6 import Ipv6Path
from ryu.services.protocols.bgp.rtconf.common import BGP_CONN_RETRY_TIME, TCP_CONN_TIMEOUT
from ryu.services.protocols.bgp.signals.emit import BgpSignalBus

from controller.southbound.bgp.route_listener import RouteListener
from controller.southbound.bgp.sessions_file import BgpSessions

RETRY_SECONDS = 10
"""Between two tries to open a session, and the longest time of one: the least that Ryu allows."""

_AS_SEQUENCE = list
"""Ryu has the AS numbers of a sequence as a list, and those of a set as a set."""


class BgpSpeaker:
    """A ``Speaker``: the sessions of a file."""

    def __init__(self, sessions: BgpSessions, listener: RouteListener) -> None:
        """Keep the arguments; nothing is opened before ``start``."""
        self._sessions, self._listener = sessions, listener
        self._router_at = {str(session.address): session.router for session in sessions.sessions}
        self._speaker: _Speaker | None = None

    def start(self) -> None:
        """Begin to open all sessions, and to open them again whenever they end."""
        # Ryu tells each message that it cannot use, with a traceback; the listener gets the reason.
        logging.getLogger("bgpspeaker").setLevel(logging.CRITICAL)
        self._speaker = _Speaker(self._sessions.asn, str(self._sessions.router_id), bgp_server_port=0)
        bus = CORE_MANAGER.get_core_service().signal_bus
        bus.register_listener(BgpSignalBus.BGP_ADJ_UP, lambda _, info: self._tell("began", info["peer"]))
        bus.register_listener(BgpSignalBus.BGP_ADJ_DOWN, lambda _, info: self._tell("ended", info["peer"]))
        bus.register_listener(
            BgpSignalBus.BGP_ADJ_RIB_IN_CHANGED, lambda _, info: self._take(info["peer"], info["received_route"].path)
        )
        for session in self._sessions.sessions:
            address = str(session.address)
            # Signals of errors have the peer as the last part of their names.
            self._speaker.neighbor_add(
                address,
                session.asn,
                remote_port=session.port,
                enable_ipv4=False,
                enable_ipv6=True,
                connect_mode="active",
            )
            self._speaker.in_filter_set(address, [_Refuse()])
            peer = CORE_MANAGER.get_core_service().peer_manager.get_by_addr(address)
            for signal, reason in (
                (BgpSignalBus.BGP_ERROR, _error),
                (BgpSignalBus.BGP_NOTIFICATION_RECEIVED, _notification),
            ):
                bus.register_listener((*signal, peer), self._failing(session.router, reason))

    def close(self) -> None:
        """End all sessions."""
        if self._speaker is not None:
            self._speaker.shutdown()

    def _tell(self, what: str, peer: Any) -> None:
        getattr(self._listener, what)(self._router_at[peer.ip_address])

    def _failing(self, router: str, reason: Any) -> Any:
        return lambda _, data: self._listener.failed(router, reason(data))

    def _take(self, peer: Any, path: Any) -> None:
        if isinstance(path, Ipv6Path):
            prefix = IPv6Network((path.nlri.addr, int(path.nlri.length)), strict=False)
            self._listener.takes(self._router_at[peer.ip_address], prefix, () if path.is_withdraw else _as_path(path))


class _Speaker(BGPSpeaker):
    """Ryu's speaker, which tries again sooner."""

    def _core_start(self, settings: dict[str, Any]) -> None:
        super()._core_start({**settings, BGP_CONN_RETRY_TIME: RETRY_SECONDS, TCP_CONN_TIMEOUT: RETRY_SECONDS})


class _Refuse(Filter):
    """Keeps all routes of IPv6 out of the speaker's tables."""

    ROUTE_FAMILY = Ipv6Path.ROUTE_FAMILY
    prefix = "::/0"

    def evaluate(self, path: Any) -> tuple[int, bool]:
        """Refuse a path."""
        del path
        return Filter.POLICY_DENY, True

    def clone(self) -> _Refuse:
        """Return another one."""
        return _Refuse()


def _as_path(path: Any) -> tuple[int, ...]:
    """Return the AS numbers of a path; 0 in place of a set, whose order is not known."""
    segments = path.get_pattr(BGP_ATTR_TYPE_AS_PATH).path_seg_list
    return tuple(n for segment in segments for n in (segment if isinstance(segment, _AS_SEQUENCE) else [0]))


def _error(data: Any) -> str:
    return _named(data["code"], data["subcode"])


def _notification(message: Any) -> str:
    return f"{_named(message.error_code, message.error_subcode)}, says the router"


_ERRORS = {
    (2, 2): "the AS number of the router or of the controller is another one",
    (2, 3): "both have the same router id",
    (4, 0): "the router was not heard for its hold time",
    (4, 1): "the router was not heard for its hold time",
    (6, 2): "shut down by an administrator",
    (6, 3): "the controller is no neighbour of the router",
    (6, 5): "the router rejects the connection: the controller is no neighbour of it",
    (6, 7): "another connection of the two is open",
}
"""Codes and subcodes of notifications (RFC 4271, section 4.5; RFC 4486)."""


def _named(code: int, subcode: int) -> str:
    return _ERRORS.get((code, subcode), f"BGP error {code}, subcode {subcode}")
