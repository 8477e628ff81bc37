"""An elected service: one instance acts. It is killed, and a standby takes over.

    python elected_service.py

The class below is made in whichever of three actors leads. Callers do not know which one that is.
The state that must survive stands in the ensemble, and only the present leader can write it: one
that was replaced without knowing it writes nothing.
"""

import os
import signal

from raykeeper.client import connect
from raykeeper.client.ray_tools import ElectedActor
from raykeeper.clusters import launch


class Orders:
    """Takes orders, in one actor at a time."""

    def __init__(self, leadership):
        self.leadership = leadership
        self.client = connect("coord")
        self.client.ensure_path("/orders")

    def take(self, order):
        """Called at least once, so the order's name decides whether it is new."""
        path = f"/orders/{order}"
        if self.client.exists(path, consistency="linearizable") is None:
            with self.client.transaction() as t:
                t.when_held(self.leadership)
                t.create(path)
            if not t.succeeded:
                self.leadership.lost.check()
        return self.leadership.epoch, os.getpid()


def main():
    ensemble = launch(name="coord", servers=3)  # starts Ray here if none runs
    orders = ElectedActor(
        "coord", "/services/orders", Orders, candidates=3, promise="at_least_once"
    )
    orders.start()
    with ensemble.connect() as client:
        for order in ("tea", "milk", "bread", "salt"):
            epoch, pid = orders.call("take", order)
            print(f"{order}: taken by process {pid} in epoch {epoch}")
            if order == "milk":
                print(f"killing process {pid}, the leader")
                os.kill(pid, signal.SIGKILL)
        print("all orders:", ", ".join(sorted(client.get_children("/orders"))))
        client.delete("/orders", recursive=True)
    orders.stop()


if __name__ == "__main__":
    main()
