"""The table of hosts, and the carriers that follow from it and from the paths to leaves in a plan.

A plan with a carrier for each destination is as large as the fabric has hosts. So the controller says the paths to
leaves, and where hosts are in a table of its own, which no plan changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv6Address, IPv6Network
from typing import Any, NamedTuple

from controller.model.errors import InputError

ID_BITS, ADDRESS_BITS = 16, 128


class _Place(NamedTuple):
    """A host of the table: its address, its number, its leaf, and its id there."""

    ip: str
    number: int
    leaf: int
    id: int


@dataclass(frozen=True)
class ReachableHosts:
    """The hosts that this one can reach.

    Attributes:
        digest: hash of the table.
        block: the addresses that all carriers have in common.
        leaves: id of each leaf.
        hosts: where they are.
    """

    digest: str
    block: IPv6Network
    leaves: Mapping[int, int]
    hosts: tuple[_Place, ...]

    def rows(self, own: int, paths: Any) -> list[dict[str, str]]:
        """Return a carrier for each host but the own one, as in a plan without a table.

        Args:
            own: number of this host.
            paths: of a plan: leaves, and the paths to them (``controller.rest.schemas.PathsToLeaves``).

        Raises:
            InputError: the paths are not as they should be.
        """
        try:
            to_leaf = {leaf: each["paths"] for each in paths for leaf in each["leaves"]}
            return [
                {"dst": host.ip, "carrier": self._carrier(host, to_leaf.get(host.leaf, ()))}
                for host in self.hosts
                if host.number != own
            ]
        except (KeyError, TypeError, ValueError, OverflowError):
            raise InputError("are no paths to leaves of the table", field="paths") from None

    def _carrier(self, host: _Place, paths: list[list[int]]) -> str:
        *before, over = paths[host.number % len(paths)] if paths else (0,)
        value, shift = int(self.block.network_address), ADDRESS_BITS - self.block.prefixlen
        for id in (*before, self.leaves[host.leaf] + over, host.id):
            shift -= ID_BITS
            value |= id << shift
        return str(IPv6Address(value))


def read_table(document: Any) -> ReachableHosts:
    """Return the table in a document of the controller.

    Raises:
        InputError: it is none.
    """
    try:
        hosts = tuple(_Place(str(ip), int(number), int(leaf), int(id)) for ip, number, leaf, id in document["hosts"])
        leaves = {int(number): int(id) for number, id in document["leaves"]}
        return ReachableHosts(str(document["digest"]), IPv6Network(document["block"]), leaves, hosts)
    except (KeyError, TypeError, ValueError):
        raise InputError("is no table of hosts", value=document) from None
