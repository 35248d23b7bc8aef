"""Names and texts that others choose are text on the page, whatever they contain, and never markup or code."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
import yaml

from controller.model.errors import InputError
from controller.model.files.clos import clos
from controller.model.files.fabric_file import fabric_document, load_fabric
from tests.rig.http.client import Server
from tests.rig.page.axe import violations
from tests.rig.page.browser import Browser
from tests.rig.page.dashboard import choose, flows
from tests.rig.real_controller import controller

HOSTILE = {
    "markup": "<img src=x onerror=window.pwned=1><b>bold</b>",
    "script": "</script><script>window.pwned=1</script>",
    "attribute": "\" autofocus onfocus=window.pwned=1 x=\"' onclick='window.pwned=1",
    "address": "javascript:window.pwned=1//",
    "template": "${window.pwned=1}{{window.pwned=1}}",
    "right to left": "\u202egnorw\u2066\u200f",
    "control": "a\u0000b\u0007c\u001b[31md\u0085\u2028e\nf\tg",
    "long": "x" * 5000,
    "selector": '"],*{display:none}/*\\00003c',
    "percent": "%3Cscript%3E%00%2F..%2F",
}

ORDINARY = ["__proto__", "constructor", "prototype", "toString", "hasOwnProperty", "valueOf", "length", "undefined"]
ORDINARY += ["null", "NaN", "a-", "_", "...", "0", "1e9", "x" * 63]
"""What fabric files and jobs may be called, and what would confuse a program that keeps names as members."""

SWITCHES = ["isPrototypeOf", "propertyIsEnumerable", "toLocaleString", "__defineGetter__", "get", "size"]

# In every answer of the controller, other names stand where the real ones were.
RENAME = """
{
  const honest = window.fetch, names = %s;
  window.pwned = 0;
  window.fetch = async (path, options) => {
    let target = String(path);
    for (const [real, name] of names) target = target.replaceAll(encodeURIComponent(name), real);
    const response = await honest(target, options);
    if (!response.ok || !/json/.test(response.headers.get("Content-Type") ?? "")) return response;
    let text = await response.text();
    for (const [real, name] of names) text = text.replaceAll(real, JSON.stringify(name).slice(1, -1));
    return new Response(text, {status: response.status, headers: response.headers});
  };
}
"""


@contextmanager
def renaming(page: Browser, names: Mapping[str, str]) -> Iterator[None]:
    """Pages that are opened meanwhile see other names in place of real ones."""
    source = RENAME % json.dumps(list(names.items()))
    made = page.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": source})
    try:
        yield
    finally:
        page.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", made)


def fits(page: Browser) -> bool:
    return bool(page.run("return document.documentElement.scrollWidth <= innerWidth"))


CLICK = """
[...document.querySelectorAll(arguments[0])].find((row) => row.dataset.key === arguments[1])
  .querySelector('button').click();
"""

SHOWS = "return document.getElementById(arguments[0]).textContent.includes(arguments[1])"

STRANGE = """
return [...document.querySelectorAll('img, b, script:not([src]), iframe, object, [onerror], [onclick], [onfocus]')]
  .map((node) => node.outerHTML.slice(0, 200));
"""


@pytest.mark.parametrize("kind", HOSTILE)
def test_names_in_hostile_answers_are_shown_as_text(served: Server, page: Browser, kind: str) -> None:
    # A job, a leaf, a spine and a host; no name is in another one.
    names = {real: f"{HOSTILE[kind]}.{number}" for number, real in enumerate(("gpt3-a", "leaf1", "spine2", "h16"))}
    page.size(1440, 1000)
    page.open(served.port)
    page.until("#jobs tr", "jobs are there")
    ours = set(page.run(STRANGE))
    with renaming(page, names):
        page.open(served.port)
        page.until("#jobs tr", "jobs are there")
        page.until("#links tr", "links are there")
        # What a person would look at.
        for body, real in (
            ("#jobs", "gpt3-a"),
            ("#switch-rows", "leaf1"),
            ("#switch-rows", "spine2"),
            ("#hosts", "h16"),
        ):
            page.until(f"{body} tr", "rows are there")
            page.run(CLICK, f"{body} tr", names[real])
            page.until(partial(page.run, SHOWS, "detail-title", names[real]), f"{real} is selected")
        choose(page, "view", "plan")
        assert page.run("return window.pwned") == 0
        assert set(page.run(STRANGE)) == ours
        for width in (1440, 390):
            page.size(width, 1000)
            assert page.run("return document.documentElement.scrollWidth") <= width, f"{kind} at {width}"
        page.size(1440, 1000)
        assert [line for line in page.complaints() if "Content Security" in line or "Uncaught" in line] == []


def test_names_that_are_members_of_every_object_are_names_like_others(tmp_path: Path, page: Browser) -> None:
    document = fabric_document(clos(2, 4, 4))
    renamed = dict(zip([row["name"] for row in document["hosts"]], ORDINARY, strict=False))
    switches = dict(zip([row["name"] for row in document["switches"]], SWITCHES, strict=True))
    renamed |= switches
    text = json.dumps(document)
    for old, new in sorted(renamed.items(), key=lambda pair: -len(pair[0])):
        text = text.replace(f'"{old}"', f'"{new}"')
    file = tmp_path / "fabric.yaml"
    # JSON is YAML in which every name is a text.
    file.write_text(text)
    with controller(tmp_path, "--fabric", str(file)) as (server, _):
        hosts = [row["name"] for row in json.loads(text)["hosts"]]
        assert set(hosts) == set(ORDINARY)
        for number, name in enumerate(ORDINARY):
            if name == "...":
                name = "a..."
            pair = (hosts[number % len(hosts)], hosts[(number + 5) % len(hosts)])
            body = flows(pair)
            body["flows"][0]["collective"] = name
            reason = {"Fairspine-Reason": HOSTILE["markup"]}
            answer = server.ask("PUT", f"/v1/jobs/{name}", json.dumps(body).encode(), reason)
            assert answer.status == 201, (name, answer.body)
        page.size(1440, 1000)
        page.open(server.port)
        page.until(lambda: page.count("#jobs tr") == len(ORDINARY), "all jobs are listed")
        assert page.run("return window.pwned === undefined")
        listed = page.run("return [...document.querySelectorAll('#jobs tr')].map((row) => row.dataset.key)")
        assert set(listed) == {"a..." if name == "..." else name for name in ORDINARY}
        speeds = page.run("return [...document.querySelectorAll('#jobs td:nth-child(8)')].length")
        assert speeds == len(ORDINARY)
        for name in ("__proto__", "constructor", "0"):
            page.run(CLICK, "#jobs tr", name)
            page.until(partial(page.run, SHOWS, "detail-title", f"job {name}"), f"job {name} is selected")
            page.until(lambda: "Flows (1)" in page.text("#detail"), "its flow is listed")
        page.run(CLICK, "#switch-rows tr", "__defineGetter__")
        page.until(lambda: page.text("#detail-title").endswith("__defineGetter__"), "a switch is selected")
        assert fits(page)
        assert violations(page) == []
        assert page.complaints() == []


@pytest.mark.parametrize("kind", HOSTILE)
@pytest.mark.parametrize("place", ["switches", "hosts"])
def test_a_fabric_file_with_a_hostile_name_is_refused_with_file_and_field(
    tmp_path: Path, kind: str, place: str
) -> None:
    document = fabric_document(clos(2, 2, 1))
    document[place][0]["name"] = HOSTILE[kind]
    file = tmp_path / "fabric.yaml"
    file.write_text(yaml.safe_dump(document, allow_unicode=True))
    with pytest.raises(InputError) as refused:
        load_fabric(file)
    said = str(refused.value)
    assert len(said.splitlines()) == 1
    assert said.isprintable()
    assert len(said) < 400
    assert (refused.value.source, refused.value.field) == (str(file), f"{place}[0].name")
