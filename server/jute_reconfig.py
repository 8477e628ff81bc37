"""ZooKeeper's `reconfig`, opcode 16, as a step of the member list (docs/MEMBERS.md).

ZooKeeper changes any number of servers at once, and starts none. Here a request is one step: a
server that joins, or that leaves, or one in the place of another; or a whole new list that differs
by no more. Of a server's text, `server.4=host:port:port:observer;port`, the number and the role
count: addresses are those that the servers themselves tell.

ZooKeeper: `PrepRequestProcessor`, case `reconfig`; `QuorumPeer.QuorumServer`.
"""

import re
from typing import Final

from raykeeper.jute.records import ReconfigRequest
from raykeeper.server import server_trace_events as trace_events
from raykeeper.server.context import ServerContext
from raykeeper.zab.member_list import MemberList
from raykeeper.znodes.errors import Code
from raykeeper.znodes.paths import CONFIG_PATH
from raykeeper.znodes.requests import ANY_VERSION, Reconfig

_HOST: Final = r"(?:\[[^\]\s]+\]|[^:;=|\s]+)"
_PORTS: Final = rf"{_HOST}:\d+:\d+"
_server = re.compile(
    rf"server\.(\d{{1,9}})={_PORTS}(?:\|{_PORTS})*(:participant|:observer)?;(?:{_HOST}:)?\d+",
    re.IGNORECASE | re.ASCII,
).fullmatch
_number = re.compile(r"\d{1,9}", re.ASCII).fullmatch
_version_line = re.compile(r"version=[0-9a-f]+", re.ASCII).fullmatch
_separator = re.compile(r"[,\n]")


def reconfig_op(context: ServerContext, number: int, body: ReconfigRequest) -> Reconfig | Code:
    """Return the step that a request of connection `number` asks for, or the code of its refusal.

    No error of this protocol has words, so the reason is traced.
    """
    if body.new_members:
        config = context.state.tree.znodes[CONFIG_PATH]
        members = context.peer.settings.members.delivered
        step = _whole_list(body, members, config.mzxid)
    else:
        step = _increment(body)
    if isinstance(step, Reconfig):
        return step
    context.trace(trace_events.RECONFIG_REFUSED, (number, step))
    return Code.BAD_ARGUMENTS


def _increment(body: ReconfigRequest) -> Reconfig | str:
    """Return the step of servers that join and leave, or what is wrong with the request."""
    leaving = _texts(body.leaving_servers)
    for text in leaving:
        if not _number(text):
            return f"{text!r} is no id of a server that leaves"
    joining = _roles(_texts(body.joining_servers))
    if isinstance(joining, str):
        return joining
    if len(joining) > 1 or len(leaving) > 1:
        return "one server can join and one can leave at a time: make several requests of it"
    server, is_observer = next(iter(joining.items()), (0, False))
    left = int(leaving[0]) if leaving else 0
    return Reconfig(server, left, is_observer, body.cur_config_id)


def _whole_list(body: ReconfigRequest, members: MemberList, version: int) -> Reconfig | str:
    """Return the step from `members` to a whole list, or what is wrong with the request.

    `version` is that of `members`: the step holds for no other.
    """
    texts = [text for text in _texts(body.new_members) if not _version_line(text)]
    wanted = _roles(texts)
    if isinstance(wanted, str):
        return wanted
    if body.joining_servers or body.leaving_servers:
        return "a whole list goes with no server that joins or leaves"
    present = dict.fromkeys(map(int, members.voters), False)
    present |= dict.fromkeys(map(int, members.observers), True)
    changed = [server for server, role in wanted.items() if present.get(server) is not role]
    gone = [server for server in present if server not in wanted]
    if not changed and not gone:
        return "these are the members already"
    if len(changed) > 1 or len(gone) > 1:
        return "the list differs by more than one step: make several requests of it"
    if body.cur_config_id != ANY_VERSION:
        version = body.cur_config_id
    joining = changed[0] if changed else 0
    return Reconfig(joining, gone[0] if gone else 0, wanted.get(joining, False), version)


def _texts(servers: str) -> list[str]:
    return [text for text in map(str.strip, _separator.split(servers)) if text]


def _roles(texts: list[str]) -> dict[int, bool] | str:
    """Return the servers that are named, each with whether it is an observer; or what is wrong."""
    roles: dict[int, bool] = {}
    for text in texts:
        found = _server(text)
        if found is None:
            return f"expected server.N=HOST:PORT:PORT:ROLE;PORT, not {text!r}"
        server = int(found[1])
        if server in roles:
            return f"server {server} is named twice"
        roles[server] = (found[2] or "").lower() == ":observer"
    return roles
