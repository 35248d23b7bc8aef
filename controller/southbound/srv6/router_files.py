"""The files by which routers are configured, in one of the languages of routers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from ipaddress import IPv6Network, ip_address

from controller.model.errors import InputError
from controller.southbound.srv6.bgp_configuration import CONTROLLER_AS, MOST_ASN, BgpObserver, bgp_configurations
from controller.southbound.srv6.formats import FORMATS
from controller.southbound.srv6.frr_bgp import frr_bgp
from controller.southbound.srv6.router_configuration import InterfaceName, router_configurations
from controller.southbound.srv6.segment_ids import SegmentIds


def static_files(
    ids: SegmentIds, language: str, interface: InterfaceName, cables: IPv6Network
) -> Iterator[tuple[str, str, str]]:
    """Yield switch, name and text of each file of routers with static routes.

    Raises:
        InputError: see ``router_configurations``.
    """
    chosen = FORMATS[language]
    for router in router_configurations(ids, interface, cables):
        yield router.name, f"{router.name}{chosen.suffix}", chosen.write(router)


def bgp_files(
    ids: SegmentIds, language: str, interface: InterfaceName, cables: IPv6Network, observers: Sequence[BgpObserver]
) -> Iterator[tuple[str, str, str]]:
    """Yield switch, name and text of each file of routers that learn their routes by BGP, from FRR.

    With ``frr``, a router has one file; with ``iproute2``, it has a script and a file for FRR.

    Raises:
        InputError: the language has no BGP here; or see ``router_configurations``.
    """
    if language not in ("frr", "iproute2"):
        raise InputError("BGP is written for frr and iproute2 only", field="--format", value=language)
    chosen = FORMATS[language]
    speakers = bgp_configurations(ids, interface, cables, tuple(observers))
    for router, speaker in zip(router_configurations(ids, interface, cables), speakers, strict=True):
        own, bgp = chosen.write(router.without_routes_over_cables()), frr_bgp(speaker)
        if language == "frr":
            yield router.name, f"{router.name}{chosen.suffix}", own + bgp
        else:
            yield router.name, f"{router.name}{chosen.suffix}", own
            yield router.name, f"{router.name}.conf", f"hostname {router.name}\n!\n{bgp}"


def read_observer(text: str) -> BgpObserver:
    """Return who hears routes, of a text ``ADDRESS`` or ``ADDRESS=AS``.

    Raises:
        InputError: it is neither.
    """
    address, _, asn = text.partition("=")
    try:
        observer = BgpObserver(ip_address(address), int(asn) if asn else CONTROLLER_AS)
    except ValueError:
        raise InputError("is not ADDRESS or ADDRESS=AS", field="--controller", value=text) from None
    if not 0 < observer.asn <= MOST_ASN:
        raise InputError(f"AS numbers are from 1 to {MOST_ASN}", field="--controller", value=text)
    return observer
