"""Pictures of the dashboard for the documentation: ``make screenshots`` (as root).

Real Open vSwitch switches, a real controller, the jobs of the examples, and an operator's evening: a look at what
hashing would do, a drain with its preview, a cable that fails. Pictures land in out/screenshots/; two are checked
in, in docs/.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path

from controller.model.files.fabric_file import load_fabric
from emulation import isolate, runfile
from tests.documented import ROOT
from tests.rig.bench import Bench
from tests.rig.controller import Controller
from tests.rig.page.browser import SCREENSHOTS, Browser, browser

FABRIC = ROOT / "examples" / "clos-4x4x4.yaml"
CHECKED_IN = {"collision": "dashboard.png", "preview": "dashboard-preview.png"}


def view(page: Browser, name: str) -> None:
    page.run(f"document.querySelector('input[name=view][value={name}]').click()")
    page.until(lambda: page.run("return document.querySelector('input[name=view]:checked').value") == name, name)


def settled(controller: Controller, page: Browser) -> None:
    """The switches have the newest plan, and the page shows it."""
    controller.wait_for("the plan is active", controller.plan_is_active)
    epoch = str(controller.get("/v1/plan").body["computed"]["epoch"])
    page.until(lambda: page.text("#epoch") == epoch, f"plan {epoch} is shown")
    page.until(lambda: page.count("#jobs td[data-state=waiting]") == 0, "jobs are active")


def take(bench: Bench) -> None:
    lab = bench.lab(load_fabric(FABRIC))
    controller = bench.controller("--fabric", str(FABRIC), "controller.app")
    lab.wait_connected()
    controller.wait_for("all is well", controller.is_well)
    for name in ("gpt3-a", "llama-b"):
        answer = controller.put(f"/v1/jobs/{name}", json.loads((ROOT / "examples" / f"{name}.json").read_text()))
        assert answer.status == 201, answer
    with browser() as page:
        page.open(controller.http_port)
        settled(controller, page)
        page.until(lambda: page.text("#health-text") == "ok", "all is well")
        view(page, "plan")
        page.picture("planned")
        view(page, "ecmp")
        page.until("#links .badge[data-state=contended]", "collisions are shown")
        page.one("#links tr:first-child button").click()
        page.until("#detail .collision", "one is explained")
        page.picture("collision")
        page.scheme("dark")
        page.picture("collision-dark")
        page.scheme("light")
        view(page, "plan")
        page.one("#switch-rows tr[data-key=spine2] button").click()
        page.until("#detail [data-act=drain]", "spine2 is selected")
        page.one("#detail [data-act=drain]").click()
        page.until("dialog .primary:not([disabled])", "the preview is there")
        page.picture("preview")
        page.one("dialog .primary").click()
        page.until(".node[data-id=spine2][data-state=drained]", "it is drained")
        settled(controller, page)
        lab.set_cable("leaf1-spine3", up=False)
        page.until(".cable[data-id=leaf1-spine3][data-state=failed]", "a cable has failed")
        settled(controller, page)
        page.size(1440, 1700)
        page.picture("drained-and-failed")
        page.size(360, 900)
        page.picture("phone")
        assert page.complaints() == []


def main() -> None:
    isolate.enter()
    folder = Path(tempfile.mkdtemp(prefix="fs"))
    os.environ[runfile.RUN_FOLDER_VARIABLE] = str(folder)
    bench = Bench(ROOT / "out" / "screenshots-run")
    shutil.rmtree(bench.out, ignore_errors=True)
    try:
        take(bench)
    finally:
        bench.close()
        runfile.sweep_dead()
        shutil.rmtree(folder)
    for name, checked_in in CHECKED_IN.items():
        shutil.copy(SCREENSHOTS / f"{name}.png", ROOT / "docs" / "images" / checked_in)
    for picture in sorted(SCREENSHOTS.glob("*.png")):
        print(picture.relative_to(ROOT), picture.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
