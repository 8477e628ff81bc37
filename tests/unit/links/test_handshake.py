"""What both ends of a new link check: versions are agreed on, or refused by name."""

import msgspec
import pytest

from raykeeper.links.contract import LinkRefused
from raykeeper.links.handshake import NOT_A_HELLO, LinkDialer, read_hello
from raykeeper.links.hello import (
    LINK_VERSION,
    Hello,
    LinkKind,
    Refusal,
    Welcome,
    client_hello,
    encode_hello,
)
from raykeeper.zab.ids import ServerId

S2 = ServerId(2)


async def _find(_server: ServerId) -> None:
    raise AssertionError("nothing is dialed")


def checked(answer: Welcome | Refusal) -> Welcome:
    return LinkDialer(_find, client_hello(), 1_000)._check_answer(S2, encode_hello(answer))


def test_a_hello_is_taken_or_refused_by_name() -> None:
    hello = client_hello("e", "h")
    assert read_hello(encode_hello(hello)) == hello
    assert read_hello(b"\xc1") == NOT_A_HELLO
    later = Hello(LINK_VERSION + 1, LinkKind.CLIENT, "", ServerId(0), 0, version_max=9)
    refusal = read_hello(encode_hello(later))
    assert isinstance(refusal, Refusal) and "speaks link versions 2 to 9" in refusal.reason
    # Later fields of a later version are ignored, so it can be named.
    fields = [1, 5, 1, "e", 2, 9, "", 0, None, 6, "new"]
    assert read_hello(msgspec.msgpack.encode(fields)) != NOT_A_HELLO


def test_an_answer_of_a_version_that_is_not_spoken_is_refused() -> None:
    welcome = Welcome(LINK_VERSION, S2, 4)
    assert checked(welcome) == welcome
    with pytest.raises(LinkRefused, match="chose link version 2, and this program speaks 1 to 1"):
        checked(Welcome(LINK_VERSION + 1, S2, 4))
    with pytest.raises(LinkRefused, match="server 2: the dialer speaks"):
        checked(Refusal("the dialer speaks"))
