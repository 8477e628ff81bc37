"""Yahoo! Message Broker: topics move when a broker dies, and no published message is lost.

    python -m raykeeper.examples.systems message_broker

ZooKeeper paper, section 2.5 and figure 3, the znodes of one broker domain:

    /ymb/shutdown                   when it appears, every broker stops
    /ymb/migration_prohibited       while it exists, no topic moves
    /ymb/nodes/<broker>             ephemeral: who is up, with its process id
    /ymb/topics/<topic>             the broker that is to begin with it, then "taken"
    /ymb/topics/<topic>/primary     ephemeral: takes messages; its czxid is the topic's epoch
    /ymb/topics/<topic>/backup      ephemeral: has every message that was acknowledged

Messages are in the memory of two brokers, not in znodes. Only the broker that the znode `backup`
names becomes primary, so a topic whose two brokers die at once stays without one, not empty.
"""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import ray
from ray.exceptions import RayActorError

from raykeeper.client import Client
from raykeeper.examples.systems.scene import PATIENCE_S, expect, kill, scene, start, tell, until
from raykeeper.examples.systems.ymb_broker import (
    NODES,
    PROHIBITED,
    SHUTDOWN,
    TOPICS,
    Broker,
    value_of,
)

BROKERS = [f"broker-{number}" for number in range(4)]
NAMES = [f"topic-{number}" for number in range(8)]


def publish(client: Client, brokers: dict[str, Any], numbers: range) -> None:
    """Publish to all topics in turn, each message until it is acknowledged."""
    changed = threading.Event()
    client.add_watch(TOPICS, lambda event: changed.set(), recursive=True)
    for number in numbers:
        name = NAMES[number % len(NAMES)]
        while True:
            primary = value_of(client.get_many([f"{TOPICS}/{name}/primary"])[0])
            try:
                broker = brokers[(primary or b"").decode()]
                if ray.get(broker.publish.remote(name, number, f"message {number}")):
                    break
            except (KeyError, RayActorError):
                pass  # nobody, or a dead one
            expect(changed.wait(PATIENCE_S), f"{name} has no primary again")
            changed.clear()


def placement(client: Client) -> dict[str, list[str]]:
    """The primary and the backup of each topic, once all topics have both."""
    roles = {name: [f"{TOPICS}/{name}/{role}" for role in ("primary", "backup")] for name in NAMES}
    paths = [path for pair in roles.values() for path in pair]
    until(lambda watch: all(client.exists(path, watch) for path in paths), "a place for each topic")
    return {name: [client.get(path)[0].decode() for path in pair] for name, pair in roles.items()}


def kill_broker(client: Client, broker: str) -> None:
    """SIGKILL a broker's process, and wait until its znode is gone."""
    pid = int(client.get(f"{NODES}/{broker}")[0])
    tell(f"killing {broker}, process {pid}")
    kill(pid)
    until(lambda watch: client.exists(f"{NODES}/{broker}", watch) is None, "its death")


def main() -> None:
    with scene("ymb") as ensemble, ensemble.connect() as client, ThreadPoolExecutor() as pool:
        for path in (NODES, TOPICS):
            client.ensure_path(path)
        for number, name in enumerate(NAMES):
            client.create(f"{TOPICS}/{name}", BROKERS[number % len(BROKERS)].encode())
        brokers = {name: start(Broker, ensemble, name) for name in BROKERS}
        until(lambda watch: len(client.get_children(NODES, watch)) == len(BROKERS), "the brokers")
        runs = {
            me: broker.run.remote({name: peer for name, peer in brokers.items() if name != me})
            for me, broker in brokers.items()
        }
        before = placement(client)
        for name, pair in before.items():
            tell(f"{name}: primary {pair[0]}, backup {pair[1]}")
        publish(client, brokers, range(40))
        tell("40 messages are acknowledged")

        publishing = pool.submit(publish, client, brokers, range(40, 80))
        kill_broker(client, "broker-0")
        after = placement(client)
        for name, (primary, backup) in before.items():
            if primary == "broker-0":
                expect(after[name][0] == backup, f"the backup of {name} took over")
                tell(f"{name} moved to its backup {backup}, whose backup is {after[name][1]}")
        publishing.result(PATIENCE_S)

        client.create(PROHIBITED)
        publishing = pool.submit(publish, client, brokers, range(80, 120))
        kill_broker(client, "broker-1")
        lifted = client.set(PROHIBITED, b"about to be lifted")
        client.delete(PROHIBITED)
        moved = [name for name in NAMES if after[name][0] == "broker-1"]
        after = placement(client)
        for name in moved:
            stat = client.exists(f"{TOPICS}/{name}/primary")
            expect(stat is not None and stat.czxid > lifted.mzxid, f"{name} stood still")
            tell(f"{name} moved to {after[name][0]} only after migration was allowed again")
        publishing.result(PATIENCE_S)

        kept: dict[int, str] = {}
        for name, (primary, _) in after.items():
            kept |= ray.get(brokers[primary].read.remote(name))
        expect(kept == {n: f"message {n}" for n in range(120)}, "a published message is lost")
        tell(f"120 messages were acknowledged, {len(kept)} are there, none is lost")
        client.create(SHUTDOWN)
        ray.get([runs["broker-2"], runs["broker-3"]], timeout=PATIENCE_S)
        expect(client.get_children(NODES) == [], "all brokers have left")
        tell("shutdown: both brokers have left")
