"""The commands of the admin server: the documents that tools read."""

import pytest

from raykeeper.server.admin_commands import COMMANDS, AdminInput, Document, answer_command
from raykeeper.server.monitoring import VERSION, Average
from raykeeper.zab.effects import Role
from tests.harness.jute_caller import connected
from tests.harness.pure_servers import FACTS, OPTIONS, TIMING, PureServer, PureServers


def told(host: PureServer, name: str) -> Document:
    server = host.server
    return answer_command(
        name, AdminInput(server.stats(), server.connection_stats(), FACTS, "10.0.0.5")
    )


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_names_itself_and_has_no_error(name: str) -> None:
    document = told(PureServer(), name)
    assert (document["command"], document["error"]) == (name, None)


def test_four_letters_are_the_same_command() -> None:
    host = PureServer()
    for letters, name in (
        *(("mntr", "monitor"), ("stat", "stats"), ("srvr", "server_stats")),
        *(("lead", "leader"), ("isro", "is_read_only")),
    ):
        assert told(host, letters) == told(host, name)


def test_an_unknown_command_is_an_error() -> None:
    assert told(PureServer(), "shutdown") == {
        "command": "shutdown",
        "error": "Unknown command: shutdown",
    }


def test_the_numbers_are_those_of_the_words() -> None:
    host = PureServer()
    connected(host, 2)
    document = told(host, "monitor")
    assert document["version"] == VERSION and document["avg_latency"] == Average(0, 0)
    names = ("server_state", "num_alive_connections", "znode_count", "open_file_descriptor_count")
    assert [document[name] for name in names] == ["standalone", 1, 4, 70]


def test_the_statistics_hold_the_connections() -> None:
    host = PureServer()
    connected(host, 2)
    document = told(host, "stats")
    assert document["version"] == VERSION and document["node_count"] == 4
    assert document["server_stats"] | {"last_processed_zxid": 0} == {
        "packets_sent": 1,
        "packets_received": 1,
        "server_state": "standalone",
        "outstanding_requests": 0,
        "min_latency": 0,
        "avg_latency": Average(0, 0),
        "max_latency": 0,
        "data_dir_size": 300,
        "log_dir_size": 4000,
        "last_processed_zxid": 0,
        "num_alive_client_connections": 1,
        "uptime": 0,
    }
    assert document["connections"] == [
        {
            "remote_socket_address": "10.0.0.1:4000",
            "interest_ops": 1,
            "outstanding_requests": 0,
            "packets_received": 1,
            "packets_sent": 1,
        }
    ]
    assert "connections" not in told(host, "server_stats")


def test_the_leader_is_named_and_a_server_without_one_does_not_serve() -> None:
    servers = PureServers(3, options=OPTIONS)
    servers[2].caller(1)  # a state that may be shown
    leader = {"is_leader": True, "leader_id": 3, "leader_ip": "10.0.0.5"}
    assert told(servers[3], "leader") == {**leader, "command": "leader", "error": None}
    follower = {"is_leader": False, "leader_id": 3, "leader_ip": ""}
    assert told(servers[1], "leader") == {**follower, "command": "leader", "error": None}
    assert told(servers[1], "is_read_only")["read_only"] is False
    for other in (2, 3):
        servers.crash(other)
    while servers[1].server.peer.role is not Role.LOOKING:
        servers.pass_time(TIMING.tick_ms)
    not_serving = "This ZooKeeper instance is not currently serving requests"
    assert told(servers[1], "ruok") == {"command": "ruok", "error": not_serving}
    servers.pass_time(OPTIONS.read_only_after_ms)
    assert told(servers[1], "ruok")["error"] is None
    assert told(servers[1], "is_read_only")["read_only"] is True
    assert told(servers[1], "leader")["leader_id"] == -1
