"""Much at once over real links: long lists, large answers, many requests."""

import threading
from pathlib import Path

from raykeeper.clusters import Ensemble
from tests.ray.conftest import Launch

CHILDREN = 12_000
VALUE = bytes(1 << 20)
READS = 400


def memory_mb(ensemble: Ensemble, what: str) -> int:
    """What a server of the ensemble has of the machine's memory; VmHWM is the most so far."""
    (server,) = ensemble.status().servers
    for line in Path(f"/proc/{server.pid}/status").read_text().splitlines():
        if line.startswith(f"{what}:"):
            return int(line.split()[1]) >> 10
    raise AssertionError(what)


def test_a_list_in_pages_is_one_list(launch_one: Launch) -> None:
    ensemble = launch_one(servers=1)
    with ensemble.connect(timeout_s=200) as client, ensemble.connect() as other:
        client.create("/crowd")
        made = [client.create_async(f"/crowd/{number}") for number in range(CHILDREN)]
        assert len({reply.result(200) for reply in made}) == CHILDREN
        fired = threading.Event()
        listing = client.get_children_async("/crowd", watch=lambda _: fired.set())
        later = client.exists_async("/crowd")
        other.create("/elsewhere")
        names = listing.result(60)
        assert sorted(map(int, names)) == list(range(CHILDREN))
        stat = later.result(60)
        assert stat is not None and stat.num_children == CHILDREN
        assert not fired.is_set()
        other.create("/crowd/new")
        assert fired.wait(30)


def test_many_large_replies_use_bounded_memory(launch_one: Launch) -> None:
    ensemble = launch_one(servers=1)
    with ensemble.connect() as client:
        client.create("/large", VALUE)
        before = memory_mb(ensemble, "VmRSS")
        left = READS
        is_done = threading.Event()

        def answered(_: object) -> None:
            nonlocal left
            left -= 1
            if not left:
                is_done.set()

        for _ in range(READS):
            client.get_async("/large").add_done_callback(answered)
        assert is_done.wait(120)
        # Of 400 MB: what is unsent, in the link, and in Ray's hands.
        assert memory_mb(ensemble, "VmHWM") - before < 100
