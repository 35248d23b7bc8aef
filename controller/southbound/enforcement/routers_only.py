"""What enforcements by hosts have in common: all switches are routers, and get no rules."""

from __future__ import annotations

from controller.model.errors import InputError
from controller.model.fabric import Fabric
from controller.southbound.enforcement.base import RuleInputs
from controller.southbound.rules.rule import Rule
from controller.southbound.rules.rule_set import RuleSet


def no_rules(_inputs: RuleInputs) -> RuleSet:
    """Return no rules: nothing of a plan is configured at a router."""
    return RuleSet()


def is_no_rule(_rule: Rule) -> bool:
    """Return that no rule of a leaf makes a flow follow its path."""
    return False


def check_routers(fabric: Fabric, ability: str) -> None:
    """See whether all switches of a fabric are routers.

    Args:
        fabric: the fabric.
        ability: what the enforcement needs of them, in words.

    Raises:
        InputError: a switch speaks OpenFlow.
    """
    spoken = next((switch.name for switch in fabric.switches if switch.kind == "openflow"), None)
    if spoken is not None:
        raise InputError(
            f"speaks OpenFlow, and this enforcement needs routers {ability} (kind: router)",
            field="switches",
            value=spoken,
        )
