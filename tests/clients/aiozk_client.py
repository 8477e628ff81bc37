"""A tour of aiozk, with two sessions of one process.

    python aiozk_client.py tour 127.0.0.1:2181

`survive` sets a znode once for each line of its input, and ends when that ends; it tries again
while no server takes it. A step that does not do what it must raises.
"""

import asyncio
import sys
from collections.abc import Awaitable

import aiozk
from aiozk import exc
from aiozk.states import States

PATIENCE_S = 60.0


async def opened(hosts: str) -> aiozk.ZKClient:
    client = aiozk.ZKClient(hosts, session_timeout=30)
    await client.start()
    return client


async def refused(call: Awaitable[object], error: type[Exception]) -> None:
    try:
        await call
    except error:
        return
    raise AssertionError(f"no {error.__name__}")


async def read_and_write(client: aiozk.ZKClient) -> None:
    assert await client.create("/aiozk", b"one") == "/aiozk"
    await refused(client.create("/aiozk"), exc.NodeExists)
    assert await client.get_data("/aiozk") == b"one"
    await client.set_data("/aiozk", b"two")
    _, stat = await client.get("/aiozk")
    assert stat.version == 1, stat
    assert await client.create("/aiozk/s-", sequential=True) == "/aiozk/s-0000000000"
    assert await client.get_children("/aiozk") == ["s-0000000000"]
    assert not await client.exists("/aiozk/missing")
    await refused(client.delete("/aiozk", force=False), exc.NotEmpty)
    assert (await client.get_acl("/aiozk"))[0].id.scheme == "world"


async def watch(watcher: aiozk.ZKClient, writer: aiozk.ZKClient) -> None:
    values: asyncio.Queue[bytes] = asyncio.Queue()
    names: asyncio.Queue[list[str]] = asyncio.Queue()
    data, children = watcher.recipes.DataWatcher(), watcher.recipes.ChildrenWatcher()
    data.set_client(watcher)
    children.set_client(watcher)
    data.add_callback("/aiozk", values.put)
    children.add_callback("/aiozk", names.put)
    assert await asyncio.wait_for(values.get(), PATIENCE_S) == b"two"
    assert len(await asyncio.wait_for(names.get(), PATIENCE_S)) == 1
    await writer.set_data("/aiozk", b"three")
    assert await asyncio.wait_for(values.get(), PATIENCE_S) == b"three"
    await writer.create("/aiozk/w")
    assert len(await asyncio.wait_for(names.get(), PATIENCE_S)) == 2
    data.remove_callback("/aiozk", values.put)
    children.remove_callback("/aiozk", names.put)


async def several_at_once(client: aiozk.ZKClient) -> None:
    several = client.begin_transaction()
    several.create("/aiozk/m")
    several.set_data("/aiozk/m", b"m")
    several.delete("/aiozk/m")
    assert await several.commit()
    failing = client.begin_transaction()
    failing.create("/aiozk/m")
    failing.delete("/aiozk/missing")
    assert not await failing.commit()
    assert not await client.exists("/aiozk/m")


async def recipes(one: aiozk.ZKClient, two: aiozk.ZKClient) -> None:
    held, wanted = one.recipes.Lock("/aiozk/lock"), two.recipes.Lock("/aiozk/lock")
    await held.acquire()
    await refused(wanted.acquire(timeout=0.05), exc.TimeoutError)
    await held.release()
    await wanted.acquire(timeout=PATIENCE_S)
    await wanted.release()
    first = one.recipes.LeaderElection("/aiozk/leader")
    await first.volunteer()
    await first.wait_for_leadership(timeout=PATIENCE_S)
    await first.resign()


async def tour(hosts: str) -> None:
    one, two = await opened(hosts), await opened(hosts)
    await read_and_write(one)
    await watch(two, one)
    await several_at_once(one)
    await recipes(one, two)
    await two.close()
    await one.close()


async def survive(hosts: str) -> None:
    client = await opened(hosts)
    await client.create("/survives-aiozk", ephemeral=True)
    session = client.session.session_id
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        while True:
            try:
                await client.set_data("/survives-aiozk", line.strip())
                break
            except (exc.ConnectionLoss, exc.TimeoutError, exc.NoServersError):
                await client.session.state.wait_for(States.CONNECTED)
        print("set", line.strip(), flush=True)
    _, stat = await client.get("/survives-aiozk")
    assert stat.ephemeral_owner == session, stat
    await client.close()


if __name__ == "__main__":
    asyncio.run((tour if sys.argv[1] == "tour" else survive)(sys.argv[2]))
    print("done")
