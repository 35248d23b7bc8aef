"""The rules of planned flows that an Open vSwitch bridge holds."""

from __future__ import annotations

from typing import Any

from controller.southbound.rules.priorities import DISCOVERY, FLOW
from controller.southbound.rules.rule import COOKIE_PREFIX
from emulation.lab import Lab


def planned(lab: Lab, switch: str) -> list[Any]:
    ours = [flow for flow in lab.flows(switch) if flow.cookie >> 48 == COOKIE_PREFIX]
    return [flow for flow in ours if FLOW <= flow.priority < DISCOVERY]
