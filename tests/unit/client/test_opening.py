"""Opening: each session has a password and a seed of its own."""

import pytest

from raykeeper.client.effects import SendFrame
from raykeeper.client.errors import BadArgumentsError
from raykeeper.client.opening import new_core
from raykeeper.zab.ids import Millis, ServerId
from raykeeper.znodes.requests import Connect, decode_client_frame


def connect_of_a_new_core() -> Connect:
    core = new_core([ServerId(1)], 10, 30)
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


@pytest.mark.parametrize(("session", "request_"), [(0, 30), (10, -1)])
def test_refuses_senseless_spans(session: float, request_: float) -> None:
    with pytest.raises(BadArgumentsError):
        new_core([ServerId(1)], session, request_)
