"""The report of an import or export, as text and as a document."""

from io import StringIO
from pathlib import Path

from rich.console import Console

from raykeeper.client import CopyReport
from raykeeper.commands.migration.command import (
    _progress,
    document_of,
    journal_file,
    lines_of,
    zookeeper_path,
)
from raykeeper.commands.migration.migration import MigrationReport, Refused
from raykeeper.commands.migration.order import Order
from raykeeper.commands.migration.zookeeper_session import parse_hosts

REAL = Order(None, merge=False, dry_run=False, with_sequences=True, delete=False, as_json=False)
TRY = REAL._replace(dry_run=True)
ALL = MigrationReport(
    copied=CopyReport(
        created=1, changed=2, unchanged=3, skipped=4, value_bytes=5, ephemerals=6, scrypt_acls=7
    ),
    sequences=8,
    quotas=9,
    kinds_lost=10,
    deleted=11,
    gone=12,
    gone_paths=["/gone/\x1b"],
    meanwhile=13,
    refused=[Refused("too long", 2, ["/a", "/b"])],
)


def test_a_report_says_what_was_done_and_what_to_know() -> None:
    assert lines_of(ALL, 1.0, REAL) == [
        "copied 10 znodes with 5 bytes in 1.0 s: 1 created, 2 changed, 3 as they were, 4 skipped "
        "because an earlier run has copied them",
        "9 quotas were copied",
        "8 children were created and deleted, so that sequential numbers go on",
        "6 ephemeral znodes were left out",
        "10 containers and znodes with a TTL became ordinary ones",
        "11 znodes that the source has no more were deleted in the copy",
        "7 ACLs have scrypt entries, which nobody can prove in another ensemble; set them anew",
        "13 transactions of the source came meanwhile, perhaps elsewhere in its tree; run it again "
        "for a copy of one moment",
        "12 znodes are not in the source any more and stay in the copy:",
        "  /gone/\\x1b",
        "  and 11 more",
        "2 znodes would be refused: too long:",
        "  /a",
        "  /b",
    ]
    none = MigrationReport(copied=CopyReport(), meanwhile=None, quotas=1)
    assert [line.partition(" ")[0] for line in lines_of(none, 0.0, TRY)] == ["would", "1", "the"]
    assert lines_of(none, 0.0, TRY)[1] == "1 quotas would be copied"


def test_a_document_has_every_number() -> None:
    document = document_of(ALL, 1.5, TRY, Path("/x"))
    assert document["refused"] == [{"reason": "too long", "znodes": 2, "paths": ["/a", "/b"]}]
    assert (document["znodes"], document["skipped"], document["state"]) == (10, 4, "/x")
    assert document["dry_run"] is True
    assert document_of(ALL, 1.5, REAL, None)["state"] is None


def test_a_journal_has_a_place_of_its_own() -> None:
    files = {
        journal_file(source, "b", parse_hosts(hosts))
        for source in ("a", "c")
        for hosts in ("x,y", "y,x:2181", "x")
    }
    assert len(files) == 4, "the order of the addresses does not matter"


def test_paths_are_below_the_chroot() -> None:
    for hosts, path, whole in (("a", "/", "/"), ("a/x", "/", "/x"), ("a/x", "/y", "/x/y")):
        assert zookeeper_path(parse_hosts(hosts), path) == whole


def test_progress_on_a_terminal() -> None:
    text = StringIO()
    console = Console(file=text, force_terminal=True, width=200)
    with _progress(console, is_live=True) as tell:
        tell(MigrationReport(copied=CopyReport(created=3, value_bytes=77), waiting=5))
    assert "3 of 8 known znodes" in text.getvalue()
    assert "77 bytes" in text.getvalue()
