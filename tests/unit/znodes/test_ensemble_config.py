"""The text of /zookeeper/config: what ZooKeeper's parsers expect, and what changes it."""

import pytest

from raykeeper.zab.ids import ServerId, Zxid
from raykeeper.znodes.acl import READ_ONLY_ACL
from raykeeper.znodes.ensemble_config import (
    EnsembleConfig,
    format_config,
    member_lines,
    parse_config,
    parse_servers,
    server_line,
    updated_servers,
)
from raykeeper.znodes.reads import reply_to_read
from raykeeper.znodes.replies import GetDataReply
from raykeeper.znodes.requests import GetData
from raykeeper.znodes.state import State
from raykeeper.znodes.txns import SetDataTxn, decode_txn
from tests.unit.znodes.one_leader import WALL, OneLeader, zxid_at

ONE, TWO, THREE, FOUR = (ServerId(number) for number in range(1, 5))
TEXT = (
    b"server.1=10.0.0.1:2888:3888:participant;10.0.0.1:2181\n"
    b"server.4=[fe80::1]:2888:3888:observer;[fe80::1]:2184\n"
    b"version=100000007"
)
LINES = {
    ONE: "10.0.0.1:2888:3888:participant;10.0.0.1:2181",
    FOUR: "[fe80::1]:2888:3888:observer;[fe80::1]:2184",
}


def test_the_text_is_that_of_zookeepers_dynamic_configuration() -> None:
    assert server_line("10.0.0.1:2181", is_voter=True) == LINES[ONE]
    assert server_line("[fe80::1]:2184", is_voter=False) == LINES[FOUR]
    assert format_config(LINES, Zxid(0x1_0000_0007)) == TEXT
    assert parse_servers(TEXT) == LINES


def test_a_parsed_config_has_voters_observers_and_version() -> None:
    config = parse_config(TEXT, 7)
    expected = EnsembleConfig(7, {ONE: "10.0.0.1:2181"}, {FOUR: "[fe80::1]:2184"})
    assert config == expected and config.servers == (ONE, FOUR)
    config = parse_config(b"server.3=unknown:2888:3888:participant\nversion=8", 8)
    assert config == EnsembleConfig(8, {THREE: ""}, {})


@pytest.mark.parametrize("text", [b"", b"\xff", b"server.=x\nserver.1\nversion=server.1=2"])
def test_what_is_no_line_of_a_server_is_skipped(text: bytes) -> None:
    assert parse_servers(text) == {}


@pytest.mark.parametrize(
    ("told", "observers", "servers"),
    [
        ({}, [FOUR], None),
        ({ONE: "10.0.0.1:2181"}, [FOUR], None),
        ({ONE: "10.0.0.1:2181", FOUR: "[fe80::1]:2184"}, [FOUR], None),
        # A new address, another one, one of who is no member.
        ({THREE: "10.0.0.3:2183"}, [FOUR], [ONE, THREE, FOUR]),
        ({ONE: "10.0.0.9:2181"}, [FOUR], [ONE, FOUR]),
        ({ServerId(9): "10.0.0.9:2189"}, [FOUR], None),
        # A member that is none any more.
        ({ONE: "10.0.0.1:2181"}, [], [ONE]),
    ],
)
def test_the_text_changes_with_addresses_and_members_alone(
    told: dict[ServerId, str], observers: list[ServerId], servers: list[ServerId] | None
) -> None:
    lines = updated_servers(TEXT, told, [ONE, TWO, THREE], observers)
    if servers is None:
        assert lines is None
        return
    assert lines is not None and list(lines) == servers
    for server in servers:
        address = told.get(server)
        line = LINES.get(server, "") if address is None else server_line(address, is_voter=True)
        assert lines[server] == line


def test_a_transaction_writes_it_though_clients_may_not() -> None:
    leader = OneLeader()
    told, voters = {ONE: "10.0.0.1:2181"}, (ONE, TWO)
    data = leader.preparation.prepare_config(zxid_at(1), WALL, told, voters, ())
    assert data is not None
    change = decode_txn(data).body
    assert isinstance(change, SetDataTxn) and change.stat.version == 1
    assert change.value == format_config({ONE: LINES[ONE]}, zxid_at(1))
    leader.log.append((zxid_at(1), data))
    # It is outstanding: the same addresses need no other transaction, and use no zxid.
    assert leader.preparation.prepare_config(zxid_at(2), WALL, told, voters, ()) is None
    leader.apply()
    znode = leader.state.tree.znodes["/zookeeper/config"]
    assert znode.attributes is not None and znode.attributes.acls == READ_ONLY_ACL
    reply = reply_to_read(leader.state, (), GetData(1, "/zookeeper/config", False))
    assert isinstance(reply, GetDataReply) and reply.value == change.value
    again = State()
    again.apply(*leader.log[0])
    assert again.digest() == leader.state.digest()


def test_every_member_has_a_line_whether_its_address_is_known_or_not() -> None:
    lines = {
        ONE: LINES[ONE].replace("participant", "observer"),
        TWO: "unknown:2888:3888:participant",
    }
    assert member_lines(TEXT, {}, [TWO], [ONE]) == lines
    # Said again by the next step, and when it was told.
    assert member_lines(format_config(lines, Zxid(7)), {}, [TWO], [ONE]) == lines
    assert member_lines(TEXT, {TWO: "[fe80::1]:2181"}, [TWO], [ONE]) == {
        ONE: lines[ONE],
        TWO: "[fe80::1]:2888:3888:participant;[fe80::1]:2181",
    }
