"""What type checkers must refuse: a marked line is an error of both, and no other line is one."""

from raykeeper.client import AsyncClient, Awaited, Blocking, Client, Held, Stat, with_session
from raykeeper.client.ray_tools import ConcurrencyLimit, Gang


def arguments(client: Client) -> None:
    """Wrong arguments."""
    client.create("/a", "text")  # type: ignore
    client.create("/a", ephemral=True)  # type: ignore
    client.get("/a", consistency="strong")  # type: ignore
    client.lock("/a").acquire("3")  # type: ignore
    client.lock("/a").acquire(timeout=3)  # type: ignore
    client.semaphore("/a")  # type: ignore
    client.queue("/a").put("text")  # type: ignore
    client.transaction().when("/a", "owner", "==", 1)  # type: ignore
    client.configuration("/a", int).set("text")  # type: ignore
    client.election("/a").observe(lambda: None)  # type: ignore
    client.lokc("/a")  # type: ignore


def results(client: Client) -> None:
    """Results that are something else."""
    path: bytes = client.create("/a")  # type: ignore
    stat: Stat = client.exists("/a")  # type: ignore
    text: str = client.queue("/a").get()  # type: ignore
    version: str = client.configuration("/a", int).get().version  # type: ignore
    print(path, stat, text, version)


def private(held: Held[Blocking]) -> None:
    """What is inside, or not there."""
    held.undo()  # type: ignore
    held.lost.obtain()  # type: ignore


async def kinds(client: Client, awaited: AsyncClient) -> None:
    """A blocking client awaits nothing; of the other everything is to be awaited."""
    await client.lock("/a").acquire()  # type: ignore
    with awaited.lock("/a"):  # type: ignore
        pass
    async with client.lock("/a"):  # type: ignore
        pass
    with awaited.transaction():  # type: ignore
        pass
    with await awaited.group("/a").join():  # type: ignore
        pass
    async with client.transaction():  # type: ignore
        pass
    async with awaited.group("/a").join():  # type: ignore
        pass
    held: Held[Awaited] = awaited.lock("/a").acquire()  # type: ignore
    held = client.lock("/a").acquire()  # type: ignore
    number: int = awaited.counter("/a").value  # type: ignore
    print(held, number, (await awaited.get("/a"))[2])  # type: ignore


@with_session("coord")
def work(client: Client, shard: int) -> str:
    """A function with a session of its own."""
    return f"{client.state} {shard}"


@with_session("coord", session_timeout=3)  # type: ignore
def misnamed(client: Client) -> None:
    """A setting that there is not."""


async def tools(client: Client) -> None:
    """Of a call, and of tools."""
    work(client, 3)  # type: ignore
    work("3")  # type: ignore
    number: int = work(3)  # type: ignore
    with ConcurrencyLimit("coord", "/a", permits=3) as held:
        number = held.epoch  # type: ignore
    with Gang("coord", "/a") as meeting:  # type: ignore
        number = meeting.rank
    print(number)
