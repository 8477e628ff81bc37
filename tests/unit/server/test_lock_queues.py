"""Who holds and who waits, as a server finds it in its tree."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from raykeeper.server import lock_queues
from raykeeper.server.admin_queries import ROWS_MAX, ListLocks, LockRow, LocksPage
from raykeeper.server.lock_queues import Mode, Role, role_of
from raykeeper.zab.ids import Millis
from raykeeper.znodes.acl import READ_ONLY_ACL, Acl, Permission
from raykeeper.znodes.requests import Create, CreateMode, SessionId
from tests.harness.admin_servers import answer_of
from tests.harness.caller import Caller
from tests.harness.pure_servers import PureServer

UUID = "c16fe9f5-7f1c-4a4c-8f3f-0d0b7e9b2a11"
HEX = UUID.replace("-", "")
N = "0000000007"


@pytest.mark.parametrize(
    ("name", "role"),
    [
        (f"lock-{N}", ("lock", Mode.ALONE)),
        (f"candidate-{N}", ("election", Mode.ALONE)),
        (f"read-{N}", ("read/write lock", Mode.READ)),
        (f"write-{N}", ("read/write lock", Mode.WRITE)),
        (f"permit-{N}", ("semaphore", Mode.PERMIT)),
        (f"_c_{UUID}-lock-{N}", ("lock", Mode.ALONE)),
        (f"_c_{UUID}-latch-{N}", ("election", Mode.ALONE)),
        (f"_c_{UUID}-__READ__{N}", ("read/write lock", Mode.READ)),
        (f"_c_{UUID}-__WRIT__{N}", ("read/write lock", Mode.WRITE)),
        (f"{HEX}__lock__{N}", ("lock", Mode.ALONE)),
        (f"{HEX}__rlock__{N}", ("lock", Mode.READ)),
        # No contenders.
        (f"member-{N}", None),
        (f"thread-{N}", None),
        ("lock-7", None),
        (N, None),
        ("", None),
        ("lock-" + 10 * "\u0660", None),
        (f"_c_{UUID}-lease-{N}", None),
        (f"_c_{UUID}xlock-{N}", None),
        (f"_c_lock-{N}", None),
        (f"{HEX}__other__{N}", None),
        (f"{HEX}__lock-{N}", None),
    ],
)  # fmt: skip
def test_a_name_says_what_a_znode_contends_for(name: str, role: Role | None) -> None:
    assert role_of(name) == role


def locks_of(host: PureServer, query: ListLocks | None = None) -> LocksPage:
    page = answer_of(host, query or ListLocks()).page
    assert isinstance(page, LocksPage)
    return page


class Queue:
    """A server with a queue below /q; each place is of a session of its own."""

    def __init__(self, *prefixes: str, value: bytes = b"") -> None:
        self.host = PureServer()
        self.owner = self.host.caller(1)
        self.owner.ask(self.owner.create("/q", value))
        self.callers = [self.join(number, each) for number, each in enumerate(prefixes, 2)]

    def join(self, number: int, prefix: str, acls: list[Acl] | None = None) -> Caller:
        caller = self.host.caller(number)
        mode = CreateMode.EPHEMERAL | CreateMode.SEQUENTIAL
        caller.ask(caller.write(Create(f"/q/{prefix}", f"me {number}".encode(), mode, acls)))
        return caller

    def rows(self) -> list[LockRow]:
        return locks_of(self.host).rows

    @property
    def states(self) -> str:
        """Of each contender the first letter of what it does."""
        (row,) = self.rows()
        assert row.holders + row.waiting == len(row.contenders)
        assert row.holders == sum(each.holds for each in row.contenders)
        return "".join("h" if each.holds else "w" for each in row.contenders)


@pytest.mark.parametrize(
    ("prefixes", "value", "states"),
    [
        (["lock-"], b"", "h"),
        (["lock-", "lock-", "lock-"], b"", "hww"),
        (["candidate-", "candidate-"], b"{}", "hw"),
        # Readers hold together, up to the first writer; no later one overtakes it.
        (["read-", "read-"], b"", "hh"),
        (["read-", "read-", "write-", "read-"], b"", "hhww"),
        (["write-", "read-", "read-"], b"", "hww"),
        ([f"{HEX}__rlock__", f"{HEX}__lock__", f"{HEX}__rlock__"], b"", "hww"),
        # As many hold as there are permits.
        (["permit-"] * 4, b"2", "hhww"),
        (["permit-"] * 2, b"5", "hh"),
        (["permit-"] * 2, b"many", "ww"),
        (["permit-"] * 2, b"9" * 30, "ww"),
        # Others do not count.
        (["lock-", "member-", "lock-"], b"", "hw"),
    ],
)  # fmt: skip
def test_the_holders_are_those_by_the_rules_of_the_recipes(
    prefixes: list[str], value: bytes, states: str
) -> None:
    assert Queue(*prefixes, value=value).states == states


def test_a_contender_has_its_session_its_time_and_its_token() -> None:
    queue = Queue("lock-")
    queue.host.clock.now = Millis(queue.host.clock.now + 5_000)
    waits = queue.join(9, "lock-")
    (row,) = queue.rows()
    assert (row.path, row.kind, row.permits, row.holders, row.waiting) == ("/q", "lock", None, 1, 1)
    first, second = row.contenders
    assert (first.name, first.mode, first.identifier) == ("lock-0000000000", "", "me 2")
    assert (second.session_id, second.identifier) == (waits.session_id, "me 9")
    assert second.since_ms - first.since_ms == 5_000
    assert second.token > first.token


def test_a_semaphore_tells_its_permits_and_a_reader_its_mode() -> None:
    (row,) = Queue("permit-", value=b"3").rows()
    assert (row.kind, row.permits, row.contenders[0].mode) == ("semaphore", 3, "permit")
    (row,) = Queue("read-", "write-").rows()
    assert [each.mode for each in row.contenders] == ["read", "write"]


def test_an_identifier_is_shown_only_if_everybody_may_read_it() -> None:
    queue = Queue("lock-")
    secret = [Acl(Permission.ALL, *("digest", "ann:hash"))]
    queue.join(8, "lock-", secret)
    queue.join(9, "lock-", [*secret, *READ_ONLY_ACL])
    (row,) = queue.rows()
    assert [each.identifier for each in row.contenders] == ["me 2", None, "me 9"]


def test_an_identifier_of_any_bytes_is_cut() -> None:
    queue = Queue()
    caller = queue.owner
    mode = CreateMode.EPHEMERAL | CreateMode.SEQUENTIAL
    caller.ask(caller.create("/q/lock-", b"\xff\x1b[31m" + bytes(1 << 19), mode))
    caller.ask(caller.write(Create("/q/lock-", None, mode)))
    (row,) = queue.rows()
    first, second = row.contenders
    assert first.identifier is not None and first.identifier.startswith("\ufffd\x1b[31m\0")
    assert (len(first.identifier), second.identifier) == (250, "")


def test_a_znode_that_stays_is_no_contender() -> None:
    queue = Queue("lock-")
    caller = queue.owner
    caller.ask(caller.create("/q/lock-", flags=CreateMode.SEQUENTIAL))
    assert queue.states == "h"


def test_locks_are_found_below_a_path() -> None:
    host = PureServer()
    caller = host.caller(1)
    mode = CreateMode.EPHEMERAL | CreateMode.SEQUENTIAL
    for path in ("/a", "/a/b", "/ab"):
        caller.ask(caller.create(path), caller.create(f"{path}/lock-", flags=mode))
    caller.ask(caller.create("/lock-", flags=mode), caller.create("/ab/candidate-", flags=mode))

    def found(path: str) -> list[tuple[str, str]]:
        return [(each.path, each.kind) for each in locks_of(host, ListLocks(path)).rows]

    assert found("/") == [
        *(("/", "lock"), ("/a", "lock"), ("/a/b", "lock"), ("/ab", "election"), ("/ab", "lock")),
    ]
    assert found("/a") == [("/a", "lock"), ("/a/b", "lock")]
    assert found("/a/b") == [("/a/b", "lock")]
    assert found("/none") == []


def test_a_simple_lock_and_a_lease_are_told_if_their_path_is_asked_for() -> None:
    host = PureServer()
    caller = host.caller(1)
    caller.ask(
        caller.create("/simple", b"me", CreateMode.EPHEMERAL),
        caller.write(Create("/lease", b"you", CreateMode.TTL, None, 60_000)),
        caller.write(Create("/box", b"", CreateMode.CONTAINER)),
        caller.create("/plain"),
    )
    assert locks_of(host).rows == []
    (row,) = locks_of(host, ListLocks("/simple")).rows
    assert (row.kind, row.holders, row.waiting) == ("simple lock", 1, 0)
    assert (row.contenders[0].session_id, row.contenders[0].identifier) == (caller.session_id, "me")
    (row,) = locks_of(host, ListLocks("/lease")).rows
    assert (row.kind, row.contenders[0].session_id) == ("lease", SessionId(0))
    for path in ("/box", "/plain", "/missing"):
        assert locks_of(host, ListLocks(path)).rows == []


def many_locks(count: int, contenders: int = 1) -> PureServer:
    host = PureServer()
    caller = host.caller(1)
    mode = CreateMode.EPHEMERAL | CreateMode.SEQUENTIAL
    for number in range(count):
        path = f"/l{number:04}"
        caller.ask(caller.create(path))
        caller.ask(*(caller.create(f"{path}/lock-", flags=mode) for _ in range(contenders)))
    return host


def test_locks_come_in_pages() -> None:
    host = many_locks(5)
    page = locks_of(host, ListLocks(rows_max=2))
    assert [each.path for each in page.rows] == ["/l0000", "/l0001"]
    assert (page.left_out, page.is_all) == (3, True)
    last = page.rows[-1]
    page = locks_of(host, ListLocks(after=(last.path, last.kind)))
    assert [each.path for each in page.rows] == ["/l0002", "/l0003", "/l0004"]
    assert page.left_out == 0


def test_a_page_has_a_bound_of_contenders() -> None:
    host = many_locks(3, ROWS_MAX // 2 + 1)
    page = locks_of(host, ListLocks(contenders_max=1 << 40))
    assert ([each.path for each in page.rows], page.left_out) == (["/l0000", "/l0001"], 1)
    page = locks_of(host, ListLocks(contenders_max=0))
    assert [len(each.contenders) for each in page.rows] == [1, 1, 1]


def test_only_the_first_of_a_queue_are_listed_and_all_are_counted() -> None:
    queue = Queue("read-", "read-", "read-", "write-", "write-")
    (row,) = locks_of(queue.host, ListLocks(contenders_max=2)).rows
    assert [each.identifier for each in row.contenders] == ["me 2", "me 3"]
    assert (row.holders, row.waiting) == (3, 2)


def test_more_locks_than_an_answer_chooses_from_are_said_to_be_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host = many_locks(5)
    monkeypatch.setattr(lock_queues, "LOCKS_FOUND_MAX", 3)
    page = locks_of(host)
    assert (len(page.rows), page.is_all) == (4, False)


def steps_until(host: PureServer, query: ListLocks, act: Callable[[int], None]) -> LocksPage:
    """The page, with `act` called between the steps with their number."""
    steps = host.server.answer(query)
    number = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            page = end.value.page
            assert isinstance(page, LocksPage) and number > 0
            return page
        number += 1
        act(number)


def test_a_large_tree_is_looked_at_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock_queues, "VISITS_MAX", 2)
    queue = Queue(*["read-"] * 3, "write-", "write-")
    numbers: list[int] = []
    (row,) = steps_until(queue.host, ListLocks(), numbers.append).rows
    assert (row.holders, row.waiting) == (3, 2)
    assert numbers[-1] == 3 * 5 // 2, "every contender is visited three times"


@pytest.mark.parametrize("at", [1, 2, 3, 4, 5, 6, 7])
def test_a_queue_may_end_while_it_is_looked_at(monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    monkeypatch.setattr(lock_queues, "VISITS_MAX", 2)
    queue = Queue(*["read-"] * 3, "write-", "write-")

    def end_all(number: int) -> None:
        if number == at:
            for caller in queue.callers:
                caller.ask(caller.close())
            queue.owner.ask(queue.owner.delete("/q"))

    page = steps_until(queue.host, ListLocks(), end_all)
    assert page.rows == [] and page.is_all


def test_the_rows_may_be_asked_for_one_by_one() -> None:
    host = many_locks(3)
    paths, query = [], ListLocks(rows_max=1)
    while rows := locks_of(host, query).rows:
        paths.append(rows[0].path)
        query = replace(query, after=(rows[0].path, rows[0].kind))
    assert paths == ["/l0000", "/l0001", "/l0002"]
