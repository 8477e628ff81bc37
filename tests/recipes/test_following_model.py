"""Followers against the tree itself, whatever happens to it and to the link."""

from contextlib import suppress
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from raykeeper.client.core.outstanding import WatchRemoval
from raykeeper.client.errors import KeeperError
from raykeeper.znodes.requests import Create, Delete, Multi, SetData, WatchKind
from tests.harness.recipe_stage import Member, RecipeStage
from tests.recipes.server_memory import forget

PATHS = ["/app", "/app2"]


class Rate(msgspec.Struct):
    """What is followed."""

    rate: int


class Follower:
    """What a callback was told, and that it fits together."""

    def __init__(self) -> None:
        self.told: Any = None
        self.live: Any = None
        self.errors = 0

    def changed(self, new: Any, old: Any) -> None:
        assert old == self.told
        assert new is not None or old is not None
        self.told = new

    def failed(self, error: Exception) -> None:
        self.errors += 1
        assert self.live is None or self.live.last_error is error

    def check(self, expected: Any) -> None:
        if self.live.last_error is None:
            assert self.told == bare(expected)
        assert (self.live.last_error is not None) is (expected == "invalid")
        if expected not in (None, "invalid"):
            assert self.live.newest == expected


def bare(expected: Any) -> Any:
    """What a callback gets: the value, or the values by path, without versions."""
    if isinstance(expected, dict):
        return {path: value for path, (value, _) in expected.items()}
    return expected and expected[0]


def truth(stage: RecipeStage, path: str) -> Any:
    znode = stage.servers.leader.server._context.state.tree.znodes.get(path)
    if znode is None:
        return None
    try:
        return (msgspec.json.decode(znode.value, type=Rate), znode.version)
    except msgspec.MsgspecError:
        return "invalid"


def whole_truth(stage: RecipeStage) -> Any:
    each = {path: truth(stage, path) for path in PATHS}
    if None in each.values():
        return None
    return "invalid" if "invalid" in each.values() else each


WHERE = st.sampled_from(PATHS)
VALUES = st.sampled_from([b'{"rate":1}', b'{"rate":2}', b"?"])
OPS = st.one_of(
    st.builds(lambda path, value: Create(path, value, 0), WHERE, VALUES),
    st.builds(lambda path, value: SetData(path, value, -1), WHERE, VALUES),
    st.builds(lambda path: Delete(path, -1), WHERE),
    st.sampled_from([Create("/app/child", b"", 0), Delete("/app/child", -1)]),
)
STEPS = st.one_of(
    OPS,
    OPS,
    st.builds(lambda ops: Multi([], ops, []), st.lists(OPS, min_size=2, max_size=4)),
    st.sampled_from(["cut", "forget", "mend", "unwatch"]),
)


def followers(member: Member) -> list[Follower]:
    one, both = Follower(), Follower()
    one.live = member.configuration(PATHS[0], Rate).follow(one.changed, one.failed)
    kinds = dict.fromkeys(PATHS, Rate)
    both.live = member.configurations(kinds).follow(both.changed, both.failed)
    return [one, both]


@settings(max_examples=100)
@given(st.lists(STEPS, min_size=5, max_size=25))
def test_a_follower_ends_at_the_value_of_the_tree(steps: list[Any]) -> None:
    stage = RecipeStage()
    alice, bob = stage.member(session_timeout_ms=20_000), stage.member(session_timeout_ms=20_000)
    one, both = followers(alice)
    is_cut = False
    for step in [*steps, "mend"]:
        if step == "cut" and not is_cut:
            alice.cut()
            is_cut = True
        elif step == "mend" and is_cut:
            alice.mend()
            is_cut = False
        elif step == "forget":
            forget(stage)
        elif step == "unwatch" and not is_cut:
            alice.ask(WatchRemoval(PATHS[0], WatchKind.ANY, None))
        elif not isinstance(step, str):
            with suppress(KeeperError):
                bob.ask(step)
        if not is_cut:
            one.check(truth(stage, PATHS[0]))
            both.check(whole_truth(stage))
    assert stage.reported == []
