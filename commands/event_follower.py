"""`raykeeper events --follow`: the keeper's decisions as they are made.

Each round sets a watch before it reads, so no decision is missed that stands in the tree when it is
read. The tree keeps the newest 100: of more than those at once, the first may be gone.
"""

import threading
from collections.abc import Iterator

from raykeeper.client import Client, WatchedEvent
from raykeeper.client.errors import NoNodeError
from raykeeper.clusters.healing.vocabulary import Entry
from raykeeper.clusters.keeper_journal import EVENTS, Journal


def follow_entries(client: Client) -> Iterator[list[Entry]]:
    """Yield the decisions that are there, perhaps none, then the new ones whenever some come.

    Raises:
        SessionExpiredError: the session is over.
    """
    seen, is_first = -1, True
    journal = Journal(client)
    while True:
        changed = threading.Event()
        _watch(client, changed)
        found = journal.read_entries()
        if found and found[-1].number < seen:
            seen = -1  # somebody has deleted them all, and their numbers begin anew
        entries = [each for each in found if each.number > seen]
        if entries or is_first:
            yield entries
        is_first = False
        seen = max([seen, *(each.number for each in entries)])
        changed.wait()


def _watch(client: Client, changed: threading.Event) -> None:
    """Have `changed` set by the next decision, by the first one if there is no keeper yet."""

    def on_event(_: WatchedEvent) -> None:
        changed.set()

    while True:
        try:
            client.get_children(EVENTS, on_event)
            return
        except NoNodeError:
            if client.exists(EVENTS, on_event) is None:
                return
