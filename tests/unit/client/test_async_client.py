"""AsyncClient: the operations, the order of callbacks and replies, on virtual time."""

from raykeeper.client.async_client import AsyncClient
from tests.unit.client.loops import VirtualLoop, run_virtually
from tests.unit.client.scripted_server import Ensemble


async def opened(ensemble: Ensemble, loop: VirtualLoop) -> AsyncClient:
    return await AsyncClient.open(
        ensemble.servers, ensemble, session_timeout_s=10, timeout_s=30, clock=loop.time
    )


def test_serves_the_operations() -> None:
    async def main(loop: VirtualLoop) -> None:
        async with await opened(Ensemble(), loop) as client:
            assert await client.create("/a", b"1") == "/a"
            assert await client.create("/a/s-", sequence=True) == "/a/s-0000000000"
            value, stat = await client.get("/a")
            assert (value, stat.version) == (b"1", 0)
            assert (await client.set("/a", b"2")).version == 1
            assert await client.get_children("/a") == ["s-0000000000"]
            assert await client.exists("/b") is None
            await client.sync()
            await client.delete("/a", recursive=True)
            assert await client.exists("/a") is None
            assert await client.create("/x/y/z", makepath=True) == "/x/y/z"

    run_virtually(main)
