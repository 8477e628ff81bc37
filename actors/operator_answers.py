"""A server's answers to operators: made step by step between its other work, and few at a time.

Invariant: at most `QUESTIONS_MAX` questions are open, so that operators take a bounded part of the
calls that the actor bears; and of those that take many steps one is worked on at a time.
"""

import asyncio
from typing import Final

from raykeeper.server.admin_queries import AdminAnswer, AdminQuery
from raykeeper.server.server import Server

QUESTIONS_MAX: Final = 32
"""Questions of operators at a time; one more is refused, for each takes a slot of
`CALLS_RESERVE`."""
ANSWER_PAUSE_S: Final = 0.003
"""Between two steps of an answer: a table that takes thousands of them leaves the server the most
of its time."""


class OperatorAnswers:
    """The questions that a server has to answer now. All calls are on one event loop."""

    def __init__(self) -> None:
        self._walking = asyncio.Lock()
        self._questions = 0

    async def answer(self, server: Server, query: AdminQuery) -> AdminAnswer:
        """Answer between the steps of the server, or say why not."""
        if self._questions >= QUESTIONS_MAX:
            return _refusal(server)
        self._questions += 1
        try:
            steps = server.answer(query)
            next(steps)  # most answers take one step
            async with self._walking:
                while True:
                    await asyncio.sleep(ANSWER_PAUSE_S)
                    next(steps)
        except StopIteration as end:
            answer: AdminAnswer = end.value
            return answer
        finally:
            self._questions -= 1


def _refusal(server: Server) -> AdminAnswer:
    stats = server.stats()
    return AdminAnswer(
        server_id=server.peer.settings.server_id,
        role=stats.role,
        is_active=stats.is_active,
        zxid=stats.last_zxid,
        page=None,
        problem=f"has {QUESTIONS_MAX} other questions of operators to answer; ask again",
    )
