"""What the NIC of a selected host counts, where agents of hosts report it."""

from __future__ import annotations

import json
from pathlib import Path

import yaml

from controller.model.files.clos import clos
from controller.model.files.fabric_file import fabric_document
from tests.rig.page.axe import violations
from tests.rig.page.browser import Browser
from tests.rig.real_controller import controller
from tests.unit.strategies import with_routers

SELECT = "[...document.querySelectorAll('#hosts button')].find((b) => b.textContent === arguments[0]).click()"


def test_a_host_shows_the_counters_of_its_nic_and_dashes_for_what_is_not_known(tmp_path: Path, page: Browser) -> None:
    file = tmp_path / "fabric.yaml"
    file.write_text(yaml.safe_dump(fabric_document(with_routers(clos(2, 2, 2)))))
    counters = {"pause_received": [0, 0, 0, 50847, None, None, None, None], "sent_dropped": 0, "cnp_received": 21}
    with controller(tmp_path, "--fabric", str(file), "--enforcement", "srv6") as (server, _):
        body = json.dumps({"epoch": None, "counters": counters}).encode()
        sent = server.ask("POST", "/v1/hosts/h1/report", body, {"Content-Type": "application/json"})
        assert sent.status == 204
        page.open(server.port)
        page.until("#hosts button", "hosts are there")
        page.run(SELECT, "h1")
        page.until(lambda: "class 3: 50,847" in page.text("#detail"), "its agent has reported")
        told = page.text("#detail")
        assert "Pausedclass 3: 50,847; all classes –" in told
        assert "Dropped on sending0" in told
        assert "ECN marks received–" in told
        assert "CNPs21 received, – sent" in told
        assert violations(page) == []
        page.run(SELECT, "h2")
        page.until(lambda: page.text("#detail-title") == "host h2", "another host is selected")
        assert "The agent of this host has not reported them." in page.text("#detail")
        assert page.complaints() == []
