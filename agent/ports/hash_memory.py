"""Models of the routers' hashes, which an agent keeps for each state of the cables, also over restarts.

Routers with other uplinks choose among them in another way, and as before when a cable is repaired: then nothing has to
be learned again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any

from agent.fields import converted, member
from agent.plans.flow_keys import Address
from agent.ports.linear_hash import HashModels
from controller.model.errors import InputError

MOST_STATES = 8
"""Those that were seen last."""


@dataclass
class _State:
    """A state of the cables, by the names that the controller has for it (``map`` of pairs), and the hashes in it."""

    maps: dict[Address, str]
    models: HashModels

    def agrees(self, maps: Mapping[Address, str]) -> bool:
        """Return whether it is the state of some destinations, as far as both know of the same ones."""
        common = self.maps.keys() & maps.keys()
        return bool(common) and all(self.maps[dst] == maps[dst] for dst in common)


class HashMemory:
    """The models of hashes of a host."""

    def __init__(self) -> None:
        """Begin without any."""
        self._states: list[_State] = []

    def models(self, maps: Mapping[Address, str]) -> HashModels:
        """Return what is known in the state of the cables that destinations have these names of."""
        # A prediction has failed there: routers hash otherwise than they did.
        self._states = [state for state in self._states if not state.models.is_refuted]
        found = next((state for state in reversed(self._states) if state.agrees(maps)), None)
        if found is None:
            found = _State({}, HashModels())
        else:
            self._states.remove(found)
        found.maps.update(maps)
        self._states = [*self._states[-MOST_STATES + 1 :], found]
        return found.models

    def document(self) -> list[dict[str, Any]]:
        """Return it as plain data."""
        return [
            {"maps": {str(dst): name for dst, name in state.maps.items()}, "models": saved}
            for state in self._states
            if not state.models.is_refuted and (saved := state.models.document())
        ]

    @staticmethod
    def read(rows: Any) -> HashMemory:
        """Return what a document has.

        Raises:
            InputError: it is no such document.
        """
        memory = HashMemory()
        if not isinstance(rows, list):
            raise InputError("is no list", field="hashes")
        for n, row in enumerate(rows):
            where = f"hashes[{n}]."
            maps = {
                converted(ip_address, dst, f"{where}maps", "an IP address"): str(name)
                for dst, name in member(row, where, "maps", dict).items()
            }
            memory._states.append(_State(maps, HashModels.read(member(row, where, "models", list), f"{where}models")))
        return memory
