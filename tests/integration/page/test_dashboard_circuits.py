"""The dashboard of an optical fabric."""

from __future__ import annotations

import json

from tests.rig.bench import Bench
from tests.rig.page.axe import violations
from tests.rig.page.browser import Browser
from tests.rig.real_controller import free_ports


def test_an_optical_fabric_shows_circuits_in_place_of_links(bench: Bench, page: Browser) -> None:
    bench.out.mkdir(parents=True, exist_ok=True)
    file = bench.out / "fabric.json"
    file.write_text(json.dumps({"optical": {"servers": 4, "nics": 2}}))
    openflow, http = free_ports(2)
    options = "--fabric", str(file), "--ofp-tcp-listen-port", str(openflow), "--wsapi-port", str(http)
    bench.controller(*options, "controller.app", http_port=http)
    page.open(http, shown=False)
    page.until("#panel-rows tr", "panels are there")
    assert "ocs1" in page.text("#panel-rows")
    assert "✕ not connected" in page.text("#panel-rows")
    page.until(lambda: "ocs2 is not connected" in page.text("#reasons"), "health has what is wrong")
    assert page.text("#enforcement") == "circuits"
    assert page.run("return getComputedStyle(document.querySelector('.links')).display") == "none"
    assert violations(page) == []
    assert page.complaints() == []
