"""Contrast, names of controls, the keyboard and narrow windows, in every view."""

import pytest

from tests.browser.shown import VIEWS, shown, with_znodes
from tests.harness.chromium import Browser

LABELS = """
[...document.querySelectorAll("input, select, textarea, button, a, [role=img], [role=region]")]
  .filter(each => !(each.labels?.length || each.getAttribute("aria-label") ||
    each.textContent.trim() || each.closest("label")))
  .map(each => each.outerHTML)
"""
CONTRAST = """
(() => {
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", {willReadFrequently: true});
  const rgb = (color, under) => {
    canvas.fillStyle = under; canvas.fillRect(0, 0, 1, 1);
    canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const light = color => color.map(v => v / 255)
    .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, at) => sum + v * [0.2126, 0.7152, 0.0722][at], 0);
  const back = each => {
    for (let at = each; at; at = at.parentElement) {
      const rect = at.tagName === "g" ? at.querySelector("rect") : null;
      const color = rect ? getComputedStyle(rect).fill : getComputedStyle(at).backgroundColor;
      if (color !== "rgba(0, 0, 0, 0)") return color;
    }
    return "white";
  };
  const found = [];
  for (const each of document.querySelectorAll("body *")) {
    const own = [...each.childNodes].some(n => n.nodeType === 3 && n.data.trim());
    if (!own || !each.getClientRects().length) continue;
    if (each.closest(".unseen, .skip, noscript, option")) continue;
    const style = getComputedStyle(each);
    const under = back(each);
    const color = each.namespaceURI.includes("svg") ? style.fill : style.color;
    const [one, two] = [light(rgb(color, under)), light(rgb(under, "white"))].sort((a, b) => b - a);
    const ratio = (one + 0.05) / (two + 0.05);
    if (ratio < 4.5) found.push([each.outerHTML.slice(0, 80), ratio.toFixed(2)]);
  }
  return found;
})()
"""


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [390, 1400])
async def test_every_view_is_readable_and_named(browser: Browser, width: int, dark: bool) -> None:
    """Contrast of texts (WCAG AA), names of controls, and no page wider than the window."""
    async with shown(browser, may_edit=True) as on, await on.source.connect() as client:
        await with_znodes(on.source, {"/a": b"x" * 500, "/locks": b"", f"/{'long' * 50}": b""})
        held = await client.lock("/locks/a").acquire()
        await client.get("/a", lambda _: None)
        on.source.asked.silent[1] = "no answer within 2 s"
        await on.look(1_000)
        await on.tab.look(width, 800, dark=dark)
        for view in VIEWS:
            await on.open(view)
            await on.tab.until(
                "document.querySelector('#view :is(table, .details h3, .lock, .events, .dim)')"
            )
            if view == "tree":
                await on.tab.click(".label", "a")
                await on.tab.until_text("pre.value", "x")
            assert await on.tab.evaluate(LABELS) == [], view
            assert await on.tab.evaluate(CONTRAST) == [], view
            wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
            assert await on.tab.evaluate(wide) <= 0, view
            current = "document.querySelector('nav [aria-current]').getBoundingClientRect()"
            assert await on.tab.evaluate(f"{current}.right <= innerWidth && {current}.left >= 0")
        await held.release()


async def test_everything_is_reached_with_the_tab_key(browser: Browser) -> None:
    async with shown(browser) as on:
        await on.tab.evaluate("document.body.focus()")
        reached = [await on.keys("Tab") for _ in range(9)]
        assert reached == [
            "Skip to the content",
            "Identities",
            *(each.capitalize() for each in VIEWS),
            "Servers",
        ]
        await on.tab.evaluate("document.querySelector('nav a[href=\"#/locks\"]').focus()")
        await on.tab.press("Enter")
        await on.tab.until_text("h2", "Locks")
