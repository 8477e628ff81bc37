"""Rounds with a barrier: nobody begins a round before all have ended the one before.

    python rounds.py

Heat spreads along a rod. Each worker has one piece of it, and computes the next temperature from
those of its neighbours in the round before. One worker is killed in the middle of a round: the
others are told so, and do that round again when another process has taken its place.
"""

import os
import signal

import ray

from raykeeper.client import connect
from raykeeper.client.errors import BarrierFullError, BrokenBarrierError
from raykeeper.clusters import launch

PIECES, ROUNDS, DEADLY_ROUND = 4, 12, 5
COLD = [100.0] + [0.0] * (PIECES - 1)


def next_temperature(piece, before):
    near = before[max(piece - 1, 0) : piece + 2]
    return sum(near) / len(near)


@ray.remote(num_cpus=0)
class Rod:
    """The temperatures after each round, by piece."""

    def __init__(self):
        self.rounds = [COLD] + [[None] * PIECES for _ in range(ROUNDS)]

    def write(self, number, piece, temperature):
        self.rounds[number][piece] = temperature

    def last(self):
        """The last round that all have ended, and its temperatures."""
        ended = [number for number, each in enumerate(self.rounds) if None not in each]
        return ended[-1], self.rounds[ended[-1]]


@ray.remote(num_cpus=0, max_retries=-1)  # Ray starts a task again whose process was killed
def work(rod, piece):
    broken = 0
    with connect("coord", session_timeout_s=5) as client:
        barrier = client.double_barrier("/rod/round", PIECES, on_crash="abort")
        while True:
            number, before = ray.get(rod.last.remote())
            if number == ROUNDS:
                return broken
            try:
                barrier.enter(timeout_s=120)
                is_there = number + 1 == DEADLY_ROUND and piece == 2
                if is_there and client.counter("/rod/deaths").increment() == 1:
                    os.kill(os.getpid(), signal.SIGKILL)
                temperature = next_temperature(piece, before)
                ray.get(rod.write.remote(number + 1, piece, temperature))
                barrier.leave(timeout_s=120)  # all have written
            except (BrokenBarrierError, BarrierFullError):
                broken += 1  # one has died: this round begins again


def main():
    ensemble = launch(name="coord", servers=3)  # starts Ray here if none runs
    with ensemble.connect() as client:
        rod = Rod.remote()
        print(f"a worker is going to be killed in round {DEADLY_ROUND}")
        broken = ray.get([work.remote(rod, piece) for piece in range(PIECES)])
        print(f"the others were told of it: {min(broken[0], broken[1], broken[3]) > 0}")
        _, after = ray.get(rod.last.remote())
        alone = COLD
        for _ in range(ROUNDS):
            alone = [next_temperature(piece, alone) for piece in range(PIECES)]
        print("the rod:", *[f"{each:.1f}" for each in after])
        print(f"as one process alone computes it: {after == alone}")
        client.delete("/rod", recursive=True)


if __name__ == "__main__":
    main()
