"""Caches against the tree itself, whatever happens to it and to the link."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from raykeeper.client.core.chroot import Chroot
from raykeeper.client.core.limits import ClientLimits
from raykeeper.client.core.outstanding import NewRequest
from raykeeper.client.errors import KeeperError
from raykeeper.zab.ids import Millis, ServerId
from raykeeper.znodes.requests import Create, Delete, Multi, SetData
from tests.harness.recipe_stage import Member, RecipeStage
from tests.recipes.cache_watcher import Watcher, truth
from tests.recipes.server_memory import forget

PATHS = st.sampled_from(
    ["/app", *(f"/app/{a}" for a in "ab"), *(f"/app/{a}/{b}" for a in "ab" for b in "cd")]
)
OPS = st.one_of(
    st.builds(lambda path, value: Create(path, value, 0), PATHS, st.binary(max_size=2)),
    st.builds(lambda path, value: SetData(path, value, -1), PATHS, st.binary(max_size=2)),
    st.builds(lambda path: Delete(path, -1), PATHS),
)
STEPS = st.one_of(
    OPS,
    OPS,
    st.builds(lambda ops: Multi([], ops, []), st.lists(OPS, min_size=2, max_size=4)),
    st.sampled_from(["cut", "forget", "mend", "start"]),
    st.lists(OPS, min_size=1, max_size=10),  # done between the requests of the cache from now on
)


class Crossed(Member):
    """A member between whose requests others act."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.acts: list[Callable[[], None]] = []

    def submit(self, ask: NewRequest, token: Any) -> None:
        super().submit(ask, token)
        if self.acts:
            self.acts.pop(0)()


def crossed_member(stage: RecipeStage) -> Crossed:
    server = ServerId(len(stage.servers.hosts))
    member = Crossed(stage, Millis(20_000), server, ClientLimits(), Chroot(""))
    stage.members.append(member)
    stage.rest()
    return member


@settings(max_examples=150)
@given(st.sampled_from([1, 1, 3]), st.lists(STEPS, min_size=5, max_size=30))
def test_a_cache_equals_the_tree_under_random_faults(servers: int, steps: list[Any]) -> None:
    stage = RecipeStage(servers)
    alice, bob = crossed_member(stage), stage.member(session_timeout_ms=20_000)
    watchers = [Watcher(alice)]
    watchers[0].cache.start()
    is_cut = False

    def act(op: Any) -> None:
        with suppress(KeeperError):
            bob.ask(op)

    for step in [*steps, "mend"]:
        if step == "cut" and not is_cut:
            alice.cut()
            is_cut = True
        elif step == "mend" and is_cut:
            alice.mend()
            is_cut = False
        elif step == "forget":
            forget(stage)
        elif step == "start":
            watchers.append(Watcher(alice))
            alice.begin(watchers[-1].cache.start)
        elif isinstance(step, list):
            alice.acts += [partial(act, op) for op in step]
        elif not isinstance(step, str):
            act(step)
        if not is_cut:
            assert [watcher.shown for watcher in watchers] == [truth(stage)] * len(watchers)
    assert stage.reported == []
