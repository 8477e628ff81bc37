"""What `raykeeper demo` tells of its counts."""

from raykeeper.clusters.demo.run import DemoReport, FileCount
from raykeeper.commands.demo_report import counts_document, show_counts
from tests.unit.commands.printed import printed

RIGHT = FileCount("a[red].md", 3, 2, 3, True)
WRONG = FileCount("b.md", 3, 2, 4, False)


def shown(*files: FileCount) -> list[list[str]]:
    text = printed(lambda console: show_counts(console, DemoReport(list(files), 1.25)))
    return [line.split(maxsplit=3) for line in text.splitlines()]


def test_right_counts() -> None:
    assert shown(RIGHT)[1:] == [
        ["a[red].md", "3", "2", "the same"],
        ["3", "words,", "counted", "right in 1.2 s although two processes were killed"],
    ]


def test_wrong_counts() -> None:
    assert shown(RIGHT, WRONG)[2:] == [["b.md", "3", "2", "4"], ["wrong", "counts", "in", "b.md"]]


def test_a_document_of_the_counts() -> None:
    document = counts_document(DemoReport([RIGHT, WRONG], 1.25))
    file = {"file": "b.md", "words": 3, "different": 2, "plain_words": 4, "is_right": False}
    assert document["files"][1] == file
    assert {k: v for k, v in document.items() if k != "files"} == {
        "is_right": False,
        "words": 6,
        "seconds": 1.25,
    }
