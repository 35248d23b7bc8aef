"""The dashboard where NICs have a port in each of several planes: side by side, one alone, and as rows that open."""

from __future__ import annotations

import json
from pathlib import Path

from tests.documented import ROOT
from tests.rig.page.axe import violations
from tests.rig.page.browser import Browser
from tests.rig.page.dashboard import choose, put
from tests.rig.page.matrix import CELL, PLANE, ROWS, ring
from tests.rig.real_controller import controller

PLACES = "return [...document.querySelectorAll('.node')].map((n) => [n.dataset.id, n.getBoundingClientRect().left])"
FRAMES = (
    "return [...document.querySelectorAll('.frame')].map((f) => {const r = f.getBoundingClientRect();"
    " return [r.left, r.right]})"
)
HEADS = "return [...document.querySelectorAll('.matrix thead th')].map((head) => head.textContent)"


def test_two_planes_are_drawn_side_by_side_and_a_plane_a_nic_and_its_ports_can_be_chosen(
    tmp_path: Path, page: Browser
) -> None:
    with controller(tmp_path, "--fabric", str(ROOT / "examples/two-planes.yaml")) as (server, _):
        assert put(server, "/v1/jobs/ring", ring("h1", "h3", "h2", "h4")) == 201
        page.open(server.port)
        page.until(".cable", "a small fabric opens as the drawing")
        assert (page.count(".node"), page.count(".cable"), page.count(".plane")) == (8, 8, 2)
        frames = page.run(FRAMES)
        assert frames[0][1] < frames[1][0]
        for name, left in page.run(PLACES):
            begin, end = frames[0 if int(name[-1]) <= 2 else 1]
            assert begin < left < end
        # The name of a plane selects it.
        page.run(
            "document.querySelector('.plane[data-id=plane2]').dispatchEvent(new MouseEvent('click', {bubbles: true}))"
        )
        page.until(lambda: page.text("#detail-title") == "plane2", "the plane is selected")
        assert "4 of 4 up" in page.text("#detail")
        assert "Drain plane2" in page.text("#detail")
        page.picture("planes-drawing")
        assert violations(page) == []
        # A port leads to the other ports of its NIC.
        page.run("[...document.querySelectorAll('#hosts button')].find((b) => b.textContent === 'h1.p2').click()")
        page.until(lambda: page.text("#detail-title") == "host h1.p2", "the port is selected")
        assert "h1, plane 2" in page.text("#detail")
        assert "Ports of NIC h1" in page.text("#detail")
        page.run("document.querySelector('#detail [data-act=\"port-h1.p1\"]').click()")
        page.until(lambda: page.text("#detail-title") == "host h1.p1", "the other port is selected")
        assert "h1, plane 1" in page.text("#detail")
        page.picture("planes-nic")
        # One plane alone, by the control, and in the URL.
        page.run(PLANE, "2")
        page.until(lambda: page.count(".node") == 4, "only one plane is shown")
        assert {name for name, _ in page.run(PLACES)} == {"leaf3", "leaf4", "spine3", "spine4"}
        assert "plane=2" in page.run("return location.hash")
        page.run(PLANE, "")
        page.until(lambda: page.count(".node") == 8, "all planes are shown")
        # A drained plane: its stripes are elsewhere, and its cables say so.
        assert put(server, "/v1/fabric/links/plane2", {"drained": True}) == 200
        page.until(lambda: page.count(".cable[data-state=drained]") == 4, "the cables of the drained plane")
        page.until(".plane[data-id=plane2][data-state=drained]", "the plane says that it is drained")
        plan = json.loads(server.ask("GET", "/v1/plan").body)["plan"]
        assert {flow["src"][-2:] for flow in plan["flows"]} == {"p1"}
        page.picture("planes-drained")
        assert violations(page) == []
        choose(page, "shape", "matrix")
        page.until("[role=grid]", "the matrix")
        assert page.run(HEADS) == ["plane \\ spine", "spine 1", "spine 2"]
        # The selected port's plane is open.
        assert page.run(ROWS) == ["plane1", "leaf1", "leaf2", "plane2"]
        assert violations(page) == []
        assert page.complaints() == []


def test_eight_planes_of_many_leaves_are_rows_that_open(tmp_path: Path, page: Browser) -> None:
    file = tmp_path / "fabric.yaml"
    file.write_text(
        "clos: {spines: 16, leaves: 32, hosts_per_leaf: 4, planes: 8}\nfailed: [leaf33-spine18, leaf40-spine20]\n"
    )
    with controller(tmp_path, "--fabric", str(file)) as (server, _):
        hosts = [f"h{n}" for leaf in range(4) for n in range(1 + leaf, 129, 4)]
        assert put(server, "/v1/jobs/ring", ring(*hosts)) == 201
        page.open(server.port)
        page.until("[role=grid]", "a large fabric opens as the matrix")
        assert page.run(ROWS) == [f"plane{n}" for n in range(1, 9)]
        assert page.run(HEADS) == ["plane \\ spine", *(f"spine {n}" for n in range(1, 17))]
        states = "return [...document.querySelectorAll('.cell[data-state=failed]')].map((c) => c.parentNode.cells[0].textContent)"  # noqa: E501
        assert page.run(states) == ["plane2", "plane2"]
        page.picture("planes-matrix-folded")
        page.run(f"{CELL.format(row=1, column=2)}.click()")
        page.until(lambda: page.text("#detail-title") == "leaf33-spine18", "the failed cable of the plane")
        page.until(lambda: len(page.run(ROWS)) == 8 + 32, "the plane is open")
        assert page.run(ROWS)[1:3] == ["plane2", "leaf33"]
        assert page.run("return document.querySelector('[aria-expanded=true]').textContent") == "plane2"
        assert violations(page) == []
        page.picture("planes-matrix")
        # One plane alone is small enough to be drawn, too.
        page.run(PLANE, "2")
        page.until(lambda: page.run(HEADS)[:2] == ["leaf \\ spine", "spine17"], "only one plane is shown")
        choose(page, "shape", "drawing")
        page.until(".cable", "the plane as a drawing")
        assert (page.count(".node"), page.count(".cable")) == (32 + 16, 32 * 16)
        page.picture("planes-one-of-eight")
        assert violations(page) == []
        page.size(390, 844)
        assert page.run("return document.documentElement.scrollWidth") <= 390
        page.size(1440, 1000)
        assert page.complaints() == []
