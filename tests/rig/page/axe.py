"""axe-core on a page in the browser: https://github.com/dequelabs/axe-core."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

from tests.rig.page.browser import Browser


@cache
def _source() -> str:
    # The package is for another driver; its copy of axe-core is for any browser.
    return (files("axe_playwright_python") / "axe.min.js").read_text()


def violations(page: Browser) -> list[str]:
    """Every violation that any rule of axe-core finds on the page as it is, also of its best practices."""
    # Colours on their way to others are neither.
    page.run("document.getAnimations().forEach((one) => one.finish())")
    if not page.run("return typeof window.axe === 'object'"):
        page.run(_source() + "; window.axe = axe;")
    found: dict[str, Any] = page.driver.execute_async_script(
        "const done = arguments[0]; axe.run(document).then(done, (e) => done({e: String(e)}))"
    )
    assert "e" not in found, found
    assert len(found["passes"]) > 10, "the rules were applied"
    return [
        f"{one['id']} ({one['impact']}): {node['html'][:120]} {node['failureSummary']}"
        for one in found["violations"]
        for node in one["nodes"]
    ]
