"""A gang: all start or none, and when one of them dies all start again from the checkpoint.

    python gang.py

Three Ray tasks train in step. One of them is killed; Ray starts the task again, the other two learn
of the death, and all three meet in the next generation.
"""

import os
import signal

import ray

from raykeeper.client import connect
from raykeeper.client.ray_tools import Gang
from raykeeper.clusters import launch

SIZE, STEPS = 3, 20
gang = Gang("coord", "/train/gang", SIZE)


def work(meeting, client):
    """The work of each member, in one generation after the other until all of them finish."""
    client.sync()  # for the newest checkpoint, whichever server this client has
    checkpoint = client.counter("/train/checkpoint")
    began = checkpoint.get()
    together = client.double_barrier(f"/train/steps-{meeting.generation}", SIZE)
    for step in range(began + 1, STEPS + 1):
        together.enter(timeout_s=60)
        if began == 0 and step == 13 and meeting.rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        # Here a real training computes, and exchanges what it has learned.
        if meeting.rank == 0 and step % 5 == 0:
            checkpoint.set(step)
        together.leave(timeout_s=60)  # BrokenBarrierError if one of them has died
    return f"rank {meeting.rank}, generation {meeting.generation}: steps {began + 1} to {STEPS}"


@ray.remote(num_cpus=0)  # a task whose process dies is started again by Ray, up to three times
def train():
    with connect("coord") as client:
        return gang.run(work, client)


def main():
    ensemble = launch(name="coord", servers=3)  # starts Ray here if none runs
    with ensemble.connect() as client:
        client.counter("/train/checkpoint").set(0)
    print("rank 1 is going to be killed at step 13; every fifth step is a checkpoint")
    for line in sorted(ray.get([train.remote() for _ in range(SIZE)])):
        print(line)


if __name__ == "__main__":
    main()
