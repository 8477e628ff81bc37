"""A service in asyncio: many requests at once in one async actor, with one session for all.

    python async_service.py

Two tellers move money between accounts. Each request is a coroutine: it takes the locks of both
accounts, with a bound on its patience, and writes both balances in one transaction. The limit of a
transfer is a configuration that every teller follows.
"""

import asyncio
from dataclasses import dataclass

import ray

from raykeeper.client import AsyncClient
from raykeeper.clusters import launch

ACCOUNTS = ["anna", "ben", "cleo", "dora"]


@dataclass(frozen=True)
class Rules:
    transfer_max: int = 50


@ray.remote(num_cpus=0)
class Teller:
    async def open(self):
        """An AsyncClient belongs to the loop of its actor, so it is opened here."""
        self.client = await AsyncClient.connect("coord")
        rules = self.client.configuration("/bank/rules", Rules)
        self.rules = await rules.follow()

    async def transfer(self, source, target, amount, patience_s=None):
        """What has become of it."""
        rules = self.rules.value or Rules()
        if amount > rules.transfer_max:
            return "refused"
        paths = [f"/bank/locks/{each}" for each in (source, target)]
        try:
            async with asyncio.timeout(patience_s):
                held = await self.client.multi_lock(paths).acquire()
        except TimeoutError:
            return "given up"  # and nothing is left of it
        try:
            has, _ = await self.client.get(f"/bank/{source}")
            had, _ = await self.client.get(f"/bank/{target}")
            if int(has) < amount:
                return "too little"
            async with self.client.transaction() as t:
                t.when_held(*held.parts)
                t.set(f"/bank/{source}", str(int(has) - amount).encode())
                t.set(f"/bank/{target}", str(int(had) + amount).encode())
            return "done" if t.succeeded else "lost"
        finally:
            await held.release()

    async def close(self):
        await self.client.close()


def main():
    ensemble = launch(name="coord", servers=3)  # starts Ray here if none runs
    with ensemble.connect() as client:
        for account in ACCOUNTS:
            client.create(f"/bank/{account}", b"100", makepath=True)
        rules = client.configuration("/bank/rules", Rules)
        rules.set(Rules())
        tellers = [Teller.remote() for _ in range(2)]
        ray.get([teller.open.remote() for teller in tellers])

        pairs = [(a, b) for a in ACCOUNTS for b in ACCOUNTS if a != b]
        asked = [teller.transfer.remote(*pair, 1) for pair in pairs * 4 for teller in tellers]
        outcomes = ray.get(asked)
        print(f"{len(asked)} transfers at once, {outcomes.count('done')} are done")

        with client.lock("/bank/locks/anna"):
            print("while anna's account is locked:", end=" ")
            print(ray.get(tellers[0].transfer.remote("anna", "ben", 7, patience_s=0.5)))
        waiting = client.lock("/bank/locks/anna").contenders()
        print(f"who gave up has left {len(waiting)} places in the queue")

        rules.set(Rules(transfer_max=5))
        while (told := ray.get(tellers[1].transfer.remote("ben", "cleo", 7))) != "refused":
            pass  # it is told in a moment
        print(f"with a new limit: {told}")

        balances = [int(client.get(f"/bank/{account}")[0]) for account in ACCOUNTS]
        print(f"the sum of all accounts is {sum(balances)}")
        ray.get([teller.close.remote() for teller in tellers])
        client.delete("/bank", recursive=True)


if __name__ == "__main__":
    main()
