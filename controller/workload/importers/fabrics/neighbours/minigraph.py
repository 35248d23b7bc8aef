"""SONiC's ``minigraph.xml``: one switch, its cables (``DeviceInterfaceLinks``) and what its neighbours are.

``Bandwidth`` is in Mbit/s. A link names both ends, in either order, and may be of another pair of devices, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree import ElementTree

from controller.model.errors import InputError
from controller.workload.importers.base import Source
from controller.workload.importers.documents import xml_document
from controller.workload.importers.fabrics.neighbours.kinds import is_switch_by_role, is_switch_port
from controller.workload.importers.fabrics.neighbours.reports import Reports, stem
from controller.workload.importers.fabrics.neighbours.speeds import from_mbps
from controller.workload.importers.head import Head

_ROOT = "DeviceMiniGraph"


def is_minigraph(head: Head) -> bool:
    """Return whether a file is a minigraph."""
    return head.is_xml and f"<{_ROOT}" in head.text[:4096]


def add_minigraph(reports: Reports, source: Source) -> None:
    """Add the cables of a switch.

    Raises:
        InputError: the file is not XML or no minigraph, or a link lacks an end.
    """
    root = _root(source)
    name = _text(root, "Hostname") or stem(source)
    reports.own.append(name)
    reports.is_switch[name] = True
    for device in _all(root, "Device"):
        kind = next((value for key, value in device.attrib.items() if key.rpartition("}")[2] == "type"), "")
        host, is_switch = _text(device, "Hostname"), is_switch_by_role(kind or _text(device, "ElementType"))
        if host and is_switch is not None:
            reports.is_switch[host] = is_switch
    links = [link for below in _all(root, "DeviceInterfaceLinks") for link in _all(below, "DeviceLinkBase")]
    for number, link in enumerate(links):
        where = f"DeviceInterfaceLinks.DeviceLinkBase[{number}]"
        parts = [_text(link, key) for key in ("StartDevice", "StartPort", "EndDevice", "EndPort")]
        if not all(parts):
            raise InputError("lacks StartDevice, StartPort, EndDevice or EndPort", source=source.name, field=where)
        start, end = (parts[0], parts[1]), (parts[2], parts[3])
        for node, port in (start, end):
            reports.is_switch.setdefault(node, is_switch_port(port))
        here, there = (start, end) if start[0] == name else (end, start)
        reports.cable(here, there, from_mbps(_text(link, "Bandwidth"), source, f"{where}.Bandwidth"))


def _root(source: Source) -> ElementTree.Element:
    root = xml_document(source)
    if _tag(root) != _ROOT:
        raise InputError(f"is not a minigraph (<{_ROOT}>)", source=source.name, value=_tag(root))
    return root


def _tag(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2]


def _all(element: ElementTree.Element, tag: str) -> Iterator[ElementTree.Element]:
    """Yield the elements of a tag in any namespace."""
    return (below for below in element.iter() if _tag(below) == tag)


def _text(element: ElementTree.Element, tag: str) -> str:
    """Return the text of a child; empty: there is none."""
    return next(((below.text or "").strip() for below in element if _tag(below) == tag), "")
