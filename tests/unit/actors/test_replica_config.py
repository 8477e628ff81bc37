"""ReplicaConfig: what it refuses, and what it derives from its settings."""

import pickle
import re
from pathlib import Path
from typing import Any

import pytest

from raykeeper.actors.replica_config import ReplicaConfig
from raykeeper.jute.frames import JUTE_MAXBUFFER
from raykeeper.links.jute_listener import BACKLOG, PortSettings
from raykeeper.links.jute_tls import TlsFiles
from raykeeper.server.context import ZooKeeperOptions
from raykeeper.zab.ids import FOUNDING_DISK, DiskId, Millis, ServerId, Zxid
from raykeeper.zab.member_list import MemberList
from raykeeper.znodes.acl import Identity


def config(**settings: Any) -> ReplicaConfig:
    return ReplicaConfig(
        **{
            "ensemble": "coord",
            "ensemble_uuid": "u",
            "server_id": ServerId(2),
            "voters": (ServerId(1), ServerId(2), ServerId(3)),
            "folder": "/data/2",
            **settings,
        }
    )


@pytest.mark.parametrize(
    ("setting", "value", "words"),
    [
        ("ensemble", "a/b", "'a/b' is not a name"),
        ("ensemble", "", "is not a name"),
        ("ensemble_uuid", "", "has a uuid"),
        ("folder", "", "a folder"),
        ("server_id", 0, "server_id is 0, expected 1 to 254"),
        ("server_id", 255, "server_id is 255"),
        ("links", "wires", "links is 'wires', expected auto, ray or direct"),
        ("voters", (), "expected different ids in order"),
        ("voters", (2, 1), "expected different ids in order"),
        ("voters", (1, 1, 2), "expected different ids in order"),
        ("observers", (5, 4), "observers are (5, 4), expected other ids in order"),
        ("observers", (3, 4), "expected other ids in order"),
        ("tick_ms", 9, "tick_ms is 9, expected 10 to 60000"),
        ("sync_limit", 1, "sync_limit is 1"),
        ("init_limit", 3, "init_limit is 3, expected 4 to 10000"),
        ("requests_max", 0, "requests_max is 0"),
        ("snapshot_every_txns", 0, "snapshot_every_txns is 0"),
        ("snapshots_kept", 0, "snapshots_kept is 0"),
        ("segment_bytes", 1000, "segment_bytes is 1000"),
        ("watch_history_changes", -1, "watch_history_changes is -1, expected 0 to 10000000"),
        ("watch_history_bytes", -1, "watch_history_bytes is -1"),
        ("promotion_lag_max", -1, "promotion_lag_max is -1, expected 0 to 1000000000"),
        ("promotion_wait_ms", 600_001, "promotion_wait_ms is 600001, expected 0 to 600000"),
        ("container_grace_ms", -1, "container_grace_ms is -1, expected 0 to 86400000"),
        ("clients_max", 0, "clients_max is 0, expected 1 to 100000"),
        ("clients_max", 100_001, "clients_max is 100001"),
        ("sessions_max", 0, "sessions_max is 0, expected 1 to 10000000"),
        ("zookeeper_port", 65_536, "zookeeper_port is 65536, expected 0 to 65535"),
        ("zookeeper_tls_port", 65_536, "zookeeper_tls_port is 65536, expected 0 to 65535"),
        ("zookeeper_admin_port", -1, "zookeeper_admin_port is -1, expected 0 to 65535"),
        ("zookeeper_clients_per_address", 0, "zookeeper_clients_per_address is 0"),
        ("zookeeper_handshake_s", 0, "zookeeper_handshake_s is 0"),
        ("zookeeper_request_bytes", 1023, "zookeeper_request_bytes is 1023, expected 1024 to 67"),
        ("zookeeper_list_bytes", 1023, "zookeeper_list_bytes is 1023, expected 1024 to 1073741824"),
        ("zookeeper_buffer_bytes", 9, "buffer_bytes is 9, expected 1048576 to 1099511627776"),
        ("transaction_ops_max", 0, "transaction_ops_max is 0, expected 1 to 100000"),
        ("acl_entries_max", 1_001, "acl_entries_max is 1001, expected 1 to 1000"),
        ("session_identities_max", 0, "session_identities_max is 0, expected 1 to 1000"),
        ("value_bytes_max", 0, "value_bytes_max is 0"),
        ("session_timeout_min_ms", 70_000, "session_timeout_min_ms is 70000"),
    ],
)
def test_bad_settings_are_refused(setting: str, value: object, words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        config(**{setting: value})


def test_a_config_pickles() -> None:
    made = config(tick_ms=Millis(100))
    assert pickle.loads(pickle.dumps(made)) == made


def test_a_launch_of_another_version_may_send_more_settings_or_fewer() -> None:
    """Ray starts a server again with what its launch sent, whatever program is there by then."""
    made = config(tick_ms=Millis(100), metrics=False)
    build, (sent,) = made.__reduce__()
    assert build({**sent, "setting_of_a_later_version": 1}) == made
    del sent["metrics"]
    assert build(sent) == config(tick_ms=Millis(100))


def test_settings_reach_the_parts() -> None:
    made = config(tick_ms=Millis(100), sync_limit=3, init_limit=7, snapshot_every_txns=9)
    settings = made.settings(disk=DiskId("new"))
    assert (settings.server_id, settings.members.voters, settings.has_vote) == (2, (1, 2, 3), False)
    assert (settings.timing.sync_ms, settings.timing.init_ms) == (300, 700)
    assert made.options().snapshot_every_txns == 9
    promoting = config(promotion_lag_max=8, promotion_wait_ms=Millis(7)).options()
    assert (promoting.promotion_lag_max, promoting.promotion_wait_ms) == (8, 7)
    assert config(container_grace_ms=Millis(6)).options().container_grace_ms == 6
    history = config(watch_history_changes=8, watch_history_bytes=7).options()
    assert (history.change_log_count_max, history.change_log_bytes_max) == (8, 7)
    assert config(requests_max=7).options().outstanding_requests_max == 7
    assert made.options().ensemble == made.ensemble_uuid
    assert config(first_uuid="first").options().ensemble == "first"
    assert config(value_bytes_max=5).limits().value_bytes_max == 5
    assert config(sessions_max=5).limits().sessions_max == 5
    assert config(transaction_ops_max=5).limits().transaction_ops_max == 5
    assert config(acl_entries_max=5).limits().acl_entries_max == 5
    assert config(session_identities_max=5).limits().session_identities_max == 5
    assert config(zookeeper_request_bytes=2048).limits().request_bytes_max == 2048
    assert config().limits().request_bytes_max == JUTE_MAXBUFFER
    assert config(zookeeper_list_bytes=4096).options().zookeeper.list_bytes_max == 4096
    kept = config(zookeeper_buffer_bytes=1 << 21).options().zookeeper.buffer_bytes_max
    assert (kept, config().options().zookeeper.buffer_bytes_max) == (1 << 21, 512 << 20)
    root = Identity("digest", "root:hash")
    assert config(super_identities=(root,)).limits().super_identities == (root,)
    assert config(segment_bytes=1 << 21, snapshots_kept=2).storage_limits().snapshots_kept == 2
    assert made.owner().server_id == 2
    assert made.newest_list().servers == (1, 2, 3)


@pytest.mark.parametrize(("shortest_ms", "touch_ms"), [(60_000, 250), (2_000, 250), (500, 62)])
def test_the_shortest_session_is_reported_several_times(shortest_ms: int, touch_ms: int) -> None:
    """A third of the timeout passes until a heartbeat, and then it waits for the next report."""
    made = config(session_timeout_min_ms=Millis(shortest_ms))
    assert made.options().session_report_ms == touch_ms


def test_observers_are_servers_without_a_vote() -> None:
    both = (ServerId(4), ServerId(5))
    observer = config(server_id=ServerId(5), observers=both)
    assert observer.newest_list().servers == (1, 2, 3, 4, 5)
    assert not observer.settings(disk=FOUNDING_DISK).has_vote
    assert observer.settings(disk=FOUNDING_DISK).members.voters == (1, 2, 3)


@pytest.mark.parametrize(("server", "has"), [(2, False), (4, True)])
def test_observers_do_not_make_a_quorum_with_a_sole_voter(server: int, has: bool) -> None:
    alone = config(server_id=ServerId(server), voters=(2,), observers=(ServerId(4),))
    assert alone.has_other_voters() is has


def listed(version: int, voters: dict[int, str], *observers: int) -> MemberList:
    seats = {ServerId(server): DiskId(disk) for server, disk in voters.items()}
    return MemberList(Zxid(version), seats, tuple(map(ServerId, observers)))


def test_the_newest_list_counts() -> None:
    grown, older = listed(9, {1: "", 2: "", 3: "d"}, 4), listed(7, {2: ""}, 3)
    alone = config(voters=(2,))
    assert alone.newest_list() == listed(0, {2: ""})
    assert alone.newest_list(older) == older
    for made in (config(voters=(2,), members=grown), config(voters=(2,), members=older)):
        assert made.newest_list(grown) == grown
        assert made.newest_list(grown).servers == (1, 2, 3, 4)
    assert (alone.has_other_voters(grown), alone.has_other_voters(older)) == (True, False)
    launched = config(voters=(2,), members=grown)
    assert launched.has_other_voters() and launched.has_other_voters(older)
    assert pickle.loads(pickle.dumps(launched)) == launched


def test_the_folder_may_be_in_the_home_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ray")
    assert config(folder="~/x").path == Path("/home/ray/x")
    assert config().path == Path("/data/2")


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("127.0.0.1", "127.0.0.1:2182"),
        ("::1", "[::1]:2182"),
        ("0.0.0.0", "10.0.0.7:2182"),
        ("::", "10.0.0.7:2182"),
    ],
)
def test_clients_of_zookeeper_are_told_an_address_of_the_node(address: str, told: str) -> None:
    made = config(zookeeper_port=2182, zookeeper_address=address)
    assert made.zookeeper_address_at("10.0.0.7", 2182) == told


def test_the_server_knows_what_the_words_tell_of_its_port() -> None:
    made = config(
        zookeeper_port=2182, zookeeper_words=("*",), zookeeper_clients_per_address=7, folder="/d/1"
    )
    assert made.options().zookeeper == ZooKeeperOptions(
        ("*",), 2182, 0, 7, BACKLOG, "/d/1", address="127.0.0.1:2182"
    )


def test_the_server_tells_where_clients_of_zookeeper_find_it() -> None:
    observers = (ServerId(4),)
    made = config(zookeeper_port=2182, zookeeper_address="0.0.0.0", observers=observers)
    options = made.options("10.0.0.7")
    assert options.zookeeper.address == "10.0.0.7:2182"
    assert made.settings(disk=FOUNDING_DISK).members.founding.observers == observers
    assert config().options("10.0.0.7").zookeeper.address == ""


def test_the_settings_of_the_port_for_clients_of_zookeeper() -> None:
    made = config(zookeeper_port=2182, zookeeper_clients_per_address=7, zookeeper_handshake_s=3)
    plain = PortSettings("127.0.0.1", 2182, 7, 9, 3)
    assert made.zookeeper_settings(9) == (plain, None)
    files = {"zookeeper_tls_certificate": "/c", "zookeeper_tls_key": "/k"}
    made = config(zookeeper_tls_port=2282, **files)
    encrypted = PortSettings("127.0.0.1", 2282, 60, 9, 10, TlsFiles("/c", "/k", ""))
    assert made.zookeeper_settings(9) == (None, encrypted)
