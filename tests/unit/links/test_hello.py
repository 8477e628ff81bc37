"""Hellos: which are decoded, which are refused, and rule D1."""

import msgspec
import pytest
from msgspec import structs

from raykeeper.links.hello import (
    LINK_VERSION,
    Fence,
    Hello,
    LinkKind,
    Refusal,
    Welcome,
    agreed_version,
    client_hello,
    decode_answer,
    decode_hello,
    encode_hello,
    peer_hello,
    refusal_reason,
    version_problem,
)
from raykeeper.links.limits import HELLO_BYTES_MAX
from raykeeper.links.processes import Process
from raykeeper.zab.ids import ServerId

S2, S3 = ServerId(2), ServerId(3)


PROCESS = Process("a" * 56, "b" * 56, 1 << 22, 1 << 62, f"{'c' * 36}/4026531836/4026531834")


@pytest.mark.parametrize(
    "hello",
    [
        client_hello(),
        client_hello("e", "10.0.0.1"),
        client_hello("e", "10.0.0.1", PROCESS),
        peer_hello("e", S2, 9),
    ],
)
def test_a_hello_survives_encoding(hello: Hello) -> None:
    assert decode_hello(encode_hello(hello)) == hello


@pytest.mark.parametrize("answer", [Welcome(LINK_VERSION, S2, 4), Refusal("full")])
def test_an_answer_survives_encoding(answer: Welcome | Refusal) -> None:
    assert decode_answer(encode_hello(answer)) == answer


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc1",
        encode_hello(client_hello("e")).replace(b"\xa1e", b"\xa1\xff"),  # no UTF-8
        encode_hello(Refusal("not a hello")),
        msgspec.msgpack.encode([1, LINK_VERSION, 99, "", 0, 0]),
        encode_hello(client_hello("e" * HELLO_BYTES_MAX)),
        encode_hello(client_hello("e", "h" * HELLO_BYTES_MAX)),
        encode_hello(
            client_hello(process=structs.replace(PROCESS, pid_namespace="p" * HELLO_BYTES_MAX))
        ),
        encode_hello(client_hello(process=structs.replace(PROCESS, pid="1"))),
    ],
)
def test_malformed_and_foreign_hellos_decode_to_none(data: bytes) -> None:
    assert decode_hello(data) is None


def test_a_client_hello_without_a_process_is_decoded() -> None:
    hello = decode_hello(msgspec.msgpack.encode([1, LINK_VERSION, 2, "e", 0, 0, "10.0.0.1", 7]))
    assert hello is not None and hello.link == 7 and hello.process is None


def test_only_a_client_may_leave_the_ensemble_open() -> None:
    assert refusal_reason(client_hello(), "e") == ""
    assert refusal_reason(client_hello("e"), "e") == ""
    assert refusal_reason(peer_hello("e", S2, 1), "e") == ""
    assert refusal_reason(client_hello("f"), "e") == "this server belongs to ensemble e, not to f"
    assert "not to (none)" in refusal_reason(peer_hello("", S2, 1), "e")


def test_the_higher_incarnation_fences_the_lower() -> None:
    fence = Fence()
    assert fence.refusal_reason(S2, 5) == ""
    assert fence.admit(S2, 5)
    assert fence.admit(S3, 1)
    assert fence.admit(S2, 6)
    assert not fence.admit(S2, 5)
    assert fence.newest() == {S2: 6, S3: 1}
    assert fence.refusal_reason(S2, 5) == "incarnation 5 of server 2 was fenced by incarnation 6"


@pytest.mark.parametrize(
    ("oldest", "newest", "agreed"),
    [
        (1, 0, 1),  # a program that speaks one version alone, and says no other
        (1, 1, 1),
        (1, 2, 1),  # the next version speaks this one, too
        (2, 3, 0),  # the one after that does not
        (0, 1, 1),
        (0, 0, 0),
    ],
)
def test_both_ends_agree_on_the_newest_version_that_both_speak(
    oldest: int, newest: int, agreed: int
) -> None:
    hello = Hello(oldest, LinkKind.CLIENT, "", ServerId(0), 0, version_max=newest)
    assert agreed_version(hello) == agreed
    assert bool(version_problem(hello)) is not bool(agreed)
    if not agreed and oldest:
        assert "speaks link versions 2 to 3, and this server 1 to 1" in version_problem(hello)


def test_the_program_before_understands_the_hello() -> None:
    """It compares the first number with its own version, and ignores what follows its fields."""
    fields = msgspec.msgpack.decode(encode_hello(peer_hello("e", S2, 9)))
    assert fields == [1, 1, 1, "e", 2, 9, "", 0, None, 1]
