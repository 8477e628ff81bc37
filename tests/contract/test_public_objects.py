"""What users get hold of: it shows what it is, goes to other processes or says why not, and refuses
the wrong form of a call before anything is sent."""

import asyncio
import inspect
import re
from collections.abc import Awaitable, Callable, Iterator
from types import FunctionType
from typing import Any

import pytest
from ray import cloudpickle

from raykeeper.client import AsyncClient, Client
from raykeeper.client.errors import BadArgumentsError
from raykeeper.client.ray_tools import ConcurrencyLimit, ElectedActor, Gang
from raykeeper.client.ray_tools.tool import Tool
from raykeeper.client.recipes.recipe import PortableRecipe, Recipe, operation
from raykeeper.client.session import BlockingSession
from raykeeper.zab.ids import ServerId
from tests.contract.client_handles import Room, finish, options_of
from tests.contract.public_objects import MODULES, ROWS, WORDS, Make, Passing, is_value, sample
from tests.tidy.test_public_names import PAGE, documented

KINDS = ("blocking", "awaited")
NUMBER = re.compile(r"0x[0-9a-f]+|\d+\.\d+|\b\d{2,}\b")
_rooms: dict[str, Room] = {}


def open_session() -> BlockingSession:
    """Open a session of the room: for handles that are passed on."""
    return BlockingSession.open([ServerId(n) for n in (1, 2, 3)], _rooms["here"], options_of())


class Clients:
    """A client of either kind, what waits for its calls, and the clients of other processes."""

    def __init__(self) -> None:
        _rooms["here"] = room = Room()
        self._opened: list[Any] = [Client(open_session(), open_session, "coord")]
        self._opened += [finish(room.open_session(options_of())), Client(None, open_session)]

    def of(self, kind: str) -> Any:
        return self._opened[KINDS.index(kind)]

    @property
    def other(self) -> Client:
        client: Client = self._opened[2]
        return client

    def passed(self, thing: Any) -> Any:
        """Return what another process makes of it; its session is closed with the others."""
        copy = cloudpickle.loads(cloudpickle.dumps(thing))
        self._opened += [copy] if isinstance(copy, Client) else []
        self._opened += [copy._client] if isinstance(copy, Recipe) else []
        return copy

    def close(self) -> None:
        for client in self._opened:
            wait(client.close())
        _rooms.clear()


def wait(result: Any) -> Any:
    """Return the result of a call of either client."""
    return finish(result) if isinstance(result, Awaitable) else result


@pytest.fixture
def clients() -> Iterator[Clients]:
    clients = Clients()
    yield clients
    clients.close()


HANDLES: dict[str, tuple[str, Passing, Make]] = {
    "<Client: coord, CONNECTED, session #>": ("blocking", lambda c: c.exists("/"), lambda c, w: c),
    "<AsyncClient: CONNECTED, session #>": (
        "awaited",
        "AsyncClient belongs to this process: pass the name of the ensemble on",
        lambda c, w: c,
    ),
    "<BlockingTransaction: 0 operations, not sent>": (
        "blocking",
        "make one there, of a client of that process",
        lambda c, w: c.transaction(),
    ),
    "<AsyncTransaction: 0 operations, not sent>": (
        "awaited",
        "make one there, of a client of that process",
        lambda c, w: c.transaction(),
    ),
    "<acquire(), to be awaited>": (
        "awaited",
        "pass its result on",
        lambda c, w: c.lock("/x").acquire(),
    ),
}
OF_BOTH = [(kind, shows, *row) for shows, row in ROWS.items() for kind in KINDS]
ALL = [(kind, shows, *row) for shows, (kind, *row) in HANDLES.items()] + OF_BOTH


@pytest.mark.parametrize(
    ("kind", "shows", "passing", "make"), ALL, ids=[f"{kind} {shows}" for kind, shows, *_ in ALL]
)
def test_an_object_keeps_the_rules(
    clients: Clients, kind: str, shows: str, passing: Passing, make: Make
) -> None:
    thing = make(clients.of(kind), wait)
    assert NUMBER.sub("#", repr(thing)) == shows
    if asyncio.iscoroutine(thing):
        thing.close()
    else:
        check_names(thing)
        check_forms(thing, kind, clients.other)
    if kind == "awaited" and isinstance(thing, PortableRecipe):
        passing = ", and make one there"  # an AsyncClient belongs to its event loop
    if callable(passing):
        passing(clients.passed(thing))
    else:
        with pytest.raises(TypeError, match=re.escape(passing)):
            cloudpickle.dumps(thing)


def check_names(thing: Any) -> None:
    """An argument by an unknown name is an error that names the method."""
    for name in dir(type(thing)):
        method = inspect.getattr_static(type(thing), name)
        if not name.startswith("_") and isinstance(method, FunctionType | operation):
            with pytest.raises(TypeError, match=rf"\b{name}\(\) (got|missing)"):
                getattr(thing, name)(no_such_name=1)


def check_forms(thing: Any, kind: str, observer: Client) -> None:
    """A block of the other form is refused, and nothing is sent."""
    if not hasattr(type(thing), "__enter__") or isinstance(thing, Tool):
        return
    znodes = observer.get_all_children_number("/")

    async def enter_awaited() -> None:
        async with thing:
            raise AssertionError("the body runs")

    with pytest.raises(TypeError, match="use `with`" if kind == "blocking" else "use `async with"):
        if kind == "blocking":
            finish(enter_awaited())
        with thing:
            raise AssertionError("the body runs")
    assert observer.get_all_children_number("/") == znodes


def public_classes() -> dict[str, type]:
    """The classes that users import, and those of the page of recipes."""
    found = {
        name: getattr(module, name)
        for module in MODULES
        for name in module.__all__
        if inspect.isclass(getattr(module, name)) and name not in WORDS
    }
    return {**{name.rpartition(".")[2]: Recipe for name in documented(PAGE.read_text())}, **found}


def test_every_public_class_has_a_row_or_is_one_of_values() -> None:
    shown = {str(re.match(r"<?(\w+)", row)[1]) for row in (*HANDLES, *ROWS)}  # type: ignore[index]
    public = public_classes()
    objects = {
        name
        for name, kind in public.items()
        if not (is_value(kind) or issubclass(kind, BaseException))
    }
    assert sorted(objects - shown) == []
    for name, kind in public.items():
        if is_value(kind):
            value = sample(kind)
            assert cloudpickle.loads(cloudpickle.dumps(value)) == value
            assert name in repr(value)


MISUSES: dict[str, Callable[[Any], Any]] = {
    "if await": bool,
    "for ... in await": list,
    r"\(await .*\)\[0\]": lambda call: call[0],
    r"\.\.\. in await": lambda call: 3 in call,
    r"len\(await": len,
    r"async with await": lambda call: call.__enter__(),
    r"\(await .*\).lost": lambda call: call.lost,
}
UNAWAITED: dict[str, Callable[[Any], Any]] = {
    "connect": lambda client: AsyncClient.connect("coord"),
    "acquire": lambda client: client.lock("/x").acquire(),
    "register": lambda client: client.services("/x").register("web", "a", 1),
    "check": lambda client: client.fenced_resource("/x").check(5),
    "acquire_async": lambda client: ConcurrencyLimit("coord", "/x", 2).acquire_async(),
    "run_async": lambda client: Gang("coord", "/x", 2).run_async(print),
    "call_async": lambda client: ElectedActor("coord", "/x").call_async("submit"),
}


@pytest.mark.parametrize("call", UNAWAITED.values(), ids=UNAWAITED.keys())
def test_a_call_that_was_not_awaited_says_so_and_sends_nothing(
    clients: Clients, call: Callable[[Any], Any]
) -> None:
    znodes = clients.other.get_all_children_number("/")
    for right, misuse in MISUSES.items():
        unawaited = call(clients.of("awaited"))
        with pytest.raises(TypeError, match=f"was not awaited: use `{right}"):
            misuse(unawaited)
        assert not hasattr(unawaited, "lost")
        unawaited.close()
    assert clients.other.get_all_children_number("/") == znodes


def test_a_call_works_as_any_coroutine_does(clients: Clients) -> None:
    client = clients.of("awaited")

    async def use() -> None:
        async with asyncio.timeout(30):
            held = await asyncio.create_task(client.lock("/x").acquire())
            assert repr(asyncio.ensure_future(held.release())).startswith("<Task pending")
            await asyncio.gather(*(client.counter("/y").increment() for _ in range(3)))
            assert await asyncio.wait_for(client.counter("/y").get(), 30) == 3

    finish(use())
    forgotten = client.lock("/x").acquire()
    with pytest.warns(RuntimeWarning, match="coroutine 'acquire' was never awaited"):
        del forgotten


def test_futures_are_not_taken_for_their_results(clients: Clients) -> None:
    client, blocking = clients.of("awaited"), clients.of("blocking")

    async def use() -> None:
        for future in (client.exists("/none"), client.get_children("/"), client.sync()):
            for misuse in (bool, list, len):
                with pytest.raises(TypeError, match=r"the call was not awaited: use `.*await"):
                    misuse(future)
            await asyncio.wait_for(asyncio.shield(future), 30)
        with pytest.raises(TypeError, match=r"use `if await \.\.\.`"):
            assert client.transaction().commit()

    finish(use())
    future = blocking.exists_async("/none")
    for misuse in (bool, list, len):
        with pytest.raises(TypeError, match=r"a future, not the result: use `.*future.result\(\)"):
            misuse(future)
    assert future.result() is None
    assert repr(future) == "<RequestFuture: returned a NoneType>"
    with pytest.raises(TypeError, match="pass its result on"):
        cloudpickle.dumps(future)


def test_a_value_of_an_awaited_counter_is_no_attribute(clients: Clients) -> None:
    with pytest.raises(TypeError, match=r"await counter.get\(\)"):
        _ = clients.of("awaited").counter("/x").value


async def not_awaited(*_: object) -> None:
    raise AssertionError("it runs")


CALLBACKS: dict[str, Callable[[Any], Any]] = {
    "listener": lambda client: client.add_listener(not_awaited),
    "watch": lambda client: client.add_watch("/x", not_awaited),
    "on_gained": lambda client: client.leader_latch("/x", on_gained=not_awaited),
    "on_released": lambda client: client.partitioner("/x", ["a"], on_released=not_awaited),
    "callback": lambda client: client.election("/x").observe(not_awaited),
    "on_change": lambda client: client.configuration("/x", dict).follow(not_awaited),
    "on_error": lambda client: client.tree_cache("/x", on_error=not_awaited),
    "on_malformed": lambda client: client.services("/x", on_malformed=not_awaited),
}


@pytest.mark.parametrize(("name", "call"), CALLBACKS.items())
def test_a_blocking_client_takes_no_coroutine_as_a_callback(
    clients: Clients, name: str, call: Callable[[Any], Any]
) -> None:
    with pytest.raises(BadArgumentsError, match=f"{name} is a coroutine function"):
        call(clients.of("blocking"))


SUGGESTIONS: list[tuple[str, str, Callable[[Any], Any]]] = [
    ("create", "ephemeral", lambda client: client.create("/x", ephemral=True)),
    ("create", "makepath", lambda client: client.create("/x", make_path=True)),
    ("create", "sequence", lambda client: client.transaction().create("/x", sequential=True)),
    ("lock", "identifier", lambda client: client.lock("/x", identifer=b"me")),
    ("acquire", "timeout_s", lambda client: client.lock("/x").acquire(timeout=5)),
    ("put", "timeout_s", lambda client: client.queue("/x").put(b"1", timeout=5)),
    ("acquire", "timeout_s", lambda _: ConcurrencyLimit("coord", "/x", 2).acquire(timeout=5)),
    (
        *("acquire_async", "timeout_s"),
        lambda _: finish(ConcurrencyLimit("coord", "/x", 2).acquire_async(timeout=5)),
    ),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("method", "meant", "call"), SUGGESTIONS)
def test_an_unknown_name_of_an_argument_suggests_a_known_one(
    clients: Clients, kind: str, method: str, meant: str, call: Callable[[Any], Any]
) -> None:
    with pytest.raises(TypeError, match=rf"^{method}\(\) .*: did you mean '{meant}'\?$"):
        call(clients.of(kind))
    with pytest.raises(TypeError, match=r"it takes path, identifier$"):
        clients.of(kind).lock("/x", no_such_name=1)
