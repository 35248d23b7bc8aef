"""Jobs and hosts on the dashboard, and large fabrics with many spines."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

from selenium.webdriver.common.keys import Keys

from tests.rig.http.client import Server
from tests.rig.page.axe import violations
from tests.rig.page.browser import Browser
from tests.rig.page.checks import nameless
from tests.rig.page.dashboard import choose, flows, put
from tests.rig.real_controller import controller


def test_a_job_and_a_host_show_their_flows_with_paths_and_rates(served: Server, page: Browser) -> None:
    page.open(served.port)
    page.until("#jobs tr[data-key=gpt3-a]", "jobs are there")
    plan = json.loads(served.ask("GET", "/v1/plan").body)["plan"]
    own_flows = [flow for flow in plan["flows"] if flow["job"] == "gpt3-a"]
    choose(page, "view", "plan")
    page.click("#jobs tr[data-key=gpt3-a] button")
    page.until(lambda: page.text("#detail-title") == "job gpt3-a", "the job is selected")
    page.until(lambda: f"Flows ({len(own_flows)})" in page.text("#detail"), "its flows are listed")
    page.until(lambda: "gpt3-a: nothing is known" in page.text("#detail"), "no switch has its rules")
    first = own_flows[0]
    (leaf, spine), (_, last) = (link.split("->") for link in first["paths"][0]["links"][1:-1])
    line = page.text("#detail .flows li:first-child")
    assert line.startswith(f"{first['id']} {first['src']} → {first['dst']}, 100 Gbit/s planned: ")
    assert line.endswith(f"{leaf}-{spine} {last}-{spine}")
    assert violations(page) == []
    assert nameless(page) == []
    page.run("[...document.querySelectorAll('#detail button')].find((one) => one.dataset.act === 'span-2').click()")
    page.until(lambda: "last 24 hours" in page.text("#detail"), "another span is chosen")

    # A host, by its name, its leaf or its address.
    host = next(row for row in json.loads(served.ask("GET", "/v1/fabric").body)["hosts"] if row["name"] == first["src"])
    for words in (host["ip"], f"{host['leaf']} {host['name']}"):
        page.one("#find-hosts").clear()
        page.one("#find-hosts").send_keys(words)
        page.until(f"#hosts tr:first-child[data-key={host['name']}]", f"it is found by {words}")
    page.click(f"#hosts tr[data-key={host['name']}] button")
    page.until(lambda: page.text("#detail-title") == f"host {host['name']}", "the host is selected")
    assert host["mac"] in page.text("#detail")
    assert "show=host%3A" in page.run("return location.hash")
    own = [flow for flow in plan["flows"] if host["name"] in (flow["src"], flow["dst"])]
    assert f"Flows ({len(own)})" in page.text("#detail")
    # The links that its flows take.
    page.one("#find").send_keys(host["name"])
    page.until(lambda: 0 < page.count("#links tr") < 2 * 16, "only those")
    assert page.complaints() == []


def test_paced_flows_show_the_pace_that_hosts_are_asked_to_keep_and_others_get_new_ones(
    tmp_path: Path, page: Browser
) -> None:
    file = tmp_path / "fabric.yaml"
    file.write_text("clos: {spines: 1, leaves: 2, hosts_per_leaf: 3}\n")
    pairs = {"one": ("h1", "h4"), "two": ("h2", "h5"), "three": ("h3", "h6")}

    def paced_at(payload: str) -> bool:
        return f", paced at {payload} Gbit/s: " in page.text("#detail .flows li:first-child")

    with controller(tmp_path, "--fabric", str(file)) as (server, _):
        for name, (src, dst) in pairs.items():
            assert put(server, f"/v1/jobs/{name}", flows((src, dst))) == 201
        page.open(server.port)
        choose(page, "view", "plan")
        page.until("#jobs tr[data-key=one]", "the job is there")
        page.click("#jobs tr[data-key=one] button")
        for names, payload in ((("one", "two", "three"), "32.7"), (("one", "two"), "49")):
            page.until(partial(paced_at, payload), "its flow has a pace")
            text = server.ask("GET", "/metrics").body.decode()
            assert all(f'fairspine_job_paced_flows{{job="{name}"}} 1.0' in text for name in names)
            server.ask("DELETE", "/v1/jobs/three")
        assert page.complaints() == []


def test_spines_fold_to_columns_and_a_cell_of_several_cables_selects_the_worst(tmp_path: Path, page: Browser) -> None:
    file = tmp_path / "fabric.yaml"
    file.write_text("clos: {spines: 32, leaves: 30, hosts_per_leaf: 4}\nfailed: [leaf3-spine6]\n")
    with controller(tmp_path, "--fabric", str(file)) as (server, _):
        pairs = [(f"h{4 * k + n + 1}", f"h{4 * ((k + 1) % 30) + n + 1}") for k in range(30) for n in range(4)]
        body = {"flows": [{"src": src, "dst": dst, "bytes": 10**9} for src, dst in pairs]}
        assert put(server, "/v1/jobs/many", body) == 201
        page.open(server.port)
        page.until("[role=grid]", "a large fabric opens as the matrix")
        assert page.count("[role=gridcell]") == 30 * 16
        assert page.text(".matrix thead") == "leaf \\ spine" + "".join(
            f"spine{k} to spine{k + 1}" for k in range(1, 33, 2)
        )
        cell = "return [...document.querySelectorAll('.matrix tbody tr')][2].cells[3]"
        assert page.run(f"{cell}.dataset.state") == "failed"
        page.run(f"{cell}.click()")
        page.until(lambda: page.text("#detail-title") == "leaf3-spine6", "the failed one of its two cables")
        choose(page, "view", "ecmp")
        page.until(".cell[data-state=contended]", "collisions are shown")
        hashed = json.loads(server.ask("GET", "/v1/plan?under=ecmp").body)["plan"]
        count: dict[str, int] = {}
        for flow in hashed["flows"]:
            for link in flow["paths"][0]["links"]:
                count[link] = count.get(link, 0) + 1
        worst = max(n for link, n in count.items() if "spine" in link)
        shown = page.run(
            "return [...document.querySelectorAll('.cell[data-state=contended]')].map((c) => c.textContent)"
        )
        assert worst >= 2
        assert max(int(text) for text in shown) == worst
        assert violations(page) == []
        page.one("#fold").send_keys(Keys.SPACE)
        page.until(lambda: page.count("[role=gridcell]") == 30 * 32, "each spine has its column")
        assert "fold=no" in page.run("return location.hash")
        assert page.complaints() == []
