"""Ray Serve: all replicas have the newest prices, and one of them does the work that one must do.

    python -m raykeeper.examples.libraries.serve_prices

A replica follows a configuration, so a price changes without a deployment and without a restart. It
also stands for election: the process of the leader is killed, the other replica goes on with the
work in the background, and Serve starts another replica. What a leader writes is written only while
it leads.
"""

import asyncio
import os
import queue
import signal

from ray import serve

from raykeeper.client import AsyncClient
from raykeeper.client.errors import LostError
from raykeeper.clusters import launch


@serve.deployment(num_replicas=2, ray_actor_options={"num_cpus": 0})
class Prices:
    async def __init__(self):  # Serve calls it, and all methods, in an event loop
        self.client = await AsyncClient.connect("coord")  # one session for the life of the replica
        self.prices = await self.client.configuration("/shop/prices", dict[str, int]).follow()
        await self.client.group("/shop/replicas").join(str(os.getpid()))
        self.work = asyncio.create_task(self.lead())

    async def ask(self, article):
        return os.getpid(), self.now().get(article)  # no request: the replica was told

    def now(self):
        return self.prices.value or {}

    async def lead(self):
        """The work that one must do; who loses the lead by a lost session is started anew."""
        election = self.client.election("/shop/reporter", str(os.getpid()).encode())
        async with election as leadership:
            while not leadership.lost.is_set():
                async with self.client.transaction() as t:
                    t.when_held(leadership)
                    t.set("/shop/report", str(sum(self.now().values())).encode())
                await asyncio.sleep(0.2)  # once a day, in a real shop

    def check_health(self):
        if self.work.done():
            self.work.result()
            raise LostError("the session is over")


async def prices_of(shop, article):
    """What each replica answers, by its process."""
    answers: dict[int, int] = {}
    while len(answers) < 2:
        answers |= dict(await asyncio.gather(*(shop.ask.remote(article) for _ in range(4))))
    return answers


def main():
    ensemble = launch(name="coord", servers=3)  # starts Ray here if none runs
    replicas: queue.Queue[set[int]] = queue.Queue()
    leaders: queue.Queue[object] = queue.Queue()
    with ensemble.connect() as client:
        client.ensure_path("/shop/report")
        prices = client.configuration("/shop/prices", dict[str, int])
        prices.set({"tea": 3, "milk": 1})
        client.group("/shop/replicas").watch(
            lambda change: replicas.put({int(each.name) for each in change.members})
        )
        client.election("/shop/reporter").observe(leaders.put)
        serve.start(proxy_location="Disabled")  # no HTTP: this program alone asks
        shop = serve.run(Prices.bind(), name="shop")
        first = asyncio.run(prices_of(shop, "tea"))
        print("two replicas sell tea for", *{*first.values()})

        prices.update(lambda now: {**now, "tea": 4})
        while {*(now := asyncio.run(prices_of(shop, "tea"))).values()} != {4}:
            pass
        print(f"the same replicas sell tea for 4: {now.keys() == first.keys()}")

        leader = next_leader(leaders)
        print("killing the replica that leads")
        os.kill(leader, signal.SIGKILL)
        print(f"the other one leads: {next_leader(leaders) in first.keys() - {leader}}")
        while len(replicas.get(timeout=60) - {leader}) < 2:
            pass
        print("Serve has started another replica, and it has joined")
        serve.delete("shop")
    serve.shutdown()


def next_leader(leaders):
    """The process id of the next leader; None between two of them."""
    while (leader := leaders.get(timeout=60)) is None:
        pass
    return int(leader.identifier)


if __name__ == "__main__":
    main()
