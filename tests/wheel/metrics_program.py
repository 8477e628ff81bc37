"""Runs in an environment with ray[default]: an ensemble with traffic, until standard input ends.

It prints one line with what the test needs: the endpoint of the metrics, Ray's address and folder.
"""

import json
import os
import signal
import sys
import tempfile
import threading
from contextlib import suppress

import ray

from raykeeper.client import connect
from raykeeper.client.errors import KeeperError, NoNodeError, WaitTimeoutError
from raykeeper.clusters import launch

NAME = "measured"


def traffic(stop: threading.Event) -> None:
    """Do what each panel of the dashboard shows."""
    with connect(NAME) as client, connect(NAME) as other:
        client.ensure_path("/a")
        while not stop.wait(0.05):
            try:
                client.set("/a", b"1")
                client.get("/a")
                client.exists("/a", watch=lambda _: None)
                with client.lock("/locks/x"), suppress(WaitTimeoutError):
                    other.lock("/locks/x").acquire(timeout_s=0)
                with suppress(NoNodeError):
                    client.get("/b")
            except KeeperError:
                continue  # its server is away


def main() -> None:
    context = ray.init(
        address="local",
        num_cpus=4,
        include_dashboard=True,
        _system_config={"metrics_report_interval_ms": 1_000},
    )
    ensemble = launch(name=NAME, data_dir=tempfile.mkdtemp(dir="."), heal_after_s=60, timeout_s=90)
    stop = threading.Event()
    clients = threading.Thread(target=traffic, args=(stop,))
    clients.start()
    (node,) = ray.nodes()
    print(
        json.dumps(
            {
                "metrics": f"{node['NodeManagerAddress']}:{node['MetricsExportPort']}",
                "address": context.address_info["address"],
                "session": context.address_info["session_dir"],
            }
        ),
        flush=True,
    )
    sys.stdin.readline()
    # A server that has clients dies, so that they find another one.
    servers = ensemble.status().servers
    os.kill(next(each.pid for each in servers if each.clients), signal.SIGKILL)
    print("killed", flush=True)
    sys.stdin.readline()
    stop.set()
    clients.join()
    ensemble.shutdown()


if __name__ == "__main__":
    main()
