"""The page and its servers, in a browser."""

from contextlib import AsyncExitStack

from raykeeper.client.errors import EnsembleNotFoundError
from raykeeper.zab.effects import Role
from tests.browser.shown import shown, with_znodes
from tests.harness.chromium import Browser
from tests.harness.page_stage import TOKEN, PureSource, open_page
from tests.harness.pure_servers import TIMING


async def test_a_visitor_signs_in_with_the_keyboard(browser: Browser) -> None:
    async with open_page() as page, browser.tab() as tab:
        has_focus = "document.hasFocus() && document.activeElement.id === 'token'"
        await tab.goto(page.url)
        await tab.until(has_focus)
        assert await tab.focused() == "Token"
        await tab.type("wrong")
        await tab.press("Enter")
        await tab.until_text("[role=alert]", "That is not the token")
        await tab.until(f"document.readyState === 'complete' && {has_focus}")
        await tab.type(TOKEN)
        await tab.until("document.activeElement.value.length > 0")
        await tab.press("Enter")
        await tab.until_text("#servers", "leader")
        assert await tab.evaluate("location.pathname + location.search") == "/"
        assert await tab.evaluate("document.cookie") == "", "no script sees it"


async def test_the_servers_are_shown_and_followed(browser: Browser) -> None:
    async with shown(browser) as on:
        await on.tab.until_text("#state", "server 3 leads, epoch 1")
        rows = await on.texts("#servers tbody tr")
        assert [each.split("\t")[:4] for each in rows] == [
            ["1", "follower", "1", "0:0"],
            ["2", "follower", "1", "0:0"],
            ["3", "leader", "1", "0:0"],
        ]
        caller = on.source.servers[2].caller(1)
        for number in range(20):
            caller.ask(caller.create(f"/n{number}"), caller.get("/"))
        await on.look(1_000)
        # Twenty writes and twenty reads in the second.
        await on.tab.until_text("#servers tbody tr:nth-child(2)", "20")
        row = (await on.texts("#servers tbody tr:nth-child(2)"))[0].split("\t")
        assert (row[3], row[5], row[7]) == ("1:21", "20", "20")
        label = "document.querySelector('.plot svg[role=img]').getAttribute('aria-label')"
        assert await on.tab.until(f"{label}.includes('server 2: 20') && {label}")
        path = "document.querySelector('.plot .curve-1').getAttribute('d')"
        assert await on.tab.evaluate(f"/^M[\\d. L]+$/.test({path})")
        await on.tab.until_text("#places", "node2")


async def test_a_dead_and_a_late_server_are_shown_as_that(browser: Browser) -> None:
    async with shown(browser) as on:
        await with_znodes(on.source, {"/a": b"still here"})
        on.source.asked.silent[2] = "no answer within 2 s"
        on.source.servers.crash(1)
        await on.look()
        await on.tab.until_text("#state", "server 3 leads, epoch 1, 2 of 3 down")
        await on.tab.until_text("#servers tbody tr", "its actor is dead")
        rows = [each.split("\t") for each in await on.texts("#servers tbody tr")]
        assert rows[:2] == [
            ["1", "down", "its actor is dead"],
            ["2", "down", "no answer within 2 s"],
        ]
        assert rows[2][1] == "leader"
        await on.open("sessions")
        await on.tab.until_text("#view", "server 2 is down: no answer within 2 s")
        await on.open("events")
        await on.tab.until_text("#view", "server 1 is down: its actor is dead")
        await on.open("tree")
        await on.tab.click(".label", "a")
        await on.tab.until_text("pre.value", "still here")


async def test_no_leader_is_told_and_the_last_state_shown(browser: Browser) -> None:
    source = PureSource()
    source.connect_s = 0.5
    async with shown(browser, source) as on:
        servers = source.servers
        caller = servers[1].caller(1)
        caller.ask(caller.create("/a", b"last known"))
        for other in (2, 3):
            servers.crash(other)
        source.pass_time(20 * TIMING.tick_ms)
        assert servers[1].server.peer.role is Role.LOOKING
        await on.look()
        await on.tab.until_text("#state", "no leader, 2 of 3 down")
        await on.tab.until_text("#servers", "No server has a leader: what is shown may be old.")
        await on.open("tree")
        await on.tab.until_text("[role=tree]", "zookeeper")
        await on.tab.click(".label", "a")
        await on.tab.until_text("pre.value", "last known")


async def test_an_ensemble_that_ends_and_a_page_that_ends_are_told(browser: Browser) -> None:
    async with AsyncExitStack() as stack:
        on = await stack.enter_async_context(shown(browser))
        on.source.problem = EnsembleNotFoundError("no ensemble coord runs here")
        await on.look()
        await on.tab.until_text("#state", "no ensemble coord runs here")
        await on.tab.until_text("#servers", "no ensemble coord runs here")
        on.page.server.feed.close()
        await on.tab.until_text("#state", "`raykeeper ui` does not answer any more")


async def test_a_page_that_was_started_again_asks_for_its_token(browser: Browser) -> None:
    async with browser.tab() as tab:
        async with open_page() as page:
            await tab.goto(f"{page.url}/?token={TOKEN}")
            await tab.until_text("#servers", "leader")
        await tab.until_text("#state", "`raykeeper ui` does not answer any more")
        async with open_page(port=page.port):
            await tab.until_text("button", "Sign in")
