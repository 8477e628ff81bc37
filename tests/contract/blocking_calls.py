"""Every call of a `Client` that waits, with arguments, for those who make it where it may not."""

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

from raykeeper.client.client import Client
from raykeeper.client.errors import WrongContextError
from raykeeper.client.recipe_methods import RecipeMethods
from raykeeper.znodes.quotas import QuotaLimits

WAITING: dict[str, Callable[[Client], Any]] = {
    "create": lambda client: client.create("/a"),
    "ensure_path": lambda client: client.ensure_path("/a"),
    "get": lambda client: client.get("/a"),
    "set": lambda client: client.set("/a", b""),
    "delete": lambda client: client.delete("/a"),
    "exists": lambda client: client.exists("/a"),
    "get_children": lambda client: client.get_children("/a"),
    "add_watch": lambda client: client.add_watch("/a", print),
    "remove_watches": lambda client: client.remove_watches("/a"),
    "get_many": lambda client: client.get_many(["/a"]),
    "sync": lambda client: client.sync(),
    "close": lambda client: client.close(),
    "get_acls": lambda client: client.get_acls("/a"),
    "set_acls": lambda client: client.set_acls("/a", []),
    "add_auth": lambda client: client.add_auth("digest", "me:secret"),
    "who_am_i": lambda client: client.who_am_i(),
    "get_all_children_number": lambda client: client.get_all_children_number("/a"),
    "get_ephemerals": lambda client: client.get_ephemerals(),
    "get_quota": lambda client: client.get_quota("/a"),
    "set_quota": lambda client: client.set_quota("/a", QuotaLimits()),
    "remove_quota": lambda client: client.remove_quota("/a"),
    "get_config": lambda client: client.get_config(),
    "reconfig": lambda client: client.reconfig(leaving=1),
}
OF_OTHERS: dict[str, Callable[[Client], Any]] = {
    "commit": lambda client: client.transaction().commit(),
    "with transaction": lambda client: _in_block(client.transaction()),
    "operation of a recipe": lambda client: client.lock("/lock").acquire(),
    "with recipe": lambda client: _in_block(client.lock("/lock")),
}
WITHOUT_WAITING = {
    *("transaction", "add_listener", "remove_listener"),
    *("session_id", "client_id", "ensemble_uuid", "state"),
}


def not_refused(client: Client) -> list[str]:
    """Make all the calls; those that were not refused with advice. For code in an event loop."""
    asyncio.get_running_loop()
    accepted = []
    for name, call in {**WAITING, **OF_OTHERS}.items():
        try:
            call(client)
        except WrongContextError as error:
            if "AsyncClient" in str(error):
                continue
        accepted.append(name)
    return accepted


def unlisted() -> set[str]:
    """What is public in `Client` and not spoken of here."""
    public = {name for name, _ in inspect.getmembers(Client) if not name.startswith("_")}
    recipes = {name for name in vars(RecipeMethods) if not name.startswith("_")}
    at_once = {name for name in public if name.endswith("_async")}
    return public - recipes - at_once - set(WAITING) - WITHOUT_WAITING


def _in_block(block: Any) -> None:
    with block:
        pass
