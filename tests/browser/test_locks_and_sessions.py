"""Locks, sessions and watches, in a browser."""

import asyncio
from contextlib import AsyncExitStack
from typing import Any

from raykeeper.client import AsyncClient
from tests.browser.shown import shown
from tests.harness.chromium import Browser
from tests.harness.page_stage import PureSource
from tests.harness.pure_servers import OPTIONS, PureServers


async def waiting(client: AsyncClient, path: str) -> "asyncio.Future[Any]":
    """Begin to wait for a lock; returns when the place in the queue is there."""
    lock = client.lock(path, b"waits")
    before = len(await lock.contenders())
    acquiring = asyncio.ensure_future(lock.acquire())
    while len(await lock.contenders()) == before:
        await asyncio.sleep(0)
    return acquiring


async def test_a_picture_shows_who_waits_for_whom(browser: Browser) -> None:
    async with shown(browser) as on, AsyncExitStack() as stack:
        line = b"driver load.py 2d000000 pid 77 on host/5d0e9a1c7b3f"
        ann, bob, cas = [
            await stack.enter_async_context(await on.source.dialer.connect(identity=line))
            for _ in range(3)
        ]
        for path in ("/locks", "/locks/a", "/locks/b"):
            await ann.create(path)
        await ann.lock("/locks/a").acquire()
        await bob.lock("/locks/b").acquire()
        queued = [await waiting(bob, "/locks/a"), await waiting(cas, "/locks/a")]
        one, two, three = [f"{each.client_id.session_id:#x}" for each in (ann, bob, cas)]
        await on.open("locks")
        label = "document.querySelector('.queue')?.getAttribute('aria-label')"
        # Whose place it is: an identifier that was given, else the program.
        first, second, third = f"driver load.py {one}", f"waits {two}", f"waits {three}"
        expected = f"{first} holds; {second} waits for {first}; {third} waits for {second}"
        assert await on.tab.until(label) == expected
        process = "pid 77 on host/5d0e9a1c7b3f"
        for line, told in (
            (".who", ["driver load.py", "waits"]),
            (".who + text", [process, f"driver load.py {process}"[:31] + "…"]),
        ):
            texts = f"[...document.querySelectorAll({line!r})].map(each => each.textContent)"
            assert (await on.tab.evaluate(texts))[:2] == told
        boxes = "[...document.querySelectorAll('.lock:first-of-type .contender')]"
        places = f"{boxes}.map(each => each.getBoundingClientRect()).map(each => [each.x, each.y])"
        (x1, y1), (x2, y2), (x3, _) = await on.tab.evaluate(places)
        assert x1 < x2 < x3 and y1 == y2
        assert await on.tab.evaluate(f"{boxes}[0].querySelectorAll('.arrow').length") == 0
        assert await on.tab.evaluate("document.querySelectorAll('.lock .arrow').length") == 2
        assert await on.texts("#view .problem") == []
        # And now in a circle.
        queued.append(await waiting(ann, "/locks/b"))
        await on.tab.click("button", "Show")
        await on.tab.until_text("#view .problem", f"Sessions {one}, {two} wait for each other.")
        assert await on.tab.evaluate("document.querySelectorAll('.circle').length") == 4
        # A narrow page has no room for a row.
        await on.tab.look(390, 800)
        (x1, y1), (x2, y2), _ = await on.tab.until(f"{places}[1][1] > {places}[0][1] && {places}")
        assert x1 == x2 and y1 < y2
        for each in queued:
            each.cancel()
        await asyncio.gather(*queued, return_exceptions=True)


async def test_sessions_are_shown_a_page_at_a_time(browser: Browser) -> None:
    servers = PureServers(1, options=OPTIONS)
    callers = [servers[1].caller(number) for number in range(1, 1_301)]
    async with shown(browser, PureSource(servers)) as on:
        await on.open("sessions")
        rows = "document.querySelectorAll('#view tbody tr').length"
        await on.tab.until_text(".told", "1,300 sessions, as server 1 knows them; 100 shown")
        await on.tab.click("button", "More sessions")
        await on.tab.until_text(".told", "200 shown")
        assert await on.tab.evaluate(rows) == 200
        ids = await on.tab.evaluate(
            "[...document.querySelectorAll('#view tbody a')].map(each => each.innerText)"
        )
        assert len(set(ids)) == 200
        await on.tab.click("button", "Refresh")
        await on.tab.until(f"{rows} === 100")
        last = callers[-1]
        last.ask(last.get("/", watch=True))
        await on.tab.evaluate(f"location.hash = '#/watches?session={last.session_id:#x}'")
        await on.tab.until_text(".told", "1 watch of 1; 1 shown")
        await on.tab.click("#view tbody a")
        await on.tab.until_text(".details h3", "/")


async def test_a_session_leads_to_its_watches(browser: Browser) -> None:
    async with shown(browser) as on:
        caller = on.source.servers[2].caller(1)
        caller.ask(caller.get("/", watch=True))
        await on.open("sessions")
        await on.tab.click("#view tbody a", f"{caller.session_id:#x}")
        await on.tab.until_text("#view tbody tr", "data")
        await on.tab.click("#view input")
        await on.tab.type("x")
        await on.tab.press("Enter")
        await on.tab.until_text("#view .problem", 'must start with "/"')
