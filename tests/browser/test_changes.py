"""Changes of znodes and the viewer's identities, in a browser."""

from raykeeper.client import make_digest_acl
from tests.browser.shown import shown, with_znodes
from tests.harness.chromium import Browser


async def test_a_value_is_changed_over_the_version_that_was_seen(browser: Browser) -> None:
    async with shown(browser, may_edit=True) as on:
        await with_znodes(on.source, {"/a": b"one"})
        await on.open("tree")
        await on.tab.click(".label", "a")
        await on.tab.until_text("pre.value", "one")
        await on.tab.click(".set textarea")
        await on.tab.clear()
        await on.tab.type("two\nlines")
        async with await on.source.connect() as other:
            await other.set("/a", b"mine")
        await on.tab.click("button", "Save over version 0")
        await on.tab.until_text(".set", "the znode has another version")
        await on.tab.click("button", "Show the newest")
        await on.tab.until_text("pre.value", "mine")
        await on.tab.click(".set textarea")
        await on.tab.clear()
        await on.tab.type("two\nlines")
        await on.tab.click("button", "Save over version 1")
        await on.tab.until_text("pre.value", "two\nlines")
        await on.tab.until_text(".details", "Save over version 2")


async def test_the_root_cannot_be_deleted_and_has_no_times(browser: Browser) -> None:
    async with shown(browser, may_edit=True) as on:
        await with_znodes(on.source, {"/a": b"one"})
        await on.open("tree")
        await on.tab.until_text(".stat", "with the ensemble")
        (stat,) = await on.texts(".stat")
        assert "never" in stat and "1970" not in stat
        assert await on.tab.evaluate("document.querySelectorAll('#delete').length") == 0
        await on.tab.click(".label", "a")
        await on.tab.until_text("pre.value", "one")
        assert await on.tab.evaluate("document.querySelectorAll('#delete').length") == 1


async def test_a_znode_is_created_and_deleted(browser: Browser) -> None:
    async with shown(browser, may_edit=True) as on:
        await on.open("tree")
        await on.tab.until_text("[role=tree]", "zookeeper")
        await on.tab.click("summary", "Create a znode")
        await on.tab.click(".create input")
        await on.tab.press("End")
        await on.tab.type("new")
        await on.tab.click(".create textarea")
        await on.tab.type("value")
        await on.tab.click(".create button")
        await on.tab.until_text(".create", "created /new")
        await on.tab.click(".create button")
        await on.tab.until_text(".create", "/new: znode exists")
        await on.tab.click(".label", "new")
        await on.tab.until_text("pre.value", "value")
        await on.tab.click("#delete")
        await on.tab.until_text("dialog", "/new at version 0")
        assert await on.tab.focused() == "Keep"
        await on.tab.press("Escape")
        await on.tab.until("!document.querySelector('dialog')")
        await on.tab.click("#delete")
        await on.tab.click("dialog button", "Delete")
        await on.tab.until(
            "![...document.querySelectorAll('.label')].some(e => e.innerText === 'new')"
        )
        async with await on.source.connect() as client:
            assert await client.exists("/new") is None


async def test_without_edit_there_is_nothing_to_change_with(browser: Browser) -> None:
    async with shown(browser) as on:
        await with_znodes(on.source, {"/a": b"one"})
        await on.open("tree")
        await on.tab.click(".label", "a")
        await on.tab.until_text("pre.value", "one")
        assert await on.texts(".details textarea, #delete, .create, .set") == []
        told = await on.tab.evaluate(
            """fetch("/api/v1/znode", {method: "PUT", body: '{"path":"/a","value":"","version":0}',
               headers: {"Content-Type": "application/json"}}).then(each => each.json())"""
        )
        assert "without --edit" in told["error"]


async def test_a_viewer_enters_an_identity_to_read_what_is_protected(browser: Browser) -> None:
    async with shown(browser) as on:
        async with await on.source.connect() as client:
            await client.create("/mine", b"mine", acl=[make_digest_acl("ann", "secret", all=True)])
        await on.open("tree")
        await on.tab.click(".label", "mine")
        await on.tab.until_text(".details", "Its ACL does not let you read it.")
        await on.tab.click("#identities")
        await on.tab.until_text("dialog", "ip:127.0.0.1")
        await on.tab.evaluate("document.querySelector('dialog select').value = 'digest'")
        await on.tab.click("dialog input[type=text]")
        await on.tab.type("ann")
        await on.tab.press("Tab")
        await on.tab.type("secret")
        await on.tab.press("Enter")
        await on.tab.until_text("dialog li", "digest:ann")
        assert await on.tab.evaluate("document.querySelector('[type=password]').value") == ""
        await on.tab.until_text("pre.value", "mine")
        await on.tab.click("dialog button", "Forget all")
        await on.tab.until_text(".details", "Its ACL does not let you read it.")
        await on.tab.press("Escape")
        await on.tab.until("!document.querySelector('dialog')")
