"""The names of switches in log lines and messages."""

from __future__ import annotations

from collections.abc import Mapping


class SwitchNames:
    """Names by datapath id. A switch that is in no fabric yet is named by its datapath id, in hexadecimal."""

    def __init__(self) -> None:
        """Begin without names."""
        self._names: Mapping[int, str] = {}

    def learn(self, names: Mapping[int, str]) -> None:
        """Replace all names by those of the newest fabric."""
        self._names = names

    def __call__(self, dpid: int) -> str:
        """Return the name of a switch."""
        return self._names.get(dpid, f"{dpid:#x}")
