"""The input of the demo: which files, and pieces whose counts add up."""

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raykeeper.commands.demo.words import (
    OWN_TEXTS,
    InputError,
    Piece,
    count_words,
    cut,
    find_texts,
)


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("", {}),
        ("... !", {}),
        ("One two, ONE.", {"one": 2, "two": 1}),
        ("don't 3x\nÄrger", {"don": 1, "t": 1, "3x": 1, "ärger": 1}),
    ],
)
def test_words_are_counted(text: str, counts: dict[str, int]) -> None:
    assert count_words(text) == counts


@given(st.lists(st.text("ab \n", max_size=3000), max_size=4))
def test_pieces_add_up_to_the_whole(contents: list[str]) -> None:
    texts = {str(number): text for number, text in enumerate(contents)}
    counts: dict[str, Counter[str]] = {name: Counter() for name in texts}
    end = dict.fromkeys(texts, 0)
    for piece in cut(texts):
        assert piece.start == end[piece.file] < piece.end
        end[piece.file] = piece.end
        counts[piece.file].update(count_words(texts[piece.file][piece.start : piece.end]))
    assert {name: dict(count) for name, count in counts.items()} == {
        name: count_words(text) for name, text in texts.items()
    }
    assert end == {name: len(text) for name, text in texts.items()}


def test_a_long_word_is_not_cut() -> None:
    assert cut({"a": "x" * 5000}) == [Piece("a", 0, 5000)]


def test_too_much_text_is_refused() -> None:
    with pytest.raises(InputError, match="the demo accepts 200"):
        cut({"a": "word " * 10_000_000})


def test_text_files_are_read(tmp_path: Path) -> None:
    for name in ("b.md", "a.txt", "deep/c.rst", ".hidden/d.md", "x.egg-info/e.txt", "f.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("word")
    (tmp_path / "folder.md").mkdir()
    assert list(find_texts(tmp_path)) == ["a.txt", "b.md", "deep/c.rst"]
    with pytest.raises(InputError, match="no text"):
        find_texts(tmp_path / "folder.md")


def test_the_projects_own_documents_are_the_default() -> None:
    assert {"GUARANTEES.md", "RECIPES.md"} <= set(find_texts(OWN_TEXTS))
