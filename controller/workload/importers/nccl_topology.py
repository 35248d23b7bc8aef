"""NCCL's topology files (XML, ``NCCL_TOPO_FILE``): the nearest NIC of each GPU in a server.

A server is a tree of CPUs, PCI bridges and devices. GPUs are ``<gpu>`` or PCI devices of class 0x03, NICs are ``<nic>``
or PCI devices of class 0x02 (PCI Code and ID Assignment Specification). A GPU's NIC is one below the same bridge as far
down as possible; GPUs with several such NICs in common take them in turn. GPUs are in order of ``dev`` or of their bus
addresses, as CUDA numbers them, and so are NICs.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from controller.model.errors import InputError
from controller.workload.importers.base import Source
from controller.workload.importers.documents import xml_document
from controller.workload.importers.streams import open_sources

MAX_SIZE = 16 << 20


@dataclass(frozen=True)
class Rails:
    """The rail of each GPU (``nic[g]``), of ``n_nics`` rails."""

    nic: tuple[int, ...]
    n_nics: int


@dataclass(frozen=True)
class _Device:
    key: tuple[int, str]
    above: tuple[int, ...]  # numbers of the nodes above it, from the root down


def load_rails(path: str | Path) -> Rails:
    """Read the rails of a topology file.

    Raises:
        InputError: the file is not a topology, or has no GPU or no NIC.
    """
    (source, *more) = open_sources([path])
    if more:
        raise InputError("is an archive of several files", source=str(path))
    return parse_rails(source)


def parse_rails(source: Source) -> Rails:
    """Parse the rails of a topology; see ``load_rails``."""
    root = xml_document(source, MAX_SIZE)
    if root.tag != "system":
        raise InputError("is not an NCCL topology (<system>)", source=source.name, value=root.tag)
    gpus: list[_Device] = []
    nics: list[_Device] = []
    _walk(root, (), gpus, nics)
    if not gpus or not nics:
        raise InputError(f"has {len(gpus)} GPUs and {len(nics)} NICs", source=source.name)
    gpus.sort(key=lambda device: device.key)
    nics.sort(key=lambda device: device.key)
    return Rails(_nearest(gpus, nics), len(nics))


def _walk(node: ElementTree.Element, above: tuple[int, ...], gpus: list[_Device], nics: list[_Device]) -> None:
    """Collect devices in document order; a device within a device counts once."""
    stack = [(node, above)]
    number = 0
    while stack:
        node, above = stack.pop()
        number += 1
        kind, inner = node.get("class", ""), {child.tag for child in node}
        is_gpu = node.tag == "pci" and (kind.startswith("0x03") or "gpu" in inner)
        is_nic = node.tag == "pci" and (kind.startswith("0x02") or "nic" in inner)
        if is_gpu or is_nic:
            device = node.find(".//gpu" if is_gpu else ".//net")
            device_number = device.get("dev", "") if device is not None else ""
            key = int(device_number) if device_number.isdigit() else -1, node.get("busid", "").lower()
            (gpus if is_gpu else nics).append(_Device(key, above))
            continue
        stack += [(child, (*above, number)) for child in reversed(node)]


def _nearest(gpus: list[_Device], nics: list[_Device]) -> tuple[int, ...]:
    used = [0] * len(nics)
    chosen = []
    for gpu in gpus:
        shared = [sum(1 for a, b in zip(gpu.above, nic.above, strict=False) if a == b) for nic in nics]
        best = min(range(len(nics)), key=lambda i: (-shared[i], used[i], i))
        used[best] += 1
        chosen.append(best)
    return tuple(chosen)
