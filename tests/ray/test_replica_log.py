"""The log lines of real servers: where `status` says, and in the form that was asked for."""

import json
from pathlib import Path

from tests.ray.conftest import Launch, Run, eventually


def test_status_tells_where_the_lines_are_and_each_is_an_object(
    launch_one: Launch, run: Run
) -> None:
    ensemble = launch_one(servers=1, log_format="json", metrics=False)
    (server,) = ensemble.status().servers
    file = Path(server.log_file)

    def lines() -> list[dict[str, object]]:
        return [json.loads(line) for line in file.read_text().splitlines()]

    with ensemble.connect():
        events = eventually(
            lambda: [line for line in lines() if line["event"] == "session.opened"],
            ignoring=(FileNotFoundError,),
        )
    assert {"time", "session"} < events[0].keys()
    own = (server.server_id, ensemble.name, server.pid)
    assert {(line["server"], line["ensemble"], line["pid"]) for line in lines()} == {own}
    code, out, _ = run("status", ensemble.name)
    assert (code, f"log lines: {file}" in out.splitlines()) == (0, True)
