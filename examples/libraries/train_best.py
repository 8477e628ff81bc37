"""Ray Train: one worker at a time writes the best checkpoint, whatever Train starts again.

    python -m raykeeper.examples.libraries.train_best

A worker is killed, and Train starts all workers again. They go on from the checkpoint that the
ensemble names. Rank 0 of each attempt takes a lock, and shows its fencing token where it writes: a
rank 0 of an earlier attempt that was thought dead, and wakes up on a node that was cut off, is
refused.
"""

import os
import signal
import tempfile
from dataclasses import dataclass
from pathlib import Path

import ray.train
from ray.train import FailureConfig, RunConfig, ScalingConfig
from ray.train.collective import broadcast_from_rank_zero
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

from raykeeper.client import connect
from raykeeper.client.errors import StaleTokenError
from raykeeper.clusters import launch

STEPS = 6


@dataclass
class Best:
    step: int = 0
    loss: float = 100.0
    file: str = ""
    began: int = 0
    """The step behind which the workers began."""
    tokens: tuple[int, ...] = ()  # of all who have written it


def train(config):
    rank = ray.train.get_context().get_world_rank()
    with connect("coord") as client:
        best = client.configuration("/train/best", Best, default=Best())
        guard = client.fenced_resource("/train/guard")
        held = client.lock("/train/writer").acquire(timeout_s=60) if rank == 0 else None
        client.sync()  # for the newest, whichever server this client has
        began = broadcast_from_rank_zero(best.get().value.step)  # all begin at the same step
        for step in range(began + 1, STEPS + 1):
            if began == 0 and step == 4 and rank == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            loss = 1 / step  # here a real training computes
            if held and loss < best.get().value.loss:
                with guard.use(held.token):  # StaleTokenError if a later rank 0 was here
                    file = Path(config["folder"], f"step-{step}-{held.token}")
                    file.write_text(str(loss))
                    tokens = {*best.get().value.tokens, held.token}
                    best.set(Best(step, loss, str(file), began, tuple(sorted(tokens))))
            ray.train.report({"loss": loss})  # waits for all workers


def main():
    ensemble = launch(name="coord", servers=3)  # starts Ray here if none runs
    with ensemble.connect() as client, tempfile.TemporaryDirectory() as folder:
        best = client.configuration("/train/best", Best, default=Best())
        best.set(Best())
        DataParallelTrainer(
            train,
            train_loop_config={"folder": folder},
            scaling_config=ScalingConfig(num_workers=2, resources_per_worker={"CPU": 0.5}),
            run_config=RunConfig(
                name="best", storage_path=folder, failure_config=FailureConfig(max_failures=1)
            ),
        ).fit()
        client.sync()
        now = best.get().value
        print(f"a worker was killed at step 4; all went on behind step {now.began}")
        print(f"the best checkpoint is of step {now.step}: {Path(now.file).read_text()[:5]}")
        first, second = now.tokens
        print(f"it was written with two tokens, the later one is larger: {first < second}")
        try:
            client.fenced_resource("/train/guard").check(first)
        except StaleTokenError:
            print("a late write of the first rank 0 is refused")


if __name__ == "__main__":
    main()
