"""The Fetching Service of Yahoo!'s crawler: elected masters command fetchers, which report.

    python -m raykeeper.examples.systems fetching_service

ZooKeeper paper, section 2.5. What is crawled is a web site that this program serves on loopback.

    /fs/master                   election: the lowest candidate is the master
    /fs/config                   for the fetchers, which watch it: how they call themselves
    /fs/fetchers/<fetcher>       ephemeral: process id, state of health, pages fetched
    /fs/pages/<n>                fetched, with the links that were found there

A master sends requests to healthy fetchers only, which it knows from their znodes. All that it has
to know of the crawl is in /fs/pages, so the next master goes on where it stopped.
"""

import json
import os
import re
import threading
from collections import Counter
from itertools import chain
from typing import Any

import ray
from ray.exceptions import RayActorError

from raykeeper.client import Client, WatchedEvent
from raykeeper.clusters import Ensemble
from raykeeper.examples.systems.scene import (
    SESSION_S,
    Watch,
    expect,
    kill,
    leader_of,
    scene,
    start,
    tell,
    until,
)
from raykeeper.examples.systems.web import fetch, serve

MASTER, CONFIG, FETCHERS, PAGES = "/fs/master", "/fs/config", "/fs/fetchers", "/fs/pages"
SITE_PAGES = 48
requests: list[tuple[str, str]] = []  # what the site was asked for, and by whom
gate = threading.Event()


def page_of_site(path: str, agent: str) -> str:
    """Page n links to 2n+1 and 2n+2. Half of the pages are kept back until the gate opens."""
    requests.append((path, agent))
    if len(requests) > SITE_PAGES // 2:
        gate.wait()
    first = 2 * int(path[1:]) + 1
    return " ".join(f'<a href="/{n}">' for n in (first, first + 1) if n < SITE_PAGES)


class Fetcher:
    """Fetches what a master asks for, in the way that is configured, and reports."""

    def __init__(self, ensemble: Ensemble, name: str, port: int) -> None:
        self._port = port
        self._agent, self._health, self._fetched = "", "healthy", 0
        self._client = ensemble.connect(session_timeout_s=SESSION_S)
        self._me = self._client.group(FETCHERS).join(name)
        self._configure()

    def _configure(self, event: WatchedEvent | None = None) -> None:
        """Read the configuration, and again when it changes."""
        self._agent = json.loads(self._client.get(CONFIG, self._configure)[0])["agent"]
        self._report()

    def _report(self) -> None:
        sent: list[Any] = []
        while sent != (now := [os.getpid(), self._health, self._fetched, self._agent]):
            self._me.update(json.dumps(now).encode())  # another thread may have news meanwhile
            sent = now

    def fetch(self, page: int) -> list[int]:
        """Fetch a page; the pages that it links to."""
        text = fetch(self._port, f"/{page}", self._agent)
        self._fetched += 1
        self._report()
        return [int(link) for link in re.findall(r'href="/(\d+)"', text)]

    def fall_ill(self) -> int:
        """Report that no request should come any more; how many pages were fetched."""
        self._health = "its disk is full"
        self._report()
        return self._fetched


class Master:
    """Stands for election, and commands the fetchers when it is elected."""

    def run(self, ensemble: Ensemble, name: str, fetchers: dict[str, Any]) -> None:
        """Wait until elected, then go on with the crawl until every page is fetched."""
        with (
            ensemble.connect(session_timeout_s=SESSION_S) as client,
            client.election(MASTER, json.dumps([name, os.getpid()]).encode()) as leadership,
        ):
            known = client.get_children(PAGES)
            links = {int(page): json.loads(client.get(f"{PAGES}/{page}")[0]) for page in known}
            orders: dict[Any, tuple[str, int]] = {}
            while len(links) < SITE_PAGES:
                unknown = {0, *chain(*links.values())}.difference(links)
                free = {name for name, report in reports(client).items() if report[1] == "healthy"}
                for fetcher, page in orders.values():  # each has one request at a time
                    unknown.discard(page)
                    free.discard(fetcher)
                for page, fetcher in zip(sorted(unknown), free & {*fetchers}, strict=False):
                    orders[fetchers[fetcher].fetch.remote(page)] = fetcher, page
                [answer], _ = ray.wait(list(orders))
                fetcher, page = orders.pop(answer)
                try:
                    links[page] = ray.get(answer)
                except RayActorError:
                    del fetchers[fetcher]  # it is dead; another one fetches the page
                    continue
                with client.transaction() as t:  # nothing, if this master was replaced meanwhile
                    t.when_held(leadership)
                    t.create(f"{PAGES}/{page}", json.dumps(links[page]).encode())
                expect(bool(t.succeeded), "this master was replaced")


def reports(client: Client, watch: Watch | None = None) -> dict[str, list[Any]]:
    """Of each fetcher its process id, health, number of pages, and configured name."""
    for name in client.get_children(FETCHERS, watch):
        client.exists(f"{FETCHERS}/{name}", watch)
    members = client.group(FETCHERS).members()
    return {member.name: json.loads(member.data) for member in members if member.data}


def crawl(ensemble: Ensemble, client: Client, port: int) -> None:
    """Start everything, and see to it that things happen."""
    for path in (FETCHERS, PAGES):
        client.ensure_path(path)
    client.create(CONFIG, b'{"agent": "first"}')
    names = [f"fetcher-{number}" for number in range(1, 5)]
    fetchers = {name: start(Fetcher, ensemble, name, port) for name in names}
    until(lambda watch: len(client.get_children(FETCHERS, watch)) == len(names), "the fetchers")
    for number in (1, 2):
        start(Master).run.remote(ensemble, f"master-{number}", fetchers)

    def fetched(count: int) -> None:
        until(lambda watch: len(client.get_children(PAGES, watch)) >= count, f"{count} pages")

    fetched(SITE_PAGES // 4)
    had = ray.get(fetchers["fetcher-1"].fall_ill.remote())
    tell("fetcher-1 reports that its disk is full")
    client.set(CONFIG, b'{"agent": "second"}')
    until(lambda watch: {r[3] for r in reports(client, watch).values()} == {"second"}, "reports")
    tell("all fetchers report that they are configured anew")
    fetched(SITE_PAGES // 2)
    name, pid, _ = leader_of(client, MASTER)
    kill(pid)
    kill(reports(client)["fetcher-2"][0])
    tell(f"half of the pages are fetched; killed {name}, the master, and fetcher-2")
    gate.set()
    fetched(SITE_PAGES)
    until(lambda watch: client.exists(f"{FETCHERS}/fetcher-2", watch) is None, "its death")
    last = reports(client)
    for name in names:
        _, health, pages, _ = last.get(name, [0, "gone", 0, ""])
        tell(f"{name}: {health}, fetched {pages} pages")
    # Requests may have been under way when it fell ill, or sent before the master heard of it.
    expect(last["fetcher-1"][2] <= had + 3, "nothing is asked of a fetcher that is ill")


def main() -> None:
    with scene("fetching") as ensemble, ensemble.connect() as client:
        crawl(ensemble, client, serve(page_of_site))
        pages = Counter(page for page, _ in requests)
        expect(len(pages) == SITE_PAGES, "every page is fetched")
        expect(requests[0][1] == "first" and requests[-1][1] == "second", "configuration arrives")
        again = len(requests) - len(pages)
        expect(again <= 4, "only what was under way at a death is fetched again")
        tell(f"{len(pages)} pages of the site are fetched, {again} of them twice")
