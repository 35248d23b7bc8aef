"""The forms of fabric files: which keys they have, and which values."""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv6Address, IPv6Network
from typing import Annotated, Any, Literal, NotRequired

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, with_config
from pydantic_core import PydanticCustomError
from typing_extensions import TypedDict

from controller.model.fabric_parts import SwitchKind
from controller.model.files.clos import MAX_LEAVES
from controller.model.texts.text_form import text_form

MAX_HOSTS_PER_LEAF = 250
"""Most hosts in a leaf's conventional /24, with room for a gateway and the broadcast address."""

Name = Annotated[
    str,
    text_form(
        r"^[A-Za-z0-9._]([A-Za-z0-9._-]{0,62})$", "1 to 63 letters, digits, ., _ and -, and must not begin with -"
    ),
]
MAX_GBPS = 1e6
"""Most Gbit/s of a cable or NIC."""

Gbps = Annotated[float, Field(gt=0, le=MAX_GBPS, allow_inf_nan=False)]
Port = Annotated[int, Field(ge=1, lt=0xFFFFFF00)]
Mac = Annotated[
    str, text_form(r"^[0-9a-f]{2}(:[0-9a-f]{2}){5}$", "a MAC address such as 02:00:00:00:00:01", to_lower=True)
]


_OCTET = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_USUAL_IPV4 = re.compile(rf"{_OCTET}(?:\.{_OCTET}){{3}}", re.ASCII).fullmatch


def _ipv4(value: Any) -> str:
    """Return an address as text. What is written as usual needs no ``IPv4Address``, which takes 20 times as long.

    Raises:
        PydanticCustomError: it is no address.
    """
    if type(value) is str and _USUAL_IPV4(value):
        return value
    try:
        return str(IPv4Address(value))
    except ValueError:
        raise PydanticCustomError("ip_v4_address", "Input is not a valid IPv4 address") from None


def _host_address(value: Any) -> str:
    """Return an address of either version as text in its usual spelling, by which addresses are compared.

    Raises:
        PydanticCustomError: it is none, or none of a single host in the whole fabric.
    """
    if type(value) is not str or ":" not in value:
        return _ipv4(value)
    try:
        address = IPv6Address(value)
    except ValueError:
        raise PydanticCustomError("ip_v6_address", "Input is not a valid IPv6 address") from None
    local = address.is_link_local or address.is_loopback or address.scope_id is not None
    if local or address.is_unspecified or address.is_multicast or address.ipv4_mapped is not None:
        raise PydanticCustomError("host_address", "Input is not an address of one host in the whole fabric")
    return str(address)


HostAddress = Annotated[str, PlainValidator(_host_address)]


def _locator(value: Any) -> str:
    """Return a locator in its usual spelling.

    Raises:
        PydanticCustomError: it is no IPv6 prefix.
    """
    try:
        return str(IPv6Network(value))
    except (ValueError, TypeError):
        raise PydanticCustomError("ip_v6_network", "Input is not a valid IPv6 prefix") from None


Locator = Annotated[str, PlainValidator(_locator)]
INTERFACE_PATTERN = r"^[A-Za-z0-9._/:@-]{1,63}$"
Interface = Annotated[str, text_form(INTERFACE_PATTERN, "1 to 63 letters, digits and ._/:@-")]


LEAST_TENANT_WEIGHT, MOST_TENANT_WEIGHT = 1e-3, 1e3
TenantWeight = Annotated[float, Field(ge=LEAST_TENANT_WEIGHT, le=MOST_TENANT_WEIGHT, allow_inf_nan=False)]


class _Strict(BaseModel):
    # The form of the whole file has those of its parts in it: none of these is needed alone.
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class ShortForm(_Strict):
    """The common part of the short forms; the numbers of switches are those of a plane."""

    leaves: Annotated[int, Field(ge=1, le=MAX_LEAVES)]
    hosts_per_leaf: Annotated[int, Field(ge=1)]
    host_gbps: Gbps = 100.0
    uplink_gbps: Gbps = 100.0
    parallel: Annotated[int, Field(ge=1, le=64)] = 1
    planes: Annotated[int, Field(ge=1, le=64)] = 1
    dual_tor: bool = False
    nics_per_server: Annotated[int, Field(ge=1, le=64)] = 1
    rail_optimized: bool = False
    bond: bool = False


class ClosForm(ShortForm):
    """The short form of two layers: a healthy symmetric Clos fabric; ``leaves`` and ``spines`` are those of a plane."""

    spines: Annotated[int, Field(ge=1, le=4096)]


class PodClosForm(ShortForm):
    """The short form of three layers; ``leaves`` and ``aggs`` are those of a pod."""

    pods: Annotated[int, Field(ge=1, le=4096)]
    aggs: Annotated[int, Field(ge=1, le=4096)]
    cores_per_agg: Annotated[int, Field(ge=1, le=4096)]
    core_gbps: Gbps = 100.0
    core_parallel: Annotated[int, Field(ge=1, le=64)] = 1


# Rows of the explicit form are dictionaries: a large file has hundreds of thousands, and models take twice the time.
# Their keys are strict as those of the models.
_ROW = ConfigDict(extra="forbid")


@with_config(_ROW)
class SwitchRow(TypedDict):
    """A switch of the explicit form. One that speaks OpenFlow has a ``dpid``, a router has none."""

    name: Name
    role: Literal["leaf", "spine", "aggregation", "core"]
    kind: NotRequired[SwitchKind]
    dpid: NotRequired[Annotated[int, Field(ge=1, lt=1 << 64)]]
    locator: NotRequired[Locator | None]
    addresses: NotRequired[list[HostAddress]]


@with_config(_ROW)
class HostRow(TypedDict):
    """A host of the explicit form; missing addresses are the conventional ones."""

    name: Name
    leaf: str
    gbps: NotRequired[Gbps]
    ip: NotRequired[HostAddress | None]
    mac: NotRequired[Mac | None]
    server: NotRequired[Name | None]
    rail: NotRequired[Annotated[int, Field(ge=0)]]
    port: NotRequired[Port | None]
    up: NotRequired[bool]
    nic: NotRequired[Name | None]
    interface: NotRequired[Interface | None]


@with_config(_ROW)
class LinkRow(TypedDict):
    """A cable between two switches of the explicit form, with its ports and what the switches call them."""

    a: str
    b: str
    gbps: NotRequired[Gbps]
    up: NotRequired[bool]
    a_port: NotRequired[Port | None]
    b_port: NotRequired[Port | None]
    a_interface: NotRequired[Interface | None]
    b_interface: NotRequired[Interface | None]


class FabricForm(_Strict):
    """The whole file; exactly one of ``clos``, ``three_tier`` and ``switches`` is given. ``tenants``: their weights."""

    clos: ClosForm | None = None
    three_tier: PodClosForm | None = None
    switches: list[SwitchRow] | None = None
    hosts: list[HostRow] = []
    links: list[LinkRow] = []
    failed: list[str] = []
    tenants: dict[Name, TenantWeight] = {}
