"""The dashboard in a real browser, against real controllers, with real switches and without."""

from __future__ import annotations

import json
import os
import signal
from functools import partial
from pathlib import Path

import pytest
import yaml
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.common.keys import Keys

from controller.core.caller import Role
from controller.model.files.clos import clos
from controller.model.files.fabric_file import fabric_document
from controller.rest.security.tokens import new_token
from tests.rig.bench import Bench
from tests.rig.checks.jobs import active, started
from tests.rig.http.client import Server
from tests.rig.page.axe import violations
from tests.rig.page.browser import Browser
from tests.rig.page.checks import contrasts, nameless, panels
from tests.rig.page.dashboard import choose, flows, put
from tests.rig.real_controller import controller

NASTY = '<img src=x onerror="window.hacked=1">'
REQUESTS = "return performance.getEntriesByType('resource').length"
DARK = "return matchMedia('(prefers-color-scheme: dark)').matches"
SPOILED = (
    f"const honest = window.fetch, nasty = {json.dumps(NASTY)};"
    """
const keys = ["name", "by", "cause", "job", "id", "version"];
function spoil(value, key) {
  if (typeof value === "string") return keys.includes(key) ? nasty + value : value;
  if (Array.isArray(value)) return value.map((one) => key === "reasons" ? nasty + one : spoil(one));
  if (!value || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, spoil(one, name)]));
}
window.fetch = async (path, options) => {
  const response = await honest(path, options);
  if (!/jobs|plans|health|plan$/.test(path)) return response;
  return new Response(JSON.stringify(spoil(await response.json())), {status: response.status});
};"""
)
# Requests and answers take longer than others sent before or after them, in an order that a number determines.
LATE = """
const honest = window.fetch;
let state = %d;
function late() {
  state = (1103515245 * state + 12345) %% 2147483648;
  return new Promise((resolve) => setTimeout(resolve, 1000 * (state / 2147483648) ** 2));
}
window.refusals = 0; // that are still to come
window.fetch = async (path, options) => {
  const wrong = options.headers.Authorization === "Bearer fairspine_wrong" ? 1 : 0;
  window.refusals += wrong;
  await late();
  const response = await honest(path, options);
  await late();
  window.refusals -= wrong;
  return response;
};"""
ORDERS = range(1, 4)
# Names that the interface lets through, and that a careless page would stumble over.
RINGS = [("h1", "h3"), ("h3", "h5"), ("h5", "h1"), ("h2", "h4"), ("h4", "h6"), ("h6", "h2")]
JOBS = ("__proto__", "constructor", "j" * 63)


def shown_loads(page: Browser) -> dict[str, str]:
    """The links of the table with their loads, as text, all in Gbit/s."""
    row = "[row.cells[0].firstChild.textContent, row.cells[2].textContent]"
    shown = dict(page.run(f"return [...document.querySelectorAll('#links tr')].map((row) => {row})"))
    return {name: text.removesuffix(" Gbit/s") for name, text in shown.items()}


def use(page: Browser, secret: str) -> None:
    """Enter a token into the dialog that asks for one."""

    def entered() -> bool:
        try:
            page.one("#token").clear()
            page.one("#token").send_keys(secret, Keys.ENTER)
        except StaleElementReferenceException:  # the page asks anew
            return False
        return True

    page.until("#token", "the token is asked for")
    page.until(entered, "the token is entered")


@pytest.mark.switches
def test_an_operators_night_on_real_switches_from_one_page_that_is_never_loaded_again(
    bench: Bench, tmp_path: Path, page: Browser
) -> None:
    fabric = clos(2, 3, 2)
    lab, controller = started(bench, fabric, tmp_path, "--poll-seconds", "1")
    page.open(8080)
    page.until(lambda: page.text("#connection") == "live", "events are followed")
    page.run("window.loadedOnce = true")
    assert page.count(".cable") == len(fabric.cables)
    assert page.count(".node") == fabric.n_leaves + fabric.n_spines
    page.until(lambda: page.text("#switches") == "5 of 5", "all switches are shown")

    # A job turns up by its event.
    assert controller.put("/v1/jobs/night", flows(*RINGS)).status == 201
    active(controller)
    page.until("#jobs tr[data-key=night]", "the job is listed")
    page.until(lambda: page.text("#jobs tr[data-key=night] td:last-child") == "active", "the switches enforce it")
    told = {row["id"]: row for row in controller.get("/v1/links").body["links"]}
    page.run("document.querySelector('input[name=view][value=plan]').click()")
    page.until(lambda: "Loads of plan" in page.text("#source"), "planned loads are shown")
    shown = shown_loads(page)
    assert {id: float(text) for id, text in shown.items()} == {id: told[id]["load_gbps"] for id in shown}
    assert set(shown) == {id for id in told if "h" not in id}
    assert set(shown.values()) == {"100"}

    # The same flows, hashed: what the interface says, and where somebody collides, it says with whom.
    choose(page, "view", "ecmp")
    page.until(lambda: "hashed" in page.text("#source"), "hashed loads are shown")
    hashed = {row["id"]: row["load_gbps"] for row in controller.get("/v1/links?under=ecmp").body["links"]}
    assert hashed != {id: row["load_gbps"] for id, row in told.items()}
    assert {id: float(text) for id, text in shown_loads(page).items()} == {
        id: pytest.approx(hashed[id], rel=0.01) for id in shown
    }
    choose(page, "view", "now")

    # What the switches have counted, and where flows go by the rules that they hold.
    page.until(lambda: "Measured on all" in page.text("#source"), "measured loads are shown")
    assert set(shown_loads(page).values()) != {"100"}
    page.click("#trace")
    page.until(lambda: page.text("#said") == "6 flows traced, 0 not as planned, 0 not known", "traced")
    page.until(lambda: "Flows as traced at" in page.text("#links-note"), "the list of links says when")

    # What the links carried and how fast the job was since it began.
    page.click("#jobs tr[data-key=night] button")
    page.until("#detail .chart", "the speed is recorded")
    page.until(lambda: "mean 100 % of the speed alone, lowest 100 %" in page.text("#detail"), "it had its speed")
    page.one("#find-hosts").send_keys("h3")
    page.until(lambda: page.count("#hosts tr") == 1, "the host is found")
    page.click("#hosts tr button")
    page.until(lambda: page.count("#detail .chart") == 2, "loads of both of its links are recorded")
    assert "h3->leaf2: mean" in page.text("#detail")
    assert "Flows (2)" in page.text("#detail")

    # A cable fails, and comes back.
    lab.set_cable("leaf2-spine2", up=False)
    page.until(".cable[data-id=leaf2-spine2][data-state=failed]", "the failed cable is marked")
    # Links, health and events are answers of their own.
    page.until(lambda: page.text("#tile-failed") == "1", "it is counted")
    page.until(lambda: "leaf2-spine2" in page.text("#reasons"), "it is a reason")
    page.until(lambda: "leaf2-spine2 is down" in page.text("#events"), "it is an event")
    page.until(lambda: "✕ failed" in page.text("#links"), "the table says so in words")
    lab.set_cable("leaf2-spine2", up=True)
    page.until(".cable[data-id=leaf2-spine2][data-state=fine]", "it is back")
    active(controller)
    controller.wait_for("all is well", controller.is_well)
    page.until(lambda: page.text("#health-text") == "ok", "the health is shown")

    # Nothing moves when the page looks again.
    before = panels(page)
    for _ in range(2):
        seen = page.run(REQUESTS)
        page.run("document.dispatchEvent(new Event('visibilitychange'))")
        page.until(partial(lambda n: page.run(REQUESTS) > n + 4, seen), "looks")
    assert panels(page) == before

    # A drain with nothing but a keyboard: find the switch, look at what would happen, confirm.
    page.run("document.getElementById('find').focus()")
    page.tab_to("#switch-rows tr[data-key=spine1] button")
    page.press(Keys.ENTER)
    page.until(lambda: page.text("#detail-title") == "spine1", "it is selected")
    page.tab_to("#detail [data-act=drain]", back=True)
    page.press(Keys.ENTER)
    page.until("dialog .primary:not([disabled])", "the preview is there")
    preview = controller.post("/v1/plans:preview", {"drain": ["spine1"]}).body
    text = page.text("dialog .preview")
    assert f"{preview['after']['min_speed']:.3f}" in text
    assert f"{preview['moved_count']} flow" in text
    assert not controller.get("/v1/fabric/links/spine1").body["drained"]
    assert page.run("return document.activeElement.textContent") == "Cancel", "not what drains"
    page.tab_to("dialog .primary", back=True)
    page.press(Keys.ENTER)
    page.until(".node[data-id=spine1][data-state=drained]", "the drain is shown")
    assert controller.get("/v1/fabric/links/spine1").body["drained"]
    assert page.count(".cable[data-state=drained]") == fabric.n_leaves
    assert page.run("return document.activeElement.matches('[data-act=drain]')"), "the focus is back where it was"
    active(controller)

    # Hashed flows have no speed that anybody knows, and the page does not make one up.
    assert controller.put("/v1/mode", {"mode": "ecmp"}).status == 200
    page.until(lambda: page.text("#tile-speed") == page.text("#tile-gap") == "–", "speed and gap are not known")
    page.until(lambda: "mode ecmp: switches hash all flows" in page.text("#reasons"), "the reason is told")
    assert page.text("#jobs tr[data-key=night] td:nth-child(2)") == "–"
    assert controller.put("/v1/mode", {"mode": "planned"}).status == 200
    page.until(lambda: page.text("#tile-speed") not in ("–", ""), "the plan is in force again")
    active(controller)

    # The controller hangs, without closing a connection, and goes on.
    os.kill(controller.pid, signal.SIGSTOP)
    page.until("#connection[data-state=lost]", "the silence is told")
    os.kill(controller.pid, signal.SIGCONT)
    page.until("#connection[data-state=live]", "it is live again")

    # The controller dies and comes back; the page says so, and goes on by itself.
    controller.kill()
    page.until("#connection[data-state=lost]", "the loss is told")
    controller.start()
    page.until("#connection[data-state=live]", "it is live again")
    page.until(lambda: page.text("#health-text") == "ok, degraded service", "all that is missing is the spine")
    page.until(lambda: page.count(".cable[data-state=drained]") == fabric.n_leaves, "its cables are shown")
    page.click("#history tr:nth-child(2) button")
    page.until("dialog .primary", "it is asked for")
    page.press(Keys.ESCAPE)
    page.until(lambda: page.count("dialog") == 0, "it is left")
    assert page.run("return window.loadedOnce") is True
    asked = page.asked()
    assert {url.split("/")[2] for url in asked} == {"127.0.0.1:8080"}
    assert [url for url in asked if "/v1/links?since=" in url], "changes alone are asked for"
    # What failed while the controller was away is the browser's to tell, and that it was starting; nothing else is.
    away = ("ERR_", "network error", "status of 503")
    assert [line for line in page.complaints() if not any(part in line for part in away)] == []


def test_one_look_with_every_size_and_scheme_has_names_contrast_and_no_jumps(served: Server, page: Browser) -> None:
    page.open(served.port)
    page.until("#jobs tr[data-key=gpt3-a]", "jobs are there")
    page.until(lambda: page.text("#connection") == "live", "events are followed")
    assert page.complaints() == []
    assert sum(value for value, _ in page.shifts()) < 0.001, page.shifts()
    choose(page, "view", "ecmp")
    page.until("#links .badge[data-state=contended]", "a collision is named")
    (worst,) = page.texts("#links tr:first-child")
    assert "gpt3-a" in worst
    assert "llama-b" in worst
    assert page.text("#tile-speed") == "0.333"
    page.click("#links tr:first-child button")
    page.until("#detail .collision", "the collision is explained")
    assert "Collision of 3 flows: 300 Gbit/s are needed" in page.text("#detail")
    assert page.text("#links tr:first-child .badge") == "▲3 collision"
    assert set(page.attributes("#links .badge[data-state=contended]", "data-degree")) == {"2", "3"}
    for scheme in ("light", "dark"):
        page.scheme(scheme)
        page.until(partial(lambda s: page.run(DARK) == (s == "dark"), scheme), "the scheme is taken")
        too_pale = contrasts(page)
        assert too_pale == [], too_pale
        assert violations(page) == []
        page.picture(scheme)
    assert page.run("return getComputedStyle(document.documentElement).backgroundColor") == "rgb(15, 19, 24)"
    page.scheme("light")
    assert nameless(page) == []
    page.click("#survive")
    page.until("dialog .preview tbody tr", "failures are analysed")
    told = json.loads(served.ask("POST", "/v1/plans:survive", b"{}", {"Content-Type": "application/json"}).body)
    cells = page.texts("dialog .preview tbody tr:first-child > *")
    assert cells[:2] == [" + ".join(told["failures"][0]["names"]), f"{told['failures'][0]['min_speed']:.3f}"]
    assert nameless(page) == []
    page.press(Keys.ESCAPE)
    page.until(lambda: page.count("dialog") == 0, "it is left")
    page.click("#change-mode")
    page.until("dialog", "the dialog is open")
    assert nameless(page) == []
    assert violations(page) == []
    assert contrasts(page) == []
    page.press(Keys.ESCAPE)
    for width in (360, 768, 1440, 2560):
        page.size(width, 900)
        page.until(partial(lambda w: page.run("return innerWidth") == w, width), "the size is taken")
        assert page.run("return document.documentElement.scrollWidth") <= width
        if width == 360:
            page.picture("phone")
    page.size(1440, 1000)
    page.driver.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-reduced-motion", "value": "reduce"}]}
    )
    assert page.run("return getComputedStyle(document.querySelector('.half')).transitionDuration") == "0s"
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_jobs_that_state_their_times_have_expected_iterations_on_the_page(tmp_path: Path, page: Browser) -> None:
    with controller(tmp_path) as (server, _):
        job = flows(("h1", "h5")) | {"compute_seconds": 0.25}
        assert put(server, "/v1/jobs/timed", job) == 201
        page.open(server.port)
        page.until("#jobs tr[data-key=timed]", "the job is there")
        told = json.loads(server.ask("GET", "/v1/jobs/timed").body)["times"]
        # They are the plan's, which no switch has.
        assert page.text("#jobs tr[data-key=timed] td:nth-child(5)") == "–"
        choose(page, "view", "plan")
        page.until(lambda: page.text("#jobs tr[data-key=timed] td:nth-child(5)") != "–", "planned times are shown")
        cells = page.texts("#jobs tr[data-key=timed] td")
        assert cells[3:5] == [f"{told['slowdown']:.3f}", f"{round(told['duty'] * 100)} %"]
        page.until(
            lambda: "1.000 times as long as alone, at least 1.000" in page.text("#jobs-note"), "the bound is told"
        )
        page.until("#links tr", "links are there")
        page.click("#links tr:first-child button")
        page.until(lambda: "of each" in page.text("#detail"), "the flow's duty is told")
        period = f"{told['iteration_seconds'] * 1000:.4g} ms"
        assert f"sent {cells[4]} of each {period}" in page.text("#detail")
        choose(page, "view", "ecmp")
        page.until(lambda: "if switches hashed" in page.text("#jobs-note"), "hashed loads are shown")
        assert page.text("#jobs tr[data-key=timed] td:nth-child(5)") == "–"


def test_the_page_draws_when_jobs_send_on_the_link_that_they_share(tmp_path: Path, page: Browser) -> None:
    file = tmp_path / "fabric.yaml"
    file.write_text(yaml.safe_dump(fabric_document(clos(1, 2, 2))))
    with controller(tmp_path, "--fabric", str(file), "--policy-options", "shifts=advise") as (server, _):
        for k, name in enumerate(("one", "two")):
            job = flows((f"h{k + 1}", f"h{k + 3}")) | {"compute_seconds": 0.08}
            assert put(server, f"/v1/jobs/{name}", job) == 201
        page.open(server.port)
        page.until("#timeline rect", "the time line is drawn")
        schedule = json.loads(server.ask("GET", "/v1/schedule").body)["schedule"]
        for row in schedule["jobs"]:
            cells = page.texts(f"#schedule-rows tr[data-key={row['job']}] td")
            assert cells[2] == ("yes" if row["hold"] else "no")
            assert cells[4] == f"{round(row['compatibility'] * 100)} %"
        # 0.08 s each of computing and sending: one sends while the other computes.
        assert page.attributes("#timeline svg", "aria-label") == [
            "leaf1->spine1, 160 ms: one sends 50 % of the time, two sends 50 % of the time; at most 1 at once"
        ]
        assert "1.000 times as long as alone" in page.text("#schedule-note")
        assert nameless(page) == []
        assert contrasts(page) == []
        choose(page, "view", "ecmp")
        page.until(lambda: page.one("#schedule").is_displayed() is False, "hashed flows have no schedule")
        choose(page, "view", "plan")
        for name in ("one", "two"):
            assert server.ask("DELETE", f"/v1/jobs/{name}").status == 204
        page.until(lambda: page.one("#schedule").is_displayed() is False, "no job, no schedule")


def test_tokens_determine_permissions_and_problems_are_shown_as_the_controller_reports_them(
    tmp_path: Path, page: Browser
) -> None:
    (reader, reads), (writer, writes) = new_token("eyes", Role.READ), new_token("ops", Role.WRITE)
    file = tmp_path / "tokens"
    file.write_text(f"{reader.line()}\n{writer.line()}\n")
    file.chmod(0o600)

    with controller(tmp_path, "--tokens", str(file), secret=reads) as (server, _):
        for name in JOBS:
            assert put(server, f"/v1/jobs/{name}", flows(("h1", "h5")), writes) == 201
        page.open(server.port, shown=False)
        page.until("#token", "the token is asked for")
        assert "a token is required" in page.text("dialog")
        page.press(Keys.ESCAPE)
        page.until(lambda: page.text("#connection") == "a token is required", "the page says that a token is missing")
        assert page.count("dialog") == 0
        page.click("#who")
        use(page, "fairspine_wrong")
        page.until(lambda: "unknown token" in page.text("dialog"), "a wrong one is refused")
        use(page, reads)
        page.until("#canvas .cable", "a reader sees")
        page.until(lambda: page.text("#who") == "eyes (read)", "who it is is known")
        assert page.run("return [...document.querySelectorAll('#jobs tr')].map((row) => row.dataset.key)") == sorted(
            JOBS
        )
        # Without switches no speed is known; the plan's is.
        speeds = [f'#jobs tr[data-key="{name}"] td:nth-child(2)' for name in JOBS]
        assert {page.text(one) for one in speeds} == {"–"}
        choose(page, "view", "plan")
        page.until(lambda: {page.text(one) for one in speeds} == {"0.333"}, "planned speeds are shown")
        choose(page, "view", "now")
        page.click("#switch-rows tr[data-key=spine1] button")
        page.until("#detail [data-act=drain]", "the spine is selected")
        disabled = page.run("return [...document.querySelectorAll('button.action')].map((button) => button.disabled)")
        assert len(disabled) > 2
        assert set(disabled) == {True}
        assert "the role of token eyes is read" in page.text("#detail")
        # Not only the page keeps them from it.
        tried = (
            "return import('/web/api.js').then(api => api.ask('PUT', 'v1/mode', {mode: 'ecmp'})).catch(e => e.status)"
        )
        assert page.run(tried) == 403

        page.click("#who")
        use(page, writes)
        page.until(lambda: page.text("#who") == "ops (write)", "a writer is known")
        page.until("#change-mode:not([disabled])", "and may change things")
        page.click("#change-mode")
        page.click("dialog input[value=frozen]")
        page.click("dialog .primary")
        page.until(lambda: page.text("#mode") == "frozen", "the mode is shown")
        mode = json.loads(server.ask("GET", "/v1/mode", headers={"Authorization": f"Bearer {reads}"}).body)
        assert (mode["mode"], mode["by"]) == ("frozen", "ops")
        page.click("#history tr:nth-child(2) button")
        page.click("dialog .primary")
        page.until(lambda: "the mode is frozen" in page.text("dialog .wrong"), "the problem is told")
        page.press(Keys.ESCAPE)
        page.one("#find").send_keys("no such link")
        page.until(lambda: page.count("#links tr") == 0, "nothing is found")
        assert not [line for line in page.complaints() if "status of 40" not in line]
    assert page.run("return sessionStorage.length") == 1


def test_a_new_token_is_known_in_whatever_order_requests_with_the_former_one_are_refused(
    tmp_path: Path, page: Browser
) -> None:
    reader, reads = new_token("eyes", Role.READ)
    file = tmp_path / "tokens"
    file.write_text(f"{reader.line()}\n")
    file.chmod(0o600)
    with controller(tmp_path, "--tokens", str(file), secret=reads) as (server, _):
        for order in ORDERS:
            added = page.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": LATE % order})
            page.open(server.port, shown=False)
            page.until("#token", "the token is asked for")
            page.press(Keys.ESCAPE)
            page.click("#who")
            use(page, "fairspine_wrong")
            page.until(lambda: "unknown token" in page.text("dialog"), "a wrong one is refused")
            use(page, reads)
            page.until("#canvas .cable", "a reader sees")
            page.until(lambda: page.text("#connection") == "live", "events are followed")
            page.until(lambda: page.run("return window.refusals") == 0, "all refusals are there")
            page.until(lambda: page.text("#who") == "eyes (read)", "who it is is known")
            assert page.count("dialog") == 0
            page.run("sessionStorage.clear()")
            page.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", {"identifier": added["identifier"]})
    page.complaints()


def test_text_from_the_network_is_never_markup(served: Server, page: Browser) -> None:
    # Names are restricted where they come in. Here an interface is played that has no such care.
    added = page.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": SPOILED})
    page.open(served.port)
    page.until("#jobs tr", "jobs are there")
    page.click("#links tr:first-child button.name")
    page.until("#detail .flows", "flows are listed")
    for part in ("#jobs", "#history", "#reasons", "#links", "#detail"):
        assert NASTY in page.text(part), part
    assert page.count("img") == 0
    assert page.run("return window.hacked") is None
    # Even a mistake of ours could not make markup of text.
    assert page.run("try { document.body.innerHTML = '<b>'; return 'set' } catch (e) { return e.name }") == "TypeError"
    page.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", {"identifier": added["identifier"]})
    page.complaints()


def test_rows_keep_their_places_while_loads_only_tremble(served: Server, page: Browser) -> None:
    # The page's own functions, in the browser that runs them; the readings are made up.
    script = """
    const {busiest, cablesOf, jobSpeeds, level, scenario} = await import('/web/model.js');
    const cable = (n) => ({id: `l-s${n}`, a: 'l', b: `s${n}`, up: true, drained: false});
    const cables = cablesOf({switches: [], links: [1, 2, 3, 4].map(cable)});
    const kept = new Map(), orders = [];
    for (const loads of arguments[0]) {
      const links = {links: cables.flatMap((cable, k) => [cable.uplink, cable.downlink].map((id) => (
        {id, gbps: 100, load_gbps: 0, rate_gbps: 100 * loads[k], utilisation: loads[k], up: true, drained: false})))};
      orders.push(busiest(cables, scenario('now', links, null).loads, 'l->', kept).map((row) => row.id));
    }
    const plan = {levels: [{level: 0.5, bound: 0.75}, {level: 1, bound: 0.75}], bound_single: 0.5, bound_split: 0.75,
                  collectives: [{job: 'a', name: 'x', speed: 0.5}, {job: 'b', name: 'x', speed: 1},
                                {job: 'c', name: 'x', speed: null}]};
    return [orders, [null, 0, 0.24, 0.25, 0.94, 0.95, 2].map(level), [...jobSpeeds(plan, new Map())]];
    """
    page.open(served.port)
    readings = [[0.5, 0.52, 0.9, 0.1], [0.58, 0.45, 0.85, 0.05], [0.58, 0.72, 0.85, 0.05]]
    orders, levels, speeds = page.run(f"return (async () => {{{script}}}).apply(null, arguments)", readings)
    assert orders[0] == orders[1] == ["l->s3", "l->s1", "l->s2", "l->s4"]
    assert orders[2] == ["l->s3", "l->s2", "l->s1", "l->s4"]
    assert levels == [-1, 0, 1, 2, 4, 5, 5]
    # Beyond the first level nothing is proved of who has gained by another's loss.
    assert speeds == [
        ["a", {"speed": 0.5, "bound": 0.5, "gap": 0}],
        ["b", {"speed": 1, "bound": None, "gap": None}],
    ]


def test_large_fabrics_are_drawn_up_to_64_leaves_and_a_grid_for_the_keyboard_beyond(
    tmp_path: Path, page: Browser
) -> None:
    for leaves, drawn in ((64, True), (128, False)):
        folder = tmp_path / str(leaves)
        folder.mkdir()
        file = folder / "fabric.yaml"
        file.write_text(f"clos: {{spines: 16, leaves: {leaves}, hosts_per_leaf: 2}}\nfailed: [leaf3-spine2]\n")
        with controller(folder, "--fabric", str(file)) as (server, _):
            ring = {
                "name": "all",
                "op": "all_reduce",
                "algorithm": "ring",
                "ranks": list(range(leaves)),
                "bytes": 10**9,
            }
            job = {"hosts": [f"h{2 * n + 1}" for n in range(leaves)], "collectives": [ring]}
            assert put(server, "/v1/jobs/big", job) == 201
            page.open(server.port)
            assert page.count("[role=grid]") == 1, "large fabrics open as the matrix"
            if drawn:
                choose(page, "shape", "drawing")
                page.until(".cable", "the drawing is there")
                assert page.count(".cable") == leaves * 16
                assert page.count(".cable[data-state=failed]") == 1
                page.until(lambda: page.text("#links-note").startswith("The 60 busiest of 2048"), "the table is cut")
                page.picture("64-leaves")
                choose(page, "shape", "matrix")
            page.until("[role=grid]", "the matrix is there")
            assert page.count("[role=gridcell]") == leaves * 16
            page.run("document.getElementById('canvas').focus()")
            page.tab_to("[role=gridcell]")
            page.press(Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ARROW_RIGHT, Keys.ENTER)
            page.until(lambda: page.text("#detail-title") == "leaf3-spine2", "the cell is selected")
            assert "failed" in page.run("return document.activeElement.getAttribute('aria-label')")
            assert page.run("return document.activeElement.getAttribute('aria-selected')") == "true"
            page.press(Keys.END)
            assert page.run("return document.activeElement.dataset.id") == "leaf3-spine16"
            assert page.count("[role=gridcell][tabindex='0']") == 1
            assert page.complaints() == []
    assert page.run("return document.querySelector('input[value=drawing]').disabled")
    page.picture("matrix")
