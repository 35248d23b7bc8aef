"""The names of switches in log lines and messages."""

from __future__ import annotations

from collections.abc import Mapping

from controller.model.switch_key import SwitchKey, shown


class SwitchNames:
    """Names by key. A switch that is in no fabric yet is named by its key (a datapath id in hexadecimal)."""

    def __init__(self) -> None:
        """Begin without names."""
        self._names: Mapping[SwitchKey, str] = {}

    def learn(self, names: Mapping[SwitchKey, str]) -> None:
        """Replace all names by those of the newest fabric."""
        self._names = names

    def __call__(self, key: SwitchKey) -> str:
        """Return the name of a switch."""
        return self._names.get(key, shown(key))
