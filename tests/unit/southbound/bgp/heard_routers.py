"""Routers that tell a controller their routes by BGP."""

from __future__ import annotations

from collections.abc import Collection
from ipaddress import IPv6Network

from controller.model.fabric import Fabric
from controller.southbound.bgp.router_reach import SETTLE_SECONDS, RouterReach
from controller.southbound.srv6.bgp_configuration import as_numbers
from controller.southbound.srv6.segment_ids import SegmentIds
from tests.unit.southbound.bgp.bgp_routes import bgp_routes


class Heard:
    """What a controller hears of a fabric, as cables and sessions go and come."""

    def __init__(self, fabric: Fabric) -> None:
        self.ids, self.now = SegmentIds.of(fabric), 0.0
        self.asns = as_numbers(fabric)
        self.reach = RouterReach(self.ids, self.asns)
        self.heard: dict[str, dict[IPv6Network, tuple[int, ...]]] = {}

    def begin(self, routers: Collection[str]) -> None:
        for router in routers:
            self.reach.began(router, self.now)
            self.heard[router] = {}

    def end(self, router: str) -> None:
        self.reach.ended(router, self.now)
        del self.heard[router]

    def tell(self, down: Collection[int]) -> None:
        """All routers with a session tell what has changed in their routes."""
        routes = bgp_routes(self.ids, down)
        for router, before in self.heard.items():
            rows = ((prefix, route) for prefix, route in routes[router].items() if isinstance(prefix, IPv6Network))
            after = {prefix: (self.asns[router], *route.path) for prefix, route in rows}
            for prefix in before.keys() - after.keys():
                self.reach.takes(router, prefix, (), self.now)
            for prefix, path in after.items():
                if before.get(prefix) != path:
                    self.reach.takes(router, prefix, path, self.now)
            self.heard[router] = after

    def later(self) -> None:
        self.now += SETTLE_SECONDS
        self.reach.look(self.now)

    def down(self) -> set[int]:
        return {cable for cable, sign in self.reach.signs.items() if not sign.up}
