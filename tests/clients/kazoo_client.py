"""A tour of kazoo, with two sessions of one process.

    python kazoo_client.py tour 127.0.0.1:2181

`survive` sets a znode once for each line of its input, and ends when that ends; it tries again
while no server takes it. `readonly` reads from a server without a leader. A step that does not do
what it must raises.
"""

import queue
import sys
import threading
from collections.abc import Callable

from kazoo.client import KazooClient
from kazoo.exceptions import (
    BadVersionError,
    ConnectionClosedError,
    ConnectionLoss,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    NotReadOnlyCallError,
    RolledBackError,
)
from kazoo.protocol.states import KazooState, KeeperState, WatchedEvent
from kazoo.security import OPEN_ACL_UNSAFE, make_digest_acl

PATIENCE_S = 60.0


def opened(hosts: str) -> KazooClient:
    client = KazooClient(hosts=hosts, timeout=30.0)
    client.start(PATIENCE_S)
    return client


def refused(error: type[Exception], call: Callable[..., object], *words: object) -> None:
    try:
        call(*words)
    except error:
        return
    raise AssertionError(f"no {error.__name__}")


def read_and_write(client: KazooClient) -> None:
    assert client.create("/kazoo", b"one") == "/kazoo"
    refused(NodeExistsError, client.create, "/kazoo")
    data, stat = client.get("/kazoo")
    assert (data, stat.version, stat.dataLength) == (b"one", 0, 3)
    assert client.set("/kazoo", b"two", version=0).version == 1
    refused(BadVersionError, client.set, "/kazoo", b"three", 0)
    assert client.create("/kazoo/s-", sequence=True) == "/kazoo/s-0000000000"
    path, stat = client.create("/kazoo/e", ephemeral=True, include_data=True)
    assert (path, stat.ephemeralOwner) == ("/kazoo/e", client.client_id[0])
    names, stat = client.get_children("/kazoo", include_data=True)
    assert (sorted(names), stat.cversion) == (["e", "s-0000000000"], 2)
    refused(NotEmptyError, client.delete, "/kazoo")
    assert client.exists("/kazoo/missing") is None
    refused(NoNodeError, client.get, "/kazoo/missing")
    assert client.sync("/kazoo") == "/kazoo"


def watch(watcher: KazooClient, writer: KazooClient) -> None:
    events: queue.Queue[WatchedEvent] = queue.Queue()

    def expect(kind: str, path: str) -> None:
        event = events.get(timeout=PATIENCE_S)
        assert (event.type, event.path) == (kind, path), event

    watcher.get("/kazoo", watch=events.put)
    writer.set("/kazoo", b"three")
    expect("CHANGED", "/kazoo")
    watcher.exists("/kazoo/w", watch=events.put)
    writer.create("/kazoo/w")
    expect("CREATED", "/kazoo/w")
    watcher.get_children("/kazoo", watch=events.put)
    writer.delete("/kazoo/w")
    expect("CHILD", "/kazoo")


def several_at_once(client: KazooClient) -> None:
    several = client.transaction()
    several.create("/kazoo/m", b"")
    several.set_data("/kazoo/m", b"m")
    several.check("/kazoo/m", 1)
    several.delete("/kazoo/m")
    path, stat, checked, deleted = several.commit()
    assert (path, stat.version, checked, deleted) == ("/kazoo/m", 1, True, True)
    failing = client.transaction()
    failing.create("/kazoo/m")
    failing.delete("/kazoo/missing")
    assert list(map(type, failing.commit())) == [RolledBackError, NoNodeError]
    assert client.exists("/kazoo/m") is None
    many = client.transaction()
    for number in range(4_000):
        many.create(f"/kazoo/m{number}")
        many.delete(f"/kazoo/m{number}")
    assert many.commit()[-2:] == ["/kazoo/m3999", True], "8 000 operations fit in a frame"


def access(owner: KazooClient, other: KazooClient) -> None:
    owner.add_auth("digest", "ann:secret")
    owner.create("/kazoo/acl", b"x", acl=[make_digest_acl("ann", "secret", all=True)])
    refused(NoAuthError, other.get, "/kazoo/acl")
    assert owner.get("/kazoo/acl")[0] == b"x"
    acls, stat = owner.get_acls("/kazoo/acl")
    assert (acls[0].id.scheme, stat.aversion) == ("digest", 0)
    assert owner.set_acls("/kazoo/acl", OPEN_ACL_UNSAFE).aversion == 1
    assert other.get("/kazoo/acl")[0] == b"x"


def recipes(one: KazooClient, two: KazooClient) -> None:
    held, wanted = one.Lock("/kazoo/lock", "one"), two.Lock("/kazoo/lock", "two")
    assert held.acquire()
    assert not wanted.acquire(blocking=False)
    held.release()
    assert wanted.acquire(timeout=PATIENCE_S)
    wanted.release()
    led: list[str] = []
    one.Election("/kazoo/leader", "one").run(led.append, "one")
    two.Election("/kazoo/leader", "two").run(led.append, "two")
    assert led == ["one", "two"]
    counter = one.Counter("/kazoo/counter")
    counter += 2
    assert counter.value == 2


def tour(hosts: str) -> None:
    one, two = opened(hosts), opened(hosts)
    read_and_write(one)
    watch(two, one)
    several_at_once(one)
    access(one, two)
    recipes(one, two)
    for client in (two, one):
        client.stop()
        client.close()


def survive(hosts: str) -> None:
    client = opened(hosts)
    connected = threading.Event()
    connected.set()

    def on_state(state: str) -> None:
        if state == KazooState.CONNECTED:
            connected.set()
        else:
            connected.clear()

    client.add_listener(on_state)
    client.create("/survives-kazoo", ephemeral=True)
    session = client.client_id[0]
    for line in sys.stdin:
        while True:
            try:
                client.set("/survives-kazoo", line.strip().encode())
                break
            except (ConnectionClosedError, ConnectionLoss):
                assert connected.wait(PATIENCE_S)
        print("set", line.strip(), flush=True)
    assert client.exists("/survives-kazoo").ephemeralOwner == session
    client.stop()
    client.close()


def readonly(hosts: str) -> None:
    client = KazooClient(hosts=hosts, timeout=30.0, read_only=True)
    client.start(PATIENCE_S)
    assert client.client_state == KeeperState.CONNECTED_RO
    assert sorted(client.get_children("/")) == ["kept", "zookeeper"]
    refused(NotReadOnlyCallError, client.create, "/kazoo")
    assert client.exists("/kazoo") is None
    client.stop()
    client.close()


if __name__ == "__main__":
    {"tour": tour, "survive": survive, "readonly": readonly}[sys.argv[1]](sys.argv[2])
    print("done")
