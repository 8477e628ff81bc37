"""A pipeline that does each order exactly once, though its workers are killed in the middle.

    python pipeline.py

A worker locks an order, works on it, and then writes the result and removes the order in one
transaction, on the condition that it still holds the order. So an order whose worker was killed is
worked on again, and its result is written once.
"""

import os
import signal

import ray

from raykeeper.client import connect
from raykeeper.clusters import launch

ORDERS = {f"order-{number}": 10 * number for number in range(1, 9)}


@ray.remote(num_cpus=0, max_retries=-1)  # Ray starts a task again whose process was killed
def work():
    """Work until there are no orders left."""
    with connect("coord") as client:
        queue = client.lock_queue("/pipeline/orders")
        while queue.size():  # what others hold counts: it may come back
            try:
                job = queue.get(timeout_s=1)
            except TimeoutError:
                continue
            order, _, amount = job.value.decode().partition(" ")
            die_once(client, order, "order-3")  # before it has written anything
            while not finish(client, job, order, int(amount)):
                job.lost.check()  # LostError if somebody else has the order by now
            die_once(client, order, "order-6")  # after it has written everything


def finish(client, job, order, amount):
    """Write the result, count it, and remove the order: all of that or nothing."""
    total, stat = client.get("/pipeline/total", consistency="linearizable")
    with client.transaction() as t:
        t.when_held(job)
        t.when("/pipeline/total", "mzxid", "==", stat.mzxid)  # else it is read again
        t.create(f"/pipeline/results/{order}", str(2 * amount).encode())
        t.set("/pipeline/total", str(int(total) + 2 * amount).encode())
        t.delete(job.value.path)
        t.delete(job.path)
    return t.succeeded


def die_once(client, order, where):
    """Kill this process at its first time here."""
    if order == where and client.counter(f"/pipeline/deaths/{where}").increment() == 1:
        os.kill(os.getpid(), signal.SIGKILL)


def main():
    ensemble = launch(name="coord", servers=3)  # starts Ray here if none runs
    with ensemble.connect() as client:
        client.ensure_path("/pipeline/results")
        client.create("/pipeline/total", b"0")
        lines = [f"{order} {amount}".encode() for order, amount in ORDERS.items()]
        client.lock_queue("/pipeline/orders").put_many(lines)
        print("one worker is going to be killed before its result is there, one right after that")
        ray.get([work.remote() for _ in range(2)])
        results = client.get_children("/pipeline/results", consistency="linearizable")
        print(f"{len(results)} results of {len(ORDERS)} orders")
        total = int(client.get("/pipeline/total")[0])
        print(f"the total is {total}, as it should be: {total == 2 * sum(ORDERS.values())}")
        client.delete("/pipeline", recursive=True)


if __name__ == "__main__":
    main()
