"""Check the page in a window, and return each problem as one line."""

import json
from importlib.resources import files
from typing import Any, Final

from tests.browser.chromium import Window

AXE: Final = files("axe_playwright_python").joinpath("axe.min.js").read_text()
# Every rule except experimental ones; by default, axe skips target sizes (WCAG 2.2).
_AXE_OPTIONS: Final = {"rules": {"target-size": {"enabled": True}}, "resultTypes": ["violations"]}
# What takes axe-core longest, and what the style sheet of all pages decides.
_STYLE_RULES: Final = ("color-contrast", "target-size")

_WIDER: Final = """() => {
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth <= width) return [];
  return [...document.body.querySelectorAll("*")]
    .filter((one) => one.getBoundingClientRect().right > width + 1)
    .slice(0, 5)
    .map((one) => `${one.nodeName}.${one.className} ends at ${one.getBoundingClientRect().right}`);
}"""

# Of a long title, a table shows the beginning.
_SPILLED: Final = """() => [...document.querySelectorAll("td, th, .figures dd")]
  .filter((one) => one.scrollWidth > one.clientWidth + 1 && one.checkVisibility()
    && !(one.matches("td") && getComputedStyle(one).textOverflow == "ellipsis"))
  .map((one) => `${one.textContent.trim().slice(0, 40)}: ${one.scrollWidth} of ${one.clientWidth}`)
"""

# A file of the browser's cache counts as the first time that it was loaded.
_WEIGHT: Final = """() => {
  const all = ["navigation", "resource"].flatMap((kind) => performance.getEntriesByType(kind));
  const files = all.filter((one) => !one.initiatorType.includes("fetch"));
  return [files.length, files.reduce((sum, one) => sum + one.encodedBodySize, 0)];
}"""
MOST_REQUESTS, MOST_BYTES = 6, 100_000

# Rows and items beyond the sixth, and operations of the API beyond the fourth, are as those before.
_THIN: Final = """() => {
  const beyond = (parts, count) => parts.slice(count).forEach((one) => one.remove());
  for (const one of document.querySelectorAll("tbody, ul, ol, dl, select, datalist")) {
    beyond([...one.children], 6);
  }
  beyond([...document.querySelectorAll(".operation")], 4);
}"""


def thin(window: Window) -> None:
    """Leave some of what a page has many of: axe-core takes most of a page's time for the rest."""
    window.page.evaluate(_THIN)


def axe_violations(window: Window, *, in_full: bool = True) -> list[str]:
    """What axe-core finds, in words with the places; unless in full, not by color and size."""
    rules = {} if in_full else {"rules": {name: {"enabled": False} for name in _STYLE_RULES}}
    options = json.dumps({**_AXE_OPTIONS, **rules})
    if not window.page.evaluate("() => 'axe' in window"):
        window.page.evaluate(AXE)
    run = f"() => axe.run(document, {options}).then(({{ violations }}) => violations)"
    found: list[dict[str, Any]] = window.page.evaluate(run)
    return [f"{one['id']}: {one['help']} {_places(one['nodes'])}" for one in found]


def _places(nodes: list[dict[str, Any]]) -> str:
    shown = [f"{node['target']} {_reason(node)}" for node in nodes[:3]]
    return f"at {len(nodes)} places: {'; '.join(shown)}"


def _reason(node: dict[str, Any]) -> str:
    checks = [*node["any"], *node["all"], *node["none"]]
    return "|".join(str(check["message"]) for check in checks[:2])


def shifts(window: Window) -> list[str]:
    """What moved while the page was loaded, and again when it was loaded once more.

    On a busy machine, Chromium may paint a chart whose second half has not come in yet.
    """
    moved = window.page.evaluate("() => window.shifts")
    if moved:
        window.page.reload(wait_until="networkidle")
        moved = window.page.evaluate("() => window.shifts")
    return [f"moved: {one}" for one in moved]


def spilled(window: Window) -> list[str]:
    """Cells whose content is wider than their column, so that it is cut or covers the next."""
    found: list[str] = window.page.evaluate(_SPILLED)
    return found


def overflow(window: Window) -> list[str]:
    """What makes the page wider than its window."""
    return [f"too wide: {one}" for one in window.page.evaluate(_WIDER)]


def too_heavy(window: Window) -> list[str]:
    """More requests or bytes, as they are sent, than a first load may take."""
    requests, size = window.page.evaluate(_WEIGHT)
    return [f"{requests} requests, {size} bytes"] * (requests > MOST_REQUESTS or size > MOST_BYTES)


# What a reader sees at first: no tables, charts and legends, no data, nothing that opens on demand.
_WORDS: Final = """() => {
  const leftOut = "table, svg, script, style, template, noscript, option, datalist, bdi, time, "
    + "code, pre, .legend, .plot, .skip-chart, .hidden, .unread, .later";
  const walker = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
  const seen = { visibilityProperty: true };
  let words = 0;
  while (walker.nextNode()) {
    const parent = walker.currentNode.parentElement;
    if (parent.closest(leftOut) || !parent.checkVisibility(seen)) continue;
    const isWord = (text) => /[A-Za-z]/.test(text) && !/[0-9]/.test(text);
    words += walker.currentNode.textContent.split(/[\\s/]+/).filter(isWord).length;
  }
  return words;
}"""


def words(window: Window) -> int:
    """Count the words of the page that are seen at first; amounts, dates and names are data."""
    count: int = window.page.evaluate(_WORDS)
    return count
