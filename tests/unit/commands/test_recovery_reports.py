"""What `recover` shows of what is left, and of what it has founded."""

from msgspec.structs import replace

from raykeeper.clusters.recovery.evidence import HeldFolder
from raykeeper.clusters.recovery.founding import NewHistory
from raykeeper.clusters.recovery.judgement import judge
from raykeeper.commands.recovery_reports import (
    judgement_document,
    new_history_document,
    show_judgement,
    show_new_history,
)
from raykeeper.zab.ids import Epoch, ServerId
from tests.unit.clusters.recovery.test_judgement import CONFIG, NODES, held, z
from tests.unit.commands.printed import printed

DAMAGED = HeldFolder(ServerId(3), "/data/coord/3", node="[red]c[/]", problem="[red]torn[/]")
ASIDE = held(2, is_set_aside=True, last=z(4, 2), is_uncertain=True, uuid="old", folder="/aside")
LEFT = judge(CONFIG, NODES, [held(1, supersedes=("old",), accepted=5), ASIDE, DAMAGED])


def test_what_is_left_is_shown() -> None:
    text = printed(lambda console: show_judgement(console, replace(LEFT, unread=["node d"])))
    lines = text.splitlines()
    assert lines[0] == "ensemble coord, 3 voting servers"
    first, third, aside = (line for line in lines if line[:8].strip() in ("1", "2", "3"))
    assert "4 of 5" in first and "4:9" in first and first.rstrip().endswith("healthy, the best one")
    assert "yes" in first and "2023-11-14 22:13:20.123 UTC" in first
    assert third.split() == ["3", "[red]c[/]", "?", "?", "?", "none", "no", "[red]torn[/]"]
    assert aside.rstrip().endswith("torn at its end, set aside, of an ended history")
    for line in (
        "not read: node d",
        "server 1: /data/coord/1 on host-1",
        "no healthy disk has the vote of server 2",
        "a new history would begin with /data/coord/1 on host-1, up to 4:9: 0 znodes",
    ):
        assert line in lines
    assert "may be lost" in text and "elects no leader" in text
    assert "the best one" not in printed(
        lambda console: show_judgement(console, judge(CONFIG, NODES, [held(1), held(2)]))
    )
    empty = printed(lambda console: show_judgement(console, judge(CONFIG, NODES, [])))
    assert "would begin" not in empty
    assert "nothing can be founded: no folder is healthy" in empty
    other = replace(held(2, problem="has version 9"), is_other_version=True)
    left = judge(CONFIG, NODES, [held(1), other])
    refused = printed(lambda console: show_judgement(console, left))
    assert "nothing can be founded: the folder of server 2" in refused and left.losses
    assert "would begin" not in refused and "may be lost" not in refused


def test_the_document_has_the_same() -> None:
    document = judgement_document(LEFT)
    first, third, aside = document["folders"]
    assert (first["last"], first["last_at"]) == ("4:9", "2023-11-14T22:13:20.123+00:00")
    assert (first["has_vote"], first["problem"], aside["is_set_aside"]) == (True, None, True)
    assert [third[name] for name in ("disk", "accepted_epoch", "ensemble_uuid", "last_at")] == [
        None
    ] * 4
    assert (document["best"], document["refusal"]) == ("/data/coord/1", None)
    assert (document["missing"], document["superseded"]) == ([2, 3], ["old"])


def test_what_was_founded_is_shown() -> None:
    made = NewHistory("v", Epoch(10_004), z(4, 9), {ServerId(1): "[a]"}, ["/old on a"], ["b: full"])
    lines = printed(lambda console: show_new_history(console, "coord", made)).splitlines()
    assert lines[0].endswith("uuid v, epoch 10004, everything up to 4:9")
    assert lines[1:4] == [
        "server 1 has its folder on [a]",
        "set aside: /old on a",
        "left alone: b: full",
    ]
    assert "raykeeper up" in lines[4]
    assert new_history_document(made)["zxid"] == "4:9"
