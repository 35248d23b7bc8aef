"""Patch panels that speak OpenFlow: what they held, discovery packets over circuits, and what their rules count."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from controller.core.ports.runtime import Runtime
from controller.openflow_enforcer import OpenFlowEnforcer
from controller.openflow_observer import OpenFlowObserver
from controller.openflow_southbound import OpenFlowSouthbound
from controller.southbound.openflow.enforcing import messages
from controller.southbound.openflow.enforcing.request_channel import SwitchGone
from controller.southbound.rules.rule import Rule
from controller.southbound.rules.rule_set import RuleSet


class PanelSouthbound:
    """A ``controller.core.ports.panels.Panels``."""

    def __init__(self, southbound: OpenFlowSouthbound, runtime: Runtime) -> None:
        """Use the connections of the OpenFlow side."""
        self._southbound, self._installer, self._runtime = southbound, southbound.installer, runtime

    @property
    def observer(self) -> OpenFlowObserver:
        """What the ports of switches show."""
        return self._southbound.observer

    @property
    def enforcer(self) -> OpenFlowEnforcer:
        """What puts rules on switches."""
        return self._southbound.enforcer

    def held(self) -> RuleSet:
        """Return the rules of ours that each switch held when it connected."""
        sessions = self._installer.sessions().items()
        return RuleSet({dpid: session.expected() for dpid, session in sessions if session.is_read})

    def send(self, dpid: int, port: int, frames: Iterable[bytes]) -> None:
        """Have a switch take frames as if they came in by a port."""
        session = self._installer.session(dpid)
        if session is not None:
            for frame in frames:
                session.exchange.offer_change(messages.packet_in_by(session.exchange.datapath, port, frame))

    def counted(self) -> Mapping[int, Mapping[Rule, int]]:
        """Return how many packets each rule of ours has counted."""
        counted: dict[int, Mapping[Rule, int]] = {}
        for dpid, session in self._installer.sessions().items():
            try:
                parts = session.exchange.ask_raw(messages.read_rules(session.exchange.datapath))
                counted[dpid] = self._runtime.offload(_counts, parts)
            except (SwitchGone, ValueError):
                continue
        return counted


def _counts(parts: list[bytes]) -> dict[Rule, int]:
    return {messages.rule_from(entry): entry.packet_count for entry in messages.flow_entries(parts)}
