"""Limits: many tasks share a service that bears two calls at a time, and ten a second.

    python limits.py

The limits stand in the ensemble, under a path, and all tasks obey them wherever they run. One task
is killed while it holds a permit, which the next one gets.
"""

import asyncio
import os
import signal
import time

import ray

from raykeeper.client.ray_tools import ConcurrencyLimit, RateLimit
from raykeeper.clusters import launch

few = ConcurrencyLimit("coord", "/limits/few", permits=2)
slowly = RateLimit("coord", "/limits/slowly", per_second=10, burst=2)


@ray.remote(num_cpus=0)
class Service:
    """The resource to protect. It counts how many calls it has at once."""

    def __init__(self):
        self.now = self.most = 0

    async def ask(self, seconds=0.0):
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(seconds)
        self.now -= 1
        return self.most


@ray.remote(num_cpus=0, max_retries=0)
@few
def ask(service, dies):
    if dies:  # before it asks: what a dead holder has asked may still run beside the next one's
        os.kill(os.getpid(), signal.SIGKILL)
    return ray.get(service.ask.remote(0.2))


@ray.remote(num_cpus=0)
def ask_often(service, times):
    for _ in range(times):
        with slowly:
            ray.get(service.ask.remote())
    return times


def main():
    launch(name="coord", servers=3)  # starts Ray here if none runs
    service = Service.remote()

    tasks = [ask.remote(service, dies=number == 0) for number in range(8)]
    most, killed = 0, 0
    for task in tasks:
        try:
            most = max(most, ray.get(task))
        except ray.exceptions.WorkerCrashedError:
            killed += 1
    print(f"{len(tasks)} tasks, {killed} of them killed: at most {most} calls at once")

    began = time.monotonic()
    calls = sum(ray.get([ask_often.remote(service, 10) for _ in range(3)]))
    seconds = time.monotonic() - began
    print(f"{calls} calls in {seconds:.1f} s: {calls / seconds:.1f} a second")


if __name__ == "__main__":
    main()
