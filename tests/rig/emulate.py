"""``fairspine emulate`` with short runs."""

from __future__ import annotations

import json
from pathlib import Path

from tests.rig.programs import FAIRSPINE
from tests.unit.emulation.experiments.made import ring

EMULATION_SECONDS = 800


def command(folder: Path, *options: str) -> list[str]:
    (folder / "fabric.yaml").write_text("clos: {spines: 2, leaves: 2, hosts_per_leaf: 2}\n")
    for name, hosts in (("a", ["h1", "h3"]), ("b", ["h2", "h4"])):
        (folder / f"{name}.json").write_text(json.dumps(ring(name, hosts)))
    files = ["--fabric", str(folder / "fabric.yaml"), "--job", str(folder / "a.json"), "--job", str(folder / "b.json")]
    return [FAIRSPINE, "emulate", *files, "--out", str(folder / "out"), *options]
