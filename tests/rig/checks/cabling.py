"""A controller with a lab, and what it says of the cabling."""

from __future__ import annotations

from pathlib import Path

import yaml

from controller.model.fabric import Fabric
from controller.model.files.fabric_file import fabric_document
from emulation.lab import Lab
from tests.rig.bench import Bench
from tests.rig.controller import Controller


def fabric_file(fabric: Fabric, folder: Path) -> str:
    path = folder / "fabric.yaml"
    path.write_text(yaml.safe_dump(fabric_document(fabric)))
    return str(path)


def started(bench: Bench, fabric: Fabric, tmp_path: Path, *args: str, **lab_options: object) -> tuple[Lab, Controller]:
    """A lab and a controller that knows the fabric and has its plan on every switch."""
    lab = bench.lab(fabric, **lab_options)
    controller = bench.controller("--fabric", fabric_file(fabric, tmp_path), *args, "controller.app")
    lab.wait_connected()
    return lab, controller


def cabling(controller: Controller) -> list[str]:
    answer = controller.get("/v1/fabric")
    if answer.status == 503:
        return [answer.body["detail"]]
    return sorted(finding["text"] for finding in answer.body["cabling"]["findings"])


def as_intended(controller: Controller) -> bool:
    answer = controller.get("/v1/fabric")
    return answer.status == 200 and answer.body["cabling"]["matches"] and controller.plan_is_active()


def names(fabric: Fabric) -> list[str]:
    return [switch.name for switch in fabric.switches]
