"""Fabric files: YAML or JSON, in the symmetric short form or the explicit one, parsed to a validated ``Fabric``."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable
from ipaddress import IPv4Address
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from controller.model.clos import SPINE_DPID, clos, conventional_ip, conventional_mac
from controller.model.errors import InputError
from controller.model.fabric import Cable, Fabric, Host, Switch
from controller.model.unique_keys import check_yaml, json_document

MAX_HOSTS_PER_LEAF = 250
"""Most hosts in a leaf's conventional /24, with room for a gateway and the broadcast address."""

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._]([A-Za-z0-9._-]{0,62})$")]
Gbps = Annotated[float, Field(gt=0, le=1_000_000, allow_inf_nan=False)]
Port = Annotated[int, Field(ge=1, lt=0xFFFFFF00)]
Mac = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{2}(:[0-9a-f]{2}){5}$", to_lower=True)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ClosForm(_Strict):
    """The short form: a healthy symmetric Clos fabric."""

    spines: Annotated[int, Field(ge=1, le=4096)]
    leaves: Annotated[int, Field(ge=1, le=SPINE_DPID - 1)]
    hosts_per_leaf: Annotated[int, Field(ge=1)]
    host_gbps: Gbps = 100.0
    uplink_gbps: Gbps = 100.0
    parallel: Annotated[int, Field(ge=1, le=64)] = 1
    nics_per_server: Annotated[int, Field(ge=1, le=64)] = 1
    rail_optimized: bool = False


class SwitchRow(_Strict):
    """A switch of the explicit form."""

    name: Name
    role: Literal["leaf", "spine"]
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


class LinkRow(_Strict):
    """A leaf-spine cable of the explicit form, with its ports."""

    a: str
    b: str
    gbps: Gbps = 100.0
    up: bool = True
    a_port: Port | None = None
    b_port: Port | None = None


class FabricForm(_Strict):
    """The whole file; exactly one of ``clos`` and ``switches`` is given."""

    clos: ClosForm | None = None
    switches: list[SwitchRow] | None = None
    hosts: list[HostRow] = []
    links: list[LinkRow] = []
    failed: list[str] = []


def load_fabric(path: str | Path) -> Fabric:
    """Read a fabric file.

    Raises:
        InputError: the file cannot be read or is invalid; one line that names file, field and value.
    """
    return parse_fabric(read_document(path), source=str(path))


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    def get_single_node(self) -> Any:
        """Return the root node; two equal keys in one mapping (YAML 1.2, section 3.2.1.3) are an error."""
        node = super().get_single_node()
        check_yaml(node)
        return node


class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    pass


for _class in (_Loader, _Dumper):
    # To YAML 1.1, which PyYAML reads, 1e9 is text; to YAML 1.2 it is a number (section 10.3.2).
    _class.add_implicit_resolver(
        "tag:yaml.org,2002:float",
        re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)[eE][-+]?[0-9]+$"),
        list("-+.0123456789"),
    )


def read_document(path: str | Path) -> Any:
    """Read a YAML or JSON file as plain Python data (JSON is tried first: it is much faster on large files)."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", source=str(path)) from None
    except UnicodeDecodeError:
        raise InputError("is not UTF-8 text", source=str(path)) from None
    try:
        return json_document(text)
    except InputError as error:
        raise error.with_source(str(path)) from None
    except RecursionError:
        # The YAML parser would overflow the stack.
        raise InputError("is nested too deep", source=str(path)) from None
    except ValueError:
        pass
    try:
        return yaml.load(text, Loader=_Loader)
    except InputError as error:
        raise error.with_source(str(path)) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}" if mark else ""
        reason = f"is neither JSON nor YAML: {getattr(error, 'problem', None) or 'cannot be parsed'}"
        raise InputError(reason, field=where, source=str(path)) from None


def yaml_of(document: Any) -> str:
    """Return plain data as YAML; ``read_document`` reads the same data back."""
    text: str = yaml.dump(document, Dumper=_Dumper, sort_keys=False, default_flow_style=None)
    return text


def parse_fabric(document: Any, *, source: str = "") -> Fabric:
    """Parse a fabric from the plain data of a file or request.

    Raises:
        InputError: the first error found.
    """
    try:
        if not isinstance(document, dict):
            raise InputError("a fabric is a mapping with 'clos' or 'switches'", value=document)
        try:
            form = FabricForm.model_validate(document)
        except ValidationError as error:
            raise from_validation_error(error) from None
        return _build(form)
    except InputError as error:
        raise error.with_source(source) from None


def from_validation_error(error: ValidationError) -> InputError:
    """Convert the first error of pydantic to an ``InputError``."""
    first = error.errors(include_url=False)[0]
    field = ""
    for part in first["loc"]:
        field += f"[{part}]" if isinstance(part, int) else (f".{part}" if field else str(part))
    reason = "unknown key" if first["type"] == "extra_forbidden" else first["msg"]
    reason = reason.removeprefix("Value error, ")
    # Pydantic names our classes, which no reader of a file knows.
    reason = re.sub(r"^Input should be (a valid dictionary.*|an object)$", "input should be a mapping", reason)
    value = None if first["type"] == "missing" else first["input"]
    return InputError(reason[:1].lower() + reason[1:], field=field, value=value)


def _build(form: FabricForm) -> Fabric:
    if (form.clos is None) == (form.switches is None):
        raise InputError("give either 'clos' or 'switches', not both", field="clos")
    fabric = _short(form) if form.clos is not None else _explicit(form)
    for i, name in enumerate(form.failed):
        try:
            fabric = fabric.without_links([name])
        except KeyError:
            raise InputError("no switch or link has this name", field=f"failed[{i}]", value=name) from None
    return fabric


def _short(form: FabricForm) -> Fabric:
    assert form.clos is not None
    if form.hosts or form.links:
        raise InputError(
            "not allowed with 'clos', which defines hosts and links", field="hosts" if form.hosts else "links"
        )
    short = form.clos
    if short.hosts_per_leaf > MAX_HOSTS_PER_LEAF:
        raise InputError(
            f"a leaf's /24 prefix holds at most {MAX_HOSTS_PER_LEAF} hosts",
            field="clos.hosts_per_leaf",
            value=short.hosts_per_leaf,
        )
    # If a server were cut in two, it would be unknown which of its NICs are connected by NVLink.
    name, many = ("leaves", short.leaves) if short.rail_optimized else ("hosts_per_leaf", short.hosts_per_leaf)
    if many % short.nics_per_server:
        raise InputError(
            f"clos.{name} is {many}, which cannot be divided evenly by it",
            field="clos.nics_per_server",
            value=short.nics_per_server,
        )
    return clos(
        short.spines,
        short.leaves,
        short.hosts_per_leaf,
        host_gbps=short.host_gbps,
        uplink_gbps=short.uplink_gbps,
        parallel=short.parallel,
        nics_per_server=short.nics_per_server,
        rail_optimized=short.rail_optimized,
    )


def _explicit(form: FabricForm) -> Fabric:
    assert form.switches is not None
    leaves = tuple(Switch(row.name, row.dpid) for row in form.switches if row.role == "leaf")
    spines = tuple(Switch(row.name, row.dpid) for row in form.switches if row.role == "spine")
    if not leaves:
        raise InputError("at least one leaf is required", field="switches")
    _unique("switches", "name", ((row.name, row.name) for row in form.switches))
    _unique("switches", "dpid", ((row.dpid, row.name) for row in form.switches))
    hosts = _hosts(form.hosts, [leaf.name for leaf in leaves], {spine.name for spine in spines})
    taken = {row.name for row in form.switches}
    for i, host in enumerate(hosts):
        if host.name in taken:
            raise InputError("a switch already has this name", field=f"hosts[{i}].name", value=host.name)
    cables = _cables(form.links, {leaf.name for leaf in leaves}, {spine.name for spine in spines})
    wired = {cable.lower for cable in cables}
    for leaf in leaves:
        if leaf.name not in wired:
            raise InputError("this leaf has no uplink", field="links", value=leaf.name)
    _check_ports(hosts, cables)
    return Fabric((leaves, spines), hosts, cables)


def _hosts(rows: list[HostRow], leaves: list[str], spines: set[str]) -> tuple[Host, ...]:
    number = {name: i for i, name in enumerate(leaves, start=1)}
    seated: dict[str, int] = {}
    hosts = []
    for i, row in enumerate(rows):
        if row.leaf not in number:
            what = "a spine has no hosts" if row.leaf in spines else "no leaf has this name"
            raise InputError(what, field=f"hosts[{i}].leaf", value=row.leaf)
        seat = seated[row.leaf] = seated.get(row.leaf, 0) + 1
        if (row.ip is None or row.mac is None) and seat > MAX_HOSTS_PER_LEAF:
            raise InputError(
                f"{row.leaf} has more hosts than its /24 prefix holds ({MAX_HOSTS_PER_LEAF}): give 'ip' and 'mac'",
                field=f"hosts[{i}]",
                value=row.name,
            )
        hosts.append(
            Host(
                name=row.name,
                leaf=row.leaf,
                gbps=row.gbps,
                ip=str(row.ip) if row.ip is not None else conventional_ip(number[row.leaf], seat),
                mac=row.mac or conventional_mac(number[row.leaf], seat),
                server=row.server or row.name,
                rail=row.rail,
                port=row.port,
                up=row.up,
            )
        )
    for key in ("name", "ip", "mac"):
        _unique("hosts", key, ((getattr(host, key), host.name) for host in hosts))
    return tuple(hosts)


def _cables(rows: list[LinkRow], leaves: set[str], spines: set[str]) -> tuple[Cable, ...]:
    cables = []
    for i, row in enumerate(rows):
        for key in ("a", "b"):
            name = getattr(row, key)
            if name not in leaves and name not in spines:
                raise InputError("no switch has this name", field=f"links[{i}].{key}", value=name)
        ends = f"{row.a}-{row.b}"
        if row.a in leaves and row.b in leaves:
            raise InputError(
                "a link must connect a leaf and a spine; this one connects two leaves", field=f"links[{i}]", value=ends
            )
        if row.a in spines and row.b in spines:
            raise InputError(
                "a link must connect a leaf and a spine; this one connects two spines", field=f"links[{i}]", value=ends
            )
        leaf_first = row.a in leaves
        cables.append(
            Cable(
                lower=row.a if leaf_first else row.b,
                upper=row.b if leaf_first else row.a,
                gbps=row.gbps,
                up=row.up,
                lower_port=row.a_port if leaf_first else row.b_port,
                upper_port=row.b_port if leaf_first else row.a_port,
            )
        )
    return tuple(cables)


def _unique(table: str, key: str, rows: Iterable[tuple[Hashable, str]]) -> None:
    seen: dict[Hashable, tuple[int, str]] = {}
    for i, (value, name) in enumerate(rows):
        if value in seen:
            other, first = seen[value]
            who = f"{first} and {name} have the same {key}" if key != "name" else f"{table}[{other}] has the same name"
            raise InputError(who, field=f"{table}[{i}].{key}", value=value)
        seen[value] = (i, name)


def _check_ports(hosts: tuple[Host, ...], cables: tuple[Cable, ...]) -> None:
    seen: dict[tuple[str, int], str] = {}
    used: list[tuple[str, int | None, str]] = [(h.leaf, h.port, h.name) for h in hosts]
    for c in cables:
        used += [(c.lower, c.lower_port, c.upper), (c.upper, c.upper_port, c.lower)]
    for switch, port, peer in used:
        if port is None:
            continue
        if (switch, port) in seen:
            raise InputError(f"port {port} of {switch} leads to both {seen[switch, port]} and {peer}", field="links")
        seen[switch, port] = peer


def fabric_document(fabric: Fabric) -> dict[str, Any]:
    """Return the explicit form of a fabric as plain data; ``parse_fabric`` gives an equal fabric back."""
    return {
        "switches": [
            *({"name": s.name, "role": "leaf", "dpid": s.dpid} for s in fabric.leaves),
            *({"name": s.name, "role": "spine", "dpid": s.dpid} for s in fabric.spines),
        ],
        "hosts": [
            {
                "name": h.name,
                "leaf": h.leaf,
                "gbps": h.gbps,
                "ip": h.ip,
                "mac": h.mac,
                "server": h.server,
                "rail": h.rail,
                "port": h.port,
                "up": h.up,
            }
            for h in fabric.hosts
        ],
        "links": [
            {"a": c.lower, "b": c.upper, "gbps": c.gbps, "up": c.up, "a_port": c.lower_port, "b_port": c.upper_port}
            for c in fabric.cables
        ],
    }
