"""Turns the replies of a server into the results that users get."""

from typing import Any, NamedTuple

from raykeeper.client.core.effects import SuccessReply
from raykeeper.zab.member_list import MemberList
from raykeeper.znodes.ensemble_config import EnsembleConfig, parse_config
from raykeeper.znodes.errors import Code, error_for
from raykeeper.znodes.quotas import QuotaLimits
from raykeeper.znodes.replies import (
    CountDescendantsReply,
    ExistsReply,
    GetAclsReply,
    GetChildrenReply,
    GetDataReply,
    GetEphemeralsReply,
    GetQuotaReply,
    WhoAmIReply,
    WriteReply,
)
from raykeeper.znodes.txns import OpChildren, OpDone, OpFailed, OpResult, OpStat, OpValue


class Quota(NamedTuple):
    """The limits of a subtree, and its usage."""

    limits: QuotaLimits
    znodes: int
    bytes: int


def result_of(answer: SuccessReply) -> Any:
    """Return the result of a request: a path, a Stat, a value with its Stat, names, or None."""
    # `isinstance` of a struct that is another one takes three times as long.
    if type(answer) is WriteReply:
        # The reply to a create has a path, to a set only a Stat, to a delete neither.
        return answer.path or answer.stat
    if type(answer) is GetDataReply:
        return answer.value or b"", answer.stat  # null data is an empty value
    match answer:
        case ExistsReply():
            return answer.stat
        case GetChildrenReply():
            return answer.children
        case GetAclsReply():
            return list(answer.acls), answer.stat
        case WhoAmIReply():
            return list(answer.identities)
        case GetEphemeralsReply():
            return answer.paths
        case CountDescendantsReply():
            return answer.count
        case GetQuotaReply():
            return Quota(answer.limits, answer.znodes, answer.bytes)
    return None


def path_and_stat_of(answer: SuccessReply) -> Any:
    """Return the result of a create with `include_data`."""
    assert isinstance(answer, WriteReply), answer
    return answer.path, answer.stat


def config_of(answer: SuccessReply) -> EnsembleConfig:
    """Return the member list: the new one after a step, or the one that was read."""
    if isinstance(answer, WriteReply):
        text, stat = answer.path.encode(), answer.stat
    else:
        assert isinstance(answer, GetDataReply), answer
        text, stat = answer.value or b"", answer.stat
    assert stat is not None, "a step that was done has the Stat of the config"
    return parse_config(text, stat.mzxid)


def complete_config(config: EnsembleConfig, members: MemberList | None) -> EnsembleConfig:
    """Return `config` with the founding members of whom it has no line.

    Before the first change of `members`, the list that a server told, /zookeeper/config has only
    those that told an address.
    """
    if members is None or members.version:
        return config
    voters = {server: config.voters.get(server, "") for server in sorted(members.voters)}
    observers = {server: config.observers.get(server, "") for server in members.observers}
    return EnsembleConfig(config.version, voters, observers)


def op_result_of(result: OpResult, path: str) -> Any:
    """Return the result of one operation of several, or its error with `path`.

    An operation that only failed because another one did has None in place of an error.
    """
    match result:
        case OpDone():
            return result.path or result.stat
        case OpValue():
            return result.value or b"", result.stat
        case OpStat():
            return result.stat
        case OpChildren():
            return result.names
        case _:
            _failed: OpFailed = result
            return error_for(result.code, path) if result.code != Code.OK else None
