"""The dashboard in each state of the controller, on desks and phones: everything fits, and nothing changes its size."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.rig.http.client import Server
from tests.rig.page.axe import violations
from tests.rig.page.browser import Browser
from tests.rig.page.checks import contrasts, panels
from tests.rig.page.dashboard import choose, flows, put
from tests.rig.real_controller import controller

LINKS = [f"leaf{k}-spine{1 + k % 4}" for k in range(1, 98)]
MISSING = [f"{link} is missing: port {k} of {link.split('-')[1]} is down" for k, link in enumerate(LINKS)]
LONG = "job-" + "x" * 58 + "-9"

STATES: dict[str, dict[str, Any]] = {
    "ok": {"health": {"status": "ok", "reasons": [], "degraded_service": []}},
    "starting": {"health": {"status": "starting", "reasons": ["1 of 8 switches connected"], "degraded_service": []}},
    "degraded": {"health": {"status": "degraded", "reasons": MISSING, "degraded_service": ["mode ecmp"]}},
    "slow": {"health": {"status": "ok", "reasons": [], "degraded_service": [f"job {LONG} is slower than before"]}},
    "cut-off": {
        "health": {
            "status": "degraded",
            "reasons": [f"flow {LONG}/all/{k} of {LONG} has no path" for k in range(2)],
            "slowest_job": {"speed": 0.0, "job": LONG, "unknown": None},
            "mode": "frozen",
            "enforcement": "segment_routing",
        }
    },
    "tiny": {"rate_gbps": 7.8e-7},
    "huge": {"rate_gbps": 1600.0},
    "unknown": {"rate_gbps": None},
}

# In place of the answers of the controller: the state of a test.
SPOIL = """
const [health, rate] = arguments;
window.honest ??= window.fetch;
window.fetch = async (path, options) => {
  // The whole document, not what has changed since the last one.
  const headers = new Headers(options?.headers);
  headers.delete("If-None-Match");
  const response = await window.honest(String(path).replace(/[?&]since=[^&]*/, ""), {...options, headers});
  const name = /v1\\/(health|links)(\\?|$)/.exec(String(path))?.[1];
  if (!response.ok || name === undefined) return response;
  const document = await response.json();
  if (name === "health") Object.assign(document, health ?? {});
  else if (rate !== undefined)
    for (const link of document.links)
      Object.assign(link, {rate_gbps: rate, utilisation: rate === null ? null : rate / link.gbps});
  return new Response(JSON.stringify(document), {status: 200});
};
document.dispatchEvent(new Event("visibilitychange"));
"""

# Text that is cut off. What scrolls is not, and a button or line with a full text in its title may end in dots.
CUT = """
return [...document.querySelectorAll('body *')].filter((node) => {
  const style = getComputedStyle(node);
  if (!node.checkVisibility() || node.closest('svg, .hidden, .skip, .matrix, .said')) return false;
  if (node.closest('[title]') !== null && innerWidth > 720) return false;
  return style.overflowX === 'hidden' && node.scrollWidth > node.clientWidth + 1;
}).map((node) => `${node.className} ${node.scrollWidth} of ${node.clientWidth}: ${node.textContent.slice(0, 90)}`);
"""

# Of the columns of each table, those with a head or a cell that needs more room than there is.
NARROW = """
return [...document.querySelectorAll('th, td')]
  .filter((cell) => cell.checkVisibility() && cell.scrollWidth > cell.clientWidth)
  .filter((cell) => cell.closest('[title]') === null)
  .map((cell) => `${cell.closest('table').getAttribute('aria-labelledby')} ${cell.cellIndex}: ${cell.textContent}`);
"""

LINE = """
const node = document.getElementById(arguments[0]), style = getComputedStyle(node);
const height = node.clientHeight - parseFloat(style.paddingTop) - parseFloat(style.paddingBottom);
return [Math.round(height / parseFloat(style.lineHeight)), node.scrollWidth, node.clientWidth];
"""

WIDTHS = (1440, 1180, 768, 390)


def check_fit(page: Browser, name: str, width: int) -> list[list[float]]:
    """Nothing is cut off or hangs out at a width; return where the panels are."""
    page.size(width, 1000)
    page.until(lambda: page.run("return innerWidth") == width, "the size is taken")
    page.picture(f"state-{name}-{width}")
    assert page.run("return document.documentElement.scrollWidth") <= width
    lines, needed, there = page.run(LINE, "health")
    assert (lines, needed <= there) == (1, True), page.text("#health")
    assert page.run(CUT) == []
    assert page.run(NARROW) == []
    return panels(page)


@pytest.fixture(scope="module")
def sizes() -> dict[int, list[list[float]]]:
    """Of each width: where everything is in the first state."""
    return {}


@pytest.mark.parametrize("state", STATES)
def test_everything_fits_in_every_state_and_panels_stay_where_they_are(
    served: Server, page: Browser, sizes: dict[int, list[list[float]]], state: str
) -> None:
    told = STATES[state]
    page.size(1440, 1000)
    page.open(served.port)
    page.until("#jobs tr[data-key=gpt3-a]", "jobs are there")
    page.until(lambda: page.text("#connection") == "live", "events are followed")
    if "rate_gbps" in told:
        page.run(SPOIL, told.get("health"), told["rate_gbps"])
        unit = {"tiny": "780 bit/s", "huge": "1.6 Tbit/s", "unknown": "100 Gbit/s"}[state]
        page.until(lambda: unit in page.text("#links tr:first-child td:nth-child(3)"), "rates are shown")
    else:
        page.run(SPOIL, told["health"])
        status = told["health"]["status"]
        page.until(lambda: page.text("#health-text").startswith(status), "the state is shown")
    if state == "tiny":
        assert page.run(
            "return [...document.querySelectorAll('#links td:nth-child(3)')].every(c => !/e/.test(c.textContent))"
        )
    if state == "degraded":
        summary = page.text("#reasons summary")
        assert summary == "97 × is missing: leaf1-spine2, leaf2-spine3, leaf3-spine4 and 94 more"
    for width in WIDTHS:
        now = check_fit(page, state, width)
        if width > 720:
            assert sizes.setdefault(width, now) == now
    assert violations(page) == []
    page.size(1440, 1000)


# Before anything of the page: no answer of the controller comes, until the test lets them come.
UNANSWERED = """
{
  const honest = window.fetch;
  const opened = new Promise((resolve) => { window.answer = resolve; });
  window.fetch = async (...request) => { await opened; return honest(...request); };
}
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everything_fits_while_the_page_loads_and_in_dark_colours(served: Server, page: Browser, scheme: str) -> None:
    page.scheme(scheme)
    source = page.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": UNANSWERED})
    try:
        page.size(1440, 1000)
        page.open(served.port, shown=False)
        assert page.text("#health-text") == "loading…"
        loading = {width: check_fit(page, f"loading-{scheme}", width) for width in WIDTHS}
        assert contrasts(page) == []
        assert violations(page) == []
        page.run("window.answer()")
        page.until("#jobs tr[data-key=gpt3-a]", "jobs are there")
        page.until("#canvas *", "the fabric is drawn")
        page.until(lambda: page.text("#health-text") != "loading…", "the health is shown")
        loaded = {width: check_fit(page, scheme, width) for width in WIDTHS}
        assert contrasts(page) == []
        assert violations(page) == []
        for width in WIDTHS:
            if width > 720:
                assert loaded[width] == loading[width], width
    finally:
        page.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", source)
        page.scheme("light")
        page.size(1440, 1000)


def test_a_silent_controller_is_told_with_the_time_of_its_last_answer_and_all_else_is_grey(
    tmp_path: Path, page: Browser
) -> None:
    with controller(tmp_path) as (server, pid):
        page.size(1440, 1000)
        page.open(server.port)
        page.until(lambda: page.text("#connection") == "live", "events are followed")
        before = panels(page)
        assert page.run("return document.body.hasAttribute('data-stale')") is False
        os.kill(pid, signal.SIGSTOP)
        try:
            page.until("#connection[data-state=lost]", "the silence is told")
            heard = page.text("#health-text")
            assert heard.startswith("last heard ")
            assert len(heard.removeprefix("last heard ").split(":")) == 3
            assert page.one("#health").get_attribute("data-status") == "unknown"
            assert "The controller does not answer, last heard" in page.text("#reasons")
            grey = "return getComputedStyle(document.querySelector('main')).filter"
            assert page.run(grey) == "grayscale(1)"
            assert panels(page) == before
            for width in WIDTHS:
                page.size(width, 1000)
                page.picture(f"state-lost-{width}")
                lines, needed, there = page.run(LINE, "health")
                assert (lines, needed <= there) == (1, True), page.text("#health")
                assert page.run(CUT) == []
            page.size(1440, 1000)
        finally:
            os.kill(pid, signal.SIGCONT)
        page.until(lambda: page.text("#connection") == "live", "it is heard again")
        page.until(lambda: "last heard" not in page.text("#health-text"), "its health is known again")
        assert page.run(grey) == "none"
        page.complaints()


def test_the_dialog_of_the_mode_previews_what_is_chosen(served: Server, page: Browser) -> None:
    page.size(1440, 1000)
    page.open(served.port)
    page.until("#jobs tr[data-key=gpt3-a]", "jobs are there")
    page.click("#change-mode")
    page.until("dialog", "the dialog is open")
    assert page.text("dialog .preview") == ""
    choose(page, "mode-choice", "ecmp")
    page.until("dialog .preview tbody tr", "a preview is shown")
    asked = json.dumps({"mode": "ecmp"}).encode()
    told = json.loads(served.ask("POST", "/v1/plans:preview", asked, {"Content-Type": "application/json"}).body)
    expected = told["after"]["expected"]
    assert f"about {expected['mean']:.3f} ({expected['min']:.3f} to {expected['max']:.3f})" in page.text(
        "dialog .preview"
    )
    assert violations(page) == []
    page.picture("state-mode-dialog")
    assert page.run(CUT) == []
    choose(page, "mode-choice", "planned")
    page.until(lambda: page.text("dialog .preview") == "", "nothing would change")
    choose(page, "enforcement-choice", "segment_routing")
    page.until("dialog .preview tbody tr", "the enforcement is previewed, too")
    page.size(390, 844)
    page.picture("state-mode-dialog-390")
    assert page.run(CUT) == []
    page.size(1440, 1000)
    page.click("dialog .buttons button[type=button]")
    page.until(lambda: page.count("dialog") == 0, "it is left")
    assert json.loads(served.ask("GET", "/v1/health").body)["mode"] == "planned", "nothing was set"


def test_several_drains_are_previewed_and_made_by_one_plan(tmp_path: Path, page: Browser) -> None:
    with controller(tmp_path) as (server, _):
        assert put(server, "/v1/jobs/a", flows(("h1", "h5"), ("h5", "h9"), ("h9", "h1"))) == 201
        page.size(1440, 1000)
        page.open(server.port)
        page.until("#switch-rows tr[data-key=spine1]", "switches are listed")
        epoch = json.loads(server.ask("GET", "/v1/plans").body)["plans"][0]["epoch"]
        page.click("#switch-rows tr[data-key=spine1] button")
        page.until("#detail [data-act=drain]", "spine1 is selected")
        page.click("#detail [data-act=drain]")
        page.until("dialog .primary:not([disabled])", "the preview of one is there")
        assert page.text("dialog .primary") == "Drain spine1"
        page.one("#drain-others").send_keys("spine2, nospine")
        page.until(lambda: "nospine" in page.text("dialog .wrong"), "an unknown one is refused")
        assert page.run("return document.querySelector('dialog .primary').disabled")
        page.run(
            "const one = document.getElementById('drain-others'); one.value = 'spine2, leaf1-spine3';"
            "one.dispatchEvent(new Event('input', {bubbles: true}))"
        )
        page.until("dialog .primary:not([disabled])", "the preview of three is there")
        assert page.text("dialog .primary") == "Drain these 3"
        assert page.text("dialog .wrong") == ""
        assert violations(page) == []
        page.picture("state-drains-dialog")
        page.click("dialog .primary")
        page.until(".node[data-id=spine2][data-state=drained]", "they are drained")
        page.until(lambda: "spine1, spine2, leaf1-spine3 drained" in page.text("#said"), "it is told")
        newest = json.loads(server.ask("GET", "/v1/plans").body)["plans"][0]
        assert (newest["epoch"], sorted(newest["drained"])) == (epoch + 1, ["leaf1-spine3", "spine1", "spine2"])
        page.click("#detail [data-act=drain]")
        page.until(lambda: page.text("dialog .primary") == "Undrain spine1", "it can be taken back")
        page.one("#drain-others").send_keys("spine2 leaf1-spine3")
        page.until("dialog .primary:not([disabled])", "the preview is there")
        page.click("dialog .primary")
        page.until(lambda: page.count(".cable[data-state=drained]") == 0, "all are in use")
        # The browser says that a preview was refused.
        assert [line for line in page.complaints() if "plans:preview" not in line] == []
