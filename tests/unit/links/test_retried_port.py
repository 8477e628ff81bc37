"""A port that opens at last: what it logs, and when it listens."""

import asyncio
from typing import Any

import pytest

from raykeeper.links import retried_port
from raykeeper.links.retried_port import RetriedPort

HERE = "127.0.0.1"


@pytest.mark.parametrize("failures", [0, 1, 3])
async def test_a_port_is_tried_until_it_opens(
    failures: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retried_port, "LISTEN_RETRY_S", 0.0)
    lines: list[tuple[str, dict[str, Any]]] = []
    problems: list[str] = []
    port = RetriedPort("name", HERE, 0, lambda name, **fields: lines.append((name, fields)))

    async def create_server() -> asyncio.Server:
        problems.append(port.problem)
        assert port.number == 0
        if len(problems) <= failures:
            raise OSError(f"number {len(problems)}")
        return await asyncio.get_running_loop().create_server(asyncio.Protocol, HERE, 0)

    await port.open(create_server)
    why = [f"cannot listen at {HERE}:0: number {n}" for n in range(1, failures + 1)]
    assert problems == ["", *why]
    assert port.problem == "" and port.number > 0
    off = [("name.off", {"reason": reason}) for reason in why[:1]]
    assert lines == [*off, ("name.listens", {"address": HERE, "port": port.number})]
    port.close()
    assert port.number == 0


def test_a_port_that_was_never_open_can_be_closed() -> None:
    RetriedPort("name", HERE, 1, print).close()
