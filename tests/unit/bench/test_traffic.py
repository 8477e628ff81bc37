"""Bytes on disk and on the wire, as the kernel tells them."""

import os
import shutil
import socket

import pytest

from raykeeper.bench import traffic
from raykeeper.bench.errors import BenchError
from raykeeper.bench.experiments.bytes_per_write import bytes_per_write
from raykeeper.bench.traffic import End, Traffic, measure_traffic, parse_sockets, wire_bytes

TOLD = """\
0      0               127.0.0.1:39140          127.0.0.1:2181 users:(("python",pid=7,fd=3)) bbr \
rto:204 bytes_sent:49 bytes_acked:50 segs_out:3
49     0      [::ffff:127.0.0.1]:2181  [::ffff:127.0.0.1]:39140 users:(("java",pid=8,fd=5),("java",\
pid=9,fd=5)) bbr bytes_received:49 segs_out:1
0      0                   [::1]:22                 [::1]:50000
"""


def test_sockets_are_known_by_their_ports() -> None:
    assert parse_sockets(TOLD) == {
        (39140, 2181): End(frozenset({7}), 49),
        (2181, 39140): End(frozenset({8, 9}), 0),
        (22, 50000): End(frozenset(), 0),
    }


def end(pid: int, sent: int) -> End:
    return End(frozenset({pid}), sent)


def test_bytes_between_servers_are_told_from_those_of_clients() -> None:
    ends = {
        # Two servers, 1 and 2.
        (10, 20): end(1, 100), (20, 10): end(2, 30),
        # A client of one of them.
        (11, 40): end(1, 7), (40, 11): end(4, 5),
        # Others: a process that is neither, two clients, one whose other end is elsewhere.
        (12, 50): end(1, 1_000), (50, 12): end(9, 1_000),
        (41, 42): end(4, 1_000), (42, 41): end(5, 1_000),
        (13, 60): end(1, 1_000),
    }  # fmt: skip
    assert wire_bytes(ends, frozenset({1, 2}), frozenset({4, 5})) == (130, 12)


def test_the_kernel_counts_what_a_process_sends() -> None:
    if shutil.which("ss") is None:
        pytest.skip("there is no ss")
    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        socket.create_connection(listening.getsockname()) as sender,
        listening.accept()[0] as receiver,
    ):
        me = os.getpid()
        before = measure_traffic([me], [], [])
        sender.sendall(b"x" * 1_000)
        assert len(receiver.recv(1_000, socket.MSG_WAITALL)) == 1_000
        added = measure_traffic([me], [], []).since(before)
        assert (added.peers, added.clients) == (1_000, 0)


def test_bytes_are_those_of_one_write() -> None:
    columns = bytes_per_write(Traffic(5_000, 2_000, 3_000), [600, 400], writes=2)
    assert columns == {
        "disk_bytes": 2_500,
        "log_bytes": 2_000,
        "snapshot_bytes": 500,
        "peer_bytes": 1_000,
        "client_bytes": 1_500,
        "snapshots": 2,
    }


def test_without_ss_the_reason_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traffic.shutil, "which", lambda _: None)
    with pytest.raises(BenchError, match="iproute2"):
        traffic.check_ss()
