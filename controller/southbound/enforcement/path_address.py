"""``path_address`` enforcement: hosts have an address for each path, and senders choose a path by the address.

Routers are configured once, by BGP (``controller/southbound/path_addresses``): they reach each address over its path as
long as that works, and over others otherwise. No switch and no kernel changes with a plan.
"""

from __future__ import annotations

from controller.model.fabric import Fabric
from controller.southbound.enforcement.base import Enforcement, OptionValues
from controller.southbound.enforcement.flow_encoding import kept_ports
from controller.southbound.enforcement.probe_limits import PROBE_OPTIONS
from controller.southbound.enforcement.routers_only import check_routers, is_no_rule, no_rules
from controller.southbound.path_addresses.path_addresses import DEFAULT_BLOCK, PathAddresses

NAME = "path_address"

BLOCK = "path_address_block"
"""The option: as ``--block`` of ``fairspine export path-addresses``, by which routers were configured."""


def _addresses(fabric: Fabric, options: OptionValues) -> PathAddresses:
    return PathAddresses.of(fabric, str(options.get(BLOCK, DEFAULT_BLOCK)), BLOCK)


def check(fabric: Fabric, options: OptionValues) -> None:
    """See whether hosts can have an address for each path.

    Raises:
        InputError: a switch speaks OpenFlow, or ``PathAddresses.check`` refuses the fabric.
    """
    check_routers(fabric, "that speak BGP")
    _addresses(fabric, options).check()


def destination(fabric: Fabric, host: int, path: int, options: OptionValues) -> str:
    """Return the address by which packets reach a host over a path."""
    return str(_addresses(fabric, options).to_host(host, path))


ENFORCEMENT = Enforcement(
    NAME,
    "the address of the receiver, one for each path, to which routers find their ways by BGP",
    hosts="have an address for each path, and send to the address of /v1/routes",
    encode=kept_ports,
    compile=no_rules,
    is_planned=is_no_rule,
    check=check,
    options=(BLOCK, *PROBE_OPTIONS),
    watchable=False,
    router_export="fairspine export path-addresses",
    needs_routers=True,
    destination=destination,
)
