"""Fabric files: YAML or JSON, in the symmetric short form or the explicit one, parsed to a validated ``Fabric``."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import orjson
import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from controller.model.errors import InputError
from controller.model.fabric import Fabric, Switch
from controller.model.files.clos import MAX_LEAVES, clos
from controller.model.files.explicit_form import explicit_fabric
from controller.model.files.fabric_forms import MAX_HOSTS_PER_LEAF, FabricForm
from controller.model.files.pod_clos import pod_clos, subnets_per_pod
from controller.model.files.unique_keys import check_unique, check_yaml, json_document
from controller.model.files.yaml_aliases import check_aliases
from controller.model.tenant import Tenant
from controller.model.texts.text_form import in_words

LARGE_FILE = 1 << 20
"""Bytes from which JSON is parsed by orjson: faster, but integers beyond 64 bits become floating-point numbers."""


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
        check_aliases(node)
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
    """Read a YAML or JSON file as plain Python data (JSON is tried first: it is much faster on large files).

    Raises:
        InputError: it cannot be read, is neither, or has a key twice in one mapping.
    """
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", source=str(path)) from None
    try:
        return _plain_data(data)
    except InputError as error:
        raise error.with_source(str(path)) from None


def _plain_data(data: bytes) -> Any:
    if len(data) >= LARGE_FILE:
        try:
            document = orjson.loads(data)
            check_unique(data, document)
            return document
        except orjson.JSONDecodeError:
            # It may be YAML, or JSON with what RFC 8259 does not have (NaN).
            pass
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise InputError("is not UTF-8 text") from None
    try:
        return json_document(text)
    except InputError:
        raise
    except RecursionError:
        # The YAML parser would overflow the stack.
        raise InputError("is nested too deep") from None
    except ValueError:
        pass
    try:
        return yaml.load(text, Loader=_Loader)
    except InputError:
        raise
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}" if mark else ""
        reason = f"is neither JSON nor YAML: {getattr(error, 'problem', None) or 'cannot be parsed'}"
        raise InputError(reason, field=where) from None


def yaml_of(document: Any) -> str:
    """Return plain data as YAML; ``read_document`` reads the same data back."""
    text: str = yaml.dump(document, Dumper=_Dumper, sort_keys=False, default_flow_style=None)
    return text


class OpticalFabricError(InputError):
    """A file describes optical circuits, where packet switches are needed."""


def parse_fabric(document: Any, *, source: str = "") -> Fabric:
    """Parse a fabric from the plain data of a file or request.

    Raises:
        InputError: the first error found.
    """
    try:
        if not isinstance(document, dict):
            raise InputError("a fabric is a mapping with 'clos', 'three_tier' or 'switches'", value=document)
        if "optical" in document:
            # Not a fabric of packet switches: nothing beyond this line needs to know that there are others.
            raise OpticalFabricError(
                "is a fabric of optical circuits, which only 'topology', 'compare', 'replay' and 'simulate' can use",
                field="optical",
            )
        try:
            form = FabricForm.model_validate(document)
        except ValidationError as error:
            raise from_validation_error(error, document) from None
        return _build(form)
    except InputError as error:
        raise error.with_source(source) from None


def from_validation_error(error: ValidationError, document: object = None) -> InputError:
    """Convert the first error of pydantic to an ``InputError``.

    Where a value may have one of several forms, pydantic has an error of each, with the name of the form in the place.
    The one that is deepest in ``document`` counts, without that name.

    Args:
        error: what pydantic found.
        document: what it was found in, if that is at hand; else fields are as pydantic has them.
    """
    errors = error.errors(include_url=False)
    places = [_place(each, document) for each in errors]
    # All errors within the value of the first one are of other forms of this value.
    within = [i for i, place in enumerate(places) if place[: len(places[0])] == places[0]]
    deepest = max(within, key=lambda i: len(places[i]))
    first = errors[deepest]
    field = ""
    for part in places[deepest]:
        field += f"[{part}]" if isinstance(part, int) else (f".{part}" if field else str(part))
    reason = "unknown key" if first["type"] == "extra_forbidden" else first["msg"]
    if first["type"] == "string_pattern_mismatch":
        reason = in_words(first["ctx"]["pattern"])
    reason = reason.removeprefix("Value error, ").replace(" after validation, not ", ", not ")
    # Pydantic names our classes, which no reader of a file knows.
    reason = re.sub(r"^Input should be (a valid dictionary.*|an object)$", "input should be a mapping", reason)
    value = None if first["type"] == "missing" else first["input"]
    return InputError(reason[:1].lower() + reason[1:], field=field, value=value)


def _place(error: ErrorDetails, document: object) -> tuple[int | str, ...]:
    """Return the keys and positions that lead to the value in the document; pydantic has names of forms among them."""
    if document is None:
        return error["loc"]
    place: list[int | str] = []
    here: object = document
    last = len(error["loc"]) - 1
    for i, part in enumerate(error["loc"]):
        keys = {str(key): key for key in here} if isinstance(here, dict) else {}
        if str(part) in keys:
            here = here[keys[str(part)]]  # type: ignore[index]
        elif isinstance(here, list | tuple) and isinstance(part, int) and part < len(here):
            here = here[part]
        elif not (error["type"] == "missing" and i == last):
            continue
        place.append(part)
    return tuple(place)


def _build(form: FabricForm) -> Fabric:
    given = [name for name in ("clos", "three_tier", "switches") if getattr(form, name) is not None]
    if len(given) != 1:
        raise InputError("give one of 'clos', 'three_tier' and 'switches'", field=given[0] if given else "clos")
    fabric = (
        explicit_fabric(form.switches, form.hosts, form.links) if form.switches is not None else _short(form, given[0])
    )
    for i, name in enumerate(form.failed):
        try:
            fabric = fabric.without_links([name])
        except KeyError:
            raise InputError("no switch or link has this name", field=f"failed[{i}]", value=name) from None
    if not form.tenants:
        return fabric
    return dataclasses.replace(fabric, tenants=tuple(Tenant(*each) for each in form.tenants.items()))


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


def kind_document(switch: Switch) -> dict[str, Any]:
    """Return what a row of a switch has by its kind."""
    return {"dpid": switch.dpid} if switch.kind == "openflow" else {"kind": switch.kind}


def _given(**values: Any) -> dict[str, Any]:
    """Return the values that are not ``None``."""
    return {name: value for name, value in values.items() if value is not None}


def fabric_document(fabric: Fabric) -> dict[str, Any]:
    """Return the explicit form of a fabric as plain data; ``parse_fabric`` gives an equal fabric back."""
    return {
        "switches": [
            {
                "name": switch.name,
                "role": role,
                **kind_document(switch),
                **_given(locator=switch.locator, addresses=list(switch.addresses) or None),
            }
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
                **_given(nic=h.nic, interface=h.interface),
            }
            for h in fabric.hosts
        ],
        "links": [
            {
                "a": c.lower,
                "b": c.upper,
                "gbps": c.gbps,
                "up": c.up,
                "a_port": c.lower_port,
                "b_port": c.upper_port,
                **_given(a_interface=c.lower_interface, b_interface=c.upper_interface),
            }
            for c in fabric.cables
        ],
        **({"tenants": {tenant.name: tenant.weight for tenant in fabric.tenants}} if fabric.tenants else {}),
    }
