"""The dashboard with three layers of switches: the drawing of a small fabric, and the matrix whose pods fold."""

from __future__ import annotations

import json
from pathlib import Path

from selenium.webdriver.common.keys import Keys

from tests.documented import ROOT
from tests.rig.page.axe import violations
from tests.rig.page.browser import Browser
from tests.rig.page.dashboard import choose, flows, put
from tests.rig.page.matrix import CELL, ROWS
from tests.rig.real_controller import controller

TOPS = "return [...document.querySelectorAll('.node')].map((n) => [n.dataset.id, n.getBoundingClientRect().top])"


def test_a_small_fabric_of_pods_is_drawn_in_three_rows_and_each_part_can_be_chosen(
    tmp_path: Path, page: Browser
) -> None:
    with controller(tmp_path, "--fabric", str(ROOT / "examples/fat-tree-k4.yaml")) as (server, _):
        assert put(server, "/v1/jobs/a", flows(("h1", "h5"), ("h1", "h3"), ("h9", "h13"))) == 201
        page.open(server.port)
        page.until(".cable", "a small fabric opens as the drawing")
        assert (page.count(".node"), page.count(".cable")) == (20, 32)
        rows: dict[str, set[int]] = {}
        for name, top in page.run(TOPS):
            rows.setdefault(name.rstrip("0123456789"), set()).add(round(top / 40))
        assert max(rows["core"]) < min(rows["agg"])
        assert max(rows["agg"]) < min(rows["leaf"])
        listed = page.run(
            "return [...document.querySelectorAll('#switch-rows tr')].map((row) => row.cells[0].innerText)"
        )
        assert [listed[row].split()[0] for row in (0, 4, 12)] == ["core1", "agg1", "leaf1"]
        page.run(
            "document.querySelector('.node[data-id=agg3]').dispatchEvent(new MouseEvent('click', {bubbles: true}))"
        )
        page.until(lambda: page.text("#detail-title") == "agg3", "the switch is selected")
        assert "aggregation switch" in page.text("#detail")
        page.run("document.querySelector('#detail [data-act=pod-pod2]').click()")
        page.until(lambda: page.text("#detail-title") == "pod2", "its pod is selected")
        assert page.count(".pod[data-selected]") == 1
        assert page.count(".cable[data-near]") == 8
        assert "12 of 12 up" not in page.text("#detail")
        assert "8 of 8 up" in page.text("#detail")
        assert "Drain pod2" in page.text("#detail")
        assert put(server, "/v1/fabric/links/core1", {"drained": True}) == 200
        page.until(lambda: page.count(".cable[data-state=drained]") == 4, "the cables of a drained core")
        assert page.complaints() == []
        page.picture("pods-drawing")
        choose(page, "shape", "matrix")
        page.until("[role=grid]", "the matrix")
        # The selected pod is open: its row, and one for each of its switches.
        assert page.run(ROWS) == ["pod1", "pod2", "leaf3", "leaf4", "agg3", "agg4", "pod3", "pod4"]
        assert violations(page) == []


def test_a_fabric_of_1024_hosts_is_a_matrix_of_pods_that_open_under_mouse_and_keyboard(
    tmp_path: Path, page: Browser
) -> None:
    file = tmp_path / "fabric.yaml"
    short = "pods: 16, leaves: 8, aggs: 8, cores_per_agg: 8, hosts_per_leaf: 8"
    file.write_text(f"three_tier: {{{short}}}\nfailed: [agg9-core1, leaf3-agg2]\n")
    with controller(tmp_path, "--fabric", str(file)) as (server, _):
        pairs = [(f"h{n + 1}", f"h{(n + 64) % 1024 + 1}") for n in range(0, 1024, 4)]
        assert put(server, "/v1/jobs/many", flows(*pairs)) == 201
        page.open(server.port)
        page.until("[role=grid]", "a large fabric opens as the matrix")
        assert page.run(ROWS) == [f"pod{n}" for n in range(1, 17)]
        heads = page.run("return [...document.querySelectorAll('.matrix thead th')].map((head) => head.textContent)")
        assert heads[:3] == ["pod \\ plane, core", "plane1", "plane2"]
        assert (heads[9], heads[-1], len(heads)) == ("core1 to core4", "core61 to core64", 1 + 8 + 16)
        assert page.text("#fold-name") == "Fold cores"
        # The failed cables are in the rows of their pods; a click opens the pod and selects the failed cable.
        states = "return [...document.querySelectorAll('.cell[data-state=failed]')].map((c) => c.parentNode.cells[0].textContent)"  # noqa: E501
        assert page.run(states) == ["pod1", "pod2"]
        page.run(f"{CELL.format(row=0, column=2)}.click()")
        page.until(lambda: page.text("#detail-title") == "leaf3-agg2", "the failed cable of the plane")
        page.until(lambda: len(page.run(ROWS)) == 16 + 16, "the pod is open")
        assert page.run(ROWS)[:3] == ["pod1", "leaf1", "leaf2"]
        assert page.run("return document.querySelector('[aria-expanded=true]').textContent") == "pod1"
        # The focus is on the cable itself, and goes on from there.
        focused = "return document.activeElement.getAttribute('aria-label')"
        assert page.run(focused).startswith("leaf3-agg2: failed")
        page.press(Keys.ARROW_RIGHT)
        assert page.run(focused).startswith("leaf3-agg3: ")
        assert page.count("[role=gridcell][tabindex='0']") == 1
        assert violations(page) == []
        page.picture("pods-matrix")
        page.run("document.querySelector('#fold').click()")
        page.until(lambda: page.count(".matrix thead th") == 1 + 8 + 64, "each core has its column")
        assert page.run(focused) is None or page.complaints() == []
        body = json.loads(server.ask("GET", "/v1/fabric").body)
        assert {row["pod"] for row in body["switches"] if row["role"] == "aggregation"} == {
            f"pod{n}" for n in range(1, 17)
        }
        page.size(390, 844)
        assert page.run("return document.documentElement.scrollWidth") <= 390
        page.size(1440, 1000)
        assert page.complaints() == []
