"""A real browser without a window, driven by clicks and keys over the DevTools protocol.

Where Chromium is not installed, what needs it is skipped (`find_chromium`). Waiting is done in the
page: a promise that looks at each frame whether an expression is true.
"""

import asyncio
import base64
import itertools
import os
import shutil
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import aiohttp

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PATIENCE_S = 60.0
KEYS = {
    "Enter": 13,
    "Tab": 9,
    "Escape": 27,
    "ArrowLeft": 37,
    "ArrowUp": 38,
    "ArrowRight": 39,
    "ArrowDown": 40,
    "Home": 36,
    "End": 35,
}
WAIT = """
new Promise((resolve, reject) => {
  const end = performance.now() + %d;
  const look = () => {
    let found = null;
    try { found = (%s); } catch (error) { if (performance.now() > end) return reject(error); }
    if (found) return resolve(found);
    if (performance.now() > end) return reject(new Error("never true"));
    setTimeout(look, 15);
  };
  look();
})
"""


def find_chromium() -> str | None:
    """Return the browser's program, None if there is none."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


LEFT = ("navigated or closed", "context was destroyed", "Cannot find context")


class PageLeft(Exception):
    """Raised when a page was left while something was evaluated in it."""


class Tab:
    """One page of the browser."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.complaints: list[str] = []
        """Uncaught exceptions, and what the browser logged as an error."""
        self._socket = socket
        self._numbers = itertools.count(1)
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._reader = asyncio.ensure_future(self._read())

    async def _read(self) -> None:
        async for message in self._socket:
            said = message.json()
            if (waiter := self._answers.pop(said.get("id", 0), None)) is not None:
                waiter.set_result(said)
            elif said.get("method") == "Runtime.exceptionThrown":
                details = said["params"]["exceptionDetails"]
                self.complaints.append(
                    details.get("exception", {}).get("description", "") or str(details)
                )
            elif said.get("method") == "Log.entryAdded":
                entry = said["params"]["entry"]
                if entry["level"] == "error":
                    self.complaints.append(f"{entry['text']} {entry.get('url', '')}")

    async def call(self, method: str, **parameters: Any) -> Any:
        """Call a method of the protocol."""
        number = next(self._numbers)
        waiter = self._answers[number] = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": number, "method": method, "params": parameters})
        said = await asyncio.wait_for(waiter, PATIENCE_S)
        if any(each in str(said.get("error")) for each in LEFT):
            raise PageLeft(str(said))
        assert "error" not in said, said
        return said["result"]

    async def start(self) -> None:
        """Have exceptions and errors told."""
        for domain in ("Page", "Runtime", "Log"):
            await self.call(f"{domain}.enable")

    async def goto(self, url: str) -> None:
        """Load a page, and wait until it has loaded."""
        await self.call("Page.navigate", url=url)
        await self.until("document.readyState === 'complete' && location.href !== 'about:blank'")

    async def evaluate(self, expression: str) -> Any:
        """Return the value of an expression in the page."""
        told = await self.call(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        problem = str(told.get("exceptionDetails", {}).get("exception", {}).get("description", ""))
        assert "exceptionDetails" not in told, (expression, problem, self.complaints)
        return told["result"].get("value")

    async def until(self, expression: str) -> Any:
        """Wait until an expression is true; return its value."""
        program = WAIT % (PATIENCE_S * 900, expression)
        while True:
            try:
                return await self.evaluate(program)
            except PageLeft:
                continue  # to another page, where it may become true

    async def text(self, selector: str) -> str:
        """Return what is to be read in an element, once it is there."""
        told = await self.until(f"document.querySelector({selector!r})?.innerText ?? null")
        return str(told)

    async def until_text(self, selector: str, part: str) -> None:
        """Wait until a text is to be read in an element."""
        found = f"[...document.querySelectorAll({selector!r})]"
        await self.until(f"{found}.some(e => e.innerText.includes({part!r}))")

    async def click(self, selector: str, text: str = "") -> None:
        """Click into the middle of the first such element that has this text."""
        x, y = await self.until(
            f"""(() => {{
              const found = [...document.querySelectorAll({selector!r})].find(e =>
                (e.innerText ?? e.textContent).includes({text!r}) && e.getClientRects().length);
              if (!found) return null;
              found.scrollIntoView({{block: "center", inline: "center"}});
              const box = found.getClientRects()[0];
              return [box.x + Math.min(box.width, 400) / 2, box.y + box.height / 2];
            }})()"""
        )
        for kind in ("mousePressed", "mouseReleased"):
            await self.call(
                "Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1
            )

    async def press(self, key: str, *, shift: bool = False) -> None:
        """Press and release a key."""
        code = {"key": key, "code": key, "windowsVirtualKeyCode": KEYS[key]}
        if key == "Enter":
            code["text"] = "\r"
        for kind in ("keyDown", "keyUp"):
            await self.call("Input.dispatchKeyEvent", type=kind, modifiers=8 * shift, **code)

    async def type(self, text: str) -> None:
        """Enter a text where the focus is."""
        await self.call("Input.insertText", text=text)

    async def clear(self) -> None:
        """Select what is in the field with the focus, to be replaced by what is typed."""
        await self.evaluate("document.activeElement.select()")

    async def focused(self) -> str:
        """Return what is to be read where the focus is: text, label or name."""
        told = await self.evaluate(
            """(() => { const e = document.activeElement;
              return e.getAttribute("aria-label") || e.querySelector(":scope > .line")?.innerText
                || e.innerText || e.labels?.[0]?.innerText || e.id || e.tagName; })()"""
        )
        return str(told)

    async def look(self, width: int, height: int, *, dark: bool = False) -> None:
        """Set the size of the window, and whether its user prefers dark pages."""
        await self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        await self.call("Emulation.setScrollbarsHidden", hidden=True)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self.call("Emulation.setEmulatedMedia", features=[scheme])

    async def screenshot(self, file: Path, **more: Any) -> None:
        """Write a picture of what is to be seen."""
        told = await self.call("Page.captureScreenshot", **{"format": "png", **more})
        file.write_bytes(base64.b64decode(told["data"]))

    def close(self) -> None:
        self._reader.cancel()


@asynccontextmanager
async def open_browser() -> AsyncIterator["Browser"]:
    """Start a browser that ends with the block."""
    program = find_chromium()
    assert program is not None, "there is no Chromium"
    with TemporaryDirectory(prefix="rk-chromium-", ignore_cleanup_errors=True) as folder:
        process = await asyncio.create_subprocess_exec(
            program,
            "--headless=new",
            "--no-sandbox",  # tests may run as root in a container
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--remote-debugging-port=0",
            f"--user-data-dir={folder}",
            "about:blank",
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        try:
            async with aiohttp.ClientSession() as http:
                yield Browser(http, await _port_of(process))
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()


async def _port_of(process: asyncio.subprocess.Process) -> int:
    """Return the port that the browser tells in a line such as `DevTools listening on ws://…`."""
    assert process.stderr is not None

    async def read() -> int:
        said = []
        while line := (await process.stderr.readline()).decode(errors="replace"):  # type: ignore[union-attr]
            said.append(line)
            if "DevTools listening on ws://" in line:
                return int(line.rpartition(":")[2].partition("/")[0])
        raise AssertionError(f"the browser ended: {''.join(said)[-2000:]}")

    port = await asyncio.wait_for(read(), PATIENCE_S)
    asyncio.ensure_future(_discard(process))  # noqa: RUF006  # it ends with the process
    return port


async def _discard(process: asyncio.subprocess.Process) -> None:
    assert process.stderr is not None
    while await process.stderr.read(65_536):
        pass


class Browser:
    """A browser that runs."""

    def __init__(self, http: aiohttp.ClientSession, port: int) -> None:
        self._http = http
        self._url = f"http://127.0.0.1:{port}"
        self._numbers = itertools.count(1)

    @asynccontextmanager
    async def tab(self) -> AsyncIterator[Tab]:
        """Open a tab without the cookies of others; afterwards nothing may have failed in it."""
        async with self._http.get(f"{self._url}/json/version") as response:
            url = (await response.json())["webSocketDebuggerUrl"]
        async with self._http.ws_connect(url, max_msg_size=0) as socket:
            browser = Tab(socket)
            context = (await browser.call("Target.createBrowserContext"))["browserContextId"]
            made = await browser.call(
                "Target.createTarget", url="about:blank", browserContextId=context
            )
            page = f"{url.partition('/devtools/')[0]}/devtools/page/{made['targetId']}"
            async with self._http.ws_connect(page, max_msg_size=0) as page_socket:
                tab = Tab(page_socket)
                await tab.start()
                await tab.look(1400, 900)
                try:
                    yield tab
                finally:
                    tab.close()
                    await browser.call("Target.disposeBrowserContext", browserContextId=context)
                    browser.close()
