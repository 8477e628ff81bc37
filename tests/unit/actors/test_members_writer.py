"""The member list that a server leaves in its folder: which one, and what a full disk changes."""

import asyncio
from pathlib import Path

import pytest

from raykeeper.actors.disk.members_file import StoredMembers, read_members
from raykeeper.actors.members_writer import MembersWriter
from raykeeper.server.effects import MembersKnown
from raykeeper.zab.ids import ServerId
from raykeeper.zab.member_list import MemberList
from tests.unit.actors.test_replica_config import listed

S4 = ServerId(4)
WITH, LATER, WITHOUT = listed(7, {1: "", 4: ""}), listed(9, {1: ""}, 4), listed(8, {1: "", 2: ""})
LEFT = "left the ensemble by the change of version 0:10"


def known(members: MemberList, *, was_member: bool = True) -> MembersKnown:
    return MembersKnown(members, members.servers, was_member)


class Writer:
    """The writer of server 4, and what it logs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lines: list[str] = []
        self.logged = asyncio.Event()
        self.writer = MembersWriter(folder, S4, read_members(folder), self._log, 0.01)

    def _log(self, line: str, **_fields: object) -> None:
        self.lines.append(line)
        self.logged.set()

    def has(self) -> StoredMembers | None:
        return read_members(self.folder)

    async def wait_for(self, members: MemberList) -> None:
        async with asyncio.timeout(10):
            while self.has() != StoredMembers(members):
                await asyncio.sleep(0)


async def test_the_newest_list_that_has_the_server_is_written(tmp_path: Path) -> None:
    made = Writer(tmp_path)
    for members in (WITH, LATER, WITH):
        made.writer.take(known(members))
    await made.wait_for(LATER)
    await made.writer.finish()
    again = Writer(tmp_path)
    again.writer.take(known(LATER))
    await again.writer.finish()
    assert made.has() == StoredMembers(LATER)
    assert made.lines == []


async def test_the_list_of_the_founding_is_written_too(tmp_path: Path) -> None:
    """So that the folder says that the server was a member."""
    made, founding = Writer(tmp_path), listed(0, {4: ""})
    made.writer.take(known(founding))
    await made.wait_for(founding)
    await made.writer.finish()


@pytest.mark.parametrize(
    ("members", "was_member"),
    [
        (WITHOUT, True),  # the word that it was removed comes with it, or not at all
        (WITH, False),  # that of an earlier server of this id
    ],
)
async def test_a_list_that_would_say_the_wrong_thing_is_not_written(
    tmp_path: Path, members: MemberList, was_member: bool
) -> None:
    made = Writer(tmp_path)
    made.writer.take(known(members, was_member=was_member))
    await made.writer.finish()
    assert made.has() is None


async def test_a_newcomer_leaves_the_list_that_it_waits_to_be_in(tmp_path: Path) -> None:
    made = Writer(tmp_path)
    made.writer.take(known(WITHOUT, was_member=False))
    await made.wait_for(WITHOUT)
    await made.writer.finish()


async def test_the_last_word_is_the_last(tmp_path: Path) -> None:
    made = Writer(tmp_path)
    made.writer.take(known(WITH))
    last = StoredMembers(WITHOUT, LEFT)
    await made.writer.finish(last)
    assert made.has() == last


async def test_a_write_that_fails_is_told_and_tried_again(tmp_path: Path) -> None:
    made = Writer(tmp_path / "later")
    made.writer.take(known(WITH))
    await asyncio.wait_for(made.logged.wait(), 10)
    (tmp_path / "later").mkdir()
    await made.wait_for(WITH)
    await made.writer.finish()
    assert set(made.lines) == {"members.unwritten"}


async def test_an_end_does_not_wait_for_a_disk_that_stays_full(tmp_path: Path) -> None:
    made = Writer(tmp_path / "never")
    made.writer.take(known(WITH))
    await asyncio.wait_for(made.logged.wait(), 10)
    await asyncio.wait_for(made.writer.finish(StoredMembers(WITHOUT, LEFT)), 10)
    assert made.has() is None
