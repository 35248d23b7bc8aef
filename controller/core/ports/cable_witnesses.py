"""What the controller needs of those who show something of cables that the observer cannot see.

``controller.router_southbound.RouterSouthbound`` implements it by BGP sessions to routers, and by reports of agents.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Protocol


class CableWitnesses(Protocol):
    """Says which cables work. It sets the observer's signals when that has changed."""

    @property
    def cables(self) -> Mapping[int, str]:
        """Why a cable is down, by its number in the fabric file, or an empty text if it works; others are unknown."""

    @property
    def passed_cables(self) -> Set[int]:
        """Cables that are unknown, and to whose probes nothing happens: packets pass over them, or beside them."""

    def notices(self) -> Sequence[str]:
        """Return what witnesses cannot be heard, and on which cables they disagree, for people."""
