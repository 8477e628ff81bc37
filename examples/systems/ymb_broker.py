"""A broker of message_broker.py: an actor that takes topics as the znodes say.

It is the primary of a topic, or the backup. A message is acknowledged once both have it; they agree
on the epoch, so a primary that was frozen and replaced meanwhile acknowledges nothing any more.
"""

import os
import threading
from collections import defaultdict
from queue import SimpleQueue
from typing import Any

import ray
from ray.exceptions import RayActorError

from raykeeper.client import Stat, WatchedEvent
from raykeeper.client.errors import KeeperError
from raykeeper.clusters import Ensemble
from raykeeper.examples.systems.scene import SESSION_S

ROOT, NODES, TOPICS = "/ymb", "/ymb/nodes", "/ymb/topics"
SHUTDOWN, PROHIBITED = "/ymb/shutdown", "/ymb/migration_prohibited"


class Topic:
    """The messages of a topic that one broker has."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.epoch = 0  # in which this broker is primary, or backup
        self.is_primary = False
        self.backup: Any = None
        self.messages: dict[int, str] = {}


class Broker:
    """An actor: `run` reacts to znodes, publishers and other brokers call the rest."""

    def __init__(self, ensemble: Ensemble, name: str) -> None:
        self._me = name.encode()
        self._client = ensemble.connect(session_timeout_s=SESSION_S)
        self._topics: defaultdict[str, Topic] = defaultdict(Topic)
        self._client.create(f"{NODES}/{name}", str(os.getpid()).encode(), ephemeral=True)

    def run(self, peers: dict[str, Any]) -> None:
        """Serve until `shutdown` appears."""
        changes: SimpleQueue[WatchedEvent] = SimpleQueue()
        self._client.add_watch(ROOT, changes.put, recursive=True)
        while not self._client.exists(SHUTDOWN):
            self._client.sync()  # else a backup that another session has just written is missed
            for name in self._client.get_children(TOPICS):
                with self._topics[name].lock:
                    self._settle(f"{TOPICS}/{name}", self._topics[name], peers)
            changes.get()
            while not changes.empty():
                changes.get()  # one look does for all of them
        self._client.close()

    def _settle(self, path: str, topic: Topic, peers: dict[str, Any]) -> None:
        """Become the topic's primary, or find it a backup, if that is up to us."""
        paths = [PROHIBITED, path, f"{path}/primary", f"{path}/backup"]
        prohibited, state, primary, backup = map(value_of, self._client.get_many(paths))
        if prohibited is None and primary is None and self._me in (backup, state):
            with self._client.transaction() as t:  # at once: there is never no trace of the topic
                t.set(path, b"taken")
                t.create(f"{path}/primary", self._me, ephemeral=True)
                if backup:
                    t.delete(f"{path}/backup")
            topic.epoch, backup = self._client.get(f"{path}/primary")[1].czxid, None
            topic.is_primary = True
        if prohibited is None and topic.is_primary and backup is None:
            topic.backup = None
            up = [name for name in sorted(self._client.get_children(NODES)) if name in peers]
            candidate = up[int(path[-1]) % len(up)]
            try:
                ray.get(peers[candidate].follow.remote(path, topic.epoch, topic.messages))
                topic.backup = peers[candidate]
            except RayActorError:
                return  # it died too: its znode will go, which brings us back here

    def follow(self, path: str, epoch: int, messages: dict[int, str]) -> None:
        """Be the backup: first have all messages, then say so in a znode."""
        topic = self._topics[path.rpartition("/")[2]]
        with topic.lock:
            topic.epoch, topic.messages = epoch, dict(messages)
            self._client.create(f"{path}/backup", self._me, ephemeral=True)

    def replicate(self, name: str, epoch: int, number: int, message: str) -> bool:
        """Keep a message of the primary, unless its epoch is over."""
        topic = self._topics[name]
        with topic.lock:
            if topic.is_primary or topic.epoch != epoch:
                return False
            topic.messages[number] = message
            return True

    def publish(self, name: str, number: int, message: str) -> bool:
        """Take a message; True once two brokers have it. A second time changes nothing."""
        topic = self._topics[name]
        with topic.lock:
            if not topic.is_primary or topic.backup is None:
                return False
            topic.messages[number] = message
            try:
                copy = topic.backup.replicate.remote(name, topic.epoch, number, message)
                return bool(ray.get(copy))
            except RayActorError:
                return False

    def read(self, name: str) -> dict[int, str]:
        """All messages of a topic."""
        return self._topics[name].messages


def value_of(answer: tuple[bytes, Stat] | KeeperError) -> bytes | None:
    """Of a znode that may be missing."""
    return None if isinstance(answer, KeeperError) else answer[0]
