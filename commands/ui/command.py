"""`raykeeper ui` in Ray: the page of one ensemble, until it is interrupted."""

import asyncio
import secrets
import signal

from rich.console import Console

from raykeeper.client.session_options import VALUE_BYTES_MAX
from raykeeper.clusters.ensemble import Ensemble
from raykeeper.commands.ui.access import AccessControl, new_token
from raykeeper.commands.ui.settings import PageSettings
from raykeeper.commands.ui.source import RaySource
from raykeeper.commands.ui.web_server import ADDRESS, PageServer, served
from raykeeper.links.ray_internals import own_token


def serve_page(
    ensemble: Ensemble, settings: PageSettings, port: int, walk_timeout_s: float, console: Console
) -> None:
    """Serve the page of an ensemble until the process is interrupted, or gets SIGTERM.

    Where Ray wants a token, visitors must have it, and it is not printed; else they need a random
    one, which is a part of the address that is printed.

    Raises:
        PageError: the port is taken.
        EnsembleNotFoundError: no server of the ensemble runs.
    """
    described = ensemble.describe()
    value_bytes_max = VALUE_BYTES_MAX if described is None else described.value_bytes_max
    of_ray = own_token()
    token = of_ray or new_token()

    async def serve() -> None:
        over = asyncio.Event()
        # Ray's own handler would end the process at once, and print a stack.
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, over.set)
        source = RaySource(ensemble, value_bytes_max, walk_timeout_s)
        page = PageServer(source, AccessControl(token, secrets.token_bytes(32)), settings)
        async with served(page, port) as found:
            url = f"http://{ADDRESS}:{found}/"
            if of_ray is None:
                console.print(f"ensemble {ensemble.name}: {url}?token={token}")
            else:
                console.print(
                    f"ensemble {ensemble.name}: {url} asks for Ray's token, as "
                    "`ray get-auth-token` prints it"
                )
            if settings.may_edit:
                console.print("viewers may change znodes as far as ACLs let them", style="yellow")
            await over.wait()

    asyncio.run(serve())
