"""ReadProcessor: each request that a server answers from its own state has a handler."""

from typing import get_args

from raykeeper.server.connection import LocalRequest
from tests.harness.pure_servers import PureServer


def test_every_request_has_a_handler() -> None:
    one = PureServer()
    assert set(one.server._clients._read_processor.by_type) == set(get_args(LocalRequest))
