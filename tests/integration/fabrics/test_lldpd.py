"""A fabric of routers, of whose neighbours a real lldpd hears, is read as the fabric that it is."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.files.fabric_file import parse_fabric
from controller.model.files.pod_clos import pod_clos
from controller.workload.importers.base import ImportRequest
from controller.workload.importers.registry import importer
from controller.workload.importers.streams import open_sources
from tests.rig.routers.router_lab import FORMAT, RouterLab
from tests.rig.waiting import eventually

pytestmark = pytest.mark.switches

FABRICS = {"two layers": clos(2, 2, 2, parallel=2), "three layers": pod_clos(2, 1, 2, 1, 1)}


class Lldpd:
    """lldpd on a router or host of the lab."""

    def __init__(self, lab: RouterLab, name: str, folder: Path, program: Path) -> None:
        """Start it."""
        self._socket, self._program = folder / f"{name}.socket", program
        system = "SONiC Software Version: lab" if name in lab.fabric.layer_of else "Debian GNU/Linux"
        # Who has started before a neighbour hears of it within a second, and not after half a minute.
        settings = folder / "lldpd.conf"
        settings.write_text("configure lldp tx-interval 1\nconfigure lldp tx-hold 120\n")
        options = f"-d -c -L {program} -u {self._socket} -p {folder / name}.pid -O {settings} -S '{system}'"
        self.log = folder / f"{name}.log"
        with self.log.open("w") as log:
            self._process = subprocess.Popen(
                lab.inside(name, "unshare", "--uts", "sh", "-c", f"hostname {name}; exec lldpd {options}"),
                stdout=log,
                stderr=subprocess.STDOUT,
                # It looks its name up twice, at a name server that nobody reaches from here, before it does anything.
                env=os.environ | {"RES_OPTIONS": "timeout:1 attempts:1"},
            )

    def neighbours(self, form: str) -> str:
        """Return what ``lldpcli`` prints of its neighbours."""
        command = [str(self._program), "-u", str(self._socket), "show", "neighbors", "-f", form]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def count(self) -> int:
        """Return how many ports have a neighbour; 0 while it starts."""
        try:
            rows: Any = json.loads(self.neighbours("json")).get("lldp", {}).get("interface", [])
        except subprocess.CalledProcessError:
            return 0
        return len([row for row in (rows if isinstance(rows, list) else [rows]) if not set(row) & {"sr0", "sr0-peer"}])

    def close(self) -> None:
        """End it."""
        self._process.terminate()
        self._process.wait()


def shape(fabric: Fabric) -> tuple[Counter[tuple[str, ...]], Counter[tuple[str, ...]]]:
    """Cables and NICs with the interfaces of switches."""
    return (
        Counter((c.lower, c.upper, str(c.lower_interface), str(c.upper_interface)) for c in fabric.cables),
        Counter((host.name, host.leaf, str(host.interface)) for host in fabric.hosts),
    )


@pytest.mark.parametrize("name", list(FABRICS))
def test_what_lldpd_hears_in_the_lab_is_the_fabric_of_the_lab(tmp_path: Path, name: str) -> None:
    fabric = FABRICS[name]
    # The installed one changes its user, who may not read this folder.
    program = tmp_path / "lldpcli"
    shutil.copyfile(shutil.which("lldpcli") or "/usr/sbin/lldpcli", program)
    program.chmod(0o755)
    nodes = [*(switch.name for switch in fabric.switches), *fabric.host_names]
    ports = Counter(host.leaf for host in fabric.hosts) + Counter(fabric.host_names)
    ports += Counter(end for cable in fabric.cables for end in (cable.lower, cable.upper))
    expected = (
        Counter(
            (
                c.lower,
                c.upper,
                FORMAT.interface(c.lower, c.lower_port or 0),
                FORMAT.interface(c.upper, c.upper_port or 0),
            )
            for c in fabric.cables
        ),
        Counter((h.name, h.leaf, FORMAT.interface(h.leaf, h.port or 0)) for h in fabric.hosts),
    )
    with RouterLab(fabric, tmp_path) as lab:
        daemons: dict[str, Lldpd] = {}
        try:
            for node in nodes:
                daemons[node] = Lldpd(lab, node, tmp_path, program)
            eventually(
                lambda: all(one.count() == ports[node] for node, one in daemons.items()),
                "each port has a neighbour",
                shown=lambda: {node: (one.count(), ports[node]) for node, one in daemons.items()},
            )
            for form, some in (("json", nodes), ("json0", nodes), ("json", [*fabric.layer_of])):
                folder = tmp_path / f"{form}-{len(some)}"
                folder.mkdir()
                for node in some:
                    (folder / f"{node}.json").write_text(daemons[node].neighbours(form))
                imported = importer("lldp")(open_sources(sorted(folder.iterdir())), ImportRequest())
                assert imported.fabric is not None
                assert shape(parse_fabric(dict(imported.fabric))) == expected
        finally:
            for one in daemons.values():
                one.close()
