"""Feature levels: raised too early, written too early, not marked, not refused, lost."""

from typing import Any

from msgspec.structs import replace

from raykeeper.server.effects import SaveLevel
from raykeeper.server.final_request_processor import FinalRequestProcessor
from raykeeper.server.server import Server
from raykeeper.zab import follower_recovery
from raykeeper.zab.feature_levels import LEVEL_MAX, LEVEL_MIN
from raykeeper.zab.learners import Learners, Stage
from raykeeper.znodes import snapshot
from raykeeper.znodes.snapshot import SNAPSHOT_FORMATS, SnapshotHeader, SnapshotLoader
from raykeeper.znodes.state import State
from tests.simulation.mutations.mutation import Mutation, instead
from tests.simulation.upgrades.plans import UPGRADE


def _of_those_that_follow(self: Learners, members: Any) -> Any:
    following = [each.level for each in self if each.stage is Stage.FOLLOWING]
    return min([self._settings.levels.newest, *following])


def _without_looking(right: Any) -> Any:
    def on_follower_info(self: Learners, sender: Any, info: Any, now: Any) -> None:
        if info.level < self._settings.levels.required:
            info = replace(info, level=self._settings.levels.required)
        right(self, sender, info, now)

    return on_follower_info


def _when_delivered(right: Any) -> Any:
    def on_level_raised(self: FinalRequestProcessor, zxid: Any, txn: Any, leader: Any) -> None:
        context, level = self._context, txn.body.level
        if context.peer.settings.levels.require(level):
            context.out.append(SaveLevel(level))
        right(self, zxid, txn, leader)

    return on_level_raised


def _newest_format(state: State) -> SnapshotHeader:
    return SnapshotHeader(SNAPSHOT_FORMATS[LEVEL_MAX], state.time_ms, state.level)


def _without_its_level(right: Any) -> Any:
    def finish(self: SnapshotLoader, *arguments: Any) -> State:
        state: State = right(self, *arguments)
        state.level = LEVEL_MIN
        return state

    return finish


MUTATIONS = [
    Mutation(
        "feature levels",
        "the level is raised though a member is away",
        [(Learners, "level_of_all", instead(_of_those_that_follow))],
        50,
        UPGRADE,
    ),
    Mutation(
        "feature levels",
        "the leader takes its own program for that of all",
        [
            (
                Learners,
                "level_of_all",
                instead(lambda self, members: self._settings.levels.newest),
            )
        ],
        50,
        UPGRADE,
    ),
    Mutation(
        "feature levels",
        "a leader admits a program that cannot read its log",
        # Both ends look; the program of before does not.
        [
            (Learners, "on_follower_info", _without_looking),
            (follower_recovery, "level_problem", instead(lambda level, newest: "")),
        ],
        100,
        UPGRADE,
    ),
    Mutation(
        "feature levels",
        "a disk is marked when the raise is delivered",
        [
            (Server, "_require_level_of", instead(lambda self, first, txns: None)),
            (FinalRequestProcessor, "_on_level_raised", _when_delivered),
        ],
        100,
        UPGRADE,
    ),
    Mutation(
        "feature levels",
        "a disk is not marked when it gets a snapshot",
        [(Server, "_on_install_snapshot", instead(lambda self, e: self._context.out.append(e)))],
        100,
        UPGRADE,
    ),
    Mutation(
        "feature levels",
        "snapshots have the new format before the level is raised",
        [(snapshot, "_header_of", instead(_newest_format))],
        50,
        UPGRADE,
    ),
    Mutation(
        "feature levels",
        "a snapshot forgets the level",
        [(SnapshotLoader, "finish", _without_its_level)],
        100,
        UPGRADE,
    ),
]
