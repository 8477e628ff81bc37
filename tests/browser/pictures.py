"""`python -m tests.browser.pictures`: the pictures of the README, of a real ensemble under a load.

It starts a Ray of its own and an ensemble in it, for a minute, and writes docs/images.
"""

import asyncio
import math
import re
import secrets
import threading
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from raykeeper.client import Client
from raykeeper.clusters.admin import LoadTable, admin_of
from raykeeper.clusters.ensemble import Ensemble
from raykeeper.clusters.launch import launch
from raykeeper.clusters.local_ray import private_ray
from raykeeper.commands.output import make_console
from raykeeper.commands.top import load_report
from raykeeper.commands.ui.access import AccessControl
from raykeeper.commands.ui.settings import PageSettings
from raykeeper.commands.ui.source import RaySource
from raykeeper.commands.ui.web_server import PageServer, served
from tests.harness.chromium import open_browser

IMAGES = Path(__file__).parents[2] / "docs/images"
NAME, TOKEN = "coord", "picture"
LOOKS, INTERVAL_S = 90, 0.5
RATES_S = 2.0
"""The time in which what `raykeeper top` shows by the second is counted."""
SIZE = (1280, 700)


def main() -> None:
    """Write both pictures."""
    IMAGES.mkdir(exist_ok=True)
    folder = TemporaryDirectory(prefix="raykeeper-pictures-", ignore_cleanup_errors=True)
    with private_ray(), folder as data_dir:
        ensemble = launch(name=NAME, servers=3, data_dir=data_dir)
        over = threading.Event()
        workers = [
            threading.Thread(target=work, args=(ensemble, number, over)) for number in range(6)
        ]
        for worker in workers:
            worker.start()
        try:
            asyncio.run(draw_page(ensemble))
            draw_top()
        finally:
            over.set()
            for worker in workers:
                worker.join()
            ensemble.shutdown()


def work(ensemble: Ensemble, number: int, over: threading.Event) -> None:
    """Read and write at a rate that goes up and down."""
    with ensemble.connect() as client:
        client.ensure_path(f"/jobs/job-{number}")
        while not over.is_set():
            busy = 1 + math.sin(time.monotonic() / 4 + number)
            burst(client, number, int(6 * busy))
            over.wait(0.03)


def burst(client: Client, number: int, count: int) -> None:
    path = f"/jobs/job-{number}"
    reads = [client.get_async(path) for _ in range(4 * count)]
    writes = [client.set_async(path, b"progress") for _ in range(count)]
    for each in (*reads, *writes):
        each.result()


async def draw_page(ensemble: Ensemble) -> None:
    """Write the picture of the overview."""
    settings = PageSettings(interval_s=INTERVAL_S, looks_kept=LOOKS)
    access = AccessControl(TOKEN, secrets.token_bytes(32))
    page = PageServer(RaySource(ensemble, 1 << 20), access, settings)
    async with served(page, 0) as port, open_browser() as browser, browser.tab() as tab:
        await page.feed.after(0)
        while page.feed.looks[-1]["number"] < LOOKS:
            await page.feed.after(page.feed.looks[-1]["number"])
        await tab.look(*SIZE)
        await tab.goto(f"http://127.0.0.1:{port}/?token={TOKEN}")
        await tab.until_text("#servers", "leader")
        await tab.until_text("#places", "stream")
        await tab.until("document.querySelector('.plot .curve').getAttribute('d').length > 500")
        await tab.screenshot(IMAGES / "page.webp", format="webp", quality=85)


def draw_top() -> None:
    """Write the picture of `raykeeper top`."""
    before: LoadTable = admin_of(NAME).load()
    time.sleep(RATES_S)
    console = make_console()
    console.record, console.width = True, 132
    with Path("/dev/null").open("w") as nowhere:
        console.file = nowhere
        console.print(load_report(NAME, admin_of(NAME).load(before), console))
    picture = console.export_svg(title="raykeeper top")
    # It would load its font from elsewhere.
    (IMAGES / "top.svg").write_text(re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.DOTALL))


if __name__ == "__main__":
    main()
