"""How many clients a server takes, as a table of its setting and its limit of open files."""

import os
import resource
from collections.abc import Iterator

import pytest

from raykeeper.actors.client_limit import (
    ClientLimit,
    client_limit,
    next_free_file,
    raise_files_limit,
)
from raykeeper.links.limits import HANDSHAKES_MAX

FILES = "open files"
SETTING = "the setting clients_max"


@pytest.mark.parametrize(
    ("setting", "files_max", "peers", "clients_max", "source"),
    [
        # Automatic: what the server does not need for itself.
        (None, 20_000, 2, 18_456, FILES),
        (None, 20_000, 0, 18_464, FILES),
        (None, 65_536, 253, 62_988, FILES),
        # Of few files the server keeps half.
        (None, 1_024, 2, 512, FILES),
        (None, 256, 2, 128, FILES),
        # There is a bound, however many files there are.
        (None, 1 << 30, 2, 100_000, FILES),
        # The setting, as far as the files bear it.
        (1, 20_000, 2, 1, SETTING),
        (18_456, 20_000, 2, 18_456, SETTING),
        (18_457, 20_000, 2, 18_456, FILES),
        (100_000, 1_024, 2, 512, FILES),
        (100_000, 1 << 30, 2, 100_000, SETTING),
    ],
)
def test_the_limit_is_the_setting_as_far_as_the_files_bear_it(
    setting: int | None, files_max: int, peers: int, clients_max: int, source: str
) -> None:
    limit = client_limit(setting, files_max, peers)
    assert limit.clients_max == clients_max
    assert limit.source == (SETTING if source == SETTING else f"{files_max} open files")
    assert bool(limit.problem) == (setting is not None and setting > clients_max)


@pytest.mark.parametrize(("files_max", "waiting"), [(20_000, 1_024), (2_048, 504), (1_024, 16)])
def test_waiting_handshakes_leave_the_server_its_own_files(files_max: int, waiting: int) -> None:
    limit = client_limit(None, files_max, 2)
    assert limit.handshakes_waiting_max == waiting
    assert limit.files_reserved - waiting - HANDSHAKES_MAX >= 200


def test_a_setting_beyond_the_files_is_told_with_both_numbers_and_the_way_out() -> None:
    assert client_limit(5_000, 1_024, 2).problem == (
        "takes 512 clients, not the 5000 of its setting clients_max: its limit of 1024 open files "
        "bears no more; raise that (ulimit -n) where Ray is started on its node"
    )


BY_SETTING = (
    "the setting clients_max is 3, and the server has as many clients already; raise it in the "
    "settings of the ensemble"
)
BY_FILES = (
    "the server's limit of 1000 open files bears no more clients than the {} it has; raise that "
    "(ulimit -n) where Ray is started on its node"
)


@pytest.mark.parametrize(
    ("is_set", "clients", "next_file", "reason"),
    [
        (True, 2, 60, ""),
        (True, 3, 60, BY_SETTING),
        # Whoever has the files: other connections of the process count, too.
        (True, 2, 899, ""),
        (True, 2, 900, BY_FILES.format(2)),
        (False, 2, 60, ""),
        (False, 3, 60, BY_FILES.format(3)),
        (False, 0, 1_000, BY_FILES.format(0)),
    ],
)
def test_a_refusal_names_the_limit_and_where_to_raise_it(
    is_set: bool, clients: int, next_file: int, reason: str
) -> None:
    limit = ClientLimit(
        3, files_max=1_000, files_reserved=100, handshakes_waiting_max=16, is_set=is_set
    )
    assert limit.refusal_reason(clients, next_file) == reason


@pytest.fixture
def limits() -> Iterator[tuple[int, int]]:
    """The limits of open files of this process, which are restored after the test."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield before
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_the_soft_limit_rises_as_far_as_wanted_and_never_falls(limits: tuple[int, int]) -> None:
    soft, hard = limits
    low = soft - 2
    resource.setrlimit(resource.RLIMIT_NOFILE, (low, hard))
    assert raise_files_limit(low - 1) == low
    assert raise_files_limit(low + 1) == low + 1
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (low + 1, hard)
    assert raise_files_limit(soft) == soft
    if hard != resource.RLIM_INFINITY:
        assert raise_files_limit(hard + 1) == hard


def test_the_next_free_file_is_behind_those_that_are_open(limits: tuple[int, int]) -> None:
    first = next_free_file()
    opened = os.open(os.devnull, os.O_RDONLY)
    try:
        assert opened == first
        assert next_free_file() > opened
        resource.setrlimit(resource.RLIMIT_NOFILE, (first, limits[1]))
        assert next_free_file() > limits[0]
    finally:
        os.close(opened)
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert next_free_file() == first
