"""At which switches packets of flows were sampled: evidence of the paths that their source ports take."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address
from typing import NamedTuple

from controller.learning.sampling.sflow import FlowSample
from controller.model.packets.roce_packet import flow_of

MOST_SEEN = 1 << 17
"""Flows at switches that are kept until they are asked for; further ones are dropped."""

_FLOW = struct.Struct("!IIH")


class SeenFlow(NamedTuple):
    """A flow at a switch: the address by which that calls itself, and addresses and source port of its packets."""

    agent: str
    src: int
    dst: int
    port: int


@dataclass(frozen=True)
class SeenFlows:
    """What was sampled since the last report.

    Attributes:
        at: when a packet of each flow was seen last at each switch, in seconds since 1970.
        one_in: packets of which switches sample one: the most that one of them says; 0: none has said so.
    """

    at: Mapping[SeenFlow, float] = field(default_factory=dict)
    one_in: int = 0


NOTHING_SEEN = SeenFlows()


class SeenAt:
    """Gathers what is sampled until it is reported."""

    def __init__(self, most: int = MOST_SEEN) -> None:
        """Begin with nothing; so many flows at switches are kept at ``most``."""
        self._most = most
        self._at: dict[tuple[bytes, bytes], float] = {}
        self._one_in = 0

    def take(self, agent: bytes, sample: FlowSample, at: float) -> None:
        """Take the sample of a switch, by its address; ``at``: the time of its arrival."""
        flow = flow_of(sample.frame)
        key = agent, flow or b""
        if flow is None or (key not in self._at and len(self._at) >= self._most):
            return
        self._at[agent, flow] = at
        self._one_in = max(self._one_in, sample.one_in)

    def report(self) -> SeenFlows:
        """Return what was gathered since the last report, and begin anew."""
        seen = {SeenFlow(_text(agent), *_FLOW.unpack(flow)): at for (agent, flow), at in self._at.items()}
        report = SeenFlows(seen, self._one_in)
        self._at, self._one_in = {}, 0
        return report


def _text(agent: bytes) -> str:
    return str(IPv4Address(agent) if len(agent) == 4 else IPv6Address(agent))
