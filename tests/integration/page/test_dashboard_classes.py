"""Tenants and classes of priority on the dashboard, in a real browser."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.rig.http.client import Server
from tests.rig.page.axe import violations
from tests.rig.page.browser import Browser
from tests.rig.page.checks import contrasts, nameless
from tests.rig.page.dashboard import put
from tests.rig.real_controller import controller

FABRIC = "clos: {spines: 1, leaves: 2, hosts_per_leaf: 8}\ntenants: {blue: 1, green: 1}\n"


def job(number: int, **more: Any) -> dict[str, Any]:
    """A flow over the one uplink, beside computing that takes nearly all of the time."""
    flow = {"src": f"h{number}", "dst": f"h{number + 8}", "bytes": 10**9, "collective": "x"}
    return {"flows": [flow], "compute_seconds": 10.0, **more}


def selected(page: Browser, name: str) -> str:
    """What the page says of a job that is chosen."""
    page.click(f"#jobs tr[data-key={name}] button")
    page.until(lambda: page.text("#detail-title") == f"job {name}", "the job is selected")
    return page.text("#detail")


def tenants_of(server: Server) -> dict[str, dict[str, Any]]:
    listed = json.loads(server.ask("GET", "/v1/jobs").body)
    return {row["name"]: row for row in listed["tenants"]}


def test_tenants_and_classes_are_shown_as_the_controller_has_them(tmp_path: Path, page: Browser) -> None:
    (tmp_path / "fabric.yaml").write_text(FABRIC)
    with controller(tmp_path, "--fabric", str(tmp_path / "fabric.yaml")) as (server, _):
        assert put(server, "/v1/jobs/one", job(1, tenant="blue")) == 201
        page.open(server.port)
        page.until("#jobs tr[data-key=one]", "the job is there")
        for number, name in enumerate(("two", "three", "four"), 2):
            assert put(server, f"/v1/jobs/{name}", job(number, tenant="green")) == 201
        assert put(server, "/v1/jobs/high", {**job(5), "class": 2}) == 201
        page.until("#jobs tr[data-key=high]", "all jobs are there")
        known = tenants_of(server)
        assert (known["blue"]["jobs"], known["green"]["jobs"]) == (1, 3)
        page.until(
            lambda: all(
                f"{name} (weight 1): {row['jobs']} job{'s' * (row['jobs'] > 1)}" in page.text("#tenants-note")
                and f"planned speed {row['min_speed']:.3f}" in page.text("#tenants-note")
                for name, row in known.items()
            ),
            "what each tenant gets is shown, and changes without a reload",
        )
        # One job gets as much as three together.
        assert known["blue"]["min_speed"] > 2.9 * known["green"]["min_speed"]
        assert "Tenantblue" in selected(page, "one")
        assert "Class" not in page.text("#detail")
        shown = selected(page, "high")
        assert "Class2" in shown
        assert "Tenant" not in shown
        assert page.attributes("#jobs tr[data-key=three] th", "title")[0].startswith("three of green, ")
        assert violations(page) == []
        assert nameless(page) == []
        assert contrasts(page) == []
        # A job without a tenant, with another class for one of its collectives.
        other = {**job(5), "class": 2, "classes": {"x": 3}}
        assert put(server, "/v1/jobs/high", other) == 200
        page.until(lambda: "Class3" in page.text("#detail"), "the class that is pushed now is shown")
        assert page.complaints() == []


def test_without_tenants_and_classes_the_page_says_nothing_of_them(served: Server, page: Browser) -> None:
    page.open(served.port)
    page.until("#jobs tr[data-key=gpt3-a]", "jobs are there")
    shown = selected(page, "gpt3-a")
    assert "Tenant" not in shown
    assert "Class" not in shown
    assert not page.one("#tenants-note").is_displayed()
