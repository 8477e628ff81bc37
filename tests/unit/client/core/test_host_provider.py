"""HostProvider: each server once per cycle, a pause that grows after each vain one."""

from random import Random

import pytest

from raykeeper.client.core.host_provider import HostProvider
from raykeeper.zab.ids import Millis, ServerId

SERVERS = [ServerId(n) for n in (1, 2, 3)]


def test_every_cycle_has_each_server_once_in_random_order() -> None:
    orders = set()
    for seed in range(20):
        hosts = HostProvider(SERVERS, Random(seed))
        first, second = ([hosts.next_server() for _ in SERVERS] for _ in range(2))
        assert sorted(first) == SERVERS
        assert second == first
        orders.add(tuple(first))
    assert len(orders) > 1


def test_a_change_of_servers_keeps_the_place_in_the_cycle() -> None:
    for seed in range(20):
        hosts = HostProvider(SERVERS, Random(seed))
        first, second, third = (hosts.next_server() for _ in SERVERS)
        assert hosts.next_server() == first
        assert hosts.set_servers([first, second, third, ServerId(4)])
        rest = [hosts.next_server() for _ in range(3)]
        assert sorted(rest) == sorted([second, third, 4])
        assert hosts.next_server() == first
        assert not hosts.set_servers([ServerId(4), third])
        assert sorted(hosts.next_server() for _ in range(2)) == sorted([third, 4])


def test_new_servers_come_anywhere_in_the_rest_of_the_cycle_or_first() -> None:
    places = set()
    for seed in range(50):
        hosts = HostProvider(SERVERS, Random(seed))
        hosts.next_server()
        hosts.set_servers([*SERVERS, ServerId(4)])
        places.add([hosts.next_server() for _ in range(3)].index(ServerId(4)))
    assert places == {0, 1, 2}
    hosts.set_servers([*SERVERS, *map(ServerId, (4, 5, 6))], new_first=True)
    assert {hosts.next_server(), hosts.next_server()} == {5, 6}


def test_all_servers_may_be_replaced() -> None:
    hosts = HostProvider(SERVERS, Random(1))
    hosts.next_server()
    assert hosts.set_servers([ServerId(9)])
    assert [hosts.next_server() for _ in range(2)] == [9, 9]


def test_the_backoff_follows_a_whole_cycle_and_grows() -> None:
    hosts = HostProvider(SERVERS, Random(1))
    longest = []
    for _ in range(8):
        for _ in SERVERS[1:]:
            hosts.next_server()
            assert hosts.backoff_ms() == 0
        hosts.next_server()
        longest.append(max(hosts.backoff_ms() for _ in range(200)))
    assert [round(pause, -2) for pause in longest[:4]] == [100, 200, 400, 800]
    assert max(longest) <= 1000


@pytest.mark.parametrize(
    ("spread_ms", "left_ms", "longest"),
    [
        (0, 8_000, 0),
        (500, 8_000, 500),
        (5_000, 8_000, 1_000),  # an eighth of what the session has left
        (500, 800, 100),
        (500, 0, 0),
        (500, -1, 0),
    ],
)
def test_the_clients_of_a_lost_server_spread_their_return(
    spread_ms: int, left_ms: int, longest: int
) -> None:
    hosts = HostProvider(SERVERS, Random(1))
    hosts.return_spread_ms = Millis(spread_ms)
    pauses = [
        hosts.return_pause_ms(Millis(left_ms), Millis(unconfirmed_ms), Millis(9_000))
        for unconfirmed_ms in range(0, 4_000, 4)
    ]
    assert 0 <= min(pauses) <= longest // 8 and longest * 7 // 8 <= max(pauses) <= longest


def test_the_client_whose_session_ends_first_comes_back_first() -> None:
    hosts = HostProvider(SERVERS, Random(1))
    hosts.return_spread_ms = Millis(800)

    def pauses(unconfirmed_ms: int) -> list[Millis]:
        left_ms = Millis(9_000 - unconfirmed_ms)
        return [
            hosts.return_pause_ms(left_ms, Millis(unconfirmed_ms), Millis(9_000))
            for _ in range(100)
        ]

    late, middle, early = pauses(0), pauses(1_500), pauses(3_000)
    assert min(late) >= 700 > max(middle) and min(middle) >= 350 > 100 >= max(early)
    assert len(set(early)) > 20  # those whose heartbeats left together do not come together
    assert max(pauses(8_000)) <= 100


def test_a_success_resets_the_backoff() -> None:
    hosts = HostProvider(SERVERS, Random(1))
    for _ in SERVERS:
        hosts.next_server()
    hosts.on_connected()
    assert hosts.backoff_ms() == 0


@pytest.mark.parametrize(
    ("timeout_ms", "cycle", "expected"),
    [
        # A ninth of the timeout, doubled with each vain cycle, up to two thirds.
        (9000, 0, 1000),
        (9000, 1, 2000),
        (9000, 3, 6000),
        (9000, 60, 6000),
        # Never less than what a slow machine needs.
        (100, 0, 200),
        (100, 9, 200),
    ],
)
def test_the_connect_timeout_is_a_part_of_the_session_timeout(
    timeout_ms: int, cycle: int, expected: int
) -> None:
    hosts = HostProvider(SERVERS, Random(1))
    for _ in range(cycle * len(SERVERS) + 1):
        hosts.next_server()
    assert hosts.connect_timeout_ms(Millis(timeout_ms)) == expected


@pytest.mark.parametrize(("spread_ms", "expected"), [(300, 1_300), (1_000, 2_000), (5_000, 2_000)])
def test_a_client_in_a_crowd_waits_longer_for_a_server(spread_ms: int, expected: int) -> None:
    hosts = HostProvider(SERVERS, Random(1))
    hosts.next_server()
    hosts.return_spread_ms = Millis(spread_ms)
    assert hosts.connect_timeout_ms(Millis(9_000)) == expected
