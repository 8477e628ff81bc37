"""A package that only some commands need."""

import pytest

from raykeeper.commands.packages import MissingPackageError, needed_package


def test_a_package_that_is_missing_is_named_with_the_extra_that_brings_it() -> None:
    with (
        pytest.raises(MissingPackageError, match=r"needs nowhere: pip install 'raykeeper\[any\]'"),
        needed_package("nowhere", "any"),
    ):
        import nowhere.inner  # type: ignore[import-not-found]  # noqa: F401


def test_another_module_that_is_missing_is_a_bug() -> None:
    with pytest.raises(ModuleNotFoundError), needed_package("somewhere", "any"):
        import nowhere  # noqa: F401


def test_what_is_there_is_imported() -> None:
    with needed_package("json", "any"):
        import json
    assert json
