"""A queue of work: a consumer is killed while it holds an element, and another one gets it.

    python work_queue.py

An element is locked by the consumer that has it, and is removed when that says that it is done. So
each is worked on at least once; the lock of a dead consumer goes with its session.
"""

import os
import signal

import ray

from raykeeper.client import connect, with_session
from raykeeper.clusters import launch

SCENES = [f"scene {number}" for number in range(1, 9)]


@ray.remote(num_cpus=0, max_retries=0)
@with_session("coord")
def clumsy(client):
    """Takes an element, and dies before it is done."""
    client.lock_queue("/queues/scenes").get(timeout_s=30)
    os.kill(os.getpid(), signal.SIGKILL)


@ray.remote(num_cpus=0)
def render():
    """Work until the queue is empty; what was done."""
    done = []
    with connect("coord") as client:
        queue = client.lock_queue("/queues/scenes")
        while queue.size():  # what others hold counts: it may come back
            try:
                job = queue.get(timeout_s=1)
            except TimeoutError:
                continue
            # Here it is rendered.
            job.consume()  # LostError if somebody else may have it
            done.append(job.value.decode())
    return done


def main():
    ensemble = launch(name="coord", servers=3)  # starts Ray here if none runs
    with ensemble.connect() as client:
        queue = client.lock_queue("/queues/scenes")
        queue.put_many([scene.encode() for scene in SCENES])
        try:
            ray.get(clumsy.remote())
        except ray.exceptions.WorkerCrashedError:
            print("a consumer was killed while it held a scene")
        anna, ben = ray.get([render.remote(), render.remote()])
        print(f"anna rendered {len(anna)} scenes, ben {len(ben)}")
        print(f"all are done: {sorted(anna + ben) == SCENES}, {queue.size()} are left")


if __name__ == "__main__":
    main()
