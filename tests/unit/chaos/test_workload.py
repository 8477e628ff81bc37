"""The workload: decided by its seed, everything occurs, no value twice."""

from collections import Counter

from raykeeper.chaos.checks.history import Call, Ok, Read
from raykeeper.chaos.workload import Workload, folders
from raykeeper.znodes.requests import ANY_VERSION, Create, CreateMode, Delete, SetData
from tests.unit.chaos.story import stat


def calls(seed: str, count: int = 3_000) -> list[Call]:
    workload = Workload("/root", "c1.1", seed)
    made = []
    for number in range(count):
        call = workload.next()
        made.append(call)
        if isinstance(call, Create):
            workload.done(call, Ok(path=f"{call.path}{number:010d}"))
        elif isinstance(call, SetData):
            workload.done(call, Ok(stat=stat(number, version=number)))
    return made


def test_a_seed_decides_everything() -> None:
    assert calls("1", 100) == calls("1", 100)
    assert calls("1", 100) != calls("2", 100)


def test_every_operation_occurs_and_no_value_repeats() -> None:
    made = calls("1")
    assert len({type(call) for call in made}) == 4
    assert {call.flags for call in made if isinstance(call, Create)} == {
        0,
        CreateMode.EPHEMERAL,
        CreateMode.SEQUENTIAL,
        CreateMode.EPHEMERAL | CreateMode.SEQUENTIAL,
    }
    reads = Counter(
        (call.kind, call.is_synced, call.is_watched) for call in made if isinstance(call, Read)
    )
    assert len(reads) == 6
    values = [call.value for call in made if isinstance(call, Create | SetData)]
    assert len(set(values)) == len(values)


def test_conditions_use_observed_versions() -> None:
    versions = [call.version for call in calls("1") if isinstance(call, SetData)]
    assert ANY_VERSION in versions
    assert max(versions) > 0


def test_own_sequential_znodes_are_deleted_once() -> None:
    deleted = [call.path for call in calls("1") if isinstance(call, Delete) and "/q/" in call.path]
    assert deleted
    assert len(set(deleted)) == len(deleted)


def test_folders_are_created_parents_first() -> None:
    assert folders("/top") == ["/top", "/top/r", "/top/q", "/top/e"]
