"""What is written for SONiC fits its YANG models: names, keys, types, ranges and references."""

from __future__ import annotations

import copy
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.files.pod_clos import pod_clos
from controller.southbound.port_classes.class_policies import router_policies
from controller.southbound.port_classes.formats import POLICY_FORMATS
from controller.southbound.port_classes.next_hops import of_cables
from controller.southbound.qos.formats import QOS_FORMATS
from controller.southbound.qos.outputs import switch_outputs
from controller.southbound.srv6.formats import FORMATS
from controller.southbound.srv6.router_configuration import router_configurations
from controller.southbound.srv6.segment_ids import SegmentIds
from controller.workload.exporters.cabling import config_db_documents
from tests.rig.sonic.config_db import MODELS, TABLES, complaint, with_ports

FABRICS = {
    "two layers": clos(3, 3, 2),
    "parallel cables": clos(2, 2, 2, parallel=2),
    "three layers": pod_clos(2, 2, 2, 2, 1),
    "a missing cable": Fabric(
        clos(3, 3, 2).layers,
        clos(3, 3, 2).hosts,
        tuple(each for each in clos(3, 3, 2).cables if (each.lower, each.upper) != ("leaf2", "spine1")),
    ),
}
NAME = FORMATS["sonic"].interface
Document = dict[str, dict[str, Any]]


def srv6(fabric: Fabric) -> list[Document]:
    return [json.loads(FORMATS["sonic"].write(each)) for each in router_configurations(SegmentIds(fabric), NAME)]


def port_classes(fabric: Fabric) -> list[Document]:
    if fabric.cable_number.any():
        return []
    made = router_policies(fabric, NAME, of_cables(fabric, "10.200.0.0/20"))
    return [json.loads(POLICY_FORMATS["sonic"].write(each)) for each in made]


def qos(fabric: Fabric) -> list[Document]:
    return [json.loads(QOS_FORMATS["sonic"].write(each)) for each in switch_outputs(fabric, NAME)]


def neighbors(fabric: Fabric) -> list[Document]:
    made = config_db_documents(fabric, NAME).values()
    return [{table: rows for table, rows in each.items() if table != "DEVICE_METADATA"} for each in made]


EXPORTS: dict[str, Callable[[Fabric], list[Document]]] = {
    "srv6": srv6,
    "port-classes": port_classes,
    "qos": qos,
    "sonic-neighbors": neighbors,
}


FOLDERS = {"restated": MODELS} | ({"SONiC's": Path(named)} if (named := os.environ.get("SONIC_YANG_MODELS")) else {})
"""Of models: ours; and SONiC's where somebody has them, and names them."""


@pytest.fixture(params=[*FOLDERS.values()], ids=[*FOLDERS])
def models(request: pytest.FixtureRequest) -> Path:
    """The folder of the models."""
    if shutil.which("yanglint") is None:
        pytest.skip("yanglint is not installed (make setup-test does it)")
    folder: Path = request.param
    return folder


def redirected(document: Document) -> Document:
    """Return a document without the targets of redirections, for which SONiC's models have no leaf."""
    rest = copy.deepcopy(document)
    for rule in rest.get("ACL_RULE", {}).values():
        if rule.pop("REDIRECT_ACTION", None) is not None:
            rule["PACKET_ACTION"] = "REDIRECT"
    return rest


@pytest.mark.parametrize("fabric", FABRICS.values(), ids=FABRICS)
@pytest.mark.parametrize("export", EXPORTS.values(), ids=EXPORTS)
def test_each_document_fits_the_models(export: Any, fabric: Fabric, models: Path, tmp_path: Path) -> None:
    for document in export(fabric):
        assert document.keys() <= TABLES.keys()
        assert complaint(with_ports(redirected(document)), models, tmp_path) == ""


def test_the_models_have_no_target_of_a_redirection(models: Path, tmp_path: Path) -> None:
    (document, *_) = port_classes(FABRICS["two layers"])
    assert "REDIRECT_ACTION" in complaint(with_ports(document), models, tmp_path)


DAMAGE: dict[str, list[tuple[str, str, dict[str, Any] | None]]] = {
    "srv6": [
        ("INTERFACE", "Ethernet0", None),
        ("SRV6_MY_LOCATORS", "fairspine", {"prefix": "10.0.0.1"}),
        ("SRV6_MY_LOCATORS", "fairspine", {"block_len": "100"}),
        ("SRV6_MY_LOCATORS", "fairspine", None),
        ("SRV6_MY_SIDS", "fairspine|fcbb:bb01:1::/48", {"action": "uN"}),
        ("SRV6_MY_SIDS", "fairspine|fcbb:bb00:1::/48", {"action": "End"}),
        ("STATIC_ROUTE", "default|fcbb:bb00:1::", {"nexthop": "fd00::1"}),
        ("STATIC_ROUTE", "red|fcbb:bb00:1::/48", {"nexthop": "fd00::1"}),
    ],
    "port-classes": [
        ("ACL_TABLE", "FAIRSPINE", {"ports": ["Ethernet400"]}),
        ("ACL_TABLE", "FAIRSPINE", {"type": "L4"}),
        ("ACL_TABLE", "FAIRSPINE", None),
        ("ACL_RULE", "FAIRSPINE|CLASS_1", {"PRIORITY": "1000000"}),
        ("ACL_RULE", "FAIRSPINE|CLASS_1", {"L4_SRC_PORT_RANGE": "49152-65536"}),
        ("ACL_RULE", "FAIRSPINE|CLASS_1", {"L4_SRC_PORT_RANGE": "0-9"}),
        ("ACL_RULE", "FAIRSPINE|OWN_1", {"DST_IP": "10.0.0.0"}),
    ],
    "qos": [
        ("DSCP_TO_TC_MAP", "FAIRSPINE", {"64": "0"}),
        ("DSCP_TO_TC_MAP", "FAIRSPINE", None),
        ("TC_TO_QUEUE_MAP", "FAIRSPINE", {"0": "10"}),
        ("SCHEDULER", "FAIRSPINE_100000000000", {"type": "strict"}),
        ("SCHEDULER", "FAIRSPINE_100000000000", {"cir": "-1"}),
        ("SCHEDULER", "FAIRSPINE_100000000000", None),
        ("PORT_QOS_MAP", "Ethernet0", {"tc_to_queue_map": "OTHER"}),
        ("QUEUE", "Ethernet0|0", {"scheduled": "FAIRSPINE_100000000000"}),
    ],
}


@pytest.mark.parametrize(
    ("name", "table", "key", "change"),
    [(name, *row) for name, rows in DAMAGE.items() for row in rows],
)
def test_what_does_not_fit_is_seen(
    name: str, table: str, key: str, change: dict[str, Any] | None, models: Path, tmp_path: Path
) -> None:
    (document, *_) = (redirected(each) for each in EXPORTS[name](FABRICS["two layers"]))
    whole = with_ports(document)
    damaged: Any = copy.deepcopy(whole)
    if change is None:
        del damaged[table][key]
    else:
        damaged[table][key] = damaged[table].get(key, {}) | change
    assert complaint(damaged, models, tmp_path) != ""
    assert complaint(whole, models, tmp_path) == ""
