"""The two sides of the network, for what needs both."""

from __future__ import annotations

from dataclasses import dataclass

from controller.core.ports.enforcer import Enforcer
from controller.core.ports.observer import Observer


@dataclass(frozen=True)
class Network:
    """An observer and an enforcer. They need not know each other."""

    observer: Observer
    enforcer: Enforcer
