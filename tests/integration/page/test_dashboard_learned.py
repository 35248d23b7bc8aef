"""The dashboard's panel of learned jobs, in a real browser."""

from __future__ import annotations

import time

from controller.model.files.clos import clos
from tests.rig.both_kinds import Setup
from tests.rig.checks.fakes import started
from tests.rig.checks.sightings import sightings
from tests.rig.page.axe import violations
from tests.rig.page.browser import Browser
from tests.rig.page.checks import contrasts, nameless

DARK = "return matchMedia('(prefers-color-scheme: dark)').matches"


def test_learned_jobs_are_shown_with_what_a_plan_would_gain_and_go_when_they_are_forgotten(
    setup: Setup, page: Browser
) -> None:
    _, controller = started(setup, clos(4, 4, 4))
    page.open(controller.http_port)
    page.until(lambda: page.text("#connection") == "live", "events are followed")
    assert not page.one("#learned").is_displayed()
    ring = [("h1", "h5"), ("h5", "h9"), ("h9", "h13"), ("h13", "h1")]
    flows = [{"src": src, "dst": dst, "udp_src": 50000 + i, "bytes": 10**9} for i, (src, dst) in enumerate(ring)]
    assert controller.post("/v1/sightings", sightings(flows, time.time())).status == 200
    page.until("#learned-rows tr", "the job is shown")
    page.until(lambda: page.text("#learned-rows tr td:nth-child(8)") != "–", "what a plan would gain is known")
    (job,) = controller.get("/v1/learned").body["jobs"]
    cells = page.texts("#learned-rows tr > *")
    assert cells[:3] == [job["name"], "4", "4"]
    assert cells[5] == f"{round(job['confidence'] * 100)} %"
    hashed, planned = (job[f"{name}_speed"] for name in ("hashed", "planned"))
    assert cells[6:] == [f"{hashed:.3f}", f"{planned:.3f}", f"{planned / hashed:.2f} times", "hashed"]
    (title,) = page.attributes("#learned-rows th", "title")
    assert "ring of 4 hosts, phase 0" in title
    assert "learning = observe" in page.text("#learned-note")
    for scheme, dark in (("light", False), ("dark", True)):
        page.scheme(scheme)
        page.until(lambda dark=dark: page.run(DARK) == dark, "the scheme is taken")  # type: ignore[misc]
        assert contrasts(page) == []
        assert violations(page) == []
    page.scheme("light")
    assert nameless(page) == []
    assert controller.put("/v1/learning", {"learning": "off"}).status == 200
    page.until(lambda: not page.one("#learned").is_displayed(), "no job, no panel")
    assert page.complaints() == []
