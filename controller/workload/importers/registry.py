"""The formats by name. A new one is a module with a function ``read`` and a line here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import cast

from controller.model.errors import InputError
from controller.workload.importers.base import Importer


@dataclass(frozen=True)
class Format:
    """A format of files that people have.

    Attributes:
        module: below ``controller.workload.importers``; its ``read`` is the ``Importer``.
        text: whether its files are text, which can be part of a JSON request.
        summary: for help texts.
    """

    module: str
    text: bool
    summary: str


FORMATS: Mapping[str, Format] = {
    "nccl": Format("nccl", True, "logs of NCCL_DEBUG=INFO, with NCCL Inspector's JSON where there is one"),
    "htsim": Format("htsim", True, "htsim connection matrices (.cm) and topologies (.topo)"),
    "aicb": Format("aicb", True, "SimAI and AICB workloads"),
    "chakra": Format("chakra", False, "MLCommons Chakra (.et) and PyTorch execution traces"),
    "traffic-pairs": Format("traffic_pairs", True, "traffic files of dcn-simulators"),
}


def importer(name: str) -> Importer:
    """The importer of a format; modules are imported when they are asked for, because a command must start quickly.

    Raises:
        InputError: there is no such format.
    """
    if name not in FORMATS:
        raise InputError(f"no format has this name; there are {', '.join(FORMATS)}", field="format", value=name)
    module = import_module(f"controller.workload.importers.{FORMATS[name].module}")
    return cast(Importer, module.read)
