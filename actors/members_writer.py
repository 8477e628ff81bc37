"""Leaves the member list in the server's folder, for launches: the file of `members_file.py`.

The list that counts is in the log, so nothing waits for this file, and a write that fails, as on a
full disk, is tried again. Written is each list that has this server, and of a newcomer each that
has it not. A list without a server that was a member comes only with the word that it was removed:
until then the file says that it was one, also to the next process of the server.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from raykeeper.actors.disk.members_file import StoredMembers, write_members
from raykeeper.actors.disk.storage_errors import StorageError
from raykeeper.server.effects import MembersKnown
from raykeeper.zab.ids import ServerId

RETRY_S: Final = 1.0


class MembersWriter:
    """Writes the newest list that was given, one at a time, in a thread."""

    def __init__(
        self,
        folder: Path,
        server_id: ServerId,
        stored: StoredMembers | None,
        log: Callable[..., None],
        retry_s: float = RETRY_S,
    ) -> None:
        """`stored` is what the folder has; `log` takes a name and fields for a log line."""
        self._folder = folder
        self._server_id = server_id
        self._newest = stored
        self._written = stored
        self._log = log
        self._retry_s = retry_s
        self._task: asyncio.Task[None] | None = None
        self._is_over = asyncio.Event()

    def take(self, known: MembersKnown) -> None:
        """Have the list written, if it is to be and is news."""
        members, newest = known.members, self._newest
        is_news = newest is None or members.version > newest.members.version
        if is_news and (self._server_id in members.servers) is known.was_member:
            self._newest = StoredMembers(members)
            if self._task is None:
                self._task = asyncio.get_running_loop().create_task(self._write_all())

    async def finish(self, last: StoredMembers | None = None) -> None:
        """End; if there is a `last` word, write it first, without another try."""
        self._is_over.set()
        if self._task is not None:
            await self._task  # a write that has begun ends: the folder is unlocked after it
        if last is not None:
            self._newest = last
            await self._write_newest()

    async def _write_all(self) -> None:
        while self._written != self._newest and not self._is_over.is_set():
            if not await self._write_newest():
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._is_over.wait(), self._retry_s)
        self._task = None

    async def _write_newest(self) -> bool:
        stored = self._newest
        assert stored is not None, "nothing is to be written"
        try:
            await asyncio.to_thread(write_members, self._folder, stored)
        except StorageError as error:
            self._log("members.unwritten", version=stored.members.version, reason=error)
            return False
        self._written = stored
        return True
