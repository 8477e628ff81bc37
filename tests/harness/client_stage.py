"""A stage for the blocking client: an ensemble, and time that passes only when a test says so."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from raykeeper.client.client import Client
from raykeeper.client.session import BlockingSession
from raykeeper.client.session_options import SessionOptions
from tests.harness.event_loops import ManualLoop
from tests.harness.scripted_ensemble import ScriptedEnsemble


class ClientStage:
    """An ensemble, a loop whose time stands still, and the clients on it."""

    def __init__(self) -> None:
        self.loop = ManualLoop()
        self.ensemble = ScriptedEnsemble()
        self.clients: list[Client] = []

    def session(self, timeout_s: float = 1e6, value_bytes_max: int = 1 << 20) -> BlockingSession:
        return BlockingSession.open(
            self.ensemble.servers,
            self.ensemble,
            SessionOptions(
                session_timeout_s=9, timeout_s=timeout_s, value_bytes_max=value_bytes_max
            ),
            loop=self.loop,
            clock=self.loop.time,
        )

    def open(self, timeout_s: float = 1e6, value_bytes_max: int = 1 << 20) -> Client:
        client = Client(self.session(timeout_s, value_bytes_max))
        self.clients.append(client)
        return client

    def switch(self, **switches: bool) -> None:
        """Set switches of the ensemble on its own thread."""

        def act() -> None:
            for name, value in switches.items():
                setattr(self.ensemble, name, value)

        self.loop.do(act)

    def end(self) -> None:
        """Close the open clients, and the loop."""
        self.switch(is_deaf=False, is_mute=False, is_down=False)
        for client in self.clients:
            closing = called(client.close)
            while not closing.done():
                self.loop.advance(0.2)
        self.loop.end()


def called(act: Callable[[], Any]) -> Future[Any]:
    """Call `act` in a new thread, and return a future of its result."""
    outcome: Future[Any] = Future()

    def run() -> None:
        try:
            outcome.set_result(act())
        except BaseException as error:
            outcome.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return outcome
