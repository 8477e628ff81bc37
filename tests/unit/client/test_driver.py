"""Driver: one frame per turn, one timer, links that come late; on virtual time."""

import asyncio
import gc
import weakref
from collections.abc import Iterable
from typing import Any

import pytest

from raykeeper.client.core.outstanding import Query
from raykeeper.client.core.public_types import ClientState, WatchedEvent
from raykeeper.client.driver import LISTING_S, Driver
from raykeeper.client.errors import ConnectionLossError, KeeperError, NotReadOnlyError
from raykeeper.client.session_options import SessionOptions, new_core
from raykeeper.links.contract import Link, LinkEvents
from raykeeper.zab.ids import FOUNDING_DISK, ServerId, Zxid
from raykeeper.zab.member_list import MemberList
from raykeeper.znodes.requests import (
    ClientFrame,
    Connect,
    GetData,
    SetData,
    Sync,
    decode_client_frame,
)
from tests.harness.event_loops import VirtualLoop
from tests.harness.scripted_ensemble import MemoryLink, ScriptedEnsemble

SET = SetData("/", b"v", -1)


class Listener:
    """Records what the driver reports, in order; serves as a token and as the listener."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    def complete(self, answer: Any) -> None:
        self.told.append(answer)

    def fail(self, error: KeeperError) -> None:
        self.told.append(error)

    def watch_fired(self, watchers: list[object], event: WatchedEvent) -> None:
        self.told.append((watchers, event))

    def state_changed(self, state: ClientState) -> None:
        self.told.append(state)


def driver_of(
    ensemble: Any,
    loop: VirtualLoop,
    listener: Listener,
    *,
    timeout: float = 1e6,
    read_only: bool = False,
) -> Driver:
    options = SessionOptions(session_timeout_s=9.0, timeout_s=timeout, read_only=read_only)
    core = new_core([ServerId(1), ServerId(2)], options)
    driver = Driver(core, ensemble, listener, loop, loop.time)
    driver.start()
    return driver


def frames_on(link: MemoryLink) -> list[Any]:
    return [decode_client_frame(data) for data in link.sent]


async def test_a_turn_sends_one_frame(loop: VirtualLoop) -> None:
    ensemble, listener = ScriptedEnsemble(), Listener()
    driver = driver_of(ensemble, loop, listener)
    await driver.opened
    (link,) = ensemble.links
    for _ in range(3):
        driver.submit(SET, listener)
    for _ in range(2):
        driver.submit_threadsafe(Query(Sync, "/"), listener)
    await asyncio.sleep(0.001)
    connect, frame = frames_on(link)
    assert isinstance(connect, Connect)
    assert len(frame.requests) == 5
    assert len(listener.told) == 6
    driver.submit_threadsafe(SET, listener)
    await asyncio.sleep(0.001)
    assert len(frames_on(link)) == 3
    driver.close()
    await driver.finished


class Dialer:
    """The ensemble, by a dialer that only the driver holds."""

    def __init__(self, ensemble: ScriptedEnsemble) -> None:
        self.dial = ensemble.dial


class Finder(Dialer):
    """A dialer that also lists the servers that run."""

    def __init__(self, ensemble: ScriptedEnsemble, *listed: int) -> None:
        super().__init__(ensemble)
        self.listed: list[ServerId] | None = [ServerId(each) for each in listed]
        self.kept: list[ServerId] = []
        self.asked = 0

    async def list_servers(self) -> list[ServerId]:
        self.asked += 1
        if self.listed is None:
            raise RuntimeError("the GCS is away")
        if not self.listed:
            await asyncio.Event().wait()
        return self.listed

    def keep(self, servers: Iterable[ServerId]) -> None:
        self.kept = list(servers)


async def test_a_client_whose_servers_are_gone_finds_others(loop: VirtualLoop) -> None:
    ensemble = ScriptedEnsemble()
    ensemble.absent = {ServerId(1), ServerId(2)}
    founding = dict.fromkeys([ServerId(3)], FOUNDING_DISK)
    ensemble.members = MemberList(Zxid(7), founding, (ServerId(4),))
    finder = Finder(ensemble, 2, 3)
    driver = driver_of(finder, loop, Listener())
    await driver.opened
    assert [link.server for link in ensemble.links] == [3]
    assert (finder.asked, finder.kept) == (1, [3, 4])
    driver.close()
    await driver.finished


@pytest.mark.parametrize("listed", [None, [], [1, 2]])
async def test_a_list_that_does_not_help_is_asked_for_again(
    loop: VirtualLoop, listed: list[ServerId] | None
) -> None:
    ensemble = ScriptedEnsemble()
    ensemble.is_down = True
    finder = Finder(ensemble)
    finder.listed = listed
    driver = driver_of(finder, loop, Listener())
    await asyncio.sleep(2 * LISTING_S + 5)
    assert 2 <= finder.asked <= 40
    ensemble.is_down = False
    await driver.opened
    driver.close()
    await driver.finished


async def test_nothing_is_listed_for_a_session_that_is_over(loop: VirtualLoop) -> None:
    ensemble = ScriptedEnsemble()
    ensemble.is_down = True
    finder = Finder(ensemble)  # it never answers
    driver = driver_of(finder, loop, Listener())
    await asyncio.sleep(1)
    assert finder.asked == 1
    held = weakref.ref(finder)
    del finder
    driver.close()
    with pytest.raises(ConnectionLossError):
        await driver.opened
    await asyncio.sleep(0.001)
    gc.collect()
    assert held() is None and len(asyncio.all_tasks()) == 1


async def test_a_session_that_is_over_holds_no_dialer(loop: VirtualLoop) -> None:
    dialer = Dialer(ScriptedEnsemble())
    held = weakref.ref(dialer)
    driver = driver_of(dialer, loop, Listener())
    del dialer
    await driver.opened
    gc.collect()
    assert held() is not None
    driver.close()
    await driver.finished
    gc.collect()
    assert held() is None


async def test_heartbeats_keep_an_idle_session(loop: VirtualLoop) -> None:
    ensemble, listener = ScriptedEnsemble(), Listener()
    driver = driver_of(ensemble, loop, listener)
    await asyncio.sleep(60)
    assert listener.told == [ClientState.CONNECTED]
    (link,) = ensemble.links
    seqs = [frame.heartbeat_seq for frame in frames_on(link) if isinstance(frame, ClientFrame)]
    assert seqs == list(range(1, len(seqs) + 1))
    assert 18 <= len(seqs) <= 20
    driver.close()


async def test_a_cut_link_costs_a_pause(loop: VirtualLoop) -> None:
    ensemble, listener = ScriptedEnsemble(), Listener()
    driver = driver_of(ensemble, loop, listener)
    await driver.opened
    driver.submit(SET, listener)
    ensemble.is_mute = True
    await asyncio.sleep(0.1)
    ensemble.cut()
    ensemble.is_mute = False
    await asyncio.sleep(1)
    *states, written = listener.told
    assert states == [ClientState.CONNECTED, ClientState.SUSPENDED, ClientState.CONNECTED]
    assert written.number == 1
    assert ensemble.requests == [SET]  # once
    driver.close()


@pytest.mark.parametrize("switch", ["is_deaf", "is_mute"])
async def test_a_client_of_a_silent_ensemble_is_lost_on_time(
    loop: VirtualLoop, switch: str
) -> None:
    ensemble, listener = ScriptedEnsemble(), Listener()
    driver = driver_of(ensemble, loop, listener)
    await driver.opened
    opened_at = loop.time()
    setattr(ensemble, switch, True)
    driver.submit(SET, listener)
    await driver.finished
    assert loop.time() - opened_at < 8.56
    connected, suspended, lost, error = listener.told
    assert (connected, suspended, lost) == ("CONNECTED", "SUSPENDED", "LOST")
    assert not error.definite


async def test_without_servers_opening_fails_on_time(loop: VirtualLoop) -> None:
    ensemble, listener = ScriptedEnsemble(), Listener()
    ensemble.is_down = True
    driver = driver_of(ensemble, loop, listener, timeout=5)
    with pytest.raises(ConnectionLossError, match="server 1: nobody answers at 1"):
        await driver.opened
    assert loop.time() == pytest.approx(1005, abs=0.01)
    assert listener.told == ["LOST"]
    assert not [task for task in asyncio.all_tasks(loop) if task is not asyncio.current_task()]


async def test_a_driver_may_close_before_it_is_open(loop: VirtualLoop) -> None:
    driver = driver_of(ScriptedEnsemble(), loop, Listener())
    driver.close()
    with pytest.raises(ConnectionLossError, match="closed before it was open"):
        await driver.opened


class SlowDialer:
    """A dialer whose links open, or fail, when the test says so; cancelling has no effect on it."""

    def __init__(self) -> None:
        self.dials: list[tuple[ServerId, LinkEvents, asyncio.Future[Link]]] = []

    async def dial(self, server: ServerId, events: LinkEvents) -> Link:
        answer: asyncio.Future[Link] = asyncio.get_running_loop().create_future()
        self.dials.append((server, events, answer))
        while not answer.done():
            try:
                await asyncio.shield(answer)
            except asyncio.CancelledError:
                if answer.cancelled():
                    raise
        return answer.result()


class DeadLink:
    """A link that records how it was closed."""

    incarnation = 1

    def __init__(self) -> None:
        self.closed: list[str] = []

    def send(self, frame: bytes) -> None:
        raise AssertionError("sent on a link that was given up")

    def close(self, reason: str) -> None:
        self.closed.append(reason)


async def test_a_link_that_opens_too_late_is_closed_and_ignored(loop: VirtualLoop) -> None:
    dialer, listener = SlowDialer(), Listener()
    driver = driver_of(dialer, loop, listener)
    await asyncio.sleep(2)  # the first server had 1.5 s
    (first, events, answer), (second, _, _) = dialer.dials
    assert {first, second} == {1, 2}
    link = DeadLink()
    answer.set_result(link)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert link.closed == ["it was opened too late"]
    events.frames([b"junk"])
    events.closed("late too")
    assert len(dialer.dials) == 2
    driver.close()
    dialer.dials[1][2].cancel()
    with pytest.raises(ConnectionLossError):
        await driver.opened


async def test_a_token_that_submits_is_served_in_the_next_turn(loop: VirtualLoop) -> None:
    ensemble, listener = ScriptedEnsemble(), Listener()
    driver = driver_of(ensemble, loop, listener)
    await driver.opened

    class Chain(Listener):
        def complete(self, answer: Any) -> None:
            driver.submit(Query(GetData, "/"), listener)
            driver.close()  # enters the driver while effects are carried out

    driver.submit(SET, Chain())
    await driver.finished
    assert [type(each).__name__ for each in listener.told[1:]] == [
        "GetDataReply",
        "ClientState",
    ]


async def test_watches_and_replies_come_in_the_order_of_the_frame(loop: VirtualLoop) -> None:
    ensemble, listener = ScriptedEnsemble(), Listener()
    driver = driver_of(ensemble, loop, listener)
    await driver.opened
    driver.submit(Query(GetData, "/", "w"), listener)
    driver.submit(SET, listener)
    await asyncio.sleep(0.001)
    _, read, (watchers, event), written = listener.told
    assert (read.value, watchers, event.path, written.number) == (b"", ["w"], "/", 1)
    driver.close()


async def test_a_client_moves_from_a_server_without_a_leader_to_one_with_a_leader(
    loop: VirtualLoop,
) -> None:
    ensemble, listener = ScriptedEnsemble(), Listener()
    ensemble.leaderless = {ServerId(1), ServerId(2)}
    driver = driver_of(ensemble, loop, listener, read_only=True)
    await driver.opened
    (before,) = ensemble.links
    driver.submit(SET, listener)
    driver.submit(Query(GetData, "/", "w"), listener)
    # The core asks the other server periodically, and leaves it when it does not answer.
    await asyncio.sleep(60)
    assert len(ensemble.links) <= 2 and ensemble.links[0] is before
    state, refused, read = listener.told
    assert state is ClientState.CONNECTED_READ_ONLY and read.value == b""
    assert isinstance(refused, NotReadOnlyError)

    ensemble.leaderless = {before.server}
    await asyncio.sleep(10)
    (after,) = ensemble.links
    assert (after.server, after.watches) == (3 - before.server, {("data", "/")})
    driver.submit(SET, listener)
    await asyncio.sleep(0.001)
    connected, (watchers, _), written = listener.told[3:]
    assert (connected, watchers, written.number) == (ClientState.CONNECTED, ["w"], 1)
    driver.close()
    await driver.finished


async def test_a_search_that_finds_no_server_goes_on(loop: VirtualLoop) -> None:
    ensemble, listener = ScriptedEnsemble(), Listener()
    ensemble.leaderless = {ServerId(1), ServerId(2)}
    driver = driver_of(ensemble, loop, listener, read_only=True)
    await driver.opened
    ensemble.is_down = True
    await asyncio.sleep(20)
    ensemble.is_down, ensemble.leaderless = False, {ensemble.links[0].server}
    await asyncio.sleep(2)
    assert listener.told == [ClientState.CONNECTED_READ_ONLY, ClientState.CONNECTED]
    driver.close()
    await driver.finished
