"""Where the servers of an ensemble are: for each one the handle of its actor and its address.

Three ways lead to a server, each of which needs less than the one before. Its name needs Ray's GCS,
whose answer can take for ever. A call through its handle goes straight to its process; Ray tells
the holders of a handle where an actor was restarted, so that works without the GCS too. Its address
needs no Ray at all. So all servers are looked up once, soon after the first link, while the GCS is
there. After that a dialer tries the address; if no stream opens there it asks through the handle,
since every process of a server has a port and a key of its own; and it asks for the name only if
the handle fails, since the actor may have been replaced by another one of its name.

Invariants: for each server at most one question is under way, which all dialers share, and one
lookup of its name, which takes one thread even if it never returns. What is known of a server is
replaced only by a newer answer. No address is written to a log: it holds the key.
"""

import asyncio
import random
import threading
import weakref
from collections.abc import Callable, Hashable, Iterable
from typing import Any

from raykeeper.links.daemon_threads import SharedCall
from raykeeper.links.limits import (
    DIRECTORY_FIRST_MS,
    DIRECTORY_REFRESH_MS,
    DIRECTORY_RETRY_MS,
    GRACE_MS,
    LISTING_PAUSE_MS_MAX,
    STREAM_DIALS_MAX,
)
from raykeeper.links.stream_endpoints import StreamAddress
from raykeeper.zab.ids import ServerId


class ServerDirectory:
    """The servers of one ensemble, for the dialers on one event loop."""

    def __init__(
        self,
        find: Callable[[ServerId], Any],
        check: Callable[[], None] = lambda: None,
        list_all: Callable[[], list[ServerId]] = list,
        *,
        first_ms: int = DIRECTORY_FIRST_MS,
        retry_ms: int = DIRECTORY_RETRY_MS,
        refresh_ms: int = DIRECTORY_REFRESH_MS,
    ) -> None:
        """Know nothing yet.

        Args:
            find: Looks up the handle of a server's actor by its name. It may block, so it runs in a
                thread. The actors have the method `link_address`.
            check: Raises if no actor may be called any more.
            list_all: Lists the servers that run. It may block too.
            first_ms: How long after `keep` a server is asked at the latest.
            retry_ms: How long after a failure; the pause doubles with each failure, up to
                `refresh_ms`.
            refresh_ms: How long, about, after an answer.
        """
        self._look_up: SharedCall[Any] = SharedCall(find)
        self._check = check
        self._first_s = first_ms / 1000
        self._retry_s = retry_ms / 1000
        self._refresh_s = refresh_ms / 1000
        self._entries: dict[ServerId, _Entry] = {}
        self._list_all: SharedCall[list[ServerId]] = SharedCall(list_all)
        self._listed: list[ServerId] = []
        self._list_pace = QuestionPace(self._retry_s, LISTING_PAUSE_MS_MAX / 1000)

    async def list_servers(self) -> list[ServerId]:
        """Return the servers that run; those of the last time if it was asked a moment ago.

        Raises:
            Exception: of the lookup.
        """
        if self._list_pace.may_ask(asyncio.get_running_loop().time()):
            self._listed = await self._list_all()
        return self._listed

    def keep_only(self, servers: Iterable[ServerId]) -> None:
        """`keep` these, and ask no other one in the background any more."""
        kept = dict.fromkeys(servers)
        for server, entry in self._entries.items():
            if server not in kept:
                entry.is_kept = False
                if entry.timer is not None:
                    entry.timer.cancel()
        self.keep(kept)

    def keep(self, servers: Iterable[ServerId]) -> None:
        """Keep the addresses of `servers` known from now on, as long as the directory is in use.

        They are not asked at once: the first link goes before, a session that lasts a moment costs
        the other servers nothing, and processes that start together do not come together.
        """
        for server in servers:
            entry = self._entry(server)
            if not entry.is_kept:
                entry.is_kept = True
                self._arm(server, entry, self._first_s)

    def address(self, server: ServerId) -> StreamAddress | None:
        """Return where the server listened when it was last asked, None if it is not known."""
        return self._entry(server).address

    def dial_slots(self, server: ServerId) -> asyncio.Semaphore:
        """Return what a dialer holds while it opens a stream to the server."""
        return self._entry(server).dial_slots

    async def handle(self, server: ServerId) -> Any:
        """Return the handle of the server's actor, looked up if it is not known.

        Raises:
            Exception: of the lookup, or of `check`.
        """
        entry = self._entry(server)
        if entry.handle is None:
            entry.handle = await self._look_up(server)
        self._check()
        return entry.handle

    async def ask_address(
        self, server: ServerId, stale: StreamAddress | None = None
    ) -> StreamAddress | None:
        """Return where the server listens, None if it does not; ask it if only `stale` is known.

        Raises:
            Exception: of Ray, or of the server; there was no answer.
        """
        entry = self._entry(server)
        if entry.address is not None and entry.address != stale:
            return entry.address
        is_older = entry.asking is not None and not entry.asking.done()
        # A dialer that is cancelled stops waiting; the answer is kept for the others.
        address = await asyncio.shield(self._asking(server, entry))
        if is_older and address == stale:
            # The server may have told it before it was restarted.
            address = await asyncio.shield(self._asking(server, entry))
        return address

    def ask_again(self, server: ServerId) -> None:
        """Ask the server in the background, as a dialer has reason to doubt what is known of it."""
        entry = self._entry(server)
        now = asyncio.get_running_loop().time()
        if now >= entry.asked_at + self._retry_s:
            self._asking(server, entry)

    def refresh(self, server: ServerId) -> None:
        """Ask the server in the background; for the timer."""
        self._asking(server, self._entry(server))

    def _entry(self, server: ServerId) -> "_Entry":
        entry = self._entries.get(server)
        if entry is None:
            entry = self._entries[server] = _Entry()
        return entry

    def _asking(self, server: ServerId, entry: "_Entry") -> "asyncio.Task[StreamAddress | None]":
        asking = entry.asking
        if asking is None or asking.done():
            loop = asyncio.get_running_loop()
            entry.asked_at = loop.time()
            asking = entry.asking = loop.create_task(self._ask(server, entry))
            asking.add_done_callback(lambda task: self._asked(server, entry, task))
        return asking

    async def _ask(self, server: ServerId, entry: "_Entry") -> StreamAddress | None:
        async with asyncio.timeout(GRACE_MS / 1000):
            known = entry.handle
            handle = await self.handle(server)
            try:
                entry.address = await handle.link_address.remote()
            except Exception:
                if known is None:
                    raise
                handle = await self._look_up(server)
                if handle == known:
                    raise
                entry.handle = handle
                entry.address = await handle.link_address.remote()
        return entry.address

    def _asked(
        self, server: ServerId, entry: "_Entry", task: "asyncio.Task[StreamAddress | None]"
    ) -> None:
        if entry.asking is task:
            entry.asking = None
        if task.cancelled():
            return  # the loop ends
        entry.failures = 0 if task.exception() is None else entry.failures + 1
        if entry.is_kept:
            pause_s = self._refresh_s
            if entry.failures:
                pause_s = min(self._retry_s * 2 ** min(entry.failures - 1, 16), pause_s)
            self._arm(server, entry, pause_s)

    def _arm(self, server: ServerId, entry: "_Entry", pause_s: float) -> None:
        """Ask the server after half of `pause_s` to all of it."""
        if entry.timer is not None:
            entry.timer.cancel()
        # The timer does not keep the directory: it ends with the last dialer that uses it.
        entry.timer = asyncio.get_running_loop().call_later(
            pause_s * random.uniform(0.5, 1.0), _on_timer, weakref.ref(self), server
        )


class QuestionPace:
    """How often a question is asked that many would ask at once, and again and again.

    The first one is asked at once. After that the pause doubles with each, up to a bound, until
    nobody has wanted to ask for as long as the last pause was.
    """

    def __init__(self, first_s: float, longest_s: float) -> None:
        self._first_s, self._longest_s = first_s, max(longest_s, first_s)
        self._pause_s = first_s
        self._again_at = float("-inf")

    def may_ask(self, now: float) -> bool:
        """Return whether the question is to be asked at `now`, in seconds."""
        if now < self._again_at:
            return False
        is_first = now >= self._again_at + self._pause_s
        self._pause_s = self._first_s if is_first else min(self._pause_s * 2, self._longest_s)
        self._again_at = now + self._pause_s
        return True


class _Entry:
    """What is known of one server."""

    __slots__ = (
        "address",
        "asked_at",
        "asking",
        "dial_slots",
        "failures",
        "handle",
        "is_kept",
        "timer",
    )

    def __init__(self) -> None:
        self.handle: Any = None
        self.dial_slots = asyncio.Semaphore(STREAM_DIALS_MAX)
        self.address: StreamAddress | None = None
        self.asking: asyncio.Task[StreamAddress | None] | None = None
        self.asked_at = float("-inf")
        self.failures = 0  # since the last answer
        self.is_kept = False
        self.timer: asyncio.TimerHandle | None = None


def _on_timer(directory: "weakref.ref[ServerDirectory]", server: ServerId) -> None:
    used = directory()
    if used is not None:
        used.refresh(server)


_Directories = weakref.WeakValueDictionary[Hashable, ServerDirectory]
_shared: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Directories]"
_shared = weakref.WeakKeyDictionary()
_shared_lock = threading.Lock()  # each loop has a thread of its own


def shared_directory(
    key: Hashable,
    find: Callable[[ServerId], Any],
    check: Callable[[], None] = lambda: None,
    list_all: Callable[[], list[ServerId]] = list,
) -> ServerDirectory:
    """Return the directory of `key` on the running loop: a new one if no dialer there uses one.

    So a process that holds a thousand sessions asks each server once.
    """
    loop = asyncio.get_running_loop()
    with _shared_lock:
        directories = _shared.setdefault(loop, weakref.WeakValueDictionary())
        directory = directories.get(key)
        if directory is None:
            directory = directories[key] = ServerDirectory(find, check, list_all)
        return directory
