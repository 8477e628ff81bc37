"""The nodes of a chaos run have homes of their own, and Ray's token is in the user's."""

import pytest

from raykeeper.chaos.local_nodes import token_place


@pytest.mark.parametrize(
    ("environment", "is_told"),
    [
        ({}, False),
        ({"RAY_AUTH_MODE": "disabled"}, False),
        ({"RAY_AUTH_MODE": "Token"}, True),
        ({"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": "/a"}, False),
        ({"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "secret"}, False),
    ],
)
def test_a_node_is_told_where_the_token_is(environment: dict[str, str], is_told: bool) -> None:
    assert ([*token_place(environment)] == ["RAY_AUTH_TOKEN_PATH"]) == is_told
