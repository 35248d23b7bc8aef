"""Fabric files: YAML or JSON, in the symmetric short form or the explicit one, parsed to a validated ``Fabric``."""

from __future__ import annotations

import itertools
import re
from collections.abc import Hashable, Iterable, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from controller.model.bonds import check_bonds
from controller.model.clos import MAX_LEAVES, clos
from controller.model.errors import InputError
from controller.model.fabric import Cable, Fabric, Host, Switch
from controller.model.fabric_forms import MAX_HOSTS_PER_LEAF, FabricForm, HostRow, LinkRow, SwitchRow
from controller.model.fabric_parts import PLURALS, ROLES
from controller.model.planes import check_planes
from controller.model.pod_clos import pod_clos, subnets_per_pod
from controller.model.short_form_hosts import conventional_ip, conventional_mac
from controller.model.unique_keys import check_yaml, json_document


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
            raise InputError("a fabric is a mapping with 'clos', 'three_tier' or 'switches'", value=document)
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
    given = [name for name in ("clos", "three_tier", "switches") if getattr(form, name) is not None]
    if len(given) != 1:
        raise InputError("give one of 'clos', 'three_tier' and 'switches'", field=given[0] if given else "clos")
    fabric = _explicit(form) if form.switches is not None else _short(form, given[0])
    for i, name in enumerate(form.failed):
        try:
            fabric = fabric.without_links([name])
        except KeyError:
            raise InputError("no switch or link has this name", field=f"failed[{i}]", value=name) from None
    return fabric


def _short(form: FabricForm, key: str) -> Fabric:
    short = form.clos or form.three_tier
    assert short is not None
    if form.hosts or form.links:
        raise InputError(
            f"not allowed with '{key}', which defines hosts and links", field="hosts" if form.hosts else "links"
        )
    if short.hosts_per_leaf > MAX_HOSTS_PER_LEAF:
        raise InputError(
            f"a leaf's /24 prefix holds at most {MAX_HOSTS_PER_LEAF} hosts",
            field=f"{key}.hosts_per_leaf",
            value=short.hosts_per_leaf,
        )
    # If a server were cut in two, it would be unknown which of its NICs are connected by NVLink.
    name, many = ("leaves", short.leaves) if short.rail_optimized else ("hosts_per_leaf", short.hosts_per_leaf)
    together = short.nics_per_server * (2 if short.dual_tor and short.rail_optimized else 1)
    if many % together:
        by = "it" if together == short.nics_per_server else "twice this"
        raise InputError(
            f"{key}.{name} is {many}, which cannot be divided evenly by {by}",
            field=f"{key}.nics_per_server",
            value=short.nics_per_server,
        )
    if short.dual_tor and short.leaves % 2:
        raise InputError(
            "with 'dual_tor', leaves are pairs, so their number is even", field=f"{key}.leaves", value=short.leaves
        )
    if short.bond and (short.dual_tor or short.planes == 1):
        why = "needs several planes" if short.planes == 1 else "is not supported with 'dual_tor'"
        raise InputError(f"a bond has one port in each network, so it {why}", field=f"{key}.bond", value=True)
    numbers = short.model_dump()
    if form.clos is not None:
        for many, what in ((short.leaves, "leaves"), (form.clos.spines, "spines")):
            if form.clos.planes * many > MAX_LEAVES:
                raise InputError(
                    f"there are ids for at most {MAX_LEAVES} {what}, not {form.clos.planes} x {many}",
                    field="clos.planes",
                    value=form.clos.planes,
                )
        return clos(**numbers)
    _check_room(numbers)
    return pod_clos(**numbers)


def _check_room(three_tier: dict[str, Any]) -> None:
    """Check that the ids and addresses of the short form of three layers suffice.

    Raises:
        InputError: they do not.
    """
    planes, leaves, aggs, cores = (three_tier[key] for key in ("planes", "leaves", "aggs", "cores_per_agg"))
    pods = planes * three_tier["pods"]
    if (pods + 1) * subnets_per_pod(leaves) > MAX_LEAVES + 1:
        raise InputError(
            f"{pods} pods of {leaves} leaves need more /24 prefixes than 10.0.0.0/8 has", field="three_tier.pods"
        )
    switches = ((pods * aggs, "aggregation switches", "aggs"), (planes * aggs * cores, "cores", "cores_per_agg"))
    for many, what, key in switches:
        if many > MAX_LEAVES:
            raise InputError(f"there are ids for at most {MAX_LEAVES} {what}, not {many}", field=f"three_tier.{key}")


def _explicit(form: FabricForm) -> Fabric:
    assert form.switches is not None
    roles = _roles(form.switches)
    layers = tuple(tuple(Switch(row.name, row.dpid) for row in form.switches if row.role == role) for role in roles)
    for role, layer in zip(roles, layers, strict=True):
        # A leaf-spine fabric may have no spine, but then no leaf has an uplink.
        if not layer and role != "spine":
            raise InputError(f"at least one {_SHOWN[role]} is required", field="switches")
    _unique("switches", "name", ((row.name, row.name) for row in form.switches))
    _unique("switches", "dpid", ((row.dpid, row.name) for row in form.switches))
    role_of: dict[str, str] = {row.name: row.role for row in form.switches}
    hosts = _hosts(form.hosts, [leaf.name for leaf in layers[0]], role_of)
    for i, host in enumerate(hosts):
        if host.name in role_of:
            raise InputError("a switch already has this name", field=f"hosts[{i}].name", value=host.name)
    cables = _cables(form.links, role_of, roles)
    wired = {cable.lower for cable in cables}
    for leaf in layers[0]:
        if leaf.name not in wired:
            raise InputError("this leaf has no uplink", field="links", value=leaf.name)
    _check_ports(hosts, cables)
    fabric = Fabric(layers, hosts, cables)
    _check_nics(fabric)
    return fabric


def _check_nics(fabric: Fabric) -> None:
    """Check that the names of NICs are not those of other parts, and that all have as many ports in each network.

    Raises:
        InputError: it is not so.
    """
    names = {host.name for host in fabric.hosts} | fabric.layer_of.keys()
    for i, host in enumerate(fabric.hosts):
        if host.nic in names:
            raise InputError("a host or switch already has this name", field=f"hosts[{i}].nic", value=host.nic)
    check_planes(fabric, fabric.planes, fabric.components_of_switches, fabric.host_leaf)
    check_bonds(fabric)


_SHOWN = {"leaf": "leaf", "spine": "spine", "aggregation": "aggregation switch", "core": "core"}


def _roles(rows: list[SwitchRow]) -> tuple[str, ...]:
    """Return the roles of the layers that a list of switches has, from the leaves up.

    Raises:
        InputError: there are spines beside aggregation switches or cores.
    """
    upper = {row.role for row in rows} - {"leaf"}
    if upper <= {"spine"}:
        return ROLES[2]
    for i, row in enumerate(rows):
        if row.role == "spine":
            other = next(other for other in rows if other.role in ("aggregation", "core"))
            raise InputError(
                f"{other.name} is {_A[other.role]}, so this fabric has aggregation switches and cores, but no spines",
                field=f"switches[{i}].role",
                value=row.name,
            )
    return ROLES[3]


_A = {role: f"{'an' if shown[0] == 'a' else 'a'} {shown}" for role, shown in _SHOWN.items()}


def _hosts(rows: list[HostRow], leaves: list[str], role_of: dict[str, str]) -> tuple[Host, ...]:
    number = {name: i for i, name in enumerate(leaves, start=1)}
    seated: dict[str, int] = {}
    mac_of: dict[tuple[str | None, str], str] = {}
    hosts = []
    for i, row in enumerate(rows):
        if row.leaf not in number:
            what = f"{_A[role_of[row.leaf]]} has no hosts" if row.leaf in role_of else "no leaf has this name"
            raise InputError(what, field=f"hosts[{i}].leaf", value=row.leaf)
        seat = seated[row.leaf] = seated.get(row.leaf, 0) + 1
        if (row.ip is None or row.mac is None) and seat > MAX_HOSTS_PER_LEAF:
            raise InputError(
                f"{row.leaf} has more hosts than its /24 prefix holds ({MAX_HOSTS_PER_LEAF}): give 'ip' and 'mac'",
                field=f"hosts[{i}]",
                value=row.name,
            )
        ip = str(row.ip) if row.ip is not None else conventional_ip(number[row.leaf], seat)
        # The ports of a bond share the address that one of them states.
        mac = row.mac or mac_of.get((row.nic, ip)) or conventional_mac(number[row.leaf], seat)
        if row.nic is not None:
            mac_of.setdefault((row.nic, ip), mac)
        hosts.append(
            Host(
                name=row.name,
                leaf=row.leaf,
                gbps=row.gbps,
                ip=ip,
                mac=mac,
                server=row.server or row.nic or row.name,
                rail=row.rail,
                port=row.port,
                up=row.up,
                nic=row.nic,
            )
        )
    _unique("hosts", "name", ((host.name, host.name) for host in hosts))
    for key in ("ip", "mac"):
        _unique("hosts", key, ((getattr(host, key), host.name) for host in hosts), [host.nic for host in hosts])
    return tuple(hosts)


def _cables(rows: list[LinkRow], role_of: dict[str, str], roles: tuple[str, ...]) -> tuple[Cable, ...]:
    layer = {role: number for number, role in enumerate(roles)}
    allowed = " or ".join(f"{_A[low]} and {_A[high]}" for low, high in itertools.pairwise(roles))
    cables = []
    for i, row in enumerate(rows):
        for key in ("a", "b"):
            name = getattr(row, key)
            if name not in role_of:
                raise InputError("no switch has this name", field=f"links[{i}].{key}", value=name)
        first, second = role_of[row.a], role_of[row.b]
        if abs(layer[first] - layer[second]) != 1:
            ends = f"two {PLURALS[first]}" if first == second else f"{_A[first]} and {_A[second]}"
            raise InputError(
                f"a link must connect {allowed}; this one connects {ends}",
                field=f"links[{i}]",
                value=f"{row.a}-{row.b}",
            )
        a_first = layer[first] < layer[second]
        cables.append(
            Cable(
                lower=row.a if a_first else row.b,
                upper=row.b if a_first else row.a,
                gbps=row.gbps,
                up=row.up,
                lower_port=row.a_port if a_first else row.b_port,
                upper_port=row.b_port if a_first else row.a_port,
            )
        )
    return tuple(cables)


def _unique(table: str, key: str, rows: Iterable[tuple[Hashable, str]], owners: Sequence[str | None] = ()) -> None:
    """Check that no value occurs twice, unless both have one owner."""
    seen: dict[Hashable, tuple[int, str]] = {}
    for i, (value, name) in enumerate(rows):
        if value in seen:
            other, first = seen[value]
            if owners and owners[i] is not None and owners[i] == owners[other]:
                continue
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
            {"name": switch.name, "role": role, "dpid": switch.dpid}
            for role, layer in zip(fabric.roles, fabric.layers, strict=True)
            for switch in layer
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
                **({} if h.nic is None else {"nic": h.nic}),
            }
            for h in fabric.hosts
        ],
        "links": [
            {"a": c.lower, "b": c.upper, "gbps": c.gbps, "up": c.up, "a_port": c.lower_port, "b_port": c.upper_port}
            for c in fabric.cables
        ],
    }
