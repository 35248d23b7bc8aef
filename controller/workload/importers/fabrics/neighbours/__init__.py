"""Importer ``lldp``: what nodes report of their neighbours, a file a node, in any mixture.

``lldpcli`` (lldpd, SONiC, Cumulus Linux, servers), EOS, OpenConfig, and of SONiC also CONFIG_DB and ``minigraph.xml``.
A file without a node's name in it is of the node that its own name says (``leaf1.json``).
"""

from __future__ import annotations

from collections.abc import Sequence

from controller.model.errors import InputError
from controller.workload.importers.base import Imported, ImportRequest, Source
from controller.workload.importers.documents import json_document, mapping
from controller.workload.importers.fabrics.graph import fabric_of
from controller.workload.importers.fabrics.neighbours.config_db import add_config_db, is_config_db, tables_of
from controller.workload.importers.fabrics.neighbours.eos import KEY, add_eos, eos_document
from controller.workload.importers.fabrics.neighbours.lldpcli import add_lldpcli
from controller.workload.importers.fabrics.neighbours.minigraph import add_minigraph, is_minigraph
from controller.workload.importers.fabrics.neighbours.openconfig import add_openconfig, openconfig_document
from controller.workload.importers.fabrics.neighbours.reports import Reports
from controller.workload.importers.head import Head, head_of

_FORMS = (
    "is neither LLDP neighbours (of lldpcli: lldp; of EOS: lldpNeighbors; of OpenConfig: lldp.interfaces) nor SONiC's "
    "(DEVICE_NEIGHBOR, DeviceMiniGraph)"
)


def looks_like(head: Head) -> str:
    """Return a description of the contents; empty if the file is not of this format."""
    keys = head.keys
    if any(key.startswith("DEVICE_NEIGHBOR|") for key in keys) or "DEVICE_NEIGHBOR" in keys:
        return "SONiC's CONFIG_DB of one switch: a part of a fabric"
    if keys >= {"DEVICE_METADATA", "PORT"}:
        return "SONiC's CONFIG_DB of one switch: a part of a fabric"
    if is_minigraph(head):
        return "SONiC's minigraph of one switch: a part of a fabric"
    if KEY in keys:
        return "LLDP neighbours of one switch (EOS): a part of a fabric"
    if {"neighbors", "neighbor"} <= keys and any(key.rpartition(":")[2] == "interfaces" for key in keys):
        return "LLDP neighbours of one node (OpenConfig): a part of a fabric"
    if keys >= {"lldp", "interface"} or keys >= {"lldp", "chassis"}:
        return "LLDP neighbours of one node (lldpcli -f json): a part of a fabric"
    return ""


def read(sources: Sequence[Source], request: ImportRequest) -> Imported:
    """Read a fabric.

    Raises:
        InputError: a file is of no such kind, or the network is not a fabric of two or three layers.
    """
    reports = Reports()
    for source in sources:
        if is_minigraph(head_of(source)):
            add_minigraph(reports, source)
            continue
        document = tables_of(mapping(json_document(source), source, ""), source)
        if is_config_db(document):
            add_config_db(reports, document, source)
        elif (eos := eos_document(document)) is not None:
            add_eos(reports, eos, source)
        elif (tree := openconfig_document(document)) is not None:
            add_openconfig(reports, tree, source)
        elif "lldp" in document:
            add_lldpcli(reports, document, source)
        else:
            raise InputError(_FORMS, source=source.name)
    if not sources:
        raise InputError("no file is given")
    return fabric_of(reports.graph("lldp", sources[0]), request)
