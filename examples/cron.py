"""A cron with a standby: the one that stood still too long cannot write any more.

    python cron.py

The holder of a lock runs the job. It is stopped in the middle of a run (SIGSTOP, as a suspended
machine is), right after it looked whether it holds the lock still. Its session ends, the standby
takes over. When the first one goes on it writes at once, and is refused: the report asks for the
fencing token of the lock, and has seen a newer one.
"""

import os
import signal

import ray

from raykeeper.client import FencedResource, connect
from raykeeper.client.errors import StaleTokenError
from raykeeper.clusters import launch


@ray.remote(num_cpus=0)
class Report:
    """The target of the job's writes. It knows nothing of the lock, only the newest token."""

    def __init__(self):
        self.guard = FencedResource("the report")
        self.lines = []

    def append(self, line, token):
        with self.guard.use(token):
            self.lines.append(line)

    def read(self):
        return self.lines


@ray.remote(num_cpus=0)
class Cron:
    def __init__(self, name, report):
        self.name = name
        self.report = report

    def stand_by(self):
        """Wait for the lock, in a new session: the one before may be over."""
        self.client = connect("coord", session_timeout_s=5)
        self.held = self.client.lock("/locks/cron", self.name.encode()).acquire()
        return os.getpid(), self.held.token

    def run(self, job, stand_still=False):
        self.held.lost.check()
        if stand_still:
            os.kill(os.getpid(), signal.SIGSTOP)  # it goes on from here, much later
        try:
            ray.get(self.report.append.remote(f"{job} by {self.name}", self.held.token))
        except StaleTokenError:
            return f"{job} by {self.name}: refused, token {self.held.token} is an old one"
        return f"{job} by {self.name}: done"

    def close(self):
        self.client.close()


def main():
    launch(name="coord", servers=3)  # starts Ray here if none runs
    report = Report.remote()
    first, second = Cron.remote("first", report), Cron.remote("second", report)

    pid, token = ray.get(first.stand_by.remote())
    print(f"first holds the lock, token {token}")
    print(ray.get(first.run.remote("run 1")))
    print(f"process {pid} stops in the middle of run 2")
    late = first.run.remote("run 2", stand_still=True)
    try:
        _, newer = ray.get(second.stand_by.remote())
        print(f"second holds the lock, token {newer}; it is larger: {newer > token}")
        print(ray.get(second.run.remote("run 2")))
    finally:
        os.kill(pid, signal.SIGCONT)
    print(f"process {pid} goes on")
    print(ray.get(late))

    standing_by = first.stand_by.remote()
    ray.get(second.close.remote())
    ray.get(standing_by)
    print("second has gone, first holds the lock again")
    print(ray.get(first.run.remote("run 3")))
    ray.get(first.close.remote())
    print("the report:", ", ".join(ray.get(report.read.remote())))


if __name__ == "__main__":
    main()
