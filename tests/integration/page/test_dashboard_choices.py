"""What a reader chooses on the dashboard: the zone of times, light or dark, what is shown and its URL."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver.support.select import Select

from tests.rig.http.client import Server
from tests.rig.page.axe import violations
from tests.rig.page.browser import Browser
from tests.rig.page.dashboard import choose, flows, put
from tests.rig.real_controller import controller

BACKGROUND = "return getComputedStyle(document.documentElement).backgroundColor"
LIGHT, DARK = "rgb(238, 241, 245)", "rgb(15, 19, 24)"

# Text that is cut off where nothing shows that there is more: what scrolls has a shadow at the edge. Names that only a
# screen reader gets are one pixel wide.
CUT = """
return [...document.querySelectorAll('body *')].filter((node) => {
  const style = getComputedStyle(node);
  if (!node.checkVisibility() || node.closest('svg, .hidden, .skip, .matrix')) return false;
  return style.overflowX === 'hidden' && node.scrollWidth > node.clientWidth + 1;
}).map((node) => node.outerHTML.slice(0, 160));
"""


@pytest.fixture
def in_los_angeles(page: Browser) -> Iterator[None]:
    page.driver.execute_cdp_cmd("Emulation.setTimezoneOverride", {"timezoneId": "America/Los_Angeles"})
    yield
    page.driver.execute_cdp_cmd("Emulation.setTimezoneOverride", {"timezoneId": ""})


def formatted(page: Browser, zone: str) -> list[str]:
    script = """
    const {clock, moment, useZone} = await import('/web/format.js');
    useZone(arguments[0]);
    const at = '2026-11-21T03:30:00Z';
    const days = ['2026-11-21T23:59:59', '2026-11-22T00:00:00', '2027-06-01T00:00:00',
      '2026-11-21T07:59:59', '2026-11-21T08:00:00'];
    return [clock(at), ...days.map((now) => moment(at, new Date(now + 'Z')))];
    """
    found: list[str] = page.run(f"return (async () => {{{script}}}).apply(null, arguments)", zone)
    return found


def test_dates_and_times_of_day_are_of_one_zone_which_the_page_says(
    served: Server, page: Browser, in_los_angeles: None
) -> None:
    page.open(served.port)
    assert formatted(page, "utc") == [
        "03:30:00",
        "03:30:00",
        "11-21 03:30",
        "2026-11-21 03:30",
        "03:30:00",
        "03:30:00",
    ]
    assert formatted(page, "local") == [
        "19:30:00",
        "11-20 19:30",
        "11-20 19:30",
        "2026-11-20 19:30",
        "19:30:00",
        "11-20 19:30",
    ]
    page.open(served.port)
    page.until("#history tr", "plans are listed")
    assert [page.text("#zone option:checked"), page.text("#zone-local")] == ["UTC", "America/Los_Angeles (local)"]
    at = json.loads(served.ask("GET", "/v1/plans").body)["plans"][0]["at"]
    shown = "#history tr:first-child td:nth-child(2)"
    page.until(lambda: at[11:16] in page.text(shown), "as the command says it")
    Select(page.one("#zone")).select_by_value("local")
    page.until(lambda: at[14:16] in page.text(shown) and at[11:16] not in page.text(shown), "local time is shown")
    # It is kept for the next time.
    page.open(served.port)
    page.until(lambda: page.text("#zone option:checked").startswith("America"), "it is remembered")
    page.run("localStorage.clear()")


def test_light_and_dark_follow_the_system_until_one_is_chosen(served: Server, page: Browser) -> None:
    page.scheme("dark")
    page.open(served.port)
    page.until(lambda: page.run(BACKGROUND) == DARK, "as the system")

    def is_background(colour: str) -> bool:
        return bool(page.run(BACKGROUND) == colour)

    for theme, colour in (("light", LIGHT), ("dark", DARK)):
        Select(page.one("#theme")).select_by_value(theme)
        page.until(functools.partial(is_background, colour), theme)
        page.scheme("light" if theme == "dark" else "dark")
        assert page.run(BACKGROUND) == colour
        assert violations(page) == []
    page.open(served.port)
    page.until(lambda: page.run(BACKGROUND) == DARK, "it is remembered")
    Select(page.one("#theme")).select_by_value("system")
    page.until(lambda: page.run(BACKGROUND) == LIGHT, "as the system")
    page.run("localStorage.clear()")


def test_what_is_shown_has_a_url_and_the_browser_goes_back_to_it(served: Server, page: Browser) -> None:
    def url() -> str:
        return str(page.run("return location.hash"))

    page.open(served.port)
    page.until("#links tr", "links are listed")
    assert url() == ""
    page.click("#switch-rows tr[data-key=spine2] button")
    page.until(lambda: url() == "#show=spine2", "the URL says it")
    choose(page, "view", "ecmp")
    choose(page, "shape", "matrix")
    page.until(".matrix", "the matrix is drawn")
    page.one("#find").send_keys("leaf2")
    page.until(lambda: url() == "#show=spine2&view=ecmp&shape=matrix&find=leaf2", "all of it")
    kept = page.run("return location.href")
    page.driver.back()
    page.until(lambda: url() == "#show=spine2&view=ecmp", "one step back")
    page.until(".drawing", "it is drawn again")
    page.driver.back()
    page.until(lambda: page.run("return document.querySelector('input[name=view]:checked').value") == "now", "and back")
    page.driver.back()
    page.until(lambda: page.text("#detail-title") == "Nothing selected", "to the beginning")
    page.driver.forward()
    page.until(lambda: page.text("#detail-title") == "spine2", "and forth")
    page.driver.get("about:blank")
    page.driver.get(kept)
    page.until(".matrix", "a URL brings everything back")
    page.until(lambda: page.text("#detail-title") == "spine2", "what is selected")
    page.until(lambda: "hashed" in page.text("#source"), "the view")
    assert page.one("#find").get_attribute("value") == "leaf2"
    page.until(lambda: page.count("#links tr") == 8, "and what was looked for")


def test_the_window_says_the_state_and_events_go_back_to_before_it_was_opened(tmp_path: Path, page: Browser) -> None:
    with controller(tmp_path) as (server, _):
        assert put(server, "/v1/jobs/early", flows(("h1", "h5"))) == 201
        assert put(server, "/v1/mode", {"mode": "ecmp"}) == 200
        page.open(server.port)
        page.until(lambda: "early pushed" in page.text("#events"), "the job that was there before")
        page.until(lambda: "mode ecmp, enforced by per flow" in page.text("#events"), "and the mode, in words")
        assert "lost" not in page.text("#events")
        health: dict[str, Any] = json.loads(server.ask("GET", "/healthz").body)
        assert health["status"] != "ok", "it has no switches"
        page.until(lambda: health["status"] in page.driver.title, "the title says it")
        assert page.run("return document.getElementById('icon').getAttribute('href')") == "web/icon-bad.svg"
    page.until(lambda: "no connection" in page.driver.title, "the title says that the controller has gone")
    page.complaints()


def test_many_alerts_of_one_kind_are_one_line_that_opens(served: Server, page: Browser) -> None:
    page.open(served.port)
    script = "const {grouped} = await import('/web/alerts.js'); return grouped(arguments[0]);"
    missing = [f"leaf{k}-spine1 is missing: port {k} of spine1 is down" for k in range(1, 98)]
    texts = [*missing[:50], "the store cannot be written", *missing[50:], "leaf1 is slow", "leaf2 is slow"]
    groups = page.run(f"return (async () => {{{script}}}).apply(null, arguments)", texts)
    assert [(one["key"], len(one["texts"])) for one in groups] == [
        ("… is missing: port … of … is down", 97),
        ("the store cannot be written", 1),
        ("leaf1 is slow", 1),
        ("leaf2 is slow", 1),
    ]
    assert groups[0]["texts"] == missing
    # In one step: the page draws its own at any moment.
    script = """
    const {showAlerts} = await import('/web/alerts.js');
    showAlerts(arguments[0], []);
    return [document.getElementById('reasons-title').textContent, document.querySelectorAll('#reasons > li').length,
            document.querySelectorAll('#reasons details li').length];
    """
    assert page.run(f"return (async () => {{{script}}}).apply(null, arguments)", texts) == [
        "Health · 100 faults",
        4,
        97,
    ]


def test_nothing_is_cut_on_a_phone_without_a_hint(served: Server, page: Browser) -> None:
    page.size(390, 844)
    page.open(served.port)
    choose(page, "view", "ecmp")
    page.until("#links .badge[data-state=contended]", "collisions are shown")
    page.click("#links tr:first-child button")
    page.until("#detail .collision", "one is explained")
    assert page.run("return document.documentElement.scrollWidth") <= 390
    assert page.run(CUT) == []
    scrolling = page.run("return getComputedStyle(document.querySelector('.links .scroll')).backgroundAttachment")
    assert "local" in scrolling
    assert "scroll" in scrolling
    assert violations(page) == []
    page.size(1440, 1000)


def test_one_request_without_an_answer_does_not_leave_the_page_disconnected(served: Server, page: Browser) -> None:
    page.open(served.port)
    page.until("#connection[data-state=live]", "it is connected")
    # The stream of events stays open; one other request fails, as it may on a machine without a free moment.
    page.run(
        """
        const honest = window.fetch;
        window.states = [];
        new MutationObserver(() => window.states.push(document.getElementById("connection").dataset.state))
          .observe(document.getElementById("connection"), {attributes: true});
        window.fetch = (path, options) => {
          if (!path.includes("jobs")) return honest(path, options);
          window.fetch = honest;
          return Promise.reject(new TypeError("refused"));
        };
        document.dispatchEvent(new Event("visibilitychange"));"""
    )
    page.until(lambda: "lost" in page.run("return window.states"), "the failed request is told")
    page.until("#connection[data-state=live]", "the next answer ends it")


def test_the_top_line_names_the_leader_of_a_cluster_and_nothing_for_a_single_controller(
    served: Server, page: Browser
) -> None:
    page.open(served.port)
    page.until(lambda: page.text("#health-text") != "loading…", "the health is shown")
    assert not page.one("#cluster").is_displayed()
    script = """
    const {showHead} = await import('/web/head.js');
    const {read} = await import('/web/api.js');
    const health = await read('v1/health');
    const element = document.getElementById('cluster');
    return [arguments[0], null].map((cluster) => {
      showHead({...health, cluster}, 3);
      return [element.hidden, element.textContent, element.title];
    });
    """
    replicas = [
        {"url": "https://a:8443", "live": True, "leads": True},
        {"url": "https://b:8443", "live": True, "leads": False},
        {"url": "https://c:8443", "live": False, "leads": False},
    ]
    cluster = {"leader": "https://a:8443", "term": 7, "replicas": replicas}
    shown, hidden = page.run(f"return (async function () {{{script}}}).apply(null, arguments)", cluster)
    line = "Leader a:8443, term 7, 2 of 3 replicas"
    assert shown == [False, line, "https://a:8443 leads\nhttps://b:8443 follows\nhttps://c:8443 is missing"]
    assert hidden[0]
