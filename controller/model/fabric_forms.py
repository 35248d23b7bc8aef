"""The forms of fabric files: which keys they have, and which values."""

from __future__ import annotations

from ipaddress import IPv4Address
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from controller.model.clos import MAX_LEAVES

MAX_HOSTS_PER_LEAF = 250
"""Most hosts in a leaf's conventional /24, with room for a gateway and the broadcast address."""

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._]([A-Za-z0-9._-]{0,62})$")]
Gbps = Annotated[float, Field(gt=0, le=1_000_000, allow_inf_nan=False)]
Port = Annotated[int, Field(ge=1, lt=0xFFFFFF00)]
Mac = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{2}(:[0-9a-f]{2}){5}$", to_lower=True)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


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


class SwitchRow(_Strict):
    """A switch of the explicit form."""

    name: Name
    role: Literal["leaf", "spine", "aggregation", "core"]
    dpid: Annotated[int, Field(ge=1, lt=1 << 64)]


class HostRow(_Strict):
    """A host of the explicit form; missing addresses are the conventional ones."""

    name: Name
    leaf: str
    gbps: Gbps = 100.0
    ip: IPv4Address | None = None
    mac: Mac | None = None
    server: Name | None = None
    rail: Annotated[int, Field(ge=0)] = 0
    port: Port | None = None
    up: bool = True
    nic: Name | None = None


class LinkRow(_Strict):
    """A cable between two switches of the explicit form, with its ports."""

    a: str
    b: str
    gbps: Gbps = 100.0
    up: bool = True
    a_port: Port | None = None
    b_port: Port | None = None


class FabricForm(_Strict):
    """The whole file; exactly one of ``clos``, ``three_tier`` and ``switches`` is given."""

    clos: ClosForm | None = None
    three_tier: PodClosForm | None = None
    switches: list[SwitchRow] | None = None
    hosts: list[HostRow] = []
    links: list[LinkRow] = []
    failed: list[str] = []
