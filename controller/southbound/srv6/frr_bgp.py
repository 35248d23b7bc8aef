"""BGP of a router in the language of FRR (8.4 or newer): unnumbered sessions over its cables."""

from __future__ import annotations

from controller.southbound.srv6.bgp_configuration import BgpConfiguration, BgpNeighbor, TaggedNetwork

KEEPALIVE_SECONDS, HOLD_SECONDS = 3, 9
"""What FRR's profile for data centres has. A port that goes down ends its session at once."""

CONNECT_SECONDS = 2
"""Between two tries to open a session. Both ends of a cable rarely come up at the same time."""

MOST_PATHS = 64
"""Next hops of a route."""

FIRST_TAG = 64512
"""The first half of the community that names a choice on the lowest tier of cables; the second half is its number."""

_FABRIC, _NOTHING = "FABRIC", "NOTHING"


def frr_bgp(router: BgpConfiguration) -> str:
    """Return the part of FRR's configuration that is about BGP.

    Those who only hear routes are refused as sources of any: a controller never changes what routers do.
    """
    lines = [
        f"router bgp {router.asn}",
        f" bgp router-id {router.router_id}",
        " no bgp default ipv4-unicast",
        " no bgp ebgp-requires-policy",
        " no bgp network import-check",
        " bgp bestpath as-path multipath-relax",
        f" timers bgp {KEEPALIVE_SECONDS} {HOLD_SECONDS}",
        f" neighbor {_FABRIC} peer-group",
        f" neighbor {_FABRIC} remote-as external",
        f" neighbor {_FABRIC} capability extended-nexthop",
        f" neighbor {_FABRIC} advertisement-interval 0",
        f" neighbor {_FABRIC} timers connect {CONNECT_SECONDS}",
    ]
    lines += [f" neighbor {each.interface} interface peer-group {_FABRIC}" for each in router.neighbors]
    for observer in router.observers:
        peer = f" neighbor {observer.address}"
        lines += [f"{peer} remote-as {observer.asn}", f"{peer} passive", f"{peer} ebgp-multihop 255"]
        lines += [f"{peer} advertisement-interval 0"]
    lines += [" !", " address-family ipv4 unicast", f"  maximum-paths {MOST_PATHS}"]
    lines += [f"  network {network}" for network in router.networks_of_hosts]
    lines += [f"  network {each.network} route-map {_tag(each)}" for each in router.tagged]
    lines.append(f"  neighbor {_FABRIC} activate")
    lines += [f"  neighbor {each.interface} route-map {_up(each)} out" for each in router.neighbors if each.choice]
    lines.append(" exit-address-family")
    lines += _ipv6(router) if router.networks or router.observers else []
    lines += ["exit", "!"]
    for tagged in dict.fromkeys(each.choices for each in router.tagged):
        lines += _tagging(tagged)
    for each in router.neighbors:
        lines += _preferring(router.asn, each) if each.choice else []
    for each in router.neighbors:
        lines += _withholding(each) if each.withheld else []
    if router.observers:
        lines += [f"route-map {_NOTHING} deny 10", "exit", "!"]
    return "\n".join([*lines, ""])


def _ipv6(router: BgpConfiguration) -> list[str]:
    lines = [" !", " address-family ipv6 unicast", f"  maximum-paths {MOST_PATHS}"]
    lines += [f"  network {network}" for network in router.networks]
    lines.append(f"  neighbor {_FABRIC} activate")
    lines += [f"  neighbor {each.interface} route-map {_out(each)} out" for each in router.neighbors if each.withheld]
    for observer in router.observers:
        peer = f"  neighbor {observer.address}"
        lines += [f"{peer} activate", f"{peer} route-map {_NOTHING} in"]
    return [*lines, " exit-address-family"]


def _tag(tagged: TaggedNetwork) -> str:
    return _tag_name(tagged.choices)


def _tag_name(choices: tuple[int, ...]) -> str:
    return "TAG-" + "-".join(map(str, choices))


def _tagging(choices: tuple[int, ...]) -> list[str]:
    """Return what gives a network its communities."""
    communities = " ".join(f"{FIRST_TAG + tier}:{number}" for tier, number in enumerate(choices))
    return [f"route-map {_tag_name(choices)} permit 10", f" set community {communities}", "exit", "!"]


def _up(neighbor: BgpNeighbor) -> str:
    return f"UP-{neighbor.interface}"


def _preferring(asn: int, neighbor: BgpNeighbor) -> list[str]:
    """Return what announces networks of other choices over an uplink as further away."""
    assert neighbor.choice is not None
    (tier, number), name = neighbor.choice, _up(neighbor)
    return [
        f"bgp community-list standard CHOICE-{tier}-{number} permit {FIRST_TAG + tier}:{number}",
        f"bgp community-list expanded TIER-{tier} permit {FIRST_TAG + tier}:[0-9]+",
        f"route-map {name} permit 10",
        f" match community CHOICE-{tier}-{number}",
        "exit",
        f"route-map {name} permit 20",
        f" match community TIER-{tier}",
        f" set as-path prepend {asn} {asn}",
        "exit",
        f"route-map {name} permit 30",
        "exit",
        "!",
    ]


def _out(neighbor: BgpNeighbor) -> str:
    return f"OUT-{neighbor.interface}"


def _withholding(neighbor: BgpNeighbor) -> list[str]:
    """Return what keeps the ids of other cables from being announced over one."""
    name = _out(neighbor)
    return [
        *(f"ipv6 prefix-list {name} seq {5 * n} permit {each}" for n, each in enumerate(neighbor.withheld, start=1)),
        f"route-map {name} deny 10",
        f" match ipv6 address prefix-list {name}",
        "exit",
        f"route-map {name} permit 20",
        "exit",
        "!",
    ]
