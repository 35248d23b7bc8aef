"""What the controller needs of patch panels; ``controller.panel_southbound.PanelSouthbound`` implements it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from controller.core.ports.enforcer import Enforcer
from controller.core.ports.observer import Observer
from controller.southbound.rules.rule import Rule
from controller.southbound.rules.rule_set import RuleSet


class Panels(Protocol):
    """Switches that hold a rule for each circuit."""

    @property
    def observer(self) -> Observer:
        """Says which switches are connected, and which of their ports are up."""

    @property
    def enforcer(self) -> Enforcer:
        """Puts rules on switches, reads them back and repairs them."""

    def held(self) -> RuleSet:
        """Return the rules of ours that each switch held when it connected, before anything was put on it."""

    def send(self, dpid: int, port: int, frames: Iterable[bytes]) -> None:
        """Have a switch take frames as if they came in by a port; does nothing if it is not connected."""

    def counted(self) -> Mapping[int, Mapping[Rule, int]]:
        """Return how many packets each rule of ours has counted, of the switches that answer; blocks."""
