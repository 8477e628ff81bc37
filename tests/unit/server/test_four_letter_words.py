"""The four-letter words: answered on the port of ZooKeeper's clients, then the end."""

import re
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from raykeeper.jute.opcodes import OpCode
from raykeeper.jute.records import AddWatchRequest
from raykeeper.server.context import ALLOWED_WORDS, ZooKeeperOptions
from raykeeper.server.effects import ReadProcessFacts
from raykeeper.server.events import ClientDisconnected, JuteBytesArrived
from raykeeper.server.four_letter_words import NEVER_ANSWERED
from raykeeper.zab.effects import Role
from raykeeper.zab.ids import Millis
from raykeeper.znodes.requests import GetData, Sync, WatchMode
from tests.harness.jute_caller import JuteCaller, connected
from tests.harness.pure_servers import OPTIONS, TIMING, PureServer, PureServers

ALL = replace(OPTIONS, zookeeper=ZooKeeperOptions(("*",), 2181, 0, 60, 1024, "/data/c/1"))
VERSION = "3.9.5-raykeeper, built on 2026-11-24 00:00 UTC"
NOT_SERVING = "This ZooKeeper instance is not currently serving requests\n"
ZXID = re.compile(r"0x[1-9a-f][0-9a-f]{9,}")
"""Of a session or a transaction; they are large numbers."""
_numbers: Iterator[int] = iter(range(100, 10_000))


def told(host: PureServer, *pieces: bytes) -> str:
    """What a connection is told that says these pieces, and then is closed."""
    number = next(_numbers)
    caller = JuteCaller(host, number)
    for piece in pieces:
        assert not caller.is_closed
        host.step(JuteBytesArrived(number, piece))
    assert caller.is_closed
    return host.streams[number].decode()


def masked(text: str) -> str:
    return ZXID.sub("0xN", text)


def busy() -> PureServer:
    """A server with a native client, which waits for a write, and one of ZooKeeper with watches."""
    host = PureServer(options=ALL)
    native = host.caller(1)
    native.ask(native.create("/a", b"12"), GetData(1, "/a", False))
    caller = JuteCaller(host, 2, "10.0.0.9", 4001)
    caller.connect()
    caller.create("/e", b"", flags=1)
    caller.get("/a", watch=True)
    caller.children("/a", watch=True)
    caller.ask(OpCode.ADD_WATCH, AddWatchRequest("/w", WatchMode.RECURSIVE))
    host.is_disk_held = True
    native.ask(native.set("/a", b"345"))
    return host


@pytest.mark.parametrize("pieces", [(b"ruok",), (b"ruok\n",), (b"r", b"uo", b"k")])
def test_a_server_says_that_it_is_there(pieces: tuple[bytes, ...]) -> None:
    assert told(PureServer(), *pieces) == "imok"


@pytest.mark.parametrize("word", ["dump", "wchc", "wchp", "crst", "srst", *NEVER_ANSWERED])
def test_words_that_are_not_in_the_whitelist_are_refused(word: str) -> None:
    refusal = f"{word} is not executed because it is not in the whitelist.\n"
    assert told(PureServer(), word.encode()) == refusal
    only = PureServer(options=replace(OPTIONS, zookeeper=ZooKeeperOptions((word,))))
    assert (told(only, word.encode()) == refusal) is (word in NEVER_ANSWERED)


@pytest.mark.parametrize("word", ALLOWED_WORDS)
def test_the_whitelist_allows_what_stands_in_it(word: str) -> None:
    assert "whitelist" not in told(PureServer(), word.encode())
    none = PureServer(options=replace(OPTIONS, zookeeper=ZooKeeperOptions(())))
    assert ("whitelist" not in told(none, word.encode())) is (word in ("srvr", "isro"))


def test_other_bytes_are_no_word() -> None:
    assert told(PureServer(), b"quit") == ""


def test_a_word_is_one_before_the_session_only() -> None:
    caller = connected(PureServer())
    caller.raw(b"ruok")
    assert caller.is_closed and caller.read() == []


def leaderless() -> PureServers:
    """An ensemble of which one server is left, which looks for a leader."""
    servers = PureServers(3, options=ALL)
    servers[2].caller(1)  # a state that may be shown
    for other in (2, 3):
        servers.crash(other)
    while servers[1].server.peer.role is not Role.LOOKING:
        servers.pass_time(TIMING.tick_ms)
    return servers


def test_a_server_with_a_leader_takes_writes() -> None:
    assert told(PureServer(), b"isro") == "rw"


def test_a_server_without_a_leader_says_that_it_does_not_serve() -> None:
    every = (*ALLOWED_WORDS, "dump", "wchc", "wchp", "crst", "srst")
    servers = leaderless()
    texts = {word: told(servers[1], word.encode()) for word in every}
    served = {word for word, text in texts.items() if text != NOT_SERVING}
    assert served == {"ruok", "isro", "envi", "gtmk"} and texts["isro"] == "null"
    servers.pass_time(OPTIONS.read_only_after_ms)
    texts = {word: told(servers[1], word.encode()) for word in every}
    assert NOT_SERVING not in texts.values()
    assert (texts["isro"], texts["ruok"]) == ("ro", "imok")
    heading, mode, *rest = texts["srvr"].splitlines()
    assert heading == f"Zookeeper version: {VERSION}"
    assert mode == "READ-ONLY mode; serving only read-only clients"
    assert "Mode: read-only" in rest
    connected(servers[1], 7, read_only=True)
    values = monitored(servers[1])
    assert values["zk_server_state"] == "read-only" and values["zk_peer_state"] == "looking"
    assert (values["zk_global_sessions"], values["zk_local_sessions"]) == ("1", "1")


SUMMARY = """\
Latency min/avg/max: 0/0.0/0
Received: 9
Sent: 8
Connections: 2
Outstanding: 1
Zxid: 0xN
Mode: standalone
Node count: 6
"""
CLIENTS = """\
 /:0[1](queued=1,recved=4,sent=3)
 /10.0.0.9:4001[1](queued=0,recved=5,sent=5)
"""
DETAILS = """\
 /:0[1](queued=1,recved=4,sent=3,sid=0xN,est=1700000000000,to=10000)
 /10.0.0.9:4001[1](queued=0,recved=5,sent=5,sid=0xN,lop=ADDW,est=1700000000000,to=10000,lcxid=0x4,\
lzxid=0xN,lresp=1700000000000,llat=0,minlat=0,avglat=0,maxlat=0)
"""
TEXTS = {
    "srvr": f"Zookeeper version: {VERSION}\n{SUMMARY}",
    "stat": f"Zookeeper version: {VERSION}\nClients:\n{CLIENTS}\n{SUMMARY}",
    "cons": f"{DETAILS}\n",
    "envi": f"Environment:\nzookeeper.version={VERSION}\nhost.name=here\npython.version=3\n",
    "dirs": "datadir_size: 300\nlogdir_size: 4000\n",
    "gtmk": "0",
    "conf": """\
clientPort=2181
secureClientPort=-1
dataDir=/data/c/1
dataDirSize=300
dataLogDir=/data/c/1
dataLogSize=4000
tickTime=1000
maxClientCnxns=60
minSessionTimeout=1000
maxSessionTimeout=20000
clientPortListenBacklog=1024
serverId=1
initLimit=10
syncLimit=4
electionAlg=3
peerType=0
""",
    "wchs": "1 connections watching 2 paths\nTotal watches:3\n",
    "wchc": "0xN\n\t/a\n\t/w\n\n",
    "wchp": "/a\n\t0xN\n/w\n\t0xN\n\n",
    "dump": """\
SessionTracker dump:
Global Sessions(2):
0xN	10000ms
0xN	10000ms
ephemeral nodes dump:
Sessions with Ephemerals (1):
0xN:
	/e
Connections dump:
	ip: /:0 sessionId: 0xN
	ip: /10.0.0.9:4001 sessionId: 0xN
""",
}


@pytest.mark.parametrize("word", TEXTS)
def test_each_word_has_zookeepers_text(word: str) -> None:
    assert masked(told(busy(), word.encode())) == TEXTS[word]


def monitored(host: PureServer) -> dict[str, str]:
    """What an exporter makes of `mntr`: a name, white space, a value."""
    values = {}
    for line in told(host, b"mntr").splitlines():
        found = re.fullmatch(r"(zk_\w+)\t(.+)", line)
        assert found is not None, line
        assert found[1] not in values
        values[found[1]] = found[2]
    return values


def test_exporters_find_what_they_read() -> None:
    values = monitored(busy())
    version, _, date = values["zk_version"].partition(", built on ")
    assert re.fullmatch(r"3\.9\.\d+-\w+", version) and re.fullmatch(r"[-\d]{10} [:\d]{5} UTC", date)
    texts = {name for name in values if not re.fullmatch(r"-?\d+(\.\d+)?", values[name])}
    assert texts == {"zk_version", "zk_server_state", "zk_peer_state"}
    told_of_it = {
        "zk_server_state": "standalone",
        "zk_peer_state": "leading - broadcast",
        "zk_avg_latency": "0.0",
        "zk_max_latency": "0",
        "zk_min_latency": "0",
        "zk_packets_received": "9",
        "zk_packets_sent": "8",
        "zk_num_alive_connections": "2",
        "zk_outstanding_requests": "1",
        "zk_znode_count": "6",
        "zk_watch_count": "3",
        "zk_ephemerals_count": "1",
        "zk_approximate_data_size": str(len("//zookeeper/zookeeper/quota") + 17 + 4 + 2),
        "zk_open_file_descriptor_count": "70",
        "zk_max_file_descriptor_count": "1024",
        "zk_uptime": "0",
        "zk_global_sessions": "2",
        "zk_local_sessions": "0",
        "zk_quorum_size": "1",
        "zk_cnt_readlatency": "4",
        "zk_cnt_updatelatency": "2",
        "zk_followers": "0",
    }
    assert {name: values[name] for name in told_of_it} == told_of_it


def test_a_leader_tells_of_its_followers() -> None:
    servers = PureServers(3, options=ALL, observers=1)
    states = {number: monitored(host) for number, host in servers.hosts.items()}
    assert [state["zk_server_state"] for state in states.values()] == [
        *("follower", "follower", "leader", "observer"),
    ]
    leading = {name.removeprefix("zk_"): value for name, value in states[3].items()}
    counts = ("followers", "learners", "synced_followers", "synced_observers", "pending_syncs")
    assert [leading[name] for name in counts] == ["3", "3", "2", "1", "0"]
    assert leading["synced_non_voting_followers"] == "0" and leading["quorum_size"] == "3"
    assert not {f"zk_{name}" for name in counts} & states[1].keys()
    assert "Proposal sizes last/min/max: -1/-1/-1\n" in told(servers[3], b"srvr")
    assert "Proposal sizes" not in told(servers[1], b"srvr")
    assert "peerType=1\n" in told(servers[4], b"conf")


def test_a_sync_that_waits_for_a_quorum_is_counted() -> None:
    servers = PureServers(3, options=ALL)
    client = servers[3].caller(1)
    for other in (1, 2):
        servers.hold(other, 3)
    client.ask(Sync(1, "/"))
    assert monitored(servers[3])["zk_pending_syncs"] == "1"
    for other in (1, 2):
        servers.release(other, 3)
    assert monitored(servers[3])["zk_pending_syncs"] == "0"


def test_latencies_are_those_of_requests_that_waited_and_of_those_that_did_not() -> None:
    host = busy()
    caller = JuteCaller(host, 3)
    caller.response, caller.xid = None, 0
    host.clock.now = Millis(host.clock.now + 30)
    host.release_disk()
    values = monitored(host)
    latency = [values[f"zk_{name}_updatelatency"] for name in ("avg", "min", "max", "cnt", "sum")]
    assert latency == ["10.0", "0", "30", "3", "30"]
    latency = [values[f"zk_{name}_latency"] for name in ("avg", "min", "max")]
    assert latency == [f"{30 / 7:.4f}", "0", "30"]


def test_reads_behind_a_write_count_the_time_they_waited() -> None:
    host = PureServer(options=ALL)
    client = host.caller(1)
    host.is_disk_held = True
    client.ask(client.create("/a"), GetData(1, "/a", False))
    host.clock.now = Millis(host.clock.now + 20)
    client.ask(GetData(2, "/a", False), Sync(3, "/"), GetData(4, "/a", False))
    host.clock.now = Millis(host.clock.now + 20)
    host.release_disk()
    values = monitored(host)
    latency = [values[f"zk_{name}_readlatency"] for name in ("avg", "min", "max", "cnt", "sum")]
    assert latency == ["25.0", "20", "40", "4", "100"]


def test_the_counts_of_the_server_begin_anew_on_demand() -> None:
    host = busy()
    assert told(host, b"srst") == "Server stats reset.\n"
    values = monitored(host)
    names = ("packets_received", "packets_sent", "max_latency", "cnt_readlatency")
    assert [values[f"zk_{name}"] for name in names] == ["0", "0", "0", "0"]
    assert masked(told(host, b"cons")) == f"{DETAILS}\n", "those of the connections stay"
    JuteCaller(host, 5).connect()  # which waits for the disk
    host.step(ClientDisconnected(5))
    values = monitored(host)
    assert [values["zk_packets_received"], values["zk_packets_sent"]] == ["1", "0"]
    host.step(ClientDisconnected(1), ClientDisconnected(2))
    values = monitored(host)
    assert [values["zk_packets_received"], values["zk_packets_sent"]] == ["1", "0"]


def test_the_counts_of_connections_begin_anew_on_demand() -> None:
    host = busy()
    assert told(host, b"crst") == "Connection stats reset.\n"
    native, of_zookeeper, _ = masked(told(host, b"cons")).splitlines()
    assert native == " /:0[1](queued=1,recved=0,sent=0,sid=0xN,est=1700000000000,to=10000)"
    assert of_zookeeper == (
        " /10.0.0.9:4001[1](queued=0,recved=0,sent=0,sid=0xN,lop=NA,est=1700000000000,to=10000,"
        "lzxid=0x0,lresp=0,llat=0,minlat=0,avglat=0,maxlat=0)"
    )
    assert monitored(host)["zk_packets_received"] == "9", "those of the server stay"


def test_an_address_with_colons_stands_in_brackets() -> None:
    host = PureServer()
    JuteCaller(host, 2, "::1", 4001).connect()
    assert " /[::1]:4001[1](queued=0,recved=1,sent=1)\n" in told(host, b"stat")


def test_the_process_is_asked_once_for_all_words_that_wait() -> None:
    host = PureServer()
    callers = [JuteCaller(host, number) for number in (1, 2, 3)]
    host.take()
    words = [
        JuteBytesArrived(1, b"envi"),
        JuteBytesArrived(2, b"dirs"),
        JuteBytesArrived(3, b"conf"),
    ]
    host.step(*words, JuteBytesArrived(2, b"more"), ClientDisconnected(3))
    assert len(host.of(ReadProcessFacts)) == 1
    assert [caller.is_closed for caller in callers] == [True, True, False]
    assert host.streams[1].startswith(b"Environment:") and host.streams[2].startswith(b"datadir")
    assert host.streams[3] == b""
    assert told(host, b"dirs").startswith("datadir"), "it is asked again"
