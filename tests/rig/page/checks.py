"""Checks of any web page: all controls have names, and all text is readable."""

from __future__ import annotations

from typing import Any

from tests.rig.page.browser import Browser

_USED = {"button", "checkbox", "combobox", "dialog", "grid", "gridcell", "link", "log", "radio", "region", "searchbox"}
_USED |= {"table", "textbox", "columnheader", "rowheader"}

# WCAG 2.2, success criterion 1.4.3, with the colours as the browser has computed them. Backgrounds are those of the
# nearest ancestor that has one; elements that cannot be seen are left out.
_CONTRASTS = """
const canvas = document.createElement('canvas'); canvas.width = canvas.height = 1;
const paint = canvas.getContext('2d', {willReadFrequently: true});
function rgba(color) {
  paint.clearRect(0, 0, 1, 1); paint.fillStyle = color; paint.fillRect(0, 0, 1, 1);
  return [...paint.getImageData(0, 0, 1, 1).data];
}
function luminance([r, g, b]) {
  const [x, y, z] = [r, g, b].map((v) => v / 255).map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * x + 0.7152 * y + 0.0722 * z;
}
function behind(node) {
  for (let at = node; at; at = at.parentElement) {
    const color = rgba(getComputedStyle(at).backgroundColor);
    if (color[3] === 255) return color;
  }
  return [255, 255, 255, 255];
}
const found = [];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const text = walker.currentNode.textContent.trim(), node = walker.currentNode.parentElement;
  if (!text || node.closest('svg, noscript, .hidden, .skip, .matrix')) continue;
  if (!node.checkVisibility({visibilityProperty: true})) continue;
  const [a, b] = [luminance(rgba(getComputedStyle(node).color)), luminance(behind(node))];
  const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (ratio < 4.5) found.push([text.slice(0, 40), Math.round(ratio * 100) / 100]);
}
return found;
"""

_PANELS = """
return [...document.querySelectorAll('header, header > *, .tiles > div, .panel, .bar, .canvas, thead, .foot')]
  .map((node) => { const at = node.getBoundingClientRect(); return [at.x, at.y + scrollY, at.width, at.height]; });
"""


def contrasts(page: Browser) -> list[Any]:
    """Texts that are too pale, with their contrast ratio."""
    # Colours on their way to others are neither.
    page.run("document.getAnimations().forEach((one) => one.finish())")
    found: list[Any] = page.run(_CONTRASTS)
    return found


def nameless(page: Browser) -> list[str]:
    """Roles of whatever can be used or read as a whole, and has no name in the accessibility tree."""
    tree = page.driver.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    roles = [
        node["role"]["value"]
        for node in tree
        if not node["ignored"] and node["role"]["value"] in _USED and not node.get("name", {}).get("value", "").strip()
    ]
    assert len(tree) > 100, "there is a tree at all"
    return roles


def panels(page: Browser) -> list[list[float]]:
    """Where everything is that must not move."""
    found: list[list[float]] = page.run(_PANELS)
    return found
