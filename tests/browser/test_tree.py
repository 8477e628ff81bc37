"""The tree and its znodes, in a browser."""

from raykeeper.znodes.children import ShardedChildren
from tests.browser.shown import shown, with_znodes
from tests.harness.chromium import Browser
from tests.harness.page_stage import TOKEN, PureSource, open_page

IMG = "<img src=x onerror=document.title='taken'>"
SCRIPT = "<script>document.title='taken'</script>"


async def test_html_in_names_and_values_is_text(browser: Browser) -> None:
    async with shown(browser) as on:
        paths = {f"/{IMG}": SCRIPT.encode(), f"/{IMG}/<b>": IMG.encode(), "/json": b""}
        await with_znodes(on.source, paths)
        async with await on.source.connect() as client:
            await client.set("/json", f'{{"a": "{IMG}"}}'.encode())
            await client.get(f"/{IMG}", lambda _: None)
            await client.create("/locks")
            held = await client.lock("/locks/<s>", SCRIPT.encode()).acquire()
            await on.open("tree")
            await on.tab.click(".label", IMG)
            await on.tab.until_text("pre.value", SCRIPT)
            assert (await on.texts(".details h3")) == [f"/{IMG}"]
            await on.tab.press("ArrowRight")
            await on.tab.click(".label", "<b>")
            await on.tab.until_text("pre.value", IMG)
            await on.tab.click(".label", "json")
            await on.tab.until_text("pre.value", f'"a": "{IMG}"')
            await on.open("watches")
            await on.tab.until_text("#view table", IMG)
            await on.open("locks")
            await on.tab.click("summary")
            await on.tab.until_text(".lock table", SCRIPT)
            await on.tab.until_text(".lock h3", "/locks/<s>")
            await held.release()
        title = await on.tab.evaluate("document.title")
        assert (title, await on.tab.evaluate("document.querySelectorAll('img').length")) == (
            *("locks · coord · Raykeeper", 0),
        )
        scripts = "[...document.scripts].map(each => each.src.replace(location.origin, ''))"
        assert await on.tab.evaluate(scripts) == ["/static/main.js"]


async def test_the_policy_stops_html_that_a_script_would_write(browser: Browser) -> None:
    """What keeps a mistake of ours from being a hole."""
    async with open_page() as page, browser.tab() as tab:
        await tab.goto(f"{page.url}/?token={TOKEN}")
        for act in (
            "document.body.innerHTML = '<b>x</b>'",
            "document.body.append(Object.assign(document.createElement('script'), {text: '1'}))",
        ):
            told = await tab.evaluate(
                f"(() => {{ try {{ {act} }} catch (e) {{ return e.name }} }})()"
            )
            assert told == "TypeError"


async def test_invisible_and_turning_characters_are_shown(browser: Browser) -> None:
    async with shown(browser) as on:
        await with_znodes(on.source, {"/a\u202eb": "c\u202ed\x00\ttab\nline".encode()})
        await on.open("tree")
        await on.tab.click(".label", "a\\u{202e}b")
        await on.tab.until_text("pre.value", "c\\u{202e}d\\u{0}\ttab\nline")


async def test_the_tree_is_walked_with_the_keyboard(browser: Browser) -> None:
    async with shown(browser) as on:
        await with_znodes(
            on.source, {"/a": b"1", "/a/b": b"2", "/a/b/c": b"three", "/a/d": b"4", "/e": b"5"}
        )
        await on.open("tree")
        await on.tab.until_text("[role=tree]", "zookeeper")
        await on.tab.click(".label", "a")
        assert (await on.keys("ArrowRight")).split() == ["a", "2"]
        await on.tab.until("document.querySelectorAll('[role=treeitem]').length === 6")
        assert (await on.keys("ArrowRight")).split() == ["b", "1"]
        await on.keys("ArrowRight")
        await on.tab.until_text("[role=tree]", "c")
        assert await on.keys("ArrowDown") == "c"
        await on.keys("Enter")
        await on.tab.until_text("pre.value", "three")
        assert (await on.keys("ArrowLeft")).split() == ["b", "1"]
        assert (await on.keys("ArrowLeft", "ArrowLeft")).split() == ["a", "2"]
        assert [await on.keys(each) for each in ("End", "ArrowUp")][1] == "e"
        assert await on.keys("Home") == "/"
        level = "document.activeElement.getAttribute('aria-level')"
        assert await on.tab.evaluate(level) == "1"


async def test_a_path_leads_to_its_znode(browser: Browser) -> None:
    async with shown(browser) as on:
        await with_znodes(on.source, {"/a": b"", "/a/b": b"", "/a/b/c": b"deep"})
        await on.open("tree")
        await on.tab.click(".bar input")
        await on.tab.clear()
        await on.tab.type("/a/b/c")
        await on.tab.press("Enter")
        await on.tab.until_text("pre.value", "deep")
        assert await on.texts(".crumbs") == ["Below /a/b"]
        await on.tab.click(".crumbs a", "a")
        await on.tab.until("document.querySelector('.crumbs').innerText === 'Below /a'")
        await on.tab.click(".bar input")
        await on.tab.clear()
        await on.tab.type("/missing")
        await on.tab.press("Enter")
        await on.tab.until_text(".details", "/missing: no such znode")


async def test_a_million_children_are_shown_a_page_at_a_time(browser: Browser) -> None:
    source = PureSource()
    await with_znodes(source, {"/many": b"", "/many/first": b""})
    state = source.servers[3].server.state
    znode = state.tree.znodes["/many/first"]
    children = ShardedChildren(
        (number, f"/many/n{number:07}")  # type: ignore[misc]
        for number in range(1, 1_000_001)
    )
    state.tree.znodes["/many"].children = children
    # Of those that are on the pages there are znodes.
    for start in (1, 777_777):
        for number in range(start, start + 200):
            state.tree.znodes[f"/many/n{number:07}"] = znode
    async with shown(browser, source) as on:
        await on.open("tree")
        await on.tab.click(".label", "many")
        await on.keys("ArrowRight")
        await on.tab.until_text(".more", "100 more of 999,900")
        count = "document.querySelectorAll('[role=group] [role=group] [role=treeitem]').length"
        assert await on.tab.evaluate(count) == 101
        await on.tab.click(".more")
        await on.tab.until_text(".more", "100 more of 999,800")
        assert await on.tab.evaluate(count) == 201
        assert await on.tab.focused() == "n0000101"
        # A link to the znode itself, and a name to begin behind.
        await on.tab.evaluate("location.hash = '#/tree?root=/many&path=/many'")
        await on.tab.until_text(".more", "100 more of 999,900")
        await on.tab.click(".begin input")
        await on.tab.type("n0777776")
        await on.tab.press("Enter")
        await on.tab.until_text("[role=treeitem]", "n0777777")
        await on.tab.until_text(".more", "100 more of 222,124")


async def test_a_mebibyte_of_bytes_is_shown_in_parts(browser: Browser) -> None:
    async with shown(browser, may_edit=True) as on:
        await with_znodes(on.source, {"/big": bytes(range(256)) * 4_096, "/s": b"\x00\xff"})
        await on.open("tree")
        await on.tab.click(".label", "big")
        await on.tab.until_text("pre.value", "000010  10 11 12")
        await on.tab.until_text(".details", "bytes 0 to 65,536 of 1,048,576")
        await on.tab.until_text(".details", "A value of this size cannot be edited here.")
        await on.tab.click("button", "Next part")
        await on.tab.until_text("pre.value", "010000  00 01 02")
        await on.tab.click("label", "text")
        await on.tab.until_text("pre.value", "0123456789:;<=>?@ABC")
        await on.tab.click("label", "JSON")
        await on.tab.until_text("pre.value", "It is no JSON")
        await on.tab.click("button", "Earlier part")
        await on.tab.until_text(".details", "bytes 0 to 65,536")
        await on.tab.click(".label", "s")
        await on.tab.until_text("pre.value", "000000  00 ff")
        assert await on.tab.evaluate("document.querySelector('.set textarea').value") == "00 ff"
        await on.tab.click(".set textarea")
        await on.tab.clear()
        await on.tab.type("0")
        await on.tab.click(".set button")
        await on.tab.until_text(".set", "A binary value is written as hex digits")
        await on.tab.type("1 fe\n02")
        await on.tab.click(".set button")
        await on.tab.until_text("pre.value", "000000  01 fe 02")
