"""Debian's Chromium, driven by Selenium: a browser of the test's own, with a profile that goes with it."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.wait import WebDriverWait

from tests.documented import ROOT

CHROMIUM, DRIVER = "/usr/bin/chromium", "/usr/bin/chromedriver"
SCREENSHOTS = ROOT / "out" / "screenshots"
PATIENCE_SECONDS = 180.0

# Before anything of the page: every layout shift that no person has caused, also those while it loads.
WATCH_SHIFTS = """
window.shifts = [];
new PerformanceObserver((list) => {
  for (const entry of list.getEntries())
    if (!entry.hadRecentInput)
      window.shifts.push([entry.value, entry.sources.map((source) => source.node?.outerHTML?.slice(0, 80) ?? "")]);
}).observe({type: "layout-shift", buffered: true});
"""


class Browser:
    """A browser on one page of a controller."""

    def __init__(self, driver: Chrome) -> None:
        self.driver = driver

    def open(self, port: int, *, shown: bool = True) -> None:
        """The dashboard of the controller on that port of loopback; ``shown``: wait until the fabric is there."""
        # What a page before this one has left behind, whose controller has ended, is not this one's.
        self.driver.get("about:blank")
        self.complaints()
        self.asked()
        self.driver.get(f"http://127.0.0.1:{port}/")
        if shown:
            self.until("#canvas *", "the fabric is drawn")

    def all(self, selector: str) -> list[WebElement]:
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector: str) -> WebElement:
        found = self.all(selector)
        assert len(found) == 1, f"{len(found)} of {selector}"
        return found[0]

    def click(self, selector: str) -> None:
        """Click on the one element of a selector; again where the page has made it anew before the click."""

        def clicked() -> bool:
            try:
                self.one(selector).click()
            except StaleElementReferenceException:
                return False
            return True

        self.until(clicked, f"a click on {selector}")

    def text(self, selector: str) -> str:
        """The text of an element, also while it is scrolled away."""
        return str(self.run("return document.querySelector(arguments[0])?.textContent ?? ''", selector))

    def texts(self, selector: str) -> list[str]:
        """The texts of all elements of a selector, as they are seen, at one moment: the page may make them anew."""
        found: list[str] = self.run(
            "return [...document.querySelectorAll(arguments[0])].map((one) => one.innerText.trim())", selector
        )
        return found

    def attributes(self, selector: str, name: str) -> list[str]:
        """An attribute of all elements of a selector, at one moment; empty where one does not have it."""
        script = (
            "return [...document.querySelectorAll(arguments[0])].map((one) => one.getAttribute(arguments[1]) ?? '')"
        )
        found: list[str] = self.run(script, selector, name)
        return found

    def count(self, selector: str) -> int:
        return int(self.run("return document.querySelectorAll(arguments[0]).length", selector))

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def press(self, *keys: str) -> None:
        """Keys to wherever the focus is. (Not to an element: the page may make it anew at any moment.)"""
        for key in keys:
            ActionChains(self.driver).send_keys(key).perform()

    def tab_to(self, selector: str, *, back: bool = False, most: int = 200) -> None:
        """Press Tab (``back``: with Shift) until the focus is on an element.

        Raises:
            AssertionError: it never comes there, or where it is cannot be seen.
        """
        for _ in range(most):
            if self.run("return document.activeElement.matches(arguments[0])", selector):
                outline = "const s = getComputedStyle(document.activeElement); return [s.outlineStyle, s.outlineWidth]"
                assert self.run(outline)[0] != "none", f"no focus is seen on {selector}"
                return
            if back:
                ActionChains(self.driver).key_down(Keys.SHIFT).send_keys(Keys.TAB).key_up(Keys.SHIFT).perform()
            else:
                self.press(Keys.TAB)
        raise AssertionError(f"Tab does not lead to {selector}")

    def until(self, ready: str | Callable[[], Any], what: str, *, seconds: float = PATIENCE_SECONDS) -> None:
        """Wait for a selector to be on the page, or for something to be so."""
        probe = (lambda: self.count(ready) > 0) if isinstance(ready, str) else ready
        WebDriverWait(self.driver, seconds, poll_frequency=0.05).until(lambda _: probe(), f"not in time: {what}")

    def size(self, width: int, height: int) -> None:
        """The size of the page's window."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def scheme(self, name: str) -> None:
        """``dark`` or ``light``, as the system would prefer."""
        features = [{"name": "prefers-color-scheme", "value": name}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def picture(self, name: str) -> Path:
        """A picture of the window, in out/screenshots/."""
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        path = SCREENSHOTS / f"{name}.png"
        assert self.driver.save_screenshot(str(path))
        return path

    def shifts(self) -> list[Any]:
        """Layout shifts so far: (value, what moved)."""
        found: list[Any] = self.run("return window.shifts")
        return found

    def complaints(self) -> list[str]:
        """Errors and warnings in the browser's console since the last look."""
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] != "INFO"]

    def asked(self) -> set[str]:
        """URLs that the page has asked for since the last look."""
        messages = (json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance"))
        sent = (m["params"] for m in messages if m["method"] == "Network.requestWillBeSent")
        # The browser's own new tab, before there was a page, is not the page's.
        return {p["request"]["url"] for p in sent if not p.get("documentURL", "").startswith(("chrome:", "data:"))}


@contextmanager
def browser() -> Iterator[Browser]:
    """A browser; the test is skipped where there is none, but not where tests must have one (CI)."""
    lacking = [path for path in (CHROMIUM, DRIVER) if not Path(path).exists()]
    if lacking and os.environ.get("CI") == "true":
        pytest.fail(f"{lacking[0]} is not installed")
    if lacking:
        pytest.skip(f"{lacking[0]} is not installed (make setup-test does that)")
    # Sockets in a profile must have short names.
    profile = Path(tempfile.mkdtemp(prefix="fsb"))
    options = ChromeOptions()
    options.binary_location = CHROMIUM
    for argument in (
        *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-proxy-server"),
        *("--disable-background-networking", "--disable-component-update", "--no-first-run", "--hide-scrollbars"),
        f"--user-data-dir={profile}",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    # Chromium writes into the user's folders whatever the profile is.
    service = Service(DRIVER, env=os.environ | {"HOME": str(profile), "XDG_CONFIG_HOME": str(profile)})
    try:
        driver = Chrome(options=options, service=service)
        try:
            driver.set_script_timeout(PATIENCE_SECONDS)
            driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": WATCH_SHIFTS})
            made = Browser(driver)
            made.size(1440, 1000)
            yield made
        finally:
            driver.quit()
    finally:
        shutil.rmtree(profile, ignore_errors=True)
