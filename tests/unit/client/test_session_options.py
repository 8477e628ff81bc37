"""Session options: each session has its own password and seed."""

from typing import Any

import pytest

from raykeeper.client.core.effects import SendFrame
from raykeeper.client.core.public_types import ClientId
from raykeeper.client.errors import BadArgumentsError, InvalidAclError
from raykeeper.client.session_options import (
    SessionOptions,
    checked_default_acl,
    new_core,
    split_ensemble_name,
)
from raykeeper.zab.ids import Millis, ServerId
from raykeeper.znodes.requests import Connect, SessionId, decode_client_frame


def connect_of_a_new_core(**options: Any) -> Connect:
    core = new_core([ServerId(1)], SessionOptions(**options))
    core.start(Millis(0))
    core.link_opened(Millis(0))
    sent = core.out[-1]
    assert isinstance(sent, SendFrame)
    frame = decode_client_frame(sent.data)
    assert isinstance(frame, Connect)
    return frame


def test_no_two_sessions_have_the_same_password() -> None:
    first, second = connect_of_a_new_core(), connect_of_a_new_core()
    assert first.password != second.password
    assert first.timeout_ms == 10_000


def test_read_only_is_requested_only_when_given() -> None:
    assert not connect_of_a_new_core().read_only
    assert connect_of_a_new_core(read_only=True).read_only


def test_a_server_is_told_which_process_opens_the_session() -> None:
    assert connect_of_a_new_core(identity=b"driver a.py pid 7").identity == b"driver a.py pid 7"


@pytest.mark.parametrize(("session", "request_"), [(0, 30), (10, -1)])
def test_senseless_durations_are_refused(session: float, request_: float) -> None:
    with pytest.raises(BadArgumentsError):
        options = SessionOptions(session_timeout_s=session, timeout_s=request_)
        new_core([ServerId(1)], options)


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("coord", ("coord", "")),
        ("coord/", ("coord", "")),
        ("coord/app1", ("coord", "/app1")),
        ("coord/a/b", ("coord", "/a/b")),
    ],
)
def test_a_name_may_have_a_chroot(name: str, place: tuple[str, str]) -> None:
    assert split_ensemble_name(name) == place


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (b"coord", "must be a string, not bytes"),
        ("coord//a", "empty component"),
        ("coord/a/", "end with"),
    ],
)
def test_an_invalid_name_is_refused(name: Any, text: str) -> None:
    with pytest.raises(BadArgumentsError, match=text):
        split_ensemble_name(name)


def test_a_client_id_names_the_session_to_take_over() -> None:
    taken = ClientId(SessionId(7), b"0123456789abcdef")
    connect = connect_of_a_new_core(client_id=tuple(taken))
    assert (connect.session_id, connect.password) == taken
    assert len(connect.new_password) == 16
    for wrong in (7, (7,), (0, b"0123456789abcdef"), (7, b"short"), ("7", b"0123456789abcdef")):
        with pytest.raises(BadArgumentsError, match="the client_id of another handle"):
            new_core([ServerId(1)], SessionOptions(client_id=wrong))  # type: ignore[arg-type]


def test_an_invalid_default_acl_is_refused() -> None:
    with pytest.raises(InvalidAclError, match="it has 0 entries"):
        checked_default_acl([])
    assert checked_default_acl(None) is None
