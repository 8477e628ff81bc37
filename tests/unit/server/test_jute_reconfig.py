"""ZooKeeper's reconfig by its bytes: which step each request is, and what is answered."""

import pytest
from msgspec.structs import replace

from raykeeper.jute.opcodes import OpCode
from raykeeper.jute.records import GetDataResponse, ReconfigRequest
from raykeeper.server import server_trace_events as trace_events
from raykeeper.zab.feature_levels import LEVEL_MIN, LEVEL_OF_MEMBERS, FeatureLevel
from raykeeper.znodes.acl import Identity, digest_id
from raykeeper.znodes.errors import Code
from raykeeper.znodes.paths import CONFIG_PATH
from tests.harness.jute_caller import Answer, JuteCaller, connected
from tests.harness.pure_servers import LIMITS, OPTIONS, PureServers

WAIT_MS = OPTIONS.promotion_wait_ms + 1_000
ADDRESS = "10.0.0.4:2888:3888"
FOUR = f"server.4={ADDRESS}:observer;2181"
VOTER_FOUR = f"server.4={ADDRESS}:participant;2181"


class Ensemble:
    """Three voters, an observer (4) and a server that is no member (5); its client is at 2."""

    def __init__(self, level: FeatureLevel = LEVEL_OF_MEMBERS) -> None:
        limits = replace(LIMITS, super_identities=(Identity("digest", digest_id("root", "pw")),))
        self.servers = PureServers(3, limits=limits, observers=1, strangers=1, newest_level=level)
        self.servers.pass_time(300)
        self.client = connected(self.servers[2])
        assert self.client.auth("digest", b"root:pw").err == 0

    def ask(
        self, joining: str = "", leaving: str = "", whole: str = "", version: int = -1
    ) -> Answer:
        return reconfig(self.client, joining, leaving, whole, version)

    def members(self) -> str:
        """The ids of the voters, and those of the observers behind a bar."""
        members = self.servers[2].settings.members.delivered
        groups = sorted(members.voters), members.observers
        return " | ".join(" ".join(map(str, group)) for group in groups)

    def reasons(self) -> list[str]:
        """Why requests of the client were refused."""
        notes = self.servers[2].notes(trace_events.RECONFIG_REFUSED)
        return [note[1] for note in notes if isinstance(note, tuple)]


def reconfig(
    client: JuteCaller, joining: str = "", leaving: str = "", whole: str = "", version: int = -1
) -> Answer:
    return client.ask(OpCode.RECONFIG, ReconfigRequest(joining, leaving, whole, version))


def five(role: str = "observer") -> str:
    return f"server.5=[fe80::5]:2888:3888:{role};[fe80::5]:2181"


def server(number: int, role: str = ":participant") -> str:
    return f"server.{number}=h{number}:2888:3888{role};2181"


ALL = [*map(server, (1, 2, 3)), server(4, ":observer")]


@pytest.mark.parametrize(
    ("request_of", "members"),
    [
        ({"joining": five()}, "1 2 3 | 4 5"),
        ({"joining": f" {five()} "}, "1 2 3 | 4 5"),
        ({"leaving": "4"}, "1 2 3 | "),
        ({"leaving": "1"}, "2 3 | 4"),
        ({"joining": VOTER_FOUR}, "1 2 3 4 | "),
        ({"joining": f"server.4={ADDRESS};2181"}, "1 2 3 4 | "),
        ({"joining": "SERVER.4=a:1:2|b:3:4:Participant;c:5"}, "1 2 3 4 | "),
        ({"joining": VOTER_FOUR, "leaving": "1"}, "2 3 4 | "),
        ({"joining": five(), "leaving": "1"}, "2 3 | 4 5"),
        ({"joining": server(1, ":observer")}, "2 3 | 1 4"),
        # The whole list.
        ({"whole": ",".join([*ALL, five()])}, "1 2 3 | 4 5"),
        ({"whole": "\n".join([*ALL[:3], "version=100000007"])}, "1 2 3 | "),
        ({"whole": ",".join([*ALL[1:3], VOTER_FOUR])}, "2 3 4 | "),
        ({"whole": ",".join([server(1, ":observer"), *ALL[1:]])}, "2 3 | 1 4"),
    ],
)
def test_a_request_is_a_step(request_of: dict[str, str], members: str) -> None:
    ensemble = Ensemble()
    ensemble.servers.pass_time(WAIT_MS)
    answer = ensemble.ask(**request_of)
    assert answer.err == 0, ensemble.reasons()
    assert ensemble.members() == members
    config = ensemble.client.get(CONFIG_PATH)
    assert answer.body == config.body and isinstance(answer.body, GetDataResponse)
    assert answer.body.stat.mzxid == answer.zxid
    assert (answer.body.data or b"").endswith(f"version={answer.zxid:x}".encode())


@pytest.mark.parametrize(
    ("request_of", "code", "reason"),
    [
        ({"joining": "some thing"}, Code.BAD_ARGUMENTS, "expected server.N=HOST:PORT:PORT:ROLE"),
        ({"joining": "server.5=h:1:2:observer"}, Code.BAD_ARGUMENTS, "server.5=h:1:2:observer'"),
        ({"joining": "server.5=h:1:2:leader;3"}, Code.BAD_ARGUMENTS, "expected server.N"),
        ({"joining": "server.x=h:1:2;3"}, Code.BAD_ARGUMENTS, "expected server.N"),
        ({"leaving": "server.4"}, Code.BAD_ARGUMENTS, "'server.4' is no id of a server"),
        ({"joining": f"{five()},{FOUR}"}, Code.BAD_ARGUMENTS, "one server can join and one can"),
        ({"joining": f"{five()},{five()}"}, Code.BAD_ARGUMENTS, "server 5 is named twice"),
        ({"leaving": "1,4"}, Code.BAD_ARGUMENTS, "make several requests of it"),
        ({"whole": ",".join(ALL)}, Code.BAD_ARGUMENTS, "these are the members already"),
        ({"whole": server(3)}, Code.BAD_ARGUMENTS, "the list differs by more than one step"),
        ({"whole": "server.5"}, Code.BAD_ARGUMENTS, "expected server.N"),
        ({"whole": server(3), "leaving": "1"}, Code.BAD_ARGUMENTS, "a whole list goes with no"),
        # By the leader.
        ({}, Code.BAD_ARGUMENTS, "no server joins, and none leaves"),
        ({"joining": FOUR}, Code.BAD_ARGUMENTS, "server 4 is an observer already"),
        ({"leaving": "0009"}, Code.BAD_ARGUMENTS, "server 9 is not a member"),
        ({"leaving": "3"}, Code.BAD_ARGUMENTS, "server 3 leads: transfer the lead first"),
        ({"joining": five("participant")}, Code.BAD_ARGUMENTS, "add it as an observer first"),
        ({"joining": VOTER_FOUR}, Code.NEW_CONFIG_NO_QUORUM, "2000 are needed"),
        (
            {"joining": "server.100=h:1:2:observer;3"},
            Code.NEW_CONFIG_NO_QUORUM,
            "server 100 does not follow: start it before it is added",
        ),
    ],
)
def test_a_refusal_has_zookeepers_code_and_its_reason_is_traced(
    request_of: dict[str, str], code: Code, reason: str
) -> None:
    ensemble = Ensemble()
    before = ensemble.members()
    answer = ensemble.ask(**request_of)
    assert (answer.err, answer.body) == (code, None)
    (told,) = ensemble.reasons()
    assert reason in told
    assert ensemble.members() == before and ensemble.client.get("/").err == 0


def test_a_step_holds_for_the_version_that_is_named() -> None:
    ensemble = Ensemble()
    version = ensemble.ask(five()).zxid
    for whole in ("", ",".join(ALL)):
        joining = "" if whole else FOUR
        assert ensemble.ask(joining, "", whole, version + 1).err == Code.BAD_VERSION
    assert ensemble.ask("", "", ",".join(ALL), version).err == 0
    assert ensemble.ask("", "4", "", version).err == Code.BAD_VERSION


def test_one_change_is_open_at_a_time_and_only_an_admin_may_ask() -> None:
    ensemble = Ensemble()
    client = ensemble.client
    client.raw(
        client.frame(OpCode.RECONFIG, ReconfigRequest(five(), "", "", -1))
        + client.frame(OpCode.RECONFIG, ReconfigRequest("", "4", "", -1))
    )
    assert [answer.err for answer in client.read()] == [0, Code.RECONFIG_IN_PROGRESS]
    stranger = connected(ensemble.servers[1], 2)
    assert reconfig(stranger, leaving="4").err == Code.NO_AUTH


def test_servers_of_an_earlier_version_refuse() -> None:
    assert Ensemble(LEVEL_MIN).ask(five()).err == Code.UNIMPLEMENTED
