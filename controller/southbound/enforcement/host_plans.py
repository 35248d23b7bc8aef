"""What hosts are to do where they carry out a plan: the counterpart of the rules of switches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from controller.model.choices.enforcement import Mode
from controller.model.fabric import Fabric
from controller.model.switch_key import SwitchKey


def _nothing(_host: int) -> Mapping[str, Any]:
    return {}


@dataclass(frozen=True, eq=False)
class HostPlans:
    """The plan of each host of a fabric.

    Attributes:
        fabric: of the hosts; ``None``: hosts are given no plans.
        taking_part: the hosts (indices) that send or receive flows of jobs: the plan needs the agents of these.
        content: returns the plan of a host as plain data, without the number of the plan. Pure, and made when it is
            asked for, since all plans together may be large.
        mode: ``ecmp``: there is no plan, and routers choose paths.
    """

    fabric: Fabric | None = None
    taking_part: frozenset[int] = frozenset()
    content: Callable[[int], Mapping[str, Any]] = _nothing
    mode: Mode = "planned"

    def size(self, _switch: SwitchKey) -> int:
        """Return the number of entries that a switch must hold for the plan: none."""
        return 0


NO_HOST_PLANS = HostPlans()
"""Hosts are given no plans: the enforcement is one that switches carry out, or the fabric is not known."""
