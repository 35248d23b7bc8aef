"""The formats by name: those of the project, and those of plug-ins.

A format is a module with a function ``read`` (an ``Importer``) and, if its files can be recognised, a function
``looks_like`` that takes a ``Head``. A format of the project is a line of ``FORMATS``; another project's
is an entry point of the group ``fairspine.importers`` whose name is the format's and whose value is such a module. It
may have ``TEXT``, whether its files are text, which can be part of a JSON request.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, wraps
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType
from typing import cast

from controller.model.errors import InputError
from controller.workload.importers.base import Imported, Importer, ImportRequest, Source
from controller.workload.importers.head import UTF16, head_of
from controller.workload.importers.protocols import with_protocol

GROUP = "fairspine.importers"
"""The group of the entry points of plug-ins."""

_HERE = "controller.workload.importers"


@dataclass(frozen=True)
class FileFormat:
    """A format of other tools' files.

    Attributes:
        module: below ``controller.workload.importers``; its ``read`` is the ``Importer``.
        text: whether its files are text, which can be part of a JSON request.
        summary: for help texts.
        entry: the entry point of a plug-in's format.
    """

    module: str
    text: bool
    summary: str
    entry: EntryPoint | None = None

    def load(self) -> ModuleType:
        """Import the module of the format at its first use, because a command must start quickly."""
        if self.entry is None:
            return import_module(f"{_HERE}.{self.module}")
        return cast(ModuleType, _loaded(self.entry))


FORMATS: Mapping[str, FileFormat] = {
    "nccl": FileFormat("nccl", True, "logs of NCCL_DEBUG=INFO (NCCL, RCCL), with NCCL Inspector's JSON if any"),
    "nccl-tests": FileFormat("nccl_tests", True, "output of nccl-tests"),
    "kineto": FileFormat("pytorch.kineto", True, "traces of torch.profiler (Kineto)"),
    "flight-recorder": FileFormat("pytorch.flight_recorder", True, "PyTorch's Flight Recorder, as JSON"),
    "jax-trace": FileFormat("jax", False, "profiles of JAX (jax.profiler), .xplane.pb"),
    "openmpi-monitoring": FileFormat("openmpi", True, "what OpenMPI's monitoring counted (pml_monitoring)"),
    "htsim": FileFormat("htsim", True, "htsim connection matrices (.cm) and topologies (.topo)"),
    "aicb": FileFormat("aicb", True, "SimAI and AICB workloads"),
    "chakra": FileFormat("chakra", False, "MLCommons Chakra (.et) and PyTorch execution traces"),
    "goal": FileFormat("goal", False, "GOAL schedules of LogGOPSim and ATLAHS, text and binary"),
    "taskgraph": FileFormat("taskgraph", False, "task graphs of FlexFlow and TopoOpt (FlatBuffers)"),
    "ns3": FileFormat("fabrics.ns3", True, "topologies and flows of HPCC's ns-3 (SimAI, ASTRA-sim)"),
    "slurm": FileFormat("fabrics.slurm", True, "Slurm's topology.conf and topology.yaml"),
    "ibnetdiscover": FileFormat("fabrics.ibnetdiscover", True, "InfiniBand fabrics, as ibnetdiscover prints them"),
    "containerlab": FileFormat("fabrics.containerlab", True, "topologies of containerlab"),
    "lldp": FileFormat(
        "fabrics.neighbours",
        True,
        "LLDP neighbours (lldpcli, EOS, OpenConfig), SONiC's CONFIG_DB or minigraph, by node",
    ),
    "ptm": FileFormat("fabrics.ptm", True, "PTM's topology.dot (Cumulus Linux), cabling in the language of Graphviz"),
    "netq": FileFormat("fabrics.netq", True, "NetQ's topology graph (JSON)"),
    "cabling": FileFormat("fabrics.cabling", True, "cabling tables (CSV) of NetBox and Arista AVD"),
    "astra-network": FileFormat("fabrics.astra_network", True, "networks of ASTRA-sim's analytical back end"),
    "traffic-pairs": FileFormat("traffic_pairs", True, "traffic files of dcn-simulators"),
}
"""The formats of the project. A plug-in cannot replace them."""


@cache
def formats() -> Mapping[str, FileFormat]:
    """Return all formats: the project's own, and those of installed plug-ins."""
    known = dict(FORMATS)
    for entry in entry_points(group=GROUP):
        known.setdefault(entry.name, FileFormat(entry.value, True, f"from {entry.value}", entry))
    return known


def importer(name: str) -> Importer:
    """Return the importer of a format.

    Raises:
        InputError: there is no such format, or a plug-in cannot be loaded.
    """
    known = formats()
    if name not in known:
        raise InputError(f"no format has this name; there are {', '.join(known)}", field="format", value=name)
    read = getattr(known[name].load(), "read", None)
    if not callable(read):
        raise InputError(f"the plug-in {known[name].module} has no function 'read'", field="format", value=name)
    return _explained(cast(Importer, read))


def _explained(read: Importer) -> Importer:
    """Return an importer that gives jobs their protocol, and names UTF-16 as the reason why it cannot read a file."""

    @wraps(read)
    def explained(sources: Sequence[Source], request: ImportRequest) -> Imported:
        try:
            imported = read(sources, request)
        except InputError as error:
            for source in sources:
                if source.name == error.source and head_of(source).is_utf16:
                    raise InputError(UTF16, source=source.name) from None
            raise
        return with_protocol(imported, request.protocol)

    return explained


def is_text(name: str) -> bool:
    """Return whether a format's files are text; the name must be known."""
    row = formats()[name]
    return row.text if row.entry is None else bool(getattr(row.load(), "TEXT", True))


def _loaded(entry: EntryPoint) -> object:
    try:
        return entry.load()
    except Exception as error:  # a plug-in is another project's code
        raise InputError(
            f"the plug-in {entry.value} cannot be loaded: {type(error).__name__}: {error}",
            field="format",
            value=entry.name,
        ) from None
